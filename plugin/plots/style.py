"""Colours, fonts and files of all pictures."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from msattn.errors import UserError, extra

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

INK, MUTED, FAINT = "#1b1f24", "#6b727b", "#eceef1"
# The palette of Okabe and Ito, which is safe for colour blindness.
COLORS = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9"]
MARKERS = "osD^vP"
# matplotlib falls back by glyph, but only to listed fonts; it ships DejaVu Sans.
FONTS = ["DejaVu Sans", "Noto Sans CJK SC", "Noto Sans CJK JP", "WenQuanYi Zen Hei", "Microsoft YaHei", "PingFang SC"]


def check_suffix(path: str | os.PathLike | None, *suffixes: str) -> None:
    """
    Raises:
        UserError: `path` is given and ends in none of the suffixes.
    """
    if path is not None and Path(path).suffix.lower() not in suffixes:
        raise UserError(f"{os.fspath(path)}: the file must end in {' or '.join(suffixes)}.")


def picture_style() -> AbstractContextManager:
    """The matplotlib context of all pictures: fonts, SVG with text elements, and no math text."""
    with extra("plots"):
        from matplotlib import rc_context
        from matplotlib.font_manager import get_font_names
    fonts = [font for font in FONTS if font in get_font_names()] + ["sans-serif"]
    return rc_context({"font.family": fonts, "font.size": 9, "svg.fonttype": "none", "text.parse_math": False})


@contextmanager
def drawing(
    path: str | os.PathLike | None, size: tuple[float, float], layout: str | None = "constrained"
) -> Iterator[Figure]:
    """
    An empty figure in our style. At the end of the block it is saved with 200 dpi.

    Args:
        path (`str` or `os.PathLike`): The `.png` or `.svg` file to write; `None` for none.
        size (`tuple[float, float]`): Width and height in inches.
        layout (`str`, *optional*, defaults to `"constrained"`): The layout engine of matplotlib.

    Raises:
        UserError: `path` does not end in `.png` or `.svg`.
        ImportError: matplotlib is not installed.
    """
    check_suffix(path, ".png", ".svg")
    with picture_style():
        from matplotlib.figure import Figure

        figure = Figure(figsize=size, facecolor="white", layout=layout)  # type: ignore[arg-type]
        yield figure
        if path is not None:
            figure.savefig(path, dpi=200)


def tidy(axes: Axes, *labels: str) -> None:
    """Labels the x-axis and the y-axis, and draws a light frame and grid."""
    axes.set_xlabel(labels[0], color=MUTED)
    axes.set_ylabel(labels[1], color=MUTED)
    axes.grid(axis="y", color=FAINT)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(MUTED)
    axes.tick_params(which="both", color=MUTED, labelcolor=INK)


def draw_heads(axes: Axes, numbers, most: float | None = None) -> None:
    """Draws a heat map of a number of each head, `(layers, heads)`, with its colour bar, from 0 to `most`."""
    layers, heads = numbers.shape
    image = axes.imshow(numbers, "viridis", vmin=0, vmax=most, aspect="auto", interpolation="nearest")
    axes.set_xlabel("head", color=MUTED)
    axes.set_ylabel("layer", color=MUTED)
    axes.set_xticks(range(0, heads, 1 + heads // 13))
    axes.set_yticks(range(0, layers, 1 + layers // 13))
    axes.spines[:].set_visible(False)
    bar = axes.figure.colorbar(image, ax=axes, fraction=0.06, pad=0.03)
    bar.outline.set_visible(False)
    for part in (axes, bar.ax):
        part.tick_params(color=MUTED, labelcolor=INK)


def markdown_table(header: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """A Markdown table: names of the columns, and the cells of each row."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(map(str, line))} |" for line in lines)
