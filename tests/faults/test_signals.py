"""SIGTERM saves a checkpoint; Ctrl-C ends in one line; a folder that cannot be written to is named."""

from __future__ import annotations

import os
import signal
import sys

import pytest
from transformers import Trainer

from tests.faults.runs import results

LAST = ("--resume_from_checkpoint", "last")


@pytest.fixture
def in_step(monkeypatch):
    """Calls a function while a training step is computed."""

    def in_step(number: int, call) -> None:
        own = Trainer.training_step

        def training_step(self, *args, **kwargs):
            if self.state.global_step == number - 1:
                call()
            return own(self, *args, **kwargs)

        monkeypatch.setattr(Trainer, "training_step", training_step)

    return in_step


def test_sigterm_saves_a_checkpoint_and_says_so(tag, stops, in_step, monkeypatch, tmp_path):
    """Also where checkpoints have no optimizer otherwise."""
    tag(tmp_path / "whole")
    own, handler = Trainer.training_step, signal.getsignal(signal.SIGTERM)
    in_step(3, lambda: os.kill(os.getpid(), signal.SIGTERM))
    assert stops(tmp_path / "run", "--save_only_model") == (
        143,
        f"stopped by SIGTERM: checkpoint-3 is saved to {tmp_path / 'run'}; the same command with "
        "--resume_from_checkpoint last goes on from it.",
    )
    assert signal.getsignal(signal.SIGTERM) == handler
    assert not (tmp_path / "run" / "model.safetensors").exists()

    monkeypatch.setattr(Trainer, "training_step", own)
    tag(tmp_path / "run", *LAST)
    assert results(tmp_path / "run") == results(tmp_path / "whole")


def test_ctrl_c_ends_in_one_line(stops, in_step, tmp_path):
    def interrupt() -> None:
        raise KeyboardInterrupt

    in_step(3, interrupt)
    assert stops(tmp_path / "run") == (130, "interrupted.")


@pytest.mark.skipif(sys.platform != "linux", reason="/proc")
def test_a_folder_that_cannot_be_written_to_is_named(stops, tmp_path):
    code, line = stops("/proc/run")
    assert code == 2 and line.startswith("error: ") and "/proc/run" in line
