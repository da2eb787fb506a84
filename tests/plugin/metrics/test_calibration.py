from __future__ import annotations

import numpy as np
import pytest
from scipy.special import softmax
from sklearn.metrics import f1_score

from msattn.metrics.calibration import decide, expected_calibration_error, fit_temperature, fit_threshold


@pytest.fixture
def sample():
    """Labels drawn from the softmax of logits, so that their probabilities are true at temperature 1."""
    draw = np.random.default_rng(0)
    logits = draw.normal(size=(4000, 4)) * 2
    labels = np.array([draw.choice(4, p=row) for row in softmax(logits, axis=-1)])
    return logits, labels


@pytest.mark.parametrize("factor", [0.5, 1, 3])
def test_the_temperature_undoes_a_factor(sample, factor):
    logits, labels = sample
    assert fit_temperature(factor * logits, labels) == pytest.approx(factor, rel=0.05)


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

    best = fit_threshold(probabilities, labels, 0)
    assert f1(best) == max(f1(threshold) for threshold in np.unique(probabilities)) > f1(None)


def test_no_threshold_where_none_helps():
    probabilities = np.array([[0.9, 0.1], [0.1, 0.9]])
    assert fit_threshold(probabilities, np.array([0, 1]), 0) is None
    assert fit_threshold(probabilities, np.array([0, 0]), 0) is None
    assert fit_threshold(np.array([[0.6, 0.4], [0.9, 0.1]]), np.array([1, 0]), 0) == pytest.approx(0.25)
