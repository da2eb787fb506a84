from __future__ import annotations

from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from transformers import TrainingArguments

from msattn.errors import UserError
from msattn.tasks.checkpoints import last_checkpoint


def write_checkpoint(folder, state: str | None = "{}"):
    folder.mkdir(parents=True)
    save_file({"weight": torch.zeros(3)}, folder / "model.safetensors")
    if state is not None:
        (folder / "trainer_state.json").write_text(state)
    return str(folder)


def resume(folder, wanted) -> str | None:
    return last_checkpoint(TrainingArguments(str(folder), resume_from_checkpoint=wanted, use_cpu=True))


@pytest.mark.parametrize("wanted", ["last", "true", "True", True])
def test_last_is_the_highest_step(wanted, tmp_path):
    for step in (90, 1000, 200):
        write_checkpoint(tmp_path / f"checkpoint-{step}")
    write_checkpoint(tmp_path / "checkpoint-best")
    assert resume(tmp_path, wanted) == str(tmp_path / "checkpoint-1000")


@pytest.mark.parametrize("broken", [None, "", '{"epoch": 1.0, "log_his'])
def test_an_incomplete_checkpoint_is_passed_over(broken, tmp_path):
    write_checkpoint(tmp_path / "checkpoint-10")
    write_checkpoint(tmp_path / "checkpoint-20", broken)
    assert resume(tmp_path, "last") == str(tmp_path / "checkpoint-10")


def test_broken_weights_are_passed_over(tmp_path):
    write_checkpoint(tmp_path / "checkpoint-10")
    weights = Path(write_checkpoint(tmp_path / "checkpoint-20")) / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1])
    assert resume(tmp_path, "last") == str(tmp_path / "checkpoint-10")


@pytest.mark.parametrize("wanted", [None, "false", "False"])
def test_nothing_is_resumed_unless_asked(wanted, tmp_path):
    write_checkpoint(tmp_path / "checkpoint-10")
    assert resume(tmp_path, wanted) is None


def test_last_of_a_run_that_has_not_begun_is_none(tmp_path):
    assert resume(tmp_path / "missing", "last") is None


def test_a_named_folder_has_to_be_a_checkpoint(tmp_path):
    folder = write_checkpoint(tmp_path / "checkpoint-10")
    assert resume(tmp_path / "elsewhere", folder) == folder
    incomplete = write_checkpoint(tmp_path / "checkpoint-20", state=None)
    for name in (incomplete, str(tmp_path / "missing")):
        with pytest.raises(UserError, match=f"{name}: the folder is not a complete checkpoint"):
            resume(tmp_path, name)
