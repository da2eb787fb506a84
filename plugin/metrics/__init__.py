"""Metrics as plain functions, and as metrics of the library `evaluate` that work offline."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import evaluate

    from msattn.metrics.calibration import expected_calibration_error
    from msattn.metrics.glue_scores import score_glue
    from msattn.metrics.parsing import score_trees
    from msattn.metrics.ranking import score_ranking
    from msattn.metrics.relations import score_relations
    from msattn.metrics.semeval import SEMEVAL_LABELS, score_semeval
    from msattn.metrics.tagging import score_tags

# The names of each module, imported on first use: most need packages of the extra `train`.
_NAMES = {
    "calibration": "expected_calibration_error",
    "glue_scores": "score_glue",
    "parsing": "score_trees",
    "ranking": "score_ranking",
    "relations": "score_relations",
    "semeval": "SEMEVAL_LABELS score_semeval",
    "tagging": "score_tags",
}
_MODULE_OF = {name: module for module, names in _NAMES.items() for name in names.split()}
__all__ = [
    "expected_calibration_error",
    "load",
    "score_glue",
    "score_ranking",
    "score_relations",
    "score_semeval",
    "score_tags",
    "score_trees",
]


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'msattn.metrics' has no attribute {name!r}")
    return getattr(import_module(f"msattn.metrics.{_MODULE_OF[name]}"), name)


def __dir__() -> list[str]:
    return __all__


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
    from msattn.metrics.evaluate_metric import MsattnMetric

    return MsattnMetric(config_name=config_name if name == "glue" else name, **kwargs)
