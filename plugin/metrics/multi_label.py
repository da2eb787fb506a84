"""Scores and reports of several relations a pair."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from msattn.errors import extra
from msattn.metrics.calibration import sigmoid_calibration_error
from msattn.metrics.report_tables import found_report

with extra("train"):
    from sklearn.metrics import average_precision_score, precision_recall_fscore_support


def score_multi_label(answers: np.ndarray, references: np.ndarray, probabilities: np.ndarray) -> dict[str, float]:
    """
    Scores of pairs that may have several relations, or none, in percent.

    Args:
        answers (`np.ndarray` of shape `(pairs, labels)`): Which relations are answered.
        references (`np.ndarray` of shape `(pairs, labels)`): Which are right.
        probabilities (`np.ndarray` of shape `(pairs, labels)`): Their probabilities.

    Returns:
        `dict[str, float]`: `precision`, `recall`, `f1` and `micro_f1` over pairs and relations; `macro_f1`, the mean
        over all relations; `accuracy`, the share of pairs whose relations are all right; `auc`, the average
        precision of pairs and relations, a sum of steps where [`~msattn.metrics.score_relations`] has trapezoids;
        `ece`, see [`~msattn.metrics.calibration.sigmoid_calibration_error`]; and `false_positives`, the share of the
        pairs without a relation that get one, if there are such pairs.
    """
    references = references.astype(bool)
    # scikit-learn takes a single column for two classes.
    single = [True] if references.shape[1] == 1 else None
    micro, macro = (
        precision_recall_fscore_support(references, answers, labels=single, average=average, zero_division=0)[:3]
        for average in ("micro", "macro")
    )
    unrelated = ~references.any(axis=1)
    scores = {
        "f1": micro[2],
        "precision": micro[0],
        "recall": micro[1],
        "accuracy": (answers == references).all(axis=1).mean(),
        "micro_f1": micro[2],
        "macro_f1": macro[2],
        "auc": average_precision_score(references.ravel(), probabilities.ravel()) if references.any() else 0.0,
        "ece": sigmoid_calibration_error(probabilities, references),
        **({"false_positives": answers[unrelated].any(axis=1).mean()} if unrelated.any() else {}),
    }
    return {name: 100 * float(value) for name, value in scores.items()}


def multi_label_report(answers: Sequence[list[str]], references: Sequence[list[str]], labels: Sequence[str]) -> str:
    """In percent: precision, recall and F1 of each relation that occurs, and their averages."""
    truth, given = (
        {(pair, name) for pair, each in enumerate(sets) for name in each} for sets in (references, answers)
    )
    occurring = {name for _, name in truth | given}
    names = [name for name in labels if name in occurring]
    report = found_report(truth, given, names) if names else ""
    without = sum(not each for each in references)
    wrong = sum(bool(answer) for answer, reference in zip(answers, references, strict=True) if not reference)
    return f"{report}\n{wrong} of {without} pairs without a relation get one.\n"
