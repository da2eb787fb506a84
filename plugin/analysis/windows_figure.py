"""A table and a figure of how far heads look, and of what windows cost a classifier."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from functools import partial

from matplotlib.figure import Figure

from msattn.analysis.arguments import read_texts
from msattn.analysis.classifiers import ClassifierArguments
from msattn.analysis.head_figure import head_figure
from msattn.analysis.pictures import SUFFIXES, check_output, write_outputs
from msattn.analysis.windows import WindowCosts, window_costs
from msattn.errors import UserError
from msattn.results import markdown_table


@dataclass(kw_only=True)
class WindowArguments(ClassifierArguments):
    """Arguments of `python -m msattn.analysis windows`."""

    mass: list[float] = field(
        default_factory=lambda: [0.9, 0.95, 0.99],
        metadata={"help": "Shares of the attention that windows keep; the heat map shows the last."},
    )
    fit_file: str | None = field(
        default=None, metadata={"help": "File of sentences that windows are fitted to. Default: --file."}
    )
    max_fit_samples: int | None = field(default=None, metadata={"help": "Maximum number of sentences to fit to."})


def show_windows(args: WindowArguments) -> None:
    """Measure how far each attention head of a classifier looks, and its score with windows."""
    for path in args.output or ():
        check_output(path, (*SUFFIXES, ".json"))
    args.check_positive("max_fit_samples")
    for mass in args.mass:
        if not 0 < mass <= 1:
            raise UserError(f"--mass must be above 0 and at most 1, not {mass}.")
    model, tokenizer, texts, labels = args.load()
    fitting = texts if args.fit_file is None else read_texts(args.fit_file, args.text_column_names)
    fitting = fitting[: args.max_fit_samples]
    found = window_costs(model, tokenizer, texts, labels, args.mass, fitting, args.batch_size)
    print(windows_table(found))
    costs = [
        {
            "mass": cost.mass,
            "accuracy": cost.accuracy,
            "reach": cost.reach.tolist(),
            "windowed": cost.windowed.tolist(),
        }
        for cost in found.costs
    ]
    content = {
        "model": args.model,
        "texts": found.texts,
        "tokens": found.tokens,
        "accuracy": found.accuracy,
        "costs": costs,
    }
    write_outputs(args.output, content, partial(plot_windows, found))


def windows_table(found: WindowCosts) -> str:
    """A Markdown table: heads with a window and the accuracy, by mass."""
    rows: list[list[str]] = [["none", "0", "0 %", "", f"{found.accuracy:.4f}", ""]]
    for cost in found.costs:
        count = int(cost.windowed.sum())
        widest = str(cost.reach[cost.windowed].max()) if count else ""
        share = f"{100 * count / cost.windowed.size:.0f} %"
        lost = f"{100 * (found.accuracy - cost.accuracy):+.2f}"
        rows.append([f"{cost.mass:g}", str(count), share, widest, f"{cost.accuracy:.4f}", lost])
    return markdown_table(["mass", "heads with a window", "share", "widest", "accuracy", "points lost"], rows)


def plot_windows(found: WindowCosts, path: str | os.PathLike | None = None) -> Figure:
    """
    Plots a heat map of the reach of each head at the last mass, and the accuracy over the share of heads with a
    window. Crosses mark heads that need more than half of a text.

    Args:
        found (`WindowCosts`): The result of [`window_costs`].
        path (`str` or `os.PathLike`, *optional*): The `.png` or `.svg` file to write.

    Returns:
        `matplotlib.figure.Figure`: The figure.

    Raises:
        UserError: `path` does not end in `.png` or `.svg`.
    """
    last = found.costs[-1]
    points = sorted((100 * cost.windowed.mean(), cost.accuracy) for cost in found.costs)
    shares, accuracies = zip((0.0, found.accuracy), *points, strict=True)
    with head_figure(last.reach, shares, accuracies, path) as (figure, left, right):
        rows, columns = (~last.windowed).nonzero()
        left.plot(columns, rows, "x", color="white", markersize=4)
        left.set_title(f"window that keeps {100 * last.mass:g} % (×: none, over half a text)")
        right.set_title("accuracy with windows")
        right.set_xlabel("heads with a window (%)")
    return figure
