"""Single-label relation classification (Wiki80, TACRED, FewRel and others) as an `evaluate` metric."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import datasets
import evaluate
import numpy as np
from sklearn import metrics

from msattn.errors import UserError

DESCRIPTION = """
Accuracy over all classes; precision, recall and F1 over the relations, without a negative class such as "no_relation";
and, given probabilities, the area under the precision-recall curve.
"""

INPUTS = """
Args:
    predictions: label names or class ids.
    references: label names or class ids.
    negative_label: the class for no relation, such as "no_relation", "Other" or "NA". It counts for the accuracy
        only. Default: every class is a relation.
    scores: an array of probabilities, of shape (examples, classes).
    labels: the class of each column of `scores`. Required for label names; default 0, 1, 2, ... for class ids.
Returns, from 0 to 1:
    accuracy: over all classes.
    precision, recall, f1: micro-averaged over the relations; without a negative class they equal the accuracy.
    macro_f1, macro_precision, macro_recall: averaged over the relations that occur in predictions or references.
    auc: only with `scores`. The area under the precision-recall curve of all (example, relation) pairs, ranked by
        probability, by the trapezoidal rule from the first rank on, as in OpenNRE.
    relations: precision, recall, f1 and support of each class, including the negative one.
"""

NAMES = ("precision", "recall", "f1")


class RelationClassification(evaluate.Metric):
    """Accuracy, micro-F1 and macro-F1 without the negative class, and AUC."""

    def _info(self) -> evaluate.MetricInfo:
        kinds = (datasets.Value("string"), datasets.Value("int64"))
        return evaluate.MetricInfo(
            description=DESCRIPTION,
            citation="",
            inputs_description=INPUTS,
            features=[datasets.Features({"predictions": kind, "references": kind}) for kind in kinds],
        )

    def _infer_feature_from_batch(self, batch: dict[str, Any]) -> datasets.Features:
        if not all(map(len, batch.values())):
            raise UserError("predictions and references must not be empty.")
        return super()._infer_feature_from_batch(batch)

    def _compute(
        self,
        predictions: list,
        references: list,
        negative_label: str | int | None = None,
        scores: Any = None,
        labels: Sequence[str | int] | None = None,
    ) -> dict[str, Any]:
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


def _scores(references: list, predictions: list, labels: list, average: str | None) -> tuple:
    if not labels:
        return 0.0, 0.0, 0.0  # only the negative class occurs
    return metrics.precision_recall_fscore_support(
        references, predictions, labels=labels, average=average, zero_division=0
    )[:3]


def _area(
    scores: np.ndarray, references: list, negative_label: str | int | None, labels: Sequence[str | int] | None
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
    return float(metrics.auc(hits / hits[-1], hits / np.arange(1, len(hits) + 1)))
