from __future__ import annotations

import errno
import os

import pytest

from msattn.writing import write_whole


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
