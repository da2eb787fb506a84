"""Answers, metrics and reports of relation extraction."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from transformers import EvalPrediction

from msattn.errors import extra
from msattn.metrics import SEMEVAL_LABELS, score_semeval
from msattn.metrics.baselines import most_frequent
from msattn.metrics.calibration import decide, expected_calibration_error
from msattn.metrics.relations import score_relations
from msattn.metrics.report_tables import label_report

with extra("train"):
    from scipy.special import softmax
    from sklearn.metrics import confusion_matrix, f1_score


def temperature_and_threshold(config: Any) -> tuple[float, float | None]:
    """The temperature and the decision threshold of a configuration; 1 and `None` before calibration."""
    return getattr(config, "calibration_temperature", None) or 1.0, getattr(config, "decision_threshold", None)


def answers_of(
    logits: np.ndarray,
    labels: Sequence[str],
    negative: str | None,
    temperature: float = 1.0,
    threshold: float | None = None,
) -> tuple[np.ndarray, list[str]]:
    """
    Probabilities, and the label of each example.

    Args:
        logits (`np.ndarray` of shape `(examples, labels)`): The outputs of the model.
        labels (`Sequence[str]`): The labels in the order of their ids.
        negative (`str` or `None`): The label of no relation.
        temperature (`float`, *optional*, defaults to 1.0): The logits are divided by it.
        threshold (`float`, *optional*): The decision threshold; see [`~msattn.metrics.calibration.decide`].

    Returns:
        `tuple[np.ndarray, list[str]]`: Probabilities of shape `(examples, labels)`, and labels.
    """
    probabilities = softmax(logits.astype(np.float64) / temperature, axis=-1)
    number = None if negative is None else list(labels).index(negative)
    return probabilities, np.asarray(labels)[decide(probabilities, number, threshold)].tolist()


def relation_metrics(
    prediction: EvalPrediction,
    labels: Sequence[str],
    negative: str | None,
    temperature: float = 1.0,
    threshold: float | None = None,
) -> dict[str, float]:
    """
    Accuracy, micro-F1, macro-F1 over all relations, the area under the precision-recall curve and the expected
    calibration error, in percent.

    `f1` is the official macro-F1 for the labels of SemEval-2010 Task 8, and the micro-F1 for all others.
    `majority_accuracy` and `majority_f1` are those of always naming the most frequent label, or relation. For a
    calibrated model, `uncalibrated_f1` and `uncalibrated_ece` are those without temperature and threshold.

    Args:
        prediction (`EvalPrediction`): Logits of shape `(examples, labels)` and label ids `(examples,)`.
        labels (`Sequence[str]`): The labels in the order of their ids.
        negative (`str` or `None`): The label of no relation, which micro-F1 and macro-F1 ignore.
        temperature (`float`, *optional*, defaults to 1.0): See [`answers_of`].
        threshold (`float`, *optional*): See [`answers_of`].
    """
    logits, numbers = prediction.predictions, prediction.label_ids
    references = np.asarray(labels)[numbers].tolist()
    probabilities, answers = answers_of(logits, labels, negative, temperature, threshold)
    relations = [label for label in labels if label != negative]
    general = score_relations(answers, references, negative, probabilities, labels)
    values = {
        "accuracy": general["accuracy"],
        "micro_f1": general["f1"],
        "macro_f1": float(f1_score(references, answers, labels=relations, average="macro", zero_division=0)),
        "auc": general["auc"],
        "ece": expected_calibration_error(probabilities, numbers),
    }
    percent = {name: 100 * value for name, value in values.items()}
    unrelated = [answer for answer, reference in zip(answers, references, strict=True) if reference == negative]
    if negative is not None and unrelated:
        percent["false_positives"] = 100 * sum(answer != negative for answer in unrelated) / len(unrelated)
    relation = most_frequent(references, but=negative)[0] or negative
    percent["majority_accuracy"] = most_frequent(references)[1]
    percent["f1"] = _f1(answers, references, labels, negative)
    percent["majority_f1"] = _f1([relation] * len(references), references, labels, negative)
    if temperature != 1 or threshold is not None:
        plain = relation_metrics(prediction, labels, negative)
        percent |= {f"uncalibrated_{name}": plain[name] for name in ("f1", "ece")}
    return percent


def _f1(answers: Sequence, references: Sequence, labels: Sequence[str], negative: str | None) -> float:
    """The official macro-F1 for the labels of SemEval-2010 Task 8, else the micro-F1, in percent."""
    if set(labels) <= set(SEMEVAL_LABELS):
        return score_semeval(answers, references).official.macro[2]
    return 100 * score_relations(answers, references, negative)["f1"]


def relation_report(answers: Sequence[str], references: Sequence[str], negative: str | None) -> str:
    """In percent: precision, recall and F1 of each label, and the micro-F1 without the label of no relation."""
    labels = sorted({*answers, *references})
    report = label_report(references, answers, labels, labels)
    relations = [label for label in labels if label != negative]
    if negative is None or not relations:
        return f"{report}\nNo label stands for no relation.\n" if negative is None else report
    f1 = score_relations(answers, references, negative)["f1"]
    return f"{report}\nMicro-F1 without {negative}, the label of no relation: {100 * f1:.2f}\n"


def confusion_table(answers: Sequence[str], references: Sequence[str]) -> str:
    """A table of tab-separated values: gold labels in rows, predicted ones in columns."""
    labels = sorted({*answers, *references})
    counts = confusion_matrix(references, answers, labels=labels)
    rows = [["gold \\ predicted", *labels], *([label, *row] for label, row in zip(labels, counts, strict=True))]
    return "".join("\t".join(map(str, row)) + "\n" for row in rows)
