"""Tables and a figure of the importance of attention heads."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from pathlib import Path

from matplotlib.figure import Figure

from msattn.analysis.classifiers import ClassifierArguments
from msattn.analysis.importance import HeadImportance, head_importance
from msattn.analysis.pictures import (
    COLORS,
    FAINT,
    INK,
    MUTED,
    SUFFIXES,
    check_output,
    check_picture_path,
    picture_style,
    save_picture,
)
from msattn.results import markdown_table


@dataclass(kw_only=True)
class ImportanceArguments(ClassifierArguments):
    """Arguments of `python -m msattn.analysis importance`."""

    output: list[str] | None = field(
        default=None, metadata={"help": "Output files: .json for the numbers, .png or .svg for a figure."}
    )
    steps: int = field(default=10, metadata={"help": "Number of steps in which all heads are removed."})


def show_importance(args: ImportanceArguments) -> None:
    """Measure the importance of each attention head of a classifier, and its score as heads go."""
    for path in args.output or ():
        check_output(path, (*SUFFIXES, ".json"))
    args.check_positive("steps")
    model, tokenizer, texts, labels = args.load()
    found = head_importance(model, tokenizer, texts, labels, args.steps, args.batch_size)
    print(importance_table(found))
    for path in args.output or ():
        if Path(path).suffix.lower() == ".json":
            content = {
                "model": args.model,
                "texts": found.texts,
                "importance": found.importances.tolist(),
                "removed": found.removed,
                "accuracy": found.accuracies,
            }
            Path(path).write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
        else:
            plot_importance(found, path)


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
    check_picture_path(path)
    layers, heads = found.importances.shape
    with picture_style():
        figure = Figure(figsize=(9.0, 3.6), facecolor="white", layout="constrained")
        left, right = figure.subplots(1, 2)
        image = left.imshow(found.importances, "viridis", vmin=0, aspect="auto", interpolation="nearest")
        left.set_title("importance: mean |∂ loss / ∂ gate|", color=INK, size=10)
        left.set_xlabel("head", color=MUTED)
        left.set_ylabel("layer", color=MUTED)
        left.set_xticks(range(0, heads, 1 + heads // 13))
        left.set_yticks(range(0, layers, 1 + layers // 13))
        left.spines[:].set_visible(False)
        bar = figure.colorbar(image, ax=left, fraction=0.06, pad=0.03)
        bar.outline.set_visible(False)
        right.set_title("accuracy without the least important heads", color=INK, size=10)
        shares = [100 * count / found.importances.size for count in found.removed]
        right.plot(shares, found.accuracies, color=COLORS[0], marker="o", markersize=5, linewidth=1.8)
        right.axhline(found.majority, color=MUTED, linestyle="--", linewidth=1.2)
        right.set_xlabel("heads removed (%; dashed: the most frequent class)", color=MUTED)
        right.grid(axis="y", color=FAINT)
        right.set_axisbelow(True)
        right.spines[["top", "right"]].set_visible(False)
        right.spines[["left", "bottom"]].set_color(MUTED)
        for axes in (left, right, bar.ax):
            axes.tick_params(color=MUTED, labelcolor=INK)
        save_picture(figure, path)
    return figure
