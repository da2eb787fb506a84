"""The scores of the nine GLUE tasks, under the names of the Hub's metric `glue`."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from msattn.errors import UserError, extra

with extra("train"):
    from scipy import stats
    from sklearn import metrics

# Class ids, or scores.
Values = Sequence | np.ndarray


def score_glue(task: str, predictions: Values, references: Values) -> dict[str, float]:
    """
    The scores of a GLUE task.

    Args:
        task (`str`): The task, such as `"sst2"` or `"mnli_matched"`.
        predictions (`Sequence`): Class ids, or scores for `"stsb"`.
        references (`Sequence`): Class ids, or scores for `"stsb"`.

    Returns:
        `dict[str, float]`: `matthews_correlation` for `"cola"` and `"ax"`; `accuracy` and `f1` (of class 1) for
        `"mrpc"` and `"qqp"`; `pearson` and `spearmanr` for `"stsb"`; `accuracy` for the others. Correlations are 0.0
        if all predictions or all references are equal.

    Raises:
        UserError: The task is unknown, there is nothing to score, or predictions and references differ in number.

    Example:

    ```python
    >>> from msattn.metrics import score_glue

    >>> score_glue("sst2", predictions=[0, 1], references=[0, 0])
    {'accuracy': 0.5}
    ```
    """
    if task not in GLUE_SCORES:
        raise UserError(f"{task!r} is not a GLUE task; choose from {', '.join(GLUE_SCORES)}.")
    if not len(references) or len(predictions) != len(references):
        raise UserError(
            f"there are {len(predictions)} predictions for {len(references)} references; give one each, and at least "
            "one."
        )
    return GLUE_SCORES[task](predictions, references)


def _accuracy(predictions: Values, references: Values) -> dict[str, float]:
    return {"accuracy": float(metrics.accuracy_score(references, predictions))}


def _accuracy_and_f1(predictions: Values, references: Values) -> dict[str, float]:
    f1 = float(metrics.f1_score(references, predictions, zero_division=0))
    return {**_accuracy(predictions, references), "f1": f1}


def _matthews(predictions: Values, references: Values) -> dict[str, float]:
    return {"matthews_correlation": float(metrics.matthews_corrcoef(references, predictions))}


def _correlations(predictions: Values, references: Values) -> dict[str, float]:
    found, true = (np.asarray(values, dtype=np.float64) for values in (predictions, references))
    if np.ptp(found) == 0 or np.ptp(true) == 0:
        return {"pearson": 0.0, "spearmanr": 0.0}
    return {
        "pearson": float(stats.pearsonr(found, true)[0]),
        "spearmanr": float(stats.spearmanr(found, true)[0]),
    }


GLUE_SCORES: dict[str, Callable[[Values, Values], dict[str, float]]] = {
    "cola": _matthews,
    "ax": _matthews,
    "sst2": _accuracy,
    "mrpc": _accuracy_and_f1,
    "qqp": _accuracy_and_f1,
    "stsb": _correlations,
    **dict.fromkeys(("mnli", "mnli_matched", "mnli_mismatched", "qnli", "rte", "wnli"), _accuracy),
}
