from __future__ import annotations

import errno
import os

import pytest
from safetensors import SafetensorError

from msattn.errors import UserError
from msattn.writing import no_torn_files, write_whole


def full(*args):
    raise OSError(errno.ENOSPC, "No space left on device")


def test_a_file_is_there_with_its_content(tmp_path):
    write_whole(tmp_path / "a.txt", "ä\n")
    assert (tmp_path / "a.txt").read_bytes() == "ä\n".encode()
    assert [path.name for path in tmp_path.iterdir()] == ["a.txt"]


@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_a_full_disk_leaves_the_file_as_it_was(step, tmp_path, monkeypatch):
    path = tmp_path / "a.txt"
    path.write_text("before")
    monkeypatch.setattr(os, step, full)
    with pytest.raises(OSError, match=f"No space left on device: '{path}'"):
        write_whole(path, "after")
    assert path.read_text() == "before" and [path.name for path in tmp_path.iterdir()] == ["a.txt"]


@pytest.mark.parametrize("content", ["", "half"])
def test_the_file_that_a_full_disk_tears_is_named_and_deleted(content, tmp_path):
    (tmp_path / "other.txt").write_text("")
    with pytest.raises(UserError, match=f"{tmp_path / 'a.txt'}: the file could not be written"):
        with no_torn_files(tmp_path):
            (tmp_path / "a.txt").write_text(content)
            full()
    assert [path.name for path in tmp_path.iterdir()] == ["other.txt"]


def test_weights_are_put_in_place_as_a_whole(tmp_path):
    with pytest.raises(UserError, match=f"{tmp_path / 'model.safetensors'}: the file could not be written"):
        with no_torn_files(tmp_path):
            (tmp_path / "config.json").write_text("{}")
            raise SafetensorError("Error while serializing: I/O error: No space left on device (os error 28)")
    assert [path.name for path in tmp_path.iterdir()] == ["config.json"]


@pytest.mark.parametrize("error", [ValueError("not about files"), KeyboardInterrupt()])
def test_other_errors_go_through(error, tmp_path):
    with pytest.raises(type(error)):
        with no_torn_files(tmp_path):
            (tmp_path / "a.txt").write_text("a")
            raise error
    assert (tmp_path / "a.txt").exists()
