"""Probabilities that mean something: temperature, decision threshold and expected calibration error."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from msattn.errors import extra

with extra("train"):
    from scipy.optimize import minimize_scalar
    from scipy.special import expit, log_expit, log_softmax, softmax

# Fitted temperatures lie between one over this and this.
MOST = 20.0
# Examples of a relation on development data from which on it has a threshold of its own. That of all relations weighs
# in as these many further examples. Chosen on CoNLL-04 with 50 to 400 sentences of development data.
ENOUGH, SHARED = 10, 30


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


def decide(
    probabilities: np.ndarray, negative: int | None = None, threshold: float | np.ndarray | None = None
) -> np.ndarray:
    """
    The answer for each example.

    With a threshold, it is the best relation if its probability reaches the threshold, and the negative class
    otherwise. Without one, it is the most probable class.

    Args:
        probabilities (`np.ndarray` of shape `(examples, classes)`): Probabilities.
        negative (`int`, *optional*): The class that stands for no relation.
        threshold (`float` or `np.ndarray` of shape `(classes,)`, *optional*):
            The threshold, or that of each class; read only if there is a negative class.

    Returns:
        `np.ndarray` of shape `(examples,)`: Classes.
    """
    if negative is None or threshold is None:
        return probabilities.argmax(axis=-1)
    best, scores = _best_relation(probabilities, negative)
    return np.where(scores >= np.broadcast_to(threshold, probabilities.shape[1:])[best], best, negative)


class Candidates(NamedTuple):
    """
    Answers that a threshold keeps or drops.

    Args:
        scores (`np.ndarray` of shape `(candidates,)`): Their probabilities.
        right (`np.ndarray` of shape `(candidates,)`): Whether each is right.
        classes (`np.ndarray` of shape `(candidates,)`): Their classes.
        gold (`np.ndarray` of shape `(classes,)`): The number of examples of each class; 0 for the negative one.
        missed (`int`, *optional*, defaults to 0):
            The number of further examples with a relation, of which none is a candidate.
    """

    scores: np.ndarray
    right: np.ndarray
    classes: np.ndarray
    gold: np.ndarray
    missed: int = 0

    @property
    def related(self) -> int:
        """The number of relations in all examples."""
        return int(self.gold.sum()) + self.missed

    def f1(self, threshold: float | np.ndarray) -> float:
        """Micro-F1 of the candidates that reach the threshold, or that of their class."""
        kept = self.scores >= np.broadcast_to(threshold, self.gold.shape)[self.classes]
        return 2 * float((kept & self.right).sum()) / max(int(kept.sum()) + self.related, 1)

    def best_threshold(self) -> float:
        """The threshold with the highest micro-F1, half-way between two probabilities that occur."""
        return _best_cut(self.scores, self.right, self.related)

    def class_thresholds(self, start: float) -> dict[int, float]:
        """
        The threshold of each class with `ENOUGH` examples: that of the highest micro-F1 beside those of the others,
        the most frequent class first, drawn towards `start` by `SHARED` examples.

        Args:
            start (`float`): The threshold of all classes before that.
        """
        kept, found = self.scores >= start, {}
        for number in np.argsort(-self.gold, kind="stable").tolist():
            if self.gold[number] < ENOUGH:
                break
            own = self.classes == number
            others = kept & ~own
            hits, answered = int((others & self.right).sum()), int(others.sum())
            cut = _best_cut(self.scores[own], self.right[own], self.related, hits, answered)
            cut = float((self.gold[number] * cut + SHARED * start) / (self.gold[number] + SHARED))
            kept[own], found[number] = self.scores[own] >= cut, cut
        return found


def _best_cut(scores: np.ndarray, right: np.ndarray, gold: int, hits: int = 0, answered: int = 0) -> float:
    """The threshold with the highest micro-F1 beside some other answers, of which `hits` are right."""
    order = np.argsort(-scores, kind="stable")
    # Micro-F1 of the first k: 2 right / (k + gold). Equal scores stay together. Before all of them comes none.
    ranked = np.concatenate([[np.inf], scores[order], [-np.inf]])
    counts = np.arange(len(ranked) - 1)
    f1 = 2 * (hits + np.concatenate([[0], right[order].cumsum()])) / np.maximum(answered + counts + gold, 1)
    f1[ranked[:-1] == ranked[1:]] = -1
    last = int(f1.argmax())
    above, below = min(ranked[last], 1.0), max(ranked[last + 1], 0.0)
    return float((above + below) / 2)


def relation_candidates(
    probabilities: np.ndarray, references: np.ndarray, negative: int, missed: int = 0
) -> Candidates:
    """The best relation of each example."""
    best, scores = _best_relation(probabilities, negative)
    gold = np.bincount(references, minlength=probabilities.shape[1])
    gold[negative] = 0
    return Candidates(scores, best == references, best, gold, missed)


def _plain_f1(probabilities: np.ndarray, references: np.ndarray, negative: int, related: int) -> float:
    """Micro-F1 of the most probable classes, where this number of examples has a relation."""
    plain = probabilities.argmax(axis=-1)
    hits = int(((plain == references) & (plain != negative)).sum())
    return 2 * hits / max(int((plain != negative).sum()) + related, 1)


def fit_relation_answers(
    logits: np.ndarray,
    references: np.ndarray,
    labels: Sequence[str],
    negative: str | None,
    unasked: np.ndarray | None = None,
) -> dict[str, Any]:
    """
    What turns the logits of a relation classifier into answers, as fields of its configuration.

    Args:
        logits (`np.ndarray` of shape `(examples, labels)`): Logits on development data.
        references (`np.ndarray` of shape `(examples,)` or `(examples, labels)`):
            The right label id of each example, or which labels are right, for a model with several relations a pair.
        labels (`Sequence[str]`): The labels in the order of their ids.
        negative (`str` or `None`): The label that stands for no relation.
        unasked (`np.ndarray`, *optional*):
            The `references` of further examples that are never answered: F1 counts their relations as missed.

    Returns:
        `dict[str, Any]`: `calibration_temperature`, `decision_threshold` (`None` if the most probable label does as
        well) and `relation_thresholds`, by label: those of relations with 10 examples or more (`ENOUGH`), if they
        raise the micro-F1.
    """
    several = references.ndim == 2
    temperature = (fit_sigmoid_temperature if several else fit_temperature)(logits, references)
    fields: dict[str, Any] = dict.fromkeys(("decision_threshold", "relation_thresholds"))
    fields["calibration_temperature"] = temperature
    if not several and negative is None:
        return fields
    scaled = logits.astype(np.float64) / temperature
    unasked = references[:0] if unasked is None else unasked
    if several:
        right = references.astype(bool)
        classes = np.broadcast_to(np.arange(len(labels)), right.shape).ravel()
        missed, plain = int(unasked.sum()), -1.0
        candidates = Candidates(expit(scaled).ravel(), right.ravel(), classes, right.sum(axis=0), missed)
    else:
        number = list(labels).index(str(negative))
        probabilities = softmax(scaled, axis=-1)
        candidates = relation_candidates(probabilities, references, number, int((unasked != number).sum()))
        plain = _plain_f1(probabilities, references, number, candidates.related)
    threshold = candidates.best_threshold()
    of_class = candidates.class_thresholds(threshold)
    every = np.full(len(labels), threshold)
    every[[*of_class]] = [*of_class.values()]
    if candidates.f1(every) > max(candidates.f1(threshold), plain):
        fields["relation_thresholds"] = {labels[number]: cut for number, cut in of_class.items()}
    if fields["relation_thresholds"] or candidates.f1(threshold) > plain:
        fields["decision_threshold"] = threshold
    return fields


def fit_sigmoid_temperature(logits: np.ndarray, references: np.ndarray) -> float:
    """
    The temperature t for which sigmoid(logits / t) has the least binary cross-entropy; see [`fit_temperature`].

    Args:
        logits (`np.ndarray` of shape `(examples, labels)`): Logits on development data.
        references (`np.ndarray` of shape `(examples, labels)`): Which labels are right.
    """
    signed = np.where(references > 0, logits, -logits).astype(np.float64)
    if (signed > 0).all():
        return 1.0
    best = best_temperature(lambda temperature: -log_expit(signed / temperature).mean())
    errors = [sigmoid_calibration_error(expit(logits / each), references) for each in (best, 1.0)]
    return best if errors[0] < errors[1] else 1.0


def sigmoid_calibration_error(probabilities: np.ndarray, references: np.ndarray) -> float:
    """
    The calibration error of the most probable relation of each example: whether it holds is answered by whichever of
    yes and no is more probable.

    Args:
        probabilities (`np.ndarray` of shape `(examples, labels)`): Probabilities, each for itself.
        references (`np.ndarray` of shape `(examples, labels)`): Which labels are right.
    """
    best = probabilities.argmax(axis=-1)[:, None]
    highest = np.take_along_axis(probabilities, best, axis=-1)[:, 0]
    holds = np.take_along_axis(references, best, axis=-1)[:, 0] > 0
    return calibration_gap(np.maximum(highest, 1 - highest), (highest >= 0.5) == holds)


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
