"""Metrics in the form of the `evaluate` library that need no network, and the files that shared tasks take."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from msattn.errors import UserError
from msattn.metrics.semeval import SEMEVAL_LABELS, score_semeval, score_semeval_answers
from msattn.metrics.submissions import read_semeval_answers, write_glue_submission, write_semeval_answers

if TYPE_CHECKING:
    import evaluate

METRICS = {
    "semeval2010_task8": "SemEval2010Task8",
    "relation_classification": "RelationClassification",
    "dependency_parsing": "DependencyParsing",
    "glue": "Glue",
}

__all__ = [
    "METRICS",
    "SEMEVAL_LABELS",
    "load",
    "read_semeval_answers",
    "score_semeval",
    "score_semeval_answers",
    "write_glue_submission",
    "write_semeval_answers",
]


def load(name: str, config_name: str | None = None, **kwargs: Any) -> evaluate.Metric:
    """Load one of this package's metrics; unlike `evaluate.load`, it never asks the Hub and copies no script.

    Args:
        name: `"semeval2010_task8"`, `"relation_classification"`, `"dependency_parsing"` or `"glue"`.
        config_name: the GLUE task.
        **kwargs: what `evaluate.Metric` takes, such as `keep_in_memory` or `num_process` and `process_id`.

    Raises:
        UserError: there is no such metric, or no such GLUE task.
    """
    if name not in METRICS:
        raise UserError(f"{name!r} is not a metric of msattn; choose from {', '.join(METRICS)}.")
    module = import_module(f".{name}.{name}", __name__)
    return getattr(module, METRICS[name])(config_name=config_name, **kwargs)
