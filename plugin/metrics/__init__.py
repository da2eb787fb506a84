"""Metrics for the `evaluate` library that work offline, and submission files of shared tasks."""

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
    """
    Loads a metric of msattn. Unlike `evaluate.load`, it does not access the Hub.

    Args:
        name (`str`): `"semeval2010_task8"`, `"relation_classification"`, `"dependency_parsing"` or `"glue"`.
        config_name (`str`, *optional*): The GLUE task; required for `"glue"`.
        **kwargs: Keyword arguments of `evaluate.Metric`, such as `keep_in_memory`, `num_process` and `process_id`.

    Returns:
        `evaluate.Metric`: The metric.

    Raises:
        UserError: The metric or the GLUE task is unknown.

    Example:

    ```python
    >>> from msattn import metrics

    >>> metrics.load("glue", "sst2").compute(predictions=[0, 1], references=[0, 0])
    {'accuracy': 0.5}
    ```
    """
    if name not in METRICS:
        raise UserError(f"{name!r} is not a metric of msattn; choose from {', '.join(METRICS)}.")
    module = import_module(f".{name}.{name}", __name__)
    return getattr(module, METRICS[name])(config_name=config_name, **kwargs)
