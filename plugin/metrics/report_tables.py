"""Tables of precision, recall and F1, in percent."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msattn.errors import extra

with extra("train"):
    from sklearn.metrics import precision_recall_fscore_support


def label_report(references: Sequence, answers: Sequence, labels: Sequence, names: Sequence[str]) -> str:
    """
    A text table of precision, recall and F1, in percent, of each label and, below them, their averages.

    Args:
        references (`Sequence`): The true label of each example.
        answers (`Sequence`): The answer to each.
        labels (`Sequence`): The labels to report.
        names (`Sequence[str]`): Their names.
    """

    def scores(average: str | None) -> Any:
        return precision_recall_fscore_support(references, answers, labels=labels, average=average, zero_division=0)

    *each, support = scores(None)
    rows = [*zip(names, *each, support, strict=True)]
    averages = [(f"{name} avg", *scores(name)[:3], sum(support)) for name in ("micro", "macro", "weighted")]
    corner = "in percent"
    width = max(len(corner), *(len(name) for name, *_ in (*rows, *averages)))
    lines = [f"{corner:>{width}}  precision    recall  f1-score   support"]
    for part in (rows, averages):
        lines.append("")
        for name, *values, count in part:
            cells = [*(f"{100 * value:.2f}" for value in values), int(count)]
            lines.append(f"{name:>{width}}  " + " ".join(f"{cell:>9}" for cell in cells))
    return "\n".join(lines) + "\n"


def found_report(references: set[tuple], answers: set[tuple], labels: Sequence[str]) -> str:
    """A [`label_report`] of what is found or missed, such as entities: tuples that end in their label."""
    every = [*(references | answers)]
    true, found = ([each[-1] if each in side else "" for each in every] for side in (references, answers))
    return label_report(true, found, labels, labels)
