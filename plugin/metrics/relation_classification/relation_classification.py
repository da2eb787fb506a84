"""Single-label relation classification (Wiki80, TACRED, FewRel and others) as an `evaluate` metric."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import datasets
import evaluate

from msattn.errors import UserError
from msattn.metrics.relations import score_relations

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
        return score_relations(predictions, references, negative_label, scores, labels)
