from __future__ import annotations

import math
import random

import numpy as np
import pytest

from msattn.errors import UserError
from msattn.metrics.ranking import MEASURES, score_ranking, write_run


def reference(relevant: set[str], scores: dict[str, float]) -> dict[str, float]:
    """The measures of one query, from their definitions."""
    order = sorted(scores, key=lambda document: (scores[document], document), reverse=True)
    hits = np.array([document in relevant for document in order], dtype=float)
    precisions = hits.cumsum() / np.arange(1, len(hits) + 1)
    return {
        "mrr": max(hits / np.arange(1, len(hits) + 1)),
        **{f"recall_at_{k}": hits[:k].sum() / len(relevant) for k in (1, 3, 5, 20)},
        "map": (precisions * hits).sum() / len(relevant),
    }


def test_measures_are_those_of_their_definitions():
    draw = random.Random(0)
    relevant, scores, expected = {}, {}, []
    for query in map(str, range(20)):
        documents = [f"d{number}" for number in range(draw.randint(1, 40))]
        # Few values, so that many are equal; a relevant document may be no candidate.
        scores[query] = {document: draw.randint(0, 9) / 4 for document in documents}
        relevant[query] = {*draw.sample(documents, draw.randint(1, min(4, len(documents)))), "elsewhere"}
        expected.append(reference(relevant[query], scores[query]))
    found = score_ranking(relevant, scores)
    assert list(found) == list(MEASURES)
    assert found == pytest.approx({name: np.mean([values[name] for values in expected]) for name in MEASURES})


def test_equal_scores_go_by_the_id_and_not_by_the_order():
    for documents in (["a", "b"], ["b", "a"]):
        scores = {"q": dict.fromkeys(documents, 1.0)}
        assert score_ranking({"q": {"b"}}, scores)["mrr"] == 1
        assert score_ranking({"q": {"a"}}, scores)["mrr"] == 1 / 2


def test_a_grade_of_zero_is_not_relevant():
    scores = {"q": {"a": 2.0, "b": 1.0}, "none": {"a": 1.0}}
    assert score_ranking({"q": {"a": 0, "b": 2}, "none": {"a": 0}}, scores) == score_ranking({"q": {"b"}}, scores)
    with pytest.raises(UserError, match="no query has a relevant document"):
        score_ranking({"q": {"a": 0}}, scores)


def test_a_score_that_is_no_number_is_refused(tmp_path):
    scores = {"q": {"a": 1.0, "b": math.nan}}
    with pytest.raises(UserError, match="the score of b for the query q is nan"):
        score_ranking({"q": {"a"}}, scores)
    with pytest.raises(UserError, match="may have diverged"):
        write_run(tmp_path / "run", scores)
    assert not (tmp_path / "run").exists()


def test_a_run_file_keeps_scores_and_order(tmp_path):
    close = [float(value) for value in np.nextafter(np.float32(0.1), np.float32([0, 1]))]
    scores = {"q1": {"a": close[0], "b": close[1], "c": close[1]}, "é": {"ü": -3.0}}
    path = write_run(tmp_path / "new" / "run.trec", scores, tag="mine")
    lines = [line.split(" ") for line in path.read_text(encoding="utf-8").splitlines()]
    assert [(query, document, rank) for query, _, document, rank, _, _ in lines] == [
        ("q1", "c", "1"),
        ("q1", "b", "2"),
        ("q1", "a", "3"),
        ("é", "ü", "1"),
    ]
    assert {(line[1], line[5]) for line in lines} == {("Q0", "mine")}
    assert all(np.float32(line[4]) == np.float32(scores[line[0]][line[2]]) for line in lines)
