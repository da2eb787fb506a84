from __future__ import annotations

import random
import re
from itertools import chain

import pytest
from sklearn.metrics import accuracy_score, classification_report

from msattn.data.inputs.entity_tags import marks_entities
from msattn.metrics.report_tables import label_report
from msattn.metrics.tagging import score_tags, tagging_report

GOLD = [["B-x", "I-x", "O", "B-y"], ["O", "B-x"]]
FOUND = [["B-x", "I-x", "O", "B-x"], ["B-y", "B-x"]]


@pytest.mark.parametrize(
    ("tags", "expected"),
    [
        (["O", "B-person", "I-person"], True),
        (["O", "U-x", "L-x", "S-y"], True),
        (["NOUN", "O"], False),
        (["B", "O"], False),
        (["O"], False),
    ],
)
def test_which_tags_mark_entities(tags, expected):
    assert marks_entities(tags) == expected


def test_entities_are_counted_whole():
    scores = score_tags(predictions=FOUND, references=GOLD, entities=True)
    # Two of three true entities are found, and two of four predicted ones are true.
    assert scores == pytest.approx({"accuracy": 4 / 6, "precision": 1 / 2, "recall": 2 / 3, "f1": 4 / 7})
    shorter = [["B-x", "O", "O", "B-y"], ["O", "B-x"]]
    assert score_tags(predictions=shorter, references=GOLD, entities=True)["f1"] == pytest.approx(2 / 3)
    # As in conlleval's reading of IOB1, an I after O begins an entity.
    assert score_tags(predictions=[["O", "I-x", "I-x"]], references=[["O", "B-x", "I-x"]], entities=True)["f1"] == 1
    # No entity goes on into the next sentence.
    assert score_tags(predictions=[["B-x"], ["O"]], references=[["B-x"], ["I-x"]], entities=True)["recall"] == 0.5


def test_the_order_of_earlier_versions_is_an_error():
    with pytest.raises(TypeError):
        score_tags(GOLD, FOUND, entities=True)


def test_parts_of_speech():
    assert score_tags(
        predictions=[["DET", "VERB"], ["VERB"]], references=[["DET", "NOUN"], ["VERB"]], entities=False
    ) == {"accuracy": pytest.approx(2 / 3)}
    report = tagging_report(predictions=[["DET", "DET"]], references=[["DET", "NOUN"]], entities=False)
    assert "NOUN" in report and "50.00" in report


def test_report_of_entities():
    report = tagging_report(predictions=FOUND, references=GOLD, entities=True)
    assert "micro avg" in report and "57.14" in report
    assert score_tags(predictions=[["O"]], references=[["O"]], entities=True) == {
        "accuracy": 1,
        "precision": 0,
        "recall": 0,
        "f1": 0,
    }
    assert (
        tagging_report(predictions=[["O"]], references=[["O"]], entities=True)
        == "there is no entity, neither true nor predicted\n"
    )


@pytest.mark.parametrize("signs", ["BI", "BIES", "BILU", "BIESLU"])
def test_scores_and_reports_are_those_of_seqeval(signs):
    seqeval = pytest.importorskip("seqeval.metrics")
    draw = random.Random(0)
    tags = ["O", *(f"{sign}-{kind}" for sign in signs for kind in ("person", "a-b"))]

    def iobes(sentences):  # it knows no BILOU
        return [[tag.replace("L-", "E-").replace("U-", "S-") for tag in sentence] for sentence in sentences]

    for _ in range(100):
        gold = [draw.choices(tags, k=draw.randint(1, 6)) for _ in range(3)]
        found = [draw.choices(tags, k=len(sentence)) for sentence in gold]
        scores = score_tags(predictions=found, references=gold, entities=True)
        for name in ("precision", "recall", "f1"):
            expected = getattr(seqeval, f"{name}_score")(iobes(gold), iobes(found), zero_division=0)
            assert scores[name] == pytest.approx(expected, abs=1e-12)
        if marks_entities(chain(*gold)):
            expected = seqeval.classification_report(iobes(gold), iobes(found), output_dict=True, zero_division=0)
            assert cells(tagging_report(predictions=found, references=gold, entities=True)) == rows(expected)


def cells(report):
    """The cells of each row of a report by its name."""
    lines = [re.split(" {2,}", line.strip()) for line in report.splitlines()[1:] if line]
    return {name: tuple(numbers) for name, *numbers in lines}


def rows(expected):
    """The same from an oracle's scores."""
    return {
        name: (*(f"{100 * row[key]:.2f}" for key in ("precision", "recall", "f1-score")), f"{row['support']:.0f}")
        for name, row in expected.items()
    }


def test_reports_are_those_of_scikit_learn():
    draw = random.Random(0)
    for _ in range(20):
        gold, found = (draw.choices("abc", k=9) for _ in range(2))
        expected = classification_report(gold, found, labels=["a", "b", "c"], output_dict=True, zero_division=0)
        report = cells(label_report(gold, found, ["a", "b", "c"], ["a", "b", "c"]))
        assert report.pop("micro avg") == (*3 * [f"{100 * accuracy_score(gold, found):.2f}"], "9")
        assert report == rows({name: row for name, row in expected.items() if name in report})
