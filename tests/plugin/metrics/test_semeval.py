from __future__ import annotations

import os
from pathlib import Path

import pytest

from msattn import metrics
from msattn.errors import UserError

CE12, CE21 = "Cause-Effect(e1,e2)", "Cause-Effect(e2,e1)"
MT12, PP21, EO12 = "Message-Topic(e1,e2)", "Product-Producer(e2,e1)", "Entity-Origin(e1,e2)"

# Every case that the scorer tells apart: right, right but reversed, relation for Other and back, relation for
# relation, skipped (a relation, Other), and a label that the key does not have.
REFERENCES = [CE12, CE12, CE21, MT12, MT12, "Other", "Other", PP21, "Other"]
PREDICTIONS = [CE12, CE21, "Other", MT12, CE12, "Other", None, None, EO12]


def test_official_figures_by_hand():
    # C-E is right once, of 2 proposed + 1 reversed and 3 actual; M-T once, of 1 and 2; P-P never.
    assert metrics.score_semeval(PREDICTIONS, REFERENCES) == pytest.approx(
        {
            "precision": (100 / 3 + 100 + 0) / 3,
            "recall": (100 / 3 + 50 + 0) / 3,
            "f1": (100 / 3 + 200 / 3 + 0) / 3,
            "accuracy": 100 * 3 / 9,
        }
    )


def test_metric_is_used_again_and_again():
    metric = metrics.load("semeval2010_task8")
    # Cause-Effect: P = 1/(1+1), R = 1/2; Message-Topic: P = 1/1, R = 1/2.
    assert metric.compute(
        predictions=[CE12, CE21, MT12, "Other"], references=[CE12, CE12, MT12, MT12]
    ) == pytest.approx({"precision": 75.0, "recall": 50.0, "f1": (50 + 200 / 3) / 2, "accuracy": 50.0})
    assert metric.compute(predictions=["Other", CE12], references=["Other", CE12])["f1"] == 100.0


def test_a_key_without_relations_has_an_f1_of_zero():
    scores = metrics.score_semeval(["Other", CE12], ["Other", "Other"])
    assert scores == {"precision": 0.0, "recall": 0.0, "f1": 0.0, "accuracy": 50.0}


@pytest.mark.parametrize(
    ("predictions", "references", "message"),
    [
        (["Cause-Effect"], [CE12], "'Cause-Effect' is not a label"),
        ([CE12], ["Cause-Effect(e1, e2)"], "'Cause-Effect(e1, e2)' is not a label"),
        ([CE12, CE12], [CE12], "2 predictions"),
        ([None], [CE12], "no prediction"),
    ],
)
def test_wrong_labels_are_named(predictions, references, message):
    with pytest.raises(UserError) as error:
        metrics.score_semeval(predictions, references)
    assert message in str(error.value)


@pytest.mark.slow
@pytest.mark.parametrize("number", [1, 2, 3, 5])
def test_equal_to_the_official_result_files(number):
    folder = _official_examples()
    answers, key = (
        dict(line.split("\t") for line in (folder / f"{name}{number}.txt").read_text("utf-8").splitlines())
        for name in ("proposed_answer", "answer_key")
    )
    f1 = metrics.score_semeval([answers.get(one) for one in key], [*key.values()])["f1"]
    result = (folder / f"result_scores{number}.txt").read_text(encoding="utf-8")
    assert f"macro-averaged F1 = {f1:.2f}%" in result


def _official_examples() -> Path:
    if "MSATTN_DATA" not in os.environ:
        pytest.skip("MSATTN_DATA does not name the folder with semeval2010_task8/scorer_examples")
    return Path(os.environ["MSATTN_DATA"]) / "semeval2010_task8" / "scorer_examples"
