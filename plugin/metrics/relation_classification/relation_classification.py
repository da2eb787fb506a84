"""Single-label relation classification (Wiki80, TACRED, FewRel, one's own data) as an `evaluate` metric."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import datasets
import evaluate
import numpy as np
from sklearn import metrics

from msattn.errors import UserError

DESCRIPTION = """
Accuracy over all classes; precision, recall and F1 over the relations alone, where one class says that there is none;
the area under the precision-recall curve where probabilities are given.
"""

INPUTS = """
Args:
    predictions: label names or class numbers.
    references: label names or class numbers.
    negative_label: the class that is no relation, such as "no_relation", "Other" or "NA". It takes part in the
        accuracy only. Default: every class is a relation.
    scores: an array (examples, classes) of probabilities.
    labels: the class of each column of `scores`; needed for label names, default 0, 1, 2, ... for class numbers.
Returns, as fractions of 1:
    accuracy.
    precision, recall, f1: micro-averaged over the relations; without a negative class they equal the accuracy.
    macro_f1, macro_precision, macro_recall: averaged over the relations that occur in predictions or references.
    auc: only with `scores`. All (example, relation) pairs are ranked together by probability; precision and recall
        after each rank make the curve, and the trapezoidal rule its area, from the first rank on, as in OpenNRE.
    relations: precision, recall, f1 and support of each class, the negative one included.
"""

NAMES = ("precision", "recall", "f1")


class RelationClassification(evaluate.Metric):
    """Accuracy, micro and macro F1 without a negative class, and AUC."""

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
        return 0.0, 0.0, 0.0  # Nothing but the negative class: there is no relation to find.
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
