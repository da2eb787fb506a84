"""
The scores of msattn as a metric of the library `evaluate`, with a configuration for each.

`msattn.metrics.load` makes it; `evaluate.load("<this file>", "sst2")` does, too.
"""

from __future__ import annotations

import inspect
from functools import partial
from typing import Any

import datasets
import evaluate

from msattn.errors import UserError
from msattn.metrics.glue_scores import GLUE_SCORES, score_glue
from msattn.metrics.parsing import score_trees
from msattn.metrics.relations import score_relations
from msattn.metrics.semeval import score_semeval


def _trees(predictions: list[dict[str, Any]], references: list[dict[str, Any]]) -> dict[str, float]:
    found, true = ([(tree["heads"], tree["relations"]) for tree in trees] for trees in (predictions, references))
    return score_trees(found, true)


TEXT, NUMBER, SCORE = (datasets.Value(kind) for kind in ("string", "int64", "float64"))
TREE = {"heads": datasets.List(datasets.Value("int32")), "relations": datasets.List(TEXT)}
# By configuration: the plain function with the documentation, what is called, and the types of an answer.
CONFIGURATIONS: dict[str, tuple[Any, Any, list]] = {
    "semeval2010_task8": (score_semeval, score_semeval, [TEXT]),
    "relation_classification": (score_relations, score_relations, [TEXT, NUMBER]),
    "dependency_parsing": (score_trees, _trees, [TREE]),
    **{task: (score_glue, partial(score_glue, task), [SCORE if task == "stsb" else NUMBER]) for task in GLUE_SCORES},
}


class MsattnMetric(evaluate.Metric):
    """One of the `CONFIGURATIONS`."""

    def _info(self) -> evaluate.MetricInfo:
        if self.config_name not in CONFIGURATIONS:
            raise UserError(
                f"{self.config_name!r} is not a metric of msattn; choose from {', '.join(CONFIGURATIONS)}."
            )
        function, _, kinds = CONFIGURATIONS[self.config_name]
        description = inspect.getdoc(function) or ""
        features = [datasets.Features({"predictions": kind, "references": kind}) for kind in kinds]
        return evaluate.MetricInfo(
            description=description,
            citation="",
            inputs_description=description[description.find("Args:") :],
            features=features if len(features) > 1 else features[0],
        )

    def _compute(self, predictions: list, references: list, **options: Any) -> dict[str, Any]:
        return CONFIGURATIONS[self.config_name][1](predictions, references, **options)
