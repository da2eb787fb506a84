"""A parser with a real encoder on UD English ParTUT. MSATTN_DATA and MSATTN_ENCODER name both."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import run_parsing
from msattn.data.treebanks import read_treebank
from msattn.metrics.parsing import score_trees

SCRIPT = run_parsing
pytestmark = pytest.mark.slow


@pytest.fixture
def treebank() -> dict[str, Path]:
    if "MSATTN_DATA" not in os.environ:
        pytest.skip("MSATTN_DATA does not name the folder of the corpora")
    folder = Path(os.environ["MSATTN_DATA"]) / "ud_english_partut"
    return {
        "train_file": folder / "en_partut-ud-train.conllu",
        "validation_file": folder / "en_partut-ud-dev.conllu",
    }


def test_a_parser_learns_in_one_epoch(run, treebank, tmp_path):
    results = run(
        "do_train",
        "do_eval",
        **treebank,
        objective="head_select",
        config_overrides="scorer=biaffine",
        max_steps=-1,
        num_train_epochs=1,
        per_device_train_batch_size=32,
        learning_rate=1e-4,
        new_layers_learning_rate=2e-3,
        train_sampling_strategy="group_by_length",
    )
    # The next word as the head of each has 29.
    assert results["eval_uas"] > 65 and results["eval_las"] > 55
    true = read_treebank(treebank["validation_file"])
    found = read_treebank(tmp_path / "out" / "eval_predictions.conllu")
    assert found["words"][:] == true["words"][:]
    trees = [list(zip(data["heads"], data["relations"], strict=True)) for data in (found, true)]
    scores = {f"eval_{name}": value for name, value in score_trees(*trees).items()}
    assert scores.items() <= results.items()
