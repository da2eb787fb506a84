from __future__ import annotations

import json
import logging
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from transformers import TrainingArguments

from msattn.errors import UserError
from msattn.tasks.checkpoints import find_checkpoint
from msattn.trainers.fingerprint import write_fingerprint

IDENTITY = {"task": "Tagging", "--seed": 1, "--learning_rate": 0.001, "config.scales": [1, 3], "data.train": "ab12"}
FILES = ("optimizer.pt", "scheduler.pt", "rng_state.pth")


def write_checkpoint(folder, fingerprint: bool = True, without: str | None = None, **identity) -> str:
    folder.mkdir(parents=True)
    save_file({"weight": torch.zeros(3)}, folder / "model.safetensors")
    (folder / "config.json").write_text("{}")
    for name in FILES:
        if name != without:
            torch.save({"state": torch.zeros(3)}, folder / name)
    (folder / "trainer_state.json").write_text("{}")
    if fingerprint:
        write_fingerprint(folder, list(folder.iterdir()), run=IDENTITY | identity)
    return str(folder)


def resume(folder, wanted="last", anyway=False):
    args = TrainingArguments(str(folder), resume_from_checkpoint=wanted, use_cpu=True)
    return find_checkpoint(args, IDENTITY, anyway)


@pytest.fixture
def warnings(caplog, monkeypatch):
    monkeypatch.setattr(logging.getLogger("msattn"), "propagate", True)
    return lambda: [record.getMessage() for record in caplog.records]


@pytest.mark.parametrize("wanted", ["last", "true", "True", True])
def test_last_is_the_highest_step(wanted, tmp_path):
    for step in (90, 1000, 200):
        write_checkpoint(tmp_path / f"checkpoint-{step}")
    write_checkpoint(tmp_path / "checkpoint-best")
    assert resume(tmp_path, wanted) == (str(tmp_path / "checkpoint-1000"), [])


@pytest.mark.parametrize("fingerprint", [True, False])
@pytest.mark.parametrize("name", ["model.safetensors", "trainer_state.json", "config.json", *FILES])
@pytest.mark.parametrize("kept", [0, 1, -1])
def test_a_torn_checkpoint_is_passed_over_by_name(kept, name, fingerprint, tmp_path, warnings):
    write_checkpoint(tmp_path / "checkpoint-10")
    torn = Path(write_checkpoint(tmp_path / "checkpoint-20", fingerprint)) / name
    torn.write_bytes(torn.read_bytes()[:kept])
    assert resume(tmp_path).folder == str(tmp_path / "checkpoint-10")
    assert any(f"{torn.parent} is incomplete and passed over: {name} " in text for text in warnings())


@pytest.mark.parametrize("name", ["model.safetensors", "trainer_state.json", *FILES])
def test_a_checkpoint_that_was_copied_in_part_is_passed_over(name, tmp_path, warnings):
    write_checkpoint(tmp_path / "checkpoint-10")
    write_checkpoint(tmp_path / "checkpoint-20")
    (tmp_path / "checkpoint-20" / name).unlink()
    assert resume(tmp_path).folder == str(tmp_path / "checkpoint-10")
    assert any(f"passed over: {name} is missing" in text for text in warnings())


@pytest.mark.parametrize("name", ["unfinished", "fingerprint.json"])
def test_a_checkpoint_that_was_not_written_to_the_end_is_passed_over(name, tmp_path):
    write_checkpoint(tmp_path / "checkpoint-10")
    write_checkpoint(tmp_path / "checkpoint-20", fingerprint=False)
    (tmp_path / "checkpoint-20" / name).touch()
    assert resume(tmp_path).folder == str(tmp_path / "checkpoint-10")


@pytest.mark.parametrize("fingerprint", [True, False])
@pytest.mark.parametrize("name, what", [*zip(FILES, ["optimizer", "scheduler", "random state"], strict=True)])
def test_a_checkpoint_without_a_state_is_refused(name, what, fingerprint, tmp_path):
    write_checkpoint(tmp_path / "checkpoint-10")
    write_checkpoint(tmp_path / "checkpoint-20", fingerprint, without=name)
    for anyway in (False, True):
        with pytest.raises(UserError, match=f"checkpoint-20 cannot be resumed: it has no {what}, as after"):
            resume(tmp_path, anyway=anyway)


@pytest.mark.parametrize(
    "other, what",
    [
        ({"data.train": "cd34"}, "data.train cd34 -> ab12"),
        ({"--seed": 2}, "--seed 2 -> 1"),
        ({"--learning_rate": 0.1}, "--learning_rate 0.1 -> 0.001"),
        ({"config.scales": [1, 3, 5]}, r"config.scales \[1, 3, 5\] -> \[1, 3\]"),
        ({"--weight_decay": 0.1}, "--weight_decay 0.1 -> default"),
    ],
)
def test_a_checkpoint_of_another_run_is_refused(other, what, tmp_path):
    write_checkpoint(tmp_path / "checkpoint-10")
    newest = write_checkpoint(tmp_path / "checkpoint-20", **other)
    for wanted in ("last", newest):
        with pytest.raises(UserError, match=rf"checkpoint-20 belongs to another run \({what}\); --resume_anyway"):
            resume(tmp_path, wanted)
        folder, changed = resume(tmp_path, wanted, anyway=True)
        assert folder == newest and len(changed) == 1


def test_what_was_resumed_anyway_is_not_forgotten(tmp_path):
    folder = tmp_path / "checkpoint-10"
    write_checkpoint(folder, fingerprint=False)
    write_fingerprint(folder, list(folder.iterdir()), run=IDENTITY, resumed_anyway=["--seed 1 -> 2"])
    assert resume(tmp_path).changed == ["--seed 1 -> 2"]


def test_a_checkpoint_of_version_0_1_is_resumed_with_a_warning(tmp_path, warnings):
    folder = write_checkpoint(tmp_path / "checkpoint-10", fingerprint=False)
    assert resume(tmp_path).folder == folder
    assert any("version 0.1" in text and "cannot be checked" in text for text in warnings())


def test_other_versions_are_named(tmp_path, warnings):
    folder = tmp_path / "checkpoint-10"
    write_checkpoint(folder, fingerprint=False)
    write_fingerprint(folder, list(folder.iterdir()), run=IDENTITY, versions={"torch": "1.0"})
    assert resume(tmp_path) == (str(folder), [])
    assert any("other versions" in text and "torch 1.0 -> " in text for text in warnings())


@pytest.mark.parametrize("wanted", [None, "false", "False"])
def test_nothing_is_resumed_unless_asked(wanted, tmp_path):
    write_checkpoint(tmp_path / "checkpoint-10")
    assert resume(tmp_path, wanted).folder is None


def test_last_of_a_run_that_has_not_begun_is_none(tmp_path):
    assert resume(tmp_path / "missing").folder is None


def test_a_named_folder_has_to_be_a_checkpoint(tmp_path):
    folder = write_checkpoint(tmp_path / "checkpoint-10")
    assert resume(tmp_path / "elsewhere", folder).folder == folder
    incomplete = Path(write_checkpoint(tmp_path / "checkpoint-20", fingerprint=False))
    (incomplete / "trainer_state.json").unlink()
    for name in (str(incomplete), str(tmp_path / "missing")):
        with pytest.raises(UserError, match=f"{name}: the folder is not a complete checkpoint"):
            resume(tmp_path, name)


def test_a_fingerprint_holds_what_it_was_given(tmp_path):
    write_checkpoint(tmp_path / "checkpoint-10")
    content = json.loads((tmp_path / "checkpoint-10" / "fingerprint.json").read_text())
    assert content["run"] == IDENTITY
    sizes = {path.name: path.stat().st_size for path in (tmp_path / "checkpoint-10").iterdir()}
    assert content["files"] == {name: size for name, size in sizes.items() if name != "fingerprint.json"}
