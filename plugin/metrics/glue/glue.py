"""The metrics of the nine GLUE tasks as an `evaluate` metric with one configuration per task."""

from __future__ import annotations

import datasets
import evaluate

from msattn.errors import UserError
from msattn.metrics.glue_scores import GLUE_SCORES, score_glue

DESCRIPTION = """
GLUE, the General Language Understanding Evaluation: the metrics of each task, under the names of the metric `glue` on
the Hub, but available offline.
"""

INPUTS = """
Args:
    predictions: class ids, or scores for stsb.
    references: class ids, or scores for stsb.
Returns:
    cola, ax: matthews_correlation. mrpc, qqp: accuracy and f1 of class 1. stsb: pearson and spearmanr.
    sst2, mnli, mnli_matched, mnli_mismatched, qnli, rte, wnli: accuracy.
    Correlations are 0.0 if all predictions or all references are equal.
"""

CITATION = """
@inproceedings{wang2019glue,
    title = {{GLUE}: A Multi-Task Benchmark and Analysis Platform for Natural Language Understanding},
    author = {Wang, Alex and Singh, Amanpreet and Michael, Julian and Hill, Felix and Levy, Omer and
      Bowman, Samuel R.},
    booktitle = {International Conference on Learning Representations},
    year = {2019},
}
"""


class Glue(evaluate.Metric):
    """The metrics of the GLUE task `config_name`."""

    def _info(self) -> evaluate.MetricInfo:
        if self.config_name not in GLUE_SCORES:
            raise UserError(
                f"config_name={self.config_name!r} is not a GLUE task; choose from {', '.join(GLUE_SCORES)}."
            )
        kind = "float64" if self.config_name == "stsb" else "int64"
        return evaluate.MetricInfo(
            description=DESCRIPTION,
            citation=CITATION,
            inputs_description=INPUTS,
            features=datasets.Features({"predictions": datasets.Value(kind), "references": datasets.Value(kind)}),
            reference_urls=["https://gluebenchmark.com"],
        )

    def _compute(self, predictions: list, references: list) -> dict[str, float]:
        return score_glue(self.config_name, predictions, references)
