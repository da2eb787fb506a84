"""The scores of the nine GLUE tasks, under the names of the Hub's metric `glue`."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from msattn.errors import UserError, extra

with extra("train"):
    from scipy import stats
    from sklearn.metrics import f1_score, matthews_corrcoef

GLUE_SCORES = tuple("cola sst2 mrpc stsb qqp mnli mnli_matched mnli_mismatched ax qnli rte wnli".split())
"""The tasks that have scores."""


def score_glue(task: str, predictions: Sequence | np.ndarray, references: Sequence | np.ndarray) -> dict[str, float]:
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
    found, true = np.asarray(predictions), np.asarray(references)
    if task == "stsb":
        if np.ptp(found) == 0 or np.ptp(true) == 0:
            return {"pearson": 0.0, "spearmanr": 0.0}
        found, true = found.astype(np.float64), true.astype(np.float64)
        correlations = {"pearson": stats.pearsonr, "spearmanr": stats.spearmanr}
        return {name: float(correlation(found, true)[0]) for name, correlation in correlations.items()}
    if task in ("cola", "ax"):
        return {"matthews_correlation": float(matthews_corrcoef(true, found))}
    scores = {"accuracy": float((found == true).mean())}
    if task in ("mrpc", "qqp"):
        scores["f1"] = float(f1_score(true, found, zero_division=0))
    return scores
