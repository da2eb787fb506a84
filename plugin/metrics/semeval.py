"""The three evaluations of SemEval-2010 Task 8, with the report of the official scorer, version 1.2."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from msattn.errors import UserError

SEMEVAL_RELATIONS = (
    "Cause-Effect",
    "Component-Whole",
    "Content-Container",
    "Entity-Destination",
    "Entity-Origin",
    "Instrument-Agency",
    "Member-Collection",
    "Message-Topic",
    "Product-Producer",
)
DIRECTIONS = ("(e1,e2)", "(e2,e1)")
SEMEVAL_LABELS = (*(relation + direction for relation in SEMEVAL_RELATIONS for direction in DIRECTIONS), "Other")
"""The 19 labels of SemEval-2010 Task 8: nine relations in two directions, and Other."""

# The spelling of Other in the official scorer, which also determines its position in the report.
OTHER = "_Other"


class Scores(NamedTuple):
    """
    Counts and percentages of a relation, or of several relations together.

    Args:
        correct (`int`): Number of correct answers.
        proposed (`int`): Number of answers with this relation, without those with a wrong direction.
        wrong_direction (`int`): Number of answers with this relation but the wrong direction.
        actual (`int`): Number of examples with this relation in the key.
    """

    correct: int
    proposed: int
    wrong_direction: int
    actual: int

    @property
    def precision(self) -> float:
        """Precision in percent."""
        return _percent(self.correct, self.proposed + self.wrong_direction)

    @property
    def recall(self) -> float:
        """Recall in percent."""
        return _percent(self.correct, self.actual)

    @property
    def f1(self) -> float:
        """F1 in percent."""
        return _f1(self.precision, self.recall)


@dataclass(frozen=True)
class Evaluation:
    """
    One of the three evaluations.

    Args:
        title (`str`): The heading in the report, with the trailing blank of the official scorer.
        actual (`Counter[str]`): Number of examples in the key by label.
        confusion (`Counter[tuple[str, str]]`):
            Number of examples by gold and predicted label, without wrong directions and skipped examples.
        wrong_direction (`Counter[str]`, *optional*):
            Number of answers with the correct relation but the wrong direction, by relation; `None` for evaluations
            that do not count them separately.
    """

    title: str
    actual: Counter[str]
    confusion: Counter[tuple[str, str]]
    wrong_direction: Counter[str] | None = None

    @property
    def labels(self) -> list[str]:
        """The sorted labels of the key. Only these are scored."""
        return sorted(self.actual)

    @property
    def examples(self) -> int:
        """Number of examples in the key."""
        return self.actual.total()

    @property
    def answered(self) -> int:
        """Number of examples with an answer."""
        return self.confusion.total() + (self.wrong_direction.total() if self.wrong_direction else 0)

    @property
    def correct(self) -> int:
        """Number of correct answers."""
        return sum(self.confusion[label, label] for label in self.actual)

    @property
    def accuracy(self) -> float:
        """Accuracy over all examples, in percent. Skipped examples count as wrong."""
        return _percent(self.correct, self.examples)

    @property
    def relations(self) -> dict[str, Scores]:
        """Scores by label of the key, including Other."""
        proposed: Counter[str] = Counter()
        for (_, label), count in self.confusion.items():
            proposed[label] += count
        wrong = self.wrong_direction or Counter()
        return {
            label: Scores(self.confusion[label, label], proposed[label], wrong[label], self.actual[label])
            for label in self.labels
        }

    def _sums(self, *names: str) -> list[Any]:
        """The sums of some fields over the relations of the key but Other."""
        relations = [scores for label, scores in self.relations.items() if label != OTHER]
        return [sum(getattr(scores, name) for scores in relations) for name in names]

    @property
    def micro(self) -> Scores:
        """Micro-averaged scores: the counts of all relations but Other."""
        return Scores(*self._sums(*Scores._fields))

    @property
    def macro(self) -> tuple[float, float, float]:
        """Macro-averaged precision, recall and F1 over the relations of the key but Other, in percent."""
        count = len({*self.actual} - {OTHER})
        precision, recall, f1 = (total / max(count, 1) for total in self._sums("precision", "recall", "f1"))
        return precision, recall, f1

    def as_dict(self) -> dict[str, float]:
        """The scores in percent, under the names that the metric returns."""
        precision, recall, f1 = self.macro
        micro = self.micro
        return {
            "f1": f1,
            "precision": precision,
            "recall": recall,
            "accuracy": self.accuracy,
            "micro_f1": micro.f1,
            "micro_precision": micro.precision,
            "micro_recall": micro.recall,
        }

    def report(self) -> str:
        """The report of the official scorer for this evaluation."""
        lines = [f"<<< {self.title}>>>:", "", *self._matrix(), "", *self._accuracies(), "", *self._table(), ""]

        micro = self.micro
        lines += ["Micro-averaged result (excluding Other):"]
        lines += [_row(micro, f"{micro.proposed + micro.wrong_direction:4d}"), ""]

        precision, recall, f1 = self.macro
        lines += ["MACRO-averaged result (excluding Other):"]
        lines += [f"P = {precision:6.2f}%\tR = {recall:6.2f}%\tF1 = {f1:6.2f}%", "", "", ""]
        return "\n".join(lines) + "\n"

    def _matrix(self) -> list[str]:
        directed = self.wrong_direction is not None
        wrong = self.wrong_direction or Counter()
        columns = self.labels + sorted({label for _, label in self.confusion} - set(self.actual))
        rule = "      +" + "-----" * len(columns) + "+"

        def row(start: str, counts: list[int], bar: str, answered: int, wrong: int, actual: int) -> str:
            cells = "".join(f"{count:4d} " for count in counts)
            skipped = actual - answered - wrong
            if directed:
                return f"{start}{cells}{bar} {answered:4d}  {wrong:4d}  {skipped:4d} {actual:6d}"
            return f"{start}{cells}{bar} {answered:4d} {skipped:4d} {actual:4d}"

        lines = ["Confusion matrix:"]
        lines += [" " * 7 + "".join(f" {self._short(label):>4}" for label in columns) + " <-- classified as"]
        lines += [rule + (" -SUM- xDIRx skip  ACTUAL" if directed else " -SUM- skip ACTUAL")]
        for gold in self.labels:
            counts = [self.confusion[gold, label] for label in columns]
            lines += [row(f" {self._short(gold):>4} |", counts, "|", sum(counts), wrong[gold], self.actual[gold])]
        sums = [sum(self.confusion[gold, label] for gold in self.labels) for label in columns]
        return [*lines, rule, row(" -SUM- ", sums, " ", sum(sums), wrong.total(), self.examples)]

    def _accuracies(self) -> list[str]:
        others_answered = sum(count for (gold, _), count in self.confusion.items() if gold == OTHER)
        others_skipped = self.actual[OTHER] - others_answered
        rows = [
            ("Coverage", self.answered, self.examples),
            ("Accuracy (calculated for the above confusion matrix)", self.correct, self.answered),
            ("Accuracy (considering all skipped examples as Wrong)", self.correct, self.examples),
            ("Accuracy (considering all skipped examples as Other)", self.correct + others_skipped, self.examples),
        ]
        return [f"{name} = {part}/{whole} = {_percent(part, whole):5.2f}%" for name, part, whole in rows]

    def _table(self) -> list[str]:
        lines = ["Results for the individual relations:"]
        for label, scores in self.relations.items():
            whole = f"{scores.proposed:4d}"
            if self.wrong_direction is not None:
                whole = f"({whole} +{scores.wrong_direction:4d})"
            lines.append(f"{label:>25} :    " + _row(scores, whole))
        return lines

    def _short(self, label: str) -> str:
        if label == OTHER:
            return "_O_"
        relation, _, direction = label.partition("(e")
        first, second = (word[0] for word in relation.split("-"))
        return (f"{first}-{second}" if label in self.actual else f"*{first}{second}") + direction[:1]


@dataclass(frozen=True)
class SemEvalScores:
    """
    All three evaluations of a set of answers.

    Args:
        directed (`Evaluation`): (2*9+1)-way evaluation with directionality.
        undirected (`Evaluation`): (9+1)-way evaluation ignoring directionality.
        official (`Evaluation`): (9+1)-way evaluation with directionality, whose macro-F1 ranks systems.
    """

    directed: Evaluation
    undirected: Evaluation
    official: Evaluation

    def as_dict(self) -> dict[str, Any]:
        """The official scores in percent, those of each relation, and the other two evaluations."""
        relations = {
            label.lstrip("_"): {"precision": row.precision, "recall": row.recall, "f1": row.f1, "support": row.actual}
            for label, row in self.official.relations.items()
        }
        others = {"directed": self.directed.as_dict(), "undirected": self.undirected.as_dict()}
        return {**self.official.as_dict(), "relations": relations, **others}

    def report(self) -> str:
        """The full report of the official scorer, line by line."""
        proposed = Counter(label for _, label in self.directed.confusion.elements())
        warnings = [
            f"!!!WARNING!!! The proposed file contains {count} label(s) of type '{label}', "
            "which is NOT present in the key file.\n\n"
            for label, count in sorted(proposed.items())
            if label not in self.directed.actual
        ]
        evaluations = (self.directed, self.undirected, self.official)
        return (
            "".join([*warnings, *(evaluation.report() for evaluation in evaluations)])
            + "<<< The official score is (9+1)-way evaluation with directionality taken into account: "
            f"macro-averaged F1 = {self.official.macro[2]:0.2f}% >>>\n"
        )


def score_semeval(predictions: Sequence[str | None], references: Sequence[str]) -> SemEvalScores:
    """
    Scores SemEval-2010 Task 8 labels like the official scorer.

    Args:
        predictions (`Sequence[str | None]`): One of `SEMEVAL_LABELS` per example; `None` for a skipped example.
        references (`Sequence[str]`): The labels of the key, in the same order.

    Returns:
        `SemEvalScores`: The three evaluations.

    Raises:
        UserError: A label is not in `SEMEVAL_LABELS`, the lengths differ, or all predictions are `None`.

    Example:

    ```python
    >>> from msattn.metrics import score_semeval

    >>> scores = score_semeval(["Cause-Effect(e1,e2)", "Other"], ["Cause-Effect(e1,e2)", "Message-Topic(e1,e2)"])
    >>> scores.official.macro
    (50.0, 50.0, 50.0)
    ```
    """
    if len(predictions) != len(references):
        raise UserError(f"{len(predictions)} predictions cannot be scored against {len(references)} references.")
    pairs = list(zip(references, predictions, strict=True))
    key = Counter(_checked(gold) for gold in references)
    answered = Counter((_checked(gold), _checked(label)) for gold, label in pairs if label is not None)
    if not answered:
        raise UserError("There is no prediction to score.")
    relations: Counter[str] = Counter()
    for gold, count in key.items():
        relations[_relation(gold)] += count
    undirected: Counter[tuple[str, str]] = Counter()
    reversed_: Counter[str] = Counter()
    for (gold, label), count in answered.items():
        undirected[_relation(gold), _relation(label)] += count
        if gold != label and _relation(gold) == _relation(label):
            reversed_[_relation(gold)] += count
    official = undirected - Counter({(relation, relation): count for relation, count in reversed_.items()})
    return SemEvalScores(
        directed=Evaluation("(2*9+1)-WAY EVALUATION (USING DIRECTIONALITY)", key, answered),
        undirected=Evaluation("(9+1)-WAY EVALUATION IGNORING DIRECTIONALITY ", relations, undirected),
        official=Evaluation(
            "(9+1)-WAY EVALUATION TAKING DIRECTIONALITY INTO ACCOUNT -- OFFICIAL ", relations, official, reversed_
        ),
    )


def _checked(label: str) -> str:
    if label not in SEMEVAL_LABELS:
        raise UserError(
            f"{label!r} is not a label of SemEval-2010 Task 8; expected Other or a relation with its direction, "
            "such as 'Cause-Effect(e1,e2)' (other label sets: the metric relation_classification)."
        )
    return OTHER if label == "Other" else label


def _relation(label: str) -> str:
    return label.partition("(")[0]


def _percent(part: int, whole: int) -> float:
    return 100.0 * part / whole if whole else 0.0


def _f1(precision: float, recall: float) -> float:
    return 2 * precision * recall / (precision + recall) if precision + recall else 0.0


def _row(scores: Scores, proposed: str) -> str:
    return (
        f"P = {scores.correct:4d}/{proposed} = {scores.precision:6.2f}%     "
        f"R = {scores.correct:4d}/{scores.actual:4d} = {scores.recall:6.2f}%     F1 = {scores.f1:6.2f}%"
    )
