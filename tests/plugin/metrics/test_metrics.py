from __future__ import annotations

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


@pytest.mark.parametrize(
    ("name", "task", "answers", "score"),
    [
        ("semeval2010_task8", None, ["Other", "Cause-Effect(e1,e2)"], ("accuracy", 100.0)),
        ("relation_classification", None, ["a", "b"], ("f1", 1.0)),
        ("dependency_parsing", None, [{"heads": [0], "relations": ["root"]}], ("las", 100.0)),
        ("glue", "mrpc", [1, 0], ("accuracy", 1.0)),
        ("glue", "stsb", [1.5, 2.0, 0.0], ("pearson", 1.0)),
    ],
)
def test_metrics_of_evaluate(name, task, answers, score):
    """By name, and by the path of the one file, without the network."""
    path = metrics.__file__.replace("__init__.py", "evaluate_metric.py")
    for metric in (metrics.load(name, task), evaluate.load(path, task or name)):
        assert (
            isinstance(metric, evaluate.Metric) and metric.description and "predictions" in metric.inputs_description
        )
        assert metric.compute(predictions=answers, references=answers)[score[0]] == pytest.approx(score[1])


def test_unknown_metric_and_task_are_named():
    with pytest.raises(UserError, match="'bleu'.*semeval2010_task8"):
        metrics.load("bleu")
    with pytest.raises(UserError, match="'sst-2'.*sst2"):
        metrics.load("glue", "sst-2")


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
    # Ranks: (0, a) hit, (1, a) miss, (1, b) hit, then misses: points (0, 1), (1/2, 1), (1/2, 1/2), (1, 2/3), (1, ...).
    result = metric.compute(
        predictions=["a", "a", "NA"],
        references=["a", "b", "NA"],
        negative_label="NA",
        scores=np.array(scores),
        labels=["NA", "a", "b"],
    )
    assert result["auc"] == pytest.approx(0.5 + 0.5 * (1 / 2 + 2 / 3) / 2)
    numbers = metric.compute(predictions=[1, 1, 0], references=[1, 2, 0], negative_label=0, scores=scores)
    assert numbers["auc"] == result["auc"]


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
        metrics.score_relations(["a", "b"], ["a", "b"], **options)


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


@pytest.mark.parametrize("score", [metrics.score_relations, lambda *columns: metrics.score_glue("sst2", *columns)])
@pytest.mark.parametrize("columns", [([1], [1, 0]), ([], [])])
def test_columns_that_do_not_match(score, columns):
    with pytest.raises(UserError, match=f"{len(columns[0])} predictions for {len(columns[1])} references"):
        score(*columns)
