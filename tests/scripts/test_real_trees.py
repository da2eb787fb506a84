"""A parser and a probing study of a real encoder on UD English ParTUT. MSATTN_DATA and MSATTN_ENCODER name both."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

import run_parsing
from msattn.analysis.__main__ import main
from msattn.data.treebanks import read_treebank
from msattn.metrics.parsing import score_trees

SCRIPT = run_parsing
pytestmark = pytest.mark.slow


@pytest.fixture
def encoder() -> str:
    if "MSATTN_ENCODER" not in os.environ:
        pytest.skip("MSATTN_ENCODER does not name a BERT checkpoint")
    return os.environ["MSATTN_ENCODER"]


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


def test_probing_finds_the_heads_of_determiners_in_attention(encoder, treebank, tmp_path):
    options = {"model_name_or_path": encoder, **treebank, "output_dir": tmp_path}
    words = [word for name, value in options.items() for word in (f"--{name}", str(value))]
    main(["probe", *words, "--max_pairs", "2000", "--n_estimators", "50"])
    results = json.loads((tmp_path / "probing.json").read_text(encoding="utf-8"))
    assert results["accuracies"]["a"] > results["accuracies"]["place only"] + 0.03
    assert results["attention_among_top"] > 3 * results["attention_by_chance"]
    (determiners,) = (row for row in results["best_heads"] if row["relation"] == "det")
    assert determiners["accuracy"] > determiners["offset_accuracy"]
