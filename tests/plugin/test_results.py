from __future__ import annotations

import json

import pytest

from msattn import UserError
from msattn.results import DomainStudy, Study, read_json, seed_table, summarize, write_json

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


POINTS = [
    {"train_fraction": 0.2, "train_samples": 20.0, "eval_f1": 0.5, "eval_f1_std": 0.125, "eval_runtime": 3.0},
    {"train_fraction": 1.0, "train_samples": 1e6, "eval_f1": 0.75, "eval_f1_std": 0.0, "eval_runtime": 3.0},
]


def test_table_of_a_study():
    assert Study("train_fraction", POINTS).table().splitlines() == [
        "| train_fraction | train_samples | eval_f1 |",
        "| --- | --- | --- |",
        "| 0.2 | 20 | 0.5 ± 0.12 |",
        "| 1.0 | 1000000 | 0.75 ± 0 |",
    ]
    layers = [{"guided_layer": layer, "train_samples": 9, "test_mrr": 0.25, "eval_loss": layer} for layer in (0, 1)]
    assert Study("guided_layer", layers).table().splitlines() == [
        "| guided_layer | test_mrr | eval_loss |",
        "| --- | --- | --- |",
        "| 0 | 0.25 | 0 |",
        "| 1 | 0.25 | 1 |",
    ]


def test_a_score_that_a_point_lacks_is_left_out():
    assert Study("guided_layer", [{"guided_layer": 0, "eval_f1": 1, "dev_f1": 1}, {"dev_f1": 2}]).scores == ["dev_f1"]


def test_a_study_is_read_back(tmp_path):
    write_json(tmp_path / "study.json", {"variable": "train_fraction", "points": POINTS})
    assert Study.from_folder(tmp_path) == Study("train_fraction", POINTS)


@pytest.mark.parametrize(
    "content",
    ["[]", "{", '{"eval_f1": 1}', '{"variable": "guided_layer", "points": []}', '{"variable": "x", "points": [{}]}'],
)
def test_no_study(tmp_path, content):
    (tmp_path / "study.json").write_text(content)
    with pytest.raises(UserError, match=r"study\.json: "):
        Study.from_folder(tmp_path)


def test_results_that_are_not_there(tmp_path):
    with pytest.raises(UserError, match=r"results\.json: there is no such file; the folder has to be that of"):
        read_json(tmp_path / "results.json")


def test_table_of_domains(tmp_path):
    points = [
        {"domain": "MR", "test_accuracy": 0.75, "test_accuracy_std": 0.03, "eval_accuracy": 0.5},
        {
            "domain": "magazines",
            "test_accuracy": 0.9,
            "test_accuracy_std": 0.04,
            "test_unseen_accuracy": 0.8,
            "test_unseen_accuracy_std": 0.04,
        },
    ]
    study = DomainStudy(points=points)
    # All reviews of MR are unseen.
    assert study.table().splitlines() == [
        "| domain | test_accuracy | test_unseen_accuracy |",
        "| --- | --- | --- |",
        "| MR | 75.00 ± 3.00 | 75.00 ± 3.00 |",
        "| magazines | 90.00 ± 4.00 | 80.00 ± 4.00 |",
        "| average of 2 | 82.50 ± 2.50 | 77.50 ± 2.50 |",
    ]
    write_json(tmp_path / "mtl16.json", study.to_dict())
    assert DomainStudy.from_folder(tmp_path) == study
    assert read_json(tmp_path / "mtl16.json")["average"] == study.average()
    single = DomainStudy(points=[{"domain": "MR", "test_accuracy": 0.75}])
    assert single.average() == {"test_accuracy": 0.75, "test_unseen_accuracy": 0.75}
    assert single.table().splitlines()[-1] == "| average of 1 | 75.00 | 75.00 |"
