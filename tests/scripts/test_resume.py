"""A run that was killed goes on as if nothing had happened."""

from __future__ import annotations

import shutil
import sys

import pytest

from tests.scripts.relation_runs import arguments, launch, logged, run, same_weights

pytestmark = pytest.mark.heavy

# The run dies while it writes its second checkpoint: the model and the optimizer are there, the rest is not.
KILLED = """
import os, signal
import run_re
from transformers import Trainer

save = Trainer._save_rng_state

def save_once(self, output_dir):
    if self.state.global_step > 3:
        os.kill(os.getpid(), signal.SIGKILL)
    save(self, output_dir)

Trainer._save_rng_state = save_once
run_re.main()
"""

# Checkpoints fall in the middle of an epoch; dropout is on.
OPTIONS = {
    "num_train_epochs": 2,
    "per_device_train_batch_size": 16,
    "learning_rate": 1e-3,
    "train_sampling_strategy": "group_by_length",
    "head": "multiscale",
    "config_overrides": ["mask_mode=ste"],
    "save_strategy": "steps",
    "save_steps": 3,
    "weight_decay": 0.01,
}


@pytest.fixture(scope="module")
def whole(demo, tmp_path_factory):
    """The run that nobody disturbed."""
    folder = tmp_path_factory.mktemp("whole")
    run(arguments(demo, folder, "do_train", **OPTIONS))
    return folder


def test_killed_and_resumed_ends_in_the_same_weights(whole, demo, tmp_path):
    launch([sys.executable, "-c", KILLED], arguments(demo, tmp_path, "do_train", **OPTIONS), code=-9)
    assert (tmp_path / "checkpoint-6" / "model.safetensors").exists()
    assert not (tmp_path / "model.safetensors").exists()

    run(arguments(demo, tmp_path, "do_train", resume_from_checkpoint="last", **OPTIONS))
    assert logged(tmp_path) == logged(whole)
    assert same_weights(tmp_path, whole)


@pytest.mark.parametrize("step", [3, 6])
def test_resumes_from_a_named_checkpoint(step, whole, demo, tmp_path):
    shutil.copytree(whole / f"checkpoint-{step}", tmp_path / "kept")
    run(arguments(demo, tmp_path / "model", "do_train", resume_from_checkpoint=tmp_path / "kept", **OPTIONS))
    assert same_weights(tmp_path / "model", whole)
