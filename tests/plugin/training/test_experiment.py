from __future__ import annotations

import json

import pytest

from msattn.training.experiment import seed_table, summarize, write_json

RUNS = {
    1: {"eval_f1": 80.0, "test_accuracy": 0.5, "eval_loss": 1.0, "eval_runtime": 3.0, "eval_samples": 9, "epoch": 2.0},
    2: {"eval_f1": 84.0, "test_accuracy": 0.7, "eval_loss": 1.0, "eval_runtime": 9.0, "eval_samples": 9, "epoch": 2.0},
    5: {"eval_f1": 82.0, "test_accuracy": 0.6, "eval_loss": 4.0, "eval_runtime": 3.0, "eval_samples": 9, "epoch": 2.0},
}


def test_mean_and_sample_deviation():
    summary = summarize(list(RUNS.values()))
    assert summary["eval_f1"] == 82 and summary["eval_f1_std"] == 2
    assert summary["eval_loss"] == 2 and summary["eval_loss_std"] == pytest.approx(3**0.5)


def test_one_run_has_no_spread():
    assert summarize([{"eval_f1": 80.0}]) == {"eval_f1": 80.0, "eval_f1_std": 0.0}


def test_what_a_run_lacks_or_says_in_words_is_left_out():
    assert summarize([{"a": 1, "b": 2, "c": "x"}, {"a": 3, "c": "y"}]).keys() == {"a", "a_std"}


def test_table():
    assert seed_table(RUNS).splitlines() == [
        "| seed | eval_f1 | test_accuracy | eval_loss |",
        "| --- | --- | --- | --- |",
        "| 1 | 80 | 0.5 | 1 |",
        "| 2 | 84 | 0.7 | 1 |",
        "| 5 | 82 | 0.6 | 4 |",
        "| mean | 82 | 0.6 | 2 |",
        "| std | 2 | 0.1 | 1.7 |",
    ]


def test_json_makes_its_folder(tmp_path):
    write_json(tmp_path / "new" / "numbers.json", {"é": 1})
    assert json.loads((tmp_path / "new" / "numbers.json").read_text(encoding="utf-8")) == {"é": 1}
