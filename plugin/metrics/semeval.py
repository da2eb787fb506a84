"""The official score of SemEval-2010 Task 8."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from statistics import fmean

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


def score_semeval(predictions: Sequence[str | None], references: Sequence[str]) -> dict[str, float]:
    """
    Scores SemEval-2010 Task 8 labels like the official scorer. A relation in the wrong direction is wrong.

    Args:
        predictions (`Sequence[str | None]`): One of `SEMEVAL_LABELS` per example; `None` for a skipped example.
        references (`Sequence[str]`): The labels of the key, in the same order.

    Returns:
        `dict[str, float]`: In percent: `precision`, `recall` and `f1`, means over the relations of the key but Other;
        and `accuracy`, in which skipped examples are wrong.

    Raises:
        UserError: A label is not in `SEMEVAL_LABELS`, the lengths differ, or all predictions are `None`.

    Example:

    ```python
    >>> from msattn.metrics import score_semeval

    >>> score_semeval(["Cause-Effect(e1,e2)", "Other"], ["Cause-Effect(e1,e2)", "Message-Topic(e1,e2)"])
    {'precision': 50.0, 'recall': 50.0, 'f1': 50.0, 'accuracy': 50.0}
    ```
    """
    if len(predictions) != len(references):
        raise UserError(f"{len(predictions)} predictions cannot be scored against {len(references)} references.")
    answers = [label for label in predictions if label is not None]
    for label in (*references, *answers):
        if label not in SEMEVAL_LABELS:
            raise UserError(
                f"{label!r} is not a label of SemEval-2010 Task 8; expected Other or a relation with its direction, "
                "such as 'Cause-Effect(e1,e2)' (other label sets: the metric relation_classification)."
            )
    if not answers:
        raise UserError("There is no prediction to score.")
    correct = [label for label, gold in zip(predictions, references, strict=True) if label == gold]
    given, true, right = (
        Counter(label.partition("(")[0] for label in side) for side in (answers, references, correct)
    )
    rows = [
        (right[name] / max(given[name], 1), right[name] / true[name], 2 * right[name] / (given[name] + true[name]))
        for name in sorted({*true} - {"Other"})
    ]
    scores = [fmean(column) for column in zip(*rows, strict=True)] or [0.0, 0.0, 0.0]
    scores.append(len(correct) / len(references))
    return {name: 100 * score for name, score in zip(("precision", "recall", "f1", "accuracy"), scores, strict=True)}
