"""SemEval-2010 Task 8 as an `evaluate` metric."""

from __future__ import annotations

from typing import Any

import datasets
import evaluate

from msattn.metrics.semeval import score_semeval

DESCRIPTION = """
The official score of SemEval-2010 Task 8 (multi-way classification of semantic relations between pairs of nominals):
macro-averaged F1 over the nine relations, without Other. A wrong direction is an error.
"""

INPUTS = """
Args:
    predictions: label names, such as "Cause-Effect(e1,e2)" or "Other".
    references: label names.
Returns, in percent:
    f1, precision, recall: the official evaluation, (9+1)-way with directionality, macro-averaged without Other.
    accuracy: over the 19 labels.
    micro_f1, micro_precision, micro_recall: micro-averaged without Other.
    relations: precision, recall, f1 and support of each relation and Other.
    directed, undirected: the same scores for (2*9+1)-way evaluation, and for (9+1)-way evaluation ignoring
        directionality.
"""

CITATION = """
@inproceedings{hendrickx-etal-2010-semeval,
    title = "{S}em{E}val-2010 Task 8: Multi-Way Classification of Semantic Relations between Pairs of Nominals",
    author = "Hendrickx, Iris and Kim, Su Nam and Kozareva, Zornitsa and Nakov, Preslav and {\\'O} S{\\'e}aghdha,
      Diarmuid and Pad{\\'o}, Sebastian and Pennacchiotti, Marco and Romano, Lorenza and Szpakowicz, Stan",
    booktitle = "Proceedings of the 5th International Workshop on Semantic Evaluation",
    year = "2010",
}
"""


class SemEval2010Task8(evaluate.Metric):
    """Official macro-F1 of SemEval-2010 Task 8."""

    def _info(self) -> evaluate.MetricInfo:
        return evaluate.MetricInfo(
            description=DESCRIPTION,
            citation=CITATION,
            inputs_description=INPUTS,
            features=datasets.Features(
                {"predictions": datasets.Value("string"), "references": datasets.Value("string")}
            ),
            reference_urls=["https://aclanthology.org/S10-1006/"],
        )

    def _compute(self, predictions: list[str], references: list[str]) -> dict[str, Any]:
        scores = score_semeval(predictions, references)
        relations = {
            label.lstrip("_"): {"precision": row.precision, "recall": row.recall, "f1": row.f1, "support": row.actual}
            for label, row in scores.official.relations.items()
        }
        return {
            **scores.official.as_dict(),
            "relations": relations,
            "directed": scores.directed.as_dict(),
            "undirected": scores.undirected.as_dict(),
        }
