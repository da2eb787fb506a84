"""The figure of a number for each head, and of the accuracy as heads are changed."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from msattn.analysis.pictures import COLORS, FAINT, INK, MUTED, check_picture_path, picture_style, save_picture


@contextmanager
def head_figure(
    numbers: np.ndarray,
    shares: Sequence[float],
    accuracies: Sequence[float],
    path: str | os.PathLike | None = None,
) -> Iterator[tuple[Figure, Axes, Axes]]:
    """
    A heat map of a number of each head on the left, the accuracy over the share of heads on the right. Titles, the
    label on the right and further marks are added inside of the `with`; the figure is saved at its end.

    Args:
        numbers (`np.ndarray` of shape `(layers, heads)`): The number of each head, at least 0.
        shares (`Sequence[float]`): Per cent of the heads.
        accuracies (`Sequence[float]`): The accuracy at each share.
        path (`str` or `os.PathLike`, *optional*): The `.png` or `.svg` file to write.

    Yields:
        `tuple[Figure, Axes, Axes]`: The figure, its left and its right part.

    Raises:
        UserError: `path` does not end in `.png` or `.svg`.
    """
    check_picture_path(path)
    layers, heads = numbers.shape
    with picture_style():
        figure = Figure(figsize=(9.0, 3.6), facecolor="white", layout="constrained")
        left, right = figure.subplots(1, 2)
        image = left.imshow(numbers, "viridis", vmin=0, aspect="auto", interpolation="nearest")
        left.set_xlabel("head", color=MUTED)
        left.set_ylabel("layer", color=MUTED)
        left.set_xticks(range(0, heads, 1 + heads // 13))
        left.set_yticks(range(0, layers, 1 + layers // 13))
        left.spines[:].set_visible(False)
        bar = figure.colorbar(image, ax=left, fraction=0.06, pad=0.03)
        bar.outline.set_visible(False)
        right.plot(shares, accuracies, color=COLORS[0], marker="o", markersize=5, linewidth=1.8)
        right.grid(axis="y", color=FAINT)
        right.set_axisbelow(True)
        right.spines[["top", "right"]].set_visible(False)
        right.spines[["left", "bottom"]].set_color(MUTED)
        for axes in (left, right, bar.ax):
            axes.tick_params(color=MUTED, labelcolor=INK)
        yield figure, left, right
        for axes in (left, right):
            axes.title.set(color=INK, size=10)
        right.xaxis.label.set_color(MUTED)
        save_picture(figure, path)
