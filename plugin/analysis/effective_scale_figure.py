"""A table and a figure of the effective-scale task: errors by number of pairs, with analytic baselines."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from itertools import cycle
from statistics import fmean, stdev
from typing import Any

from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter, NullLocator

from msattn.analysis.pictures import (
    COLORS,
    FAINT,
    INK,
    MARKERS,
    MUTED,
    check_picture_path,
    picture_style,
    save_picture,
)

# Mean squared error per K of the best constant, and of the best sum of functions of single vectors.
ANCHORS = {"a constant: 7K/144": 7 / 144, "sums without pairs: K/144": 1 / 144}


def effective_scale_table(points: Sequence[Mapping[str, Any]]) -> str:
    """
    A Markdown table of mean squared errors, with one row per number of pairs. Errors below K/144 are bold.

    Args:
        points (`Sequence[Mapping[str, Any]]`): Runs with `model`, `pairs`, `seed` and `mse`.
    """
    curves = _curves(points)
    rows = [["K", "7K/144", "K/144", *curves], ["---:"] * (3 + len(curves))]
    for pairs in sorted({point["pairs"] for point in points}):
        row = [str(pairs), *(f"{pairs * factor:.4f}" for factor in ANCHORS.values())]
        for errors in curves.values():
            found = errors.get(pairs)
            if not found:
                row.append("–")
                continue
            mean = fmean(found)
            cell = f"**{mean:.4f}**" if mean < pairs / 144 else f"{mean:.4f}"
            row.append(cell + (f" ± {stdev(found):.4f}" if len(found) > 1 else ""))
        rows.append(row)
    return "\n".join(f"| {' | '.join(cells)} |" for cells in rows)


def plot_effective_scale(points: Sequence[Mapping[str, Any]], path: str | os.PathLike | None = None) -> Figure:
    """
    Plots mean squared errors by number of pairs, with one line per model and dashed analytic baselines.

    With several seeds, error bars show one standard deviation.

    Args:
        points (`Sequence[Mapping[str, Any]]`): Runs with `model`, `pairs`, `seed` and `mse`.
        path (`str` or `os.PathLike`, *optional*): The `.png` or `.svg` file to write.

    Returns:
        `matplotlib.figure.Figure`: The figure.

    Raises:
        UserError: `path` does not end in `.png` or `.svg`.
    """
    check_picture_path(path)
    every = sorted({point["pairs"] for point in points})
    with picture_style():
        figure = Figure(figsize=(6.4, 4.4), facecolor="white", layout="constrained")
        axes = figure.add_subplot()
        for (label, factor), style in zip(ANCHORS.items(), ("--", ":"), strict=True):
            axes.plot(every, [factor * pairs for pairs in every], color=MUTED, linestyle=style, label=label, zorder=1)
        for (name, errors), color, marker in zip(_curves(points).items(), cycle(COLORS), cycle(MARKERS), strict=False):
            pairs = sorted(errors)
            spread = [stdev(errors[number]) if len(errors[number]) > 1 else 0.0 for number in pairs]
            axes.errorbar(
                pairs,
                [fmean(errors[number]) for number in pairs],
                spread if any(spread) else None,
                color=color,
                marker=marker,
                markersize=5,
                linewidth=1.8,
                elinewidth=1,
                capsize=3,
                label=name,
            )
        axes.set_xscale("log", base=2)
        axes.set_yscale("log")
        axes.set_xticks(every, list(map(str, every)))
        axes.xaxis.set_minor_locator(NullLocator())
        axes.yaxis.set_major_formatter("{x:g}")  # the default formatter writes powers of ten as formulas
        axes.yaxis.set_minor_formatter(NullFormatter())
        axes.set_xlabel("pairs K", color=MUTED)
        axes.set_ylabel("mean squared error (held-out samples)", color=MUTED)
        axes.grid(axis="y", color=FAINT)
        axes.set_axisbelow(True)
        axes.spines[["top", "right"]].set_visible(False)
        axes.spines[["left", "bottom"]].set_color(MUTED)
        axes.tick_params(which="both", color=MUTED, labelcolor=INK)
        figure.legend(loc="outside upper left", ncols=3, frameon=False)
        save_picture(figure, path)
    return figure


def _curves(points: Sequence[Mapping[str, Any]]) -> dict[str, dict[int, list[float]]]:
    """The errors of all seeds by model and number of pairs."""
    curves: dict[str, dict[int, list[float]]] = {}
    for point in points:
        curves.setdefault(point["model"], {}).setdefault(point["pairs"], []).append(point["mse"])
    return curves
