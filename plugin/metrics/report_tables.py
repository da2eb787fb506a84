"""Tables of precision, recall and F1, in percent."""

from __future__ import annotations

from collections.abc import Sequence

from msattn.errors import extra

with extra("train"):
    from sklearn.metrics import accuracy_score, precision_recall_fscore_support

# A name, its precision, recall and F1 from 0 to 1 (or `None`), and the number of its examples.
Row = tuple[str, Sequence[float | None], int]


def report_table(rows: Sequence[Row], averages: Sequence[Row]) -> str:
    """A text table in percent of labels and, below them, averages."""
    corner = "in percent"
    width = max(len(corner), *(len(name) for name, *_ in (*rows, *averages)))
    lines = [f"{corner:>{width}}  precision    recall  f1-score   support"]
    for part in (rows, averages):
        lines.append("")
        for name, scores, count in part:
            cells = ["" if score is None else f"{100 * score:.2f}" for score in scores]
            lines.append(f"{name:>{width}}  " + " ".join(f"{cell:>9}" for cell in (*cells, count)))
    return "\n".join(lines) + "\n"


def label_report(references: Sequence, answers: Sequence, labels: Sequence, names: Sequence[str]) -> str:
    """
    Precision, recall and F1 of each label, the accuracy, and the averages of the labels.

    Args:
        references (`Sequence`): The true label of each example.
        answers (`Sequence`): The answer to each.
        labels (`Sequence`): All labels.
        names (`Sequence[str]`): Their names.
    """

    def scores(average: str | None) -> tuple:
        return precision_recall_fscore_support(references, answers, labels=labels, average=average, zero_division=0)

    *each, support = scores(None)
    total = len(references)
    return report_table(
        [(name, row, int(count)) for name, row, count in zip(names, zip(*each, strict=True), support, strict=True)],
        [
            ("accuracy", (None, None, accuracy_score(references, answers)), total),
            *((f"{average} avg", scores(average)[:3], total) for average in ("macro", "weighted")),
        ],
    )
