"""Attachment scores beside those of the evaluation of the CoNLL 2018 shared task."""

from __future__ import annotations

from itertools import combinations, product

import pytest

from msattn import metrics
from msattn.errors import UserError
from msattn.metrics.parsing import has_crossing_arcs, score_trees

TRUE = [
    ([2, 0, 2, 5, 3, 2], "nsubj root obj case nmod:poss punct".split()),
    ([3, 3, 0, 3, 7, 7, 4, 3], "aux:pass advmod root xcomp mark det acl:relcl punct".split()),
    ([0], ["root"]),
    ([2, 0, 4, 2, 2], "det:predet root cc conj punct".split()),
]
PREDICTED = [
    ([2, 0, 5, 5, 2, 3], "nsubj:pass root obj mark obl punct".split()),
    ([3, 1, 0, 3, 7, 7, 4, 4], "aux advmod root ccomp mark det acl punct".split()),
    ([0], ["root"]),
    ([0, 1, 4, 2, 2], "root flat cc conj dep".split()),
]
# The first three as udtools 0.2.9 prints them for these trees, which holds the evaluation of the shared task.
EXPECTED = {
    "uas": 65.0,
    "las": 50.0,
    "clas": 50.0,
    "label_accuracy": 70.0,
    "root_accuracy": 75.0,
    "las_subtypes": 35.0,
    "uas_no_punct": 100 * 12 / 17,
    "las_no_punct": 100 * 10 / 17,
    "label_accuracy_no_punct": 100 * 12 / 17,
}


def test_scores():
    assert score_trees(PREDICTED, TRUE) == pytest.approx(EXPECTED, rel=1e-12)
    assert set(score_trees(TRUE, TRUE).values()) == {100.0}


def test_unknown_heads_do_not_count():
    # The last word of each sentence, which no gold head names, is unknown; the last sentence is left out as a whole.
    gold = [([*heads[:-1], -1], names) for heads, names in TRUE[:2]] + [([-1] * len(TRUE[3][0]), TRUE[3][1])]
    found = [*PREDICTED[:2], PREDICTED[3]]
    shorter = [[(heads[:-1], names[:-1]) for heads, names in trees[:2]] for trees in (PREDICTED, TRUE)]
    assert score_trees(found, gold) == score_trees(*shorter) != score_trees(PREDICTED[:2], TRUE[:2])
    assert score_trees([([2, 0], ["a", "b"])], [([2, -1], ["a", "_"])])["root_accuracy"] == 0
    with pytest.raises(UserError, match="no word with a known head"):
        score_trees([PREDICTED[2]], [([-1], ["root"])])


def test_unknown_relations_have_no_score():
    gold = ([2, 0, 2], ["nsubj", "_", "punct"])
    scores = score_trees([([2, 0, 1], ["nsubj", "root", "punct"])], [gold])
    assert scores["uas"] == pytest.approx(200 / 3) and scores["las"] == 50 and scores["label_accuracy"] == 100
    assert scores["clas"] == scores["las_no_punct"] == 100


def test_the_metric():
    predictions, references = (
        [{"heads": heads, "relations": relations} for heads, relations in trees] for trees in (PREDICTED, TRUE)
    )
    metric = metrics.load("dependency_parsing", keep_in_memory=True)
    assert metric.compute(predictions=predictions, references=references) == pytest.approx(EXPECTED, rel=1e-12)


@pytest.mark.parametrize(
    ("predictions", "references", "message"),
    [
        (PREDICTED[:3], TRUE, "3 predicted trees for 4"),
        ([PREDICTED[2], PREDICTED[0]], [TRUE[2], TRUE[3]], "sentence 2: heads and relations"),
        ([([0], [])], [TRUE[2]], "sentence 1: heads and relations"),
        ([], [], "no word"),
        ([([], [])], [([], [])], "no word"),
    ],
)
def test_trees_of_other_words_are_refused(predictions, references, message):
    with pytest.raises(UserError, match=message):
        score_trees(predictions, references)


@pytest.mark.parametrize("words", [1, 2, 3, 4, 5])
def test_arcs_cross(words):
    for heads in product(range(words + 1), repeat=words):
        arcs = [sorted(arc) for arc in enumerate(heads, start=1)]
        crossing = any(a < c < b < d or c < a < d < b for (a, b), (c, d) in combinations(arcs, 2))
        assert has_crossing_arcs(heads) == crossing, heads
