"""Metrics of sentence classification and regression, from the outputs of a model."""

from __future__ import annotations

import numpy as np
from transformers import EvalPrediction

from msattn.errors import extra
from msattn.metrics.baselines import most_frequent
from msattn.metrics.glue_scores import score_glue

with extra("train"):
    from sklearn.metrics import accuracy_score, f1_score, mean_squared_error


def sentence_answers(logits: np.ndarray, regression: bool) -> np.ndarray:
    """The class ids or scores `(examples,)` that logits `(examples, labels)` stand for."""
    return logits[:, 0] if regression else logits.argmax(axis=-1)


def sentence_metrics(prediction: EvalPrediction, task: str | None, regression: bool = False) -> dict[str, float]:
    """
    The metrics of a GLUE task, or of other classification and regression data, in percent but for the `mse`.

    GLUE metrics have the names of the library `evaluate`; `combined_score` is their mean if there are several. Without
    a task: accuracy and macro-F1 over all classes. Beside an accuracy, that of always naming the most frequent class
    is `majority_accuracy`. For regression: Pearson and Spearman correlation, their mean and the mean squared error.

    Args:
        prediction (`EvalPrediction`): Logits of shape `(examples, labels)` and label ids or scores `(examples,)`.
        task (`str` or `None`): The GLUE task.
        regression (`bool`, *optional*, defaults to `False`): Whether the labels are scores.
    """
    answers = sentence_answers(prediction.predictions, regression)
    references = prediction.label_ids
    if task is None and not regression:
        # Over all classes of the model: one that neither data nor answers have counts as 0.
        classes = range(prediction.predictions.shape[-1])
        return {
            "accuracy": 100 * float(accuracy_score(references, answers)),
            "macro_f1": 100 * float(f1_score(references, answers, labels=classes, average="macro", zero_division=0)),
            "majority_accuracy": most_frequent(references.tolist())[1],
        }
    scores = score_glue(task or "stsb", answers, references)
    values = {name: 100 * score for name, score in scores.items()}
    if len(values) > 1:
        values["combined_score"] = float(np.mean(list(values.values())))
    if "accuracy" in values:
        values["majority_accuracy"] = most_frequent(references.tolist())[1]
    if task is None:
        values["mse"] = float(mean_squared_error(references, answers))
    return values
