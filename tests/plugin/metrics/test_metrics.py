from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import evaluate
import numpy as np
import pytest

from msattn import metrics
from msattn.errors import UserError


@pytest.fixture(autouse=True)
def no_network(monkeypatch):
    def refuse(*args, **kwargs):
        raise AssertionError("a metric asked the network")

    monkeypatch.setattr("socket.getaddrinfo", refuse)


@pytest.mark.parametrize(("name", "config"), [(name, "cola" if name == "glue" else None) for name in metrics.METRICS])
def test_load_gives_an_evaluate_metric(name, config):
    metric = metrics.load(name, config, keep_in_memory=True)
    assert isinstance(metric, evaluate.Metric)
    assert metric.description and metric.inputs_description


def test_unknown_metric_and_task_are_named():
    with pytest.raises(UserError, match="'bleu'.*semeval2010_task8"):
        metrics.load("bleu")
    with pytest.raises(UserError, match="config_name='sst-2'.*sst2"):
        metrics.load("glue", "sst-2")


@pytest.mark.slow
@pytest.mark.heavy
def test_evaluate_loads_the_folders_without_network(tmp_path):
    code = """
import socket, sys
def refuse(*args, **kwargs):
    raise SystemExit("a metric asked the network")
socket.getaddrinfo = refuse
import evaluate
folder = sys.argv[1]
print(evaluate.load(f"{folder}/semeval2010_task8").compute(predictions=["Other"], references=["Other"])["accuracy"])
print(evaluate.load(f"{folder}/relation_classification").compute(predictions=["a"], references=["a"])["f1"])
print(evaluate.load(f"{folder}/glue", "mrpc").compute(predictions=[1, 0], references=[1, 1])["accuracy"])
"""
    folder = Path(metrics.__file__).parent
    environment = {**os.environ, "HF_HOME": str(tmp_path)}
    run = subprocess.run(
        [sys.executable, "-c", code, str(folder)], env=environment, cwd=tmp_path, capture_output=True, text=True
    )
    assert run.returncode == 0, run.stderr
    assert run.stdout.split() == ["100.0", "1.0", "0.5"]


def test_relations_without_a_negative_class():
    metric = metrics.load("relation_classification")
    result = metric.compute(predictions=["a", "b", "b", "c"], references=["a", "a", "b", "b"])
    # a: P 1/1, R 1/2; b: P 1/2, R 1/2; c: 0.
    assert result["accuracy"] == result["f1"] == result["precision"] == result["recall"] == 0.5
    assert result["macro_f1"] == pytest.approx((2 / 3 + 1 / 2 + 0) / 3)
    assert result["macro_precision"] == pytest.approx((1 + 1 / 2 + 0) / 3)
    assert result["relations"]["a"] == pytest.approx({"precision": 1.0, "recall": 0.5, "f1": 2 / 3, "support": 2})
    assert "auc" not in result


@pytest.mark.parametrize("names", [["no_relation", "a", "b"], [0, 1, 2]])
def test_relations_beside_a_negative_class(names):
    none, a, b = names
    result = metrics.load("relation_classification").compute(
        predictions=[a, a, none, b, none], references=[a, none, b, b, none], negative_label=none
    )
    # Two of three proposed relations are right, two of three actual ones found.
    assert result["precision"] == result["recall"] == result["f1"] == pytest.approx(2 / 3)
    assert result["accuracy"] == pytest.approx(3 / 5)
    assert result["macro_f1"] == pytest.approx(2 / 3)
    assert result["relations"][none]["support"] == 2


def test_area_under_the_ranked_pairs():
    metric = metrics.load("relation_classification")
    scores = [[0.1, 0.8, 0.1], [0.2, 0.5, 0.3], [0.7, 0.2, 0.1]]
    # Ranks: (0, a) hit, (1, a) miss, (1, b) hit, then misses: points (1/2, 1), (1/2, 1/2), (1, 2/3), (1, ...).
    result = metric.compute(
        predictions=["a", "a", "NA"],
        references=["a", "b", "NA"],
        negative_label="NA",
        scores=np.array(scores),
        labels=["NA", "a", "b"],
    )
    assert result["auc"] == pytest.approx(0.5 * (1 / 2 + 2 / 3) / 2)
    numbers = metric.compute(predictions=[1, 1, 0], references=[1, 2, 0], negative_label=0, scores=scores)
    assert numbers["auc"] == result["auc"]


def test_nothing_but_the_negative_class():
    result = metrics.load("relation_classification").compute(
        predictions=["NA"], references=["NA"], negative_label="NA", scores=[[0.4, 0.6]], labels=["NA", "a"]
    )
    assert result["accuracy"] == 1.0
    assert result["f1"] == result["macro_f1"] == result["auc"] == 0.0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"negative_label": 0}, "negative_label=0"),
        ({"scores": [0.5, 0.5]}, r"shape \(2, classes\)"),
        ({"scores": [[0.5, 0.5]] * 2, "labels": ["a"]}, "2 columns"),
        ({"scores": [[0.5, 0.5]] * 2, "labels": ["a", "c"]}, "'b' is among the references"),
    ],
)
def test_relation_options_that_do_not_fit(options, message):
    with pytest.raises(UserError, match=message):
        metrics.load("relation_classification").compute(predictions=["a", "b"], references=["a", "b"], **options)


def test_nothing_to_score():
    with pytest.raises(UserError, match="must not be empty"):
        metrics.load("relation_classification").compute(predictions=[], references=[])


@pytest.mark.parametrize(
    ("task", "predictions", "references", "expected"),
    [
        # TP 2, TN 1, FP 1, FN 1: (2·1 - 1·1) / sqrt(3·3·2·2)
        ("cola", [1, 1, 1, 0, 0], [1, 1, 0, 1, 0], {"matthews_correlation": 1 / 6}),
        ("cola", [1, 1], [1, 0], {"matthews_correlation": 0.0}),
        ("mrpc", [1, 1, 1, 0, 0], [1, 1, 0, 1, 0], {"accuracy": 0.6, "f1": 2 / 3}),
        ("qqp", [0, 0], [1, 0], {"accuracy": 0.5, "f1": 0.0}),
        ("stsb", [1.0, 2.0, 4.0], [1.0, 3.0, 2.0], {"pearson": 3 / 84**0.5, "spearmanr": 0.5}),
        ("stsb", [2.0, 2.0, 2.0], [1.0, 2.0, 3.0], {"pearson": 0.0, "spearmanr": 0.0}),
        *((task, [0, 1, 1, 0], [0, 1, 0, 0], {"accuracy": 0.75}) for task in ("sst2", "qnli", "rte", "wnli")),
        *((task, [0, 1, 2], [0, 1, 1], {"accuracy": 2 / 3}) for task in ("mnli", "mnli_mismatched")),
    ],
)
def test_glue_by_hand(task, predictions, references, expected):
    result = metrics.load("glue", task).compute(predictions=predictions, references=references)
    assert result == pytest.approx(expected) and result == metrics.score_glue(task, predictions, references)


def test_every_plain_function_is_public():
    assert {name for name in metrics.__all__ if name.startswith("score_")} == {
        *("score_glue", "score_ranking", "score_relations", "score_semeval", "score_semeval_answers"),
        *("score_tags", "score_trees"),
    }
    assert all(callable(getattr(metrics, name)) for name in metrics.__all__ if name.startswith(("score_", "load")))
    assert set(metrics.__all__) <= set(dir(metrics))
    with pytest.raises(AttributeError, match="no attribute 'score_bleu'"):
        _ = metrics.score_bleu


def test_relations_by_hand_and_in_both_forms():
    predictions, references = ["a", "NA", "b", "a"], ["a", "a", "NA", "b"]
    found = metrics.score_relations(predictions, references, "NA")
    # Of relations 1 of 3 proposed and 1 of 3 true ones is right.
    assert (found["precision"], found["recall"], found["accuracy"]) == pytest.approx((1 / 3, 1 / 3, 0.25))
    metric = metrics.load("relation_classification")
    assert metric.compute(predictions=predictions, references=references, negative_label="NA") == found


@pytest.mark.parametrize("score", [metrics.score_relations, lambda *columns: metrics.score_glue("sst2", *columns)])
@pytest.mark.parametrize("columns", [([1], [1, 0]), ([], [])])
def test_columns_that_do_not_match(score, columns):
    with pytest.raises(UserError, match=f"{len(columns[0])} predictions for {len(columns[1])} references"):
        score(*columns)


def test_a_score_of_an_unknown_glue_task():
    with pytest.raises(UserError, match="'sst-2' is not a GLUE task; choose from.*sst2"):
        metrics.score_glue("sst-2", [0], [0])
