"""Tables and a figure of the importance of attention heads."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from functools import partial

from matplotlib.figure import Figure

from msattn.analysis.classifiers import ClassifierArguments
from msattn.analysis.head_figure import head_figure
from msattn.analysis.importance import HeadImportance, head_importance
from msattn.analysis.pictures import MUTED, SUFFIXES, check_output, write_outputs
from msattn.results import markdown_table


@dataclass(kw_only=True)
class ImportanceArguments(ClassifierArguments):
    """Arguments of `python -m msattn.analysis importance`."""

    steps: int = field(default=10, metadata={"help": "Number of steps in which all heads are removed."})


def show_importance(args: ImportanceArguments) -> None:
    """Measure the importance of each attention head of a classifier, and its score as heads go."""
    for path in args.output or ():
        check_output(path, (*SUFFIXES, ".json"))
    args.check_positive("steps")
    model, tokenizer, texts, labels = args.load()
    found = head_importance(model, tokenizer, texts, labels, args.steps, args.batch_size)
    print(importance_table(found))
    content = {
        "model": args.model,
        "texts": found.texts,
        "importance": found.importances.tolist(),
        "removed": found.removed,
        "accuracy": found.accuracies,
    }
    write_outputs(args.output, content, partial(plot_importance, found))


def importance_table(found: HeadImportance) -> str:
    """Two Markdown tables: the importances by layer, and the accuracy as heads go."""
    rows = []
    for layer, values in enumerate(found.importances):
        ends = [f"{values[head]:.4f} ({head})" for head in (values.argmin(), values.argmax())]
        rows.append([layer, f"{values.mean():.4f}", *ends])
    removed = [
        [count, f"{100 * count / found.importances.size:.0f} %", f"{accuracy:.4f}"]
        for count, accuracy in zip(found.removed, found.accuracies, strict=True)
    ]
    return "\n\n".join(
        [
            markdown_table(["layer", "mean importance", "least important head", "most important head"], rows),
            markdown_table(["heads removed", "share", "accuracy"], removed),
        ]
    )


def plot_importance(found: HeadImportance, path: str | os.PathLike | None = None) -> Figure:
    """
    Plots a heat map of the importances, and the accuracy over the share of heads removed. The dashed line is the most
    frequent class.

    Args:
        found (`HeadImportance`): The result of [`head_importance`].
        path (`str` or `os.PathLike`, *optional*): The `.png` or `.svg` file to write.

    Returns:
        `matplotlib.figure.Figure`: The figure.

    Raises:
        UserError: `path` does not end in `.png` or `.svg`.
    """
    shares = [100 * count / found.importances.size for count in found.removed]
    with head_figure(found.importances, shares, found.accuracies, path) as (figure, left, right):
        left.set_title("importance: mean |∂ loss / ∂ gate|")
        right.set_title("accuracy without the least important heads")
        right.axhline(found.majority, color=MUTED, linestyle="--", linewidth=1.2)
        right.set_xlabel("heads removed (%; dashed: the most frequent class)")
    return figure
