"""The metrics of the nine GLUE tasks as an `evaluate` metric with one configuration per task."""

from __future__ import annotations

from collections.abc import Callable

import datasets
import evaluate
import numpy as np
from scipy import stats
from sklearn import metrics

from msattn.errors import UserError

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


def _accuracy(predictions: list, references: list) -> dict[str, float]:
    return {"accuracy": float(metrics.accuracy_score(references, predictions))}


def _accuracy_and_f1(predictions: list, references: list) -> dict[str, float]:
    f1 = float(metrics.f1_score(references, predictions, zero_division=0))
    return {**_accuracy(predictions, references), "f1": f1}


def _matthews(predictions: list, references: list) -> dict[str, float]:
    return {"matthews_correlation": float(metrics.matthews_corrcoef(references, predictions))}


def _correlations(predictions: list, references: list) -> dict[str, float]:
    if np.ptp(predictions) == 0 or np.ptp(references) == 0:
        return {"pearson": 0.0, "spearmanr": 0.0}
    return {
        "pearson": float(stats.pearsonr(predictions, references)[0]),
        "spearmanr": float(stats.spearmanr(predictions, references)[0]),
    }


TASKS: dict[str, Callable[[list, list], dict[str, float]]] = {
    "cola": _matthews,
    "ax": _matthews,
    "sst2": _accuracy,
    "mrpc": _accuracy_and_f1,
    "qqp": _accuracy_and_f1,
    "stsb": _correlations,
    **dict.fromkeys(("mnli", "mnli_matched", "mnli_mismatched", "qnli", "rte", "wnli"), _accuracy),
}


class Glue(evaluate.Metric):
    """The metrics of the GLUE task `config_name`."""

    def _info(self) -> evaluate.MetricInfo:
        if self.config_name not in TASKS:
            raise UserError(f"config_name={self.config_name!r} is not a GLUE task; choose from {', '.join(TASKS)}.")
        kind = "float64" if self.config_name == "stsb" else "int64"
        return evaluate.MetricInfo(
            description=DESCRIPTION,
            citation=CITATION,
            inputs_description=INPUTS,
            features=datasets.Features({"predictions": datasets.Value(kind), "references": datasets.Value(kind)}),
            reference_urls=["https://gluebenchmark.com"],
        )

    def _compute(self, predictions: list, references: list) -> dict[str, float]:
        return TASKS[self.config_name](predictions, references)
