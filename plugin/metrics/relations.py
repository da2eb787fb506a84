"""Scores of single-label relation classification: Wiki80, TACRED, FewRel and others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from msattn.errors import UserError, extra

with extra("train"):
    from sklearn import metrics

NAMES = ("precision", "recall", "f1")


def score_relations(
    predictions: Sequence,
    references: Sequence,
    negative_label: str | int | None = None,
    scores: Any = None,
    labels: Sequence[str | int] | None = None,
) -> dict[str, Any]:
    """
    Accuracy over all classes, precision, recall and F1 over the relations, and the area under the precision-recall
    curve.

    Args:
        predictions (`Sequence`): Label names or class ids.
        references (`Sequence`): Label names or class ids.
        negative_label (`str` or `int`, *optional*):
            The class for no relation, such as `"no_relation"`, `"Other"` or `"NA"`. It counts for the accuracy only.
            Default: every class is a relation.
        scores (`np.ndarray` of shape `(examples, classes)`, *optional*): Probabilities.
        labels (`Sequence`, *optional*):
            The class of each column of `scores`. Required for label names; default 0, 1, 2, ... for class ids.

    Returns:
        `dict[str, Any]`: From 0 to 1:

        - `accuracy`: over all classes.
        - `precision`, `recall`, `f1`: micro-averaged over the relations; without a negative class they equal the
          accuracy.
        - `macro_precision`, `macro_recall`, `macro_f1`: averaged over the relations that occur in predictions or
          references.
        - `auc`: only with `scores`. The area under the precision-recall curve of all (example, relation) pairs, ranked
          by probability, by the trapezoidal rule, as in OpenNRE, but from a recall of 0 on: a perfect model has 1.
          With several relations a pair, scripts give the average precision under this name.
        - `relations`: precision, recall, f1 and support of each class, including the negative one.

    Raises:
        UserError: There is nothing to score, predictions and references differ in number, `negative_label` is not of
            the kind of the references, or `scores` and `labels` do not fit them.
    """
    predictions, references = [*predictions], [*references]
    if not references or len(predictions) != len(references):
        raise UserError(
            f"there are {len(predictions)} predictions for {len(references)} references; give one each, and at least "
            "one."
        )
    if negative_label is not None and isinstance(negative_label, str) != isinstance(references[0], str):
        raise UserError(f"negative_label={negative_label!r} is not of the kind of {references[0]!r}, a reference.")
    classes = sorted(set(references) | set(predictions))
    relations = [label for label in classes if label != negative_label]
    micro, macro, each = (
        _scores(references, predictions, kept, average)
        for kept, average in ((relations, "micro"), (relations, "macro"), (classes, None))
    )
    result = {
        "accuracy": float(metrics.accuracy_score(references, predictions)),
        **{name: float(value) for name, value in zip(NAMES, micro, strict=True)},
        **{f"macro_{name}": float(value) for name, value in zip(NAMES, macro, strict=True)},
    }
    if scores is not None:
        result["auc"] = _area(np.asarray(scores), references, negative_label, labels)
    per_relation = {
        label: {
            **{name: float(value) for name, value in zip(NAMES, values, strict=True)},
            "support": references.count(label),
        }
        for label, *values in zip(classes, *each, strict=True)
    }
    return {**result, "relations": per_relation}


def _scores(references: Sequence, predictions: Sequence, labels: list, average: str | None) -> tuple:
    if not labels:
        return 0.0, 0.0, 0.0  # only the negative class occurs
    return metrics.precision_recall_fscore_support(
        references, predictions, labels=labels, average=average, zero_division=0
    )[:3]


def _area(
    scores: np.ndarray, references: Sequence, negative_label: str | int | None, labels: Sequence[str | int] | None
) -> float:
    if scores.ndim != 2 or len(scores) != len(references):
        raise UserError(f"scores must be of shape ({len(references)}, classes), not {scores.shape}.")
    labels = list(range(scores.shape[1]) if labels is None else labels)
    if len(labels) != scores.shape[1]:
        raise UserError(f"labels must name the {scores.shape[1]} columns of scores, not {len(labels)}.")
    unknown = sorted(set(references) - set(labels) - {negative_label})
    if unknown:
        raise UserError(f"labels must name the columns of scores: {unknown[0]!r} is among the references only.")
    columns = [index for index, label in enumerate(labels) if label != negative_label]
    true = np.array([[reference == labels[index] for index in columns] for reference in references]).ravel()
    if true.sum() == 0 or len(true) < 2:
        return 0.0
    ranked = true[np.argsort(-scores[:, columns].ravel(), kind="stable")]
    hits = ranked.cumsum()
    recall, precision = hits / hits[-1], hits / np.arange(1, len(hits) + 1)
    return float(metrics.auc([0, *recall], [precision[0], *precision]))
