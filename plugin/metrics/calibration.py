"""Probabilities that mean something: temperature, decision threshold and expected calibration error."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from msattn.errors import extra

with extra("train"):
    from scipy.optimize import minimize_scalar
    from scipy.special import log_softmax, softmax

# Fitted temperatures lie between one over this and this.
MOST = 20.0


def fit_temperature(logits: np.ndarray, references: np.ndarray) -> float:
    """
    The temperature t for which softmax(logits / t) has the least negative log-likelihood ("On Calibration of Modern
    Neural Networks", Guo et al. 2017).

    Args:
        logits (`np.ndarray` of shape `(examples, classes)`): Logits on development data.
        references (`np.ndarray` of shape `(examples,)`): The right class of each example.

    Returns:
        `float`: From 0.05 to 20. 1 if the model makes no mistake, as the likelihood then grows without end as t
        falls, or if the expected calibration error of these logits does not fall.
    """
    if (logits.argmax(axis=-1) == references).all():
        return 1.0
    logits, rows = logits.astype(np.float64), np.arange(len(references))
    best = best_temperature(lambda temperature: -log_softmax(logits / temperature, axis=-1)[rows, references].mean())
    errors = [expected_calibration_error(softmax(logits / each, axis=-1), references) for each in (best, 1.0)]
    return best if errors[0] < errors[1] else 1.0


def best_temperature(loss: Callable[[float], float]) -> float:
    """The temperature with the least loss, from 0.05 to 20."""
    bounds = (-math.log(MOST), math.log(MOST))
    return math.exp(minimize_scalar(lambda logarithm: loss(math.exp(logarithm)), bounds=bounds, method="bounded").x)


def decide(probabilities: np.ndarray, negative: int | None = None, threshold: float | None = None) -> np.ndarray:
    """
    The answer for each example.

    With a threshold, it is the best relation if its probability reaches the threshold, and the negative class
    otherwise. Without one, it is the most probable class.

    Args:
        probabilities (`np.ndarray` of shape `(examples, classes)`): Probabilities.
        negative (`int`, *optional*): The class that stands for no relation.
        threshold (`float`, *optional*): The threshold; read only if there is a negative class.

    Returns:
        `np.ndarray` of shape `(examples,)`: Classes.
    """
    if negative is None or threshold is None:
        return probabilities.argmax(axis=-1)
    best, scores = _best_relation(probabilities, negative)
    return np.where(scores >= threshold, best, negative)


def fit_threshold(probabilities: np.ndarray, references: np.ndarray, negative: int) -> float | None:
    """
    The decision threshold with the highest micro-F1 over the relations, without the negative class.

    It lies half-way between two probabilities that occur.

    Args:
        probabilities (`np.ndarray` of shape `(examples, classes)`): Probabilities on development data.
        references (`np.ndarray` of shape `(examples,)`): The right class of each example.
        negative (`int`): The class that stands for no relation.

    Returns:
        `float` or `None`: The threshold for [`decide`]; `None` if none has a higher micro-F1 than the most probable
        class.
    """
    best, scores = _best_relation(probabilities, negative)
    order = np.argsort(-scores, kind="stable")
    ranked, relations = scores[order], int((references != negative).sum())
    correct = (best == references)[order].cumsum()
    # Micro-F1 if the first k are answered with a relation: 2 correct / (k + relations). Equal scores stay together.
    f1 = 2 * correct / (np.arange(1, len(scores) + 1) + relations)
    f1[:-1][ranked[:-1] == ranked[1:]] = 0
    last = int(f1.argmax())
    plain = probabilities.argmax(axis=-1)
    answered = int((plain != negative).sum())
    hits = int(((plain == references) & (plain != negative)).sum())
    if f1[last] <= 2 * hits / max(answered + relations, 1):
        return None
    below = ranked[last + 1] if last + 1 < len(ranked) else 0.0
    return float((ranked[last] + below) / 2)


def fit_relation_answers(
    logits: np.ndarray, references: np.ndarray, labels: Sequence[str], negative: str | None
) -> tuple[float, float | None]:
    """
    The temperature of a relation classifier and, if a label stands for no relation, its decision threshold.

    Args:
        logits (`np.ndarray` of shape `(examples, labels)`): Logits on development data.
        references (`np.ndarray` of shape `(examples,)`): The right label id of each example.
        labels (`Sequence[str]`): The labels in the order of their ids.
        negative (`str` or `None`): The label that stands for no relation.
    """
    temperature = fit_temperature(logits, references)
    if negative is None:
        return temperature, None
    probabilities = softmax(logits.astype(np.float64) / temperature, axis=-1)
    return temperature, fit_threshold(probabilities, references, list(labels).index(negative))


def expected_calibration_error(probabilities: np.ndarray, references: np.ndarray, bins: int = 15) -> float:
    """
    The expected calibration error of the most probable class, with bins of equal width (Guo et al. 2017): the mean
    distance between confidence and accuracy, weighted by the number of examples in each bin.

    Args:
        probabilities (`np.ndarray` of shape `(examples, classes)`): Probabilities.
        references (`np.ndarray` of shape `(examples,)`): The right class of each example.
        bins (`int`, *optional*, defaults to 15): The number of bins.

    Returns:
        `float`: From 0 to 1.
    """
    return calibration_gap(probabilities.max(axis=-1), probabilities.argmax(axis=-1) == references, bins)


def calibration_gap(confidence: np.ndarray, right: np.ndarray, bins: int = 15) -> float:
    """
    The expected calibration error of answers.

    Args:
        confidence (`np.ndarray` of shape `(answers,)`): The probability of each answer.
        right (`np.ndarray` of shape `(answers,)`): Whether it is right.
        bins (`int`, *optional*, defaults to 15): The number of bins.

    Returns:
        `float`: From 0 to 1.
    """
    # A bin is open on the left: (0, 1/15], (1/15, 2/15], ...
    number = np.clip(np.ceil(confidence * bins).astype(int) - 1, 0, bins - 1)
    gaps = np.bincount(number, weights=right - confidence, minlength=bins)
    return float(np.abs(gaps).sum() / len(right))


def _best_relation(probabilities: np.ndarray, negative: int) -> tuple[np.ndarray, np.ndarray]:
    """The most probable class but the negative one, and its probability."""
    relations = probabilities.copy()
    relations[:, negative] = -1
    return relations.argmax(axis=-1), relations.max(axis=-1)
