"""Answers, metrics and reports of relation extraction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from transformers import EvalPrediction

from msattn.errors import extra
from msattn.metrics import SEMEVAL_LABELS, score_semeval
from msattn.metrics.baselines import most_frequent
from msattn.metrics.calibration import decide, expected_calibration_error
from msattn.metrics.multi_label import score_multi_label
from msattn.metrics.relations import score_relations
from msattn.metrics.report_tables import label_report

with extra("train"):
    from scipy.special import expit, softmax
    from sklearn.metrics import f1_score

# The `problem_type` of a configuration whose pairs may have several relations.
MULTI_LABEL = "multi_label_classification"


@dataclass(frozen=True)
class RelationAnswers:
    """
    Turns logits into answers.

    Args:
        labels (`Sequence[str]`): The labels in the order of their ids.
        negative (`str` or `None`): The label of no relation. It is one of the labels, unless a pair has several.
        several (`bool`, *optional*, defaults to `False`): Whether a pair may have several relations (sigmoids).
        temperature (`float`, *optional*, defaults to 1.0): The logits are divided by it.
        threshold (`float`, *optional*): The decision threshold; see [`~msattn.metrics.calibration.decide`].
        thresholds (`Mapping[str, float]`, *optional*): Those of single relations.
    """

    labels: Sequence[str]
    negative: str | None
    several: bool = False
    temperature: float = 1.0
    threshold: float | None = None
    thresholds: Mapping[str, float] = field(default_factory=dict)

    def fitted(self, fields: Mapping[str, Any]) -> RelationAnswers:
        """With the temperature and the thresholds among the fields of a configuration."""
        return replace(
            self,
            temperature=fields.get("calibration_temperature") or 1.0,
            threshold=fields.get("decision_threshold"),
            thresholds=fields.get("relation_thresholds") or {},
        )

    def probabilities(self, logits: np.ndarray) -> np.ndarray:
        """Of logits, both of shape `(examples, labels)`."""
        scaled = logits.astype(np.float64) / self.temperature
        return expit(scaled) if self.several else softmax(scaled, axis=-1)

    def chosen(self, probabilities: np.ndarray) -> np.ndarray:
        """The label id of each example, `(examples,)`; booleans `(examples, labels)` for several relations a pair."""
        cuts = None
        if self.several or self.threshold is not None:
            every = 0.5 if self.threshold is None else self.threshold
            cuts = np.array([self.thresholds.get(label, every) for label in self.labels])
        if self.several:
            return probabilities >= cuts
        return decide(probabilities, None if self.negative is None else [*self.labels].index(self.negative), cuts)

    def names(self, chosen: np.ndarray) -> list[Any]:
        """The label of each example, or its list of labels."""
        names = np.asarray(self.labels)
        return [names[row].tolist() for row in chosen] if self.several else names[chosen].tolist()

    def related(self, logits: np.ndarray) -> float:
        """The share of examples that get a relation, in percent, from logits of shape `(examples, labels)`."""
        names = self.names(self.chosen(self.probabilities(logits)))
        return 100 * float(np.mean([name not in ([], self.negative) for name in names]))

    def metrics(self, prediction: EvalPrediction) -> dict[str, float]:
        """
        Accuracy, precision, recall, micro-F1 and, over all relations, macro-F1 without the label of no relation, the
        area under the precision-recall curve and the expected calibration error, in percent; see
        [`~msattn.metrics.multi_label.score_multi_label`] for several relations a pair.

        `f1` is the official macro-F1 for the labels of SemEval-2010 Task 8, and the micro-F1 for all others.
        `majority_accuracy` and `majority_f1` are those of always naming the most frequent label, or relation. For a
        calibrated model, `uncalibrated_f1` and `uncalibrated_ece` are those without temperature and thresholds.

        Args:
            prediction (`EvalPrediction`): Logits of shape `(examples, labels)` and label ids `(examples,)`, or which
                labels are right.
        """
        probabilities = self.probabilities(prediction.predictions)
        chosen = self.chosen(probabilities)
        if self.several:
            percent = score_multi_label(chosen, prediction.label_ids, probabilities)
        else:
            percent = self._one(probabilities, chosen, prediction.label_ids)
        if self.temperature != 1 or self.threshold is not None:
            plain = RelationAnswers(self.labels, self.negative, self.several).metrics(prediction)
            percent |= {f"uncalibrated_{name}": plain[name] for name in ("f1", "ece")}
        return percent

    def _one(self, probabilities: np.ndarray, chosen: np.ndarray, numbers: np.ndarray) -> dict[str, float]:
        answers, references = self.names(chosen), self.names(numbers)
        labels, negative = self.labels, self.negative
        relations = [label for label in labels if label != negative]
        general = score_relations(answers, references, negative, probabilities, labels)
        values = {
            **{name: general[name] for name in ("precision", "recall", "accuracy", "auc")},
            "micro_f1": general["f1"],
            "macro_f1": float(f1_score(references, answers, labels=relations, average="macro", zero_division=0)),
            "ece": expected_calibration_error(probabilities, numbers),
        }
        percent = {name: 100 * value for name, value in values.items()}
        unrelated = [answer for answer, gold in zip(answers, references, strict=True) if gold == negative]
        if negative is not None and unrelated:
            percent["false_positives"] = 100 * sum(each != negative for each in unrelated) / len(unrelated)
        relation = most_frequent(references, but=negative)[0] or negative
        percent["majority_accuracy"] = most_frequent(references)[1]
        percent["f1"] = _f1(answers, references, labels, negative)
        percent["majority_f1"] = _f1([relation] * len(references), references, labels, negative)
        return percent


def _f1(answers: Sequence, references: Sequence, labels: Sequence[str], negative: str | None) -> float:
    """The official macro-F1 for the labels of SemEval-2010 Task 8, else the micro-F1, in percent."""
    if set(labels) <= set(SEMEVAL_LABELS):
        return score_semeval(answers, references)["f1"]
    return 100 * score_relations(answers, references, negative)["f1"]


def relation_report(
    answers: Sequence[str], references: Sequence[str], labels: Sequence[str], negative: str | None
) -> str:
    """
    In percent: precision, recall and F1 of each label that occurs, and the micro-F1 without the label of no relation
    or, for models with the labels of SemEval-2010 Task 8, the official macro-F1.
    """
    occurring = sorted({*answers, *references})
    report = label_report(references, answers, occurring, occurring)
    if set(labels) <= set(SEMEVAL_LABELS):
        return f"{report}\nOfficial macro-F1: {score_semeval(answers, references)['f1']:.2f}\n"
    relations = [label for label in occurring if label != negative]
    if negative is None or not relations:
        return f"{report}\nNo label stands for no relation.\n" if negative is None else report
    f1 = score_relations(answers, references, negative)["f1"]
    return f"{report}\nMicro-F1 without {negative}, the label of no relation: {100 * f1:.2f}\n"
