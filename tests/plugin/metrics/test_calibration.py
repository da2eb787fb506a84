from __future__ import annotations

import numpy as np
import pytest
from scipy.special import softmax
from sklearn.metrics import f1_score

from msattn.metrics.calibration import (
    Candidates,
    decide,
    expected_calibration_error,
    fit_relation_answers,
    fit_sigmoid_temperature,
    fit_temperature,
    relation_candidates,
)


@pytest.fixture
def sample():
    """Labels drawn from the softmax of logits, so that their probabilities are true at temperature 1."""
    draw = np.random.default_rng(0)
    logits = draw.normal(size=(4000, 4)) * 2
    labels = np.array([draw.choice(4, p=row) for row in softmax(logits, axis=-1)])
    return logits, labels


def gap_in_bins(confidence: np.ndarray, right: np.ndarray) -> float:
    """The calibration error in 15 bins of equal width: (0, 1/15], (1/15, 2/15], ..."""
    total = 0.0
    for number in range(15):
        inside = (number / 15 < confidence) & (confidence <= (number + 1) / 15)
        total += abs((right[inside] - confidence[inside]).sum())
    return total / len(right)


@pytest.mark.parametrize("factor", [0.5, 1, 3])
def test_the_temperature_undoes_a_factor(sample, factor):
    logits, labels = sample
    assert fit_temperature(factor * logits, labels) == pytest.approx(factor, rel=0.05)


def test_a_temperature_that_raises_the_calibration_error_is_not_used():
    # One bin is right as often as it is sure, but its only mistake is where it is surest.
    confidence, right = np.array([0.95] * 19 + [0.999]), np.array([1] * 19 + [0])
    logits = np.log(confidence / (1 - confidence))[:, None]
    assert fit_temperature(np.hstack([np.zeros_like(logits), logits]), right) == 1
    assert fit_sigmoid_temperature(logits, right[:, None]) == 1


@pytest.mark.parametrize("factor", [0.5, 1, 3])
def test_calibration_error_is_that_of_15_bins(sample, factor):
    logits, labels = sample
    probabilities = softmax(factor * logits, axis=-1)
    expected = gap_in_bins(probabilities.max(axis=-1), probabilities.argmax(axis=-1) == labels)
    assert expected_calibration_error(probabilities, labels) == pytest.approx(expected)


def test_calibration_error_is_the_weighted_gap():
    probabilities = np.array([[0.8, 0.2]] * 10 + [[0.35, 0.65]] * 30)
    labels = np.array([0] * 5 + [1] * 5 + [1] * 30)
    # Bin of 0.8: |0.5 - 0.8|, bin of 0.65: |1 - 0.65|.
    assert expected_calibration_error(probabilities, labels) == pytest.approx((10 * 0.3 + 30 * 0.35) / 40)
    assert expected_calibration_error(np.eye(2), np.array([0, 1])) == 0


def test_decisions():
    probabilities = np.array([[0.5, 0.3, 0.2], [0.1, 0.2, 0.7], [0.9, 0.05, 0.05]])
    assert decide(probabilities, 0).tolist() == [0, 2, 0]
    assert decide(probabilities, 0, 0.3).tolist() == [1, 2, 0]
    assert decide(probabilities, 0, 0.75).tolist() == [0, 0, 0]
    assert decide(probabilities, None, 0.75).tolist() == [0, 2, 0]


def test_the_threshold_has_the_highest_f1_of_all(sample):
    logits, labels = sample
    probabilities = softmax(logits[:60], axis=-1)
    labels = labels[:60]

    def f1(threshold):
        return f1_score(labels, decide(probabilities, 0, threshold), labels=[1, 2, 3], average="micro")

    best = relation_candidates(probabilities, labels, 0).best_threshold()
    assert f1(best) == max(f1(threshold) for threshold in np.unique(probabilities)) > f1(None)


def test_no_threshold_where_none_helps():
    def fields(*probabilities, references):
        return fit_relation_answers(np.log(probabilities), np.array(references), ["none", "x"], "none")

    assert fields([0.9, 0.1], [0.1, 0.9], references=[0, 1])["decision_threshold"] is None
    assert fields([0.9, 0.1], [0.1, 0.9], references=[0, 0])["decision_threshold"] is None
    found = fields([0.6, 0.4], [0.9, 0.1], references=[1, 0])
    scaled = np.array([[0.6, 0.4], [0.9, 0.1]]) ** (1 / found["calibration_temperature"])
    half_way = (scaled / scaled.sum(axis=1, keepdims=True))[:, 1].mean()
    assert found["decision_threshold"] == pytest.approx(half_way)


@pytest.mark.parametrize("several", [False, True])
def test_relations_that_are_not_asked_for_lower_the_threshold(several):
    """Of two right answers among four, the second costs two wrong ones: it pays if recall is low anyway."""
    scores, right = np.array([0.9, 0.6, 0.5, 0.4]), np.array([1, 0, 0, 1])

    def answered(unasked):
        if several:
            logits, rest = np.log(scores / (1 - scores)), np.array(unasked)
            fields = fit_relation_answers(logits[:, None], right[:, None], ["x"], None, rest[:, None])
        else:
            logits = np.log(np.column_stack([1 - scores, scores]))
            fields = fit_relation_answers(logits, right, ["none", "x"], "none", np.array(unasked))
        odds = (scores / (1 - scores)) ** (1 / fields["calibration_temperature"])
        return int((odds / (1 + odds) >= fields["decision_threshold"]).sum())

    assert answered([0]) == 1 and answered([1, 1]) == 4


@pytest.mark.parametrize("several", [False, True])
def test_thresholds_of_single_relations(several):
    """One relation is right from 0.4 on, the other from 0.7 on: one threshold for both is worse than two."""
    scores = np.zeros((180, 2)) + 0.01
    scores[:60, 0] = np.tile([0.3, 0.45, 0.6, 0.8], 15)
    scores[60:, 1] = np.tile([0.3, 0.55, 0.6, 0.8], 30)
    right = scores > [0.4, 0.7]
    if several:
        fields = fit_relation_answers(np.log(scores / (1 - scores)), right.astype(float), ["a", "b"], None)
    else:
        logits = np.log(np.column_stack([scores, 1 - scores.sum(axis=1)]))
        references = np.where(right.any(axis=1), right.argmax(axis=1), 2)
        fields = fit_relation_answers(logits, references, ["a", "b", "none"], "none")
    assert set(fields) == {"calibration_temperature", "decision_threshold", "relation_thresholds"}
    first, second = fields["relation_thresholds"].values()
    assert 0 <= first < second == pytest.approx(fields["decision_threshold"])


def test_the_best_answer_may_be_none():
    candidates = Candidates(np.array([0.9, 0.2]), np.array([False, False]), np.array([0, 0]), np.array([30]))
    assert candidates.f1(candidates.best_threshold()) == 0 and candidates.best_threshold() == pytest.approx(0.95)
    assert candidates.class_thresholds(0.1) == {0: pytest.approx((0.95 + 0.1) / 2)}  # 30 examples: half of each
