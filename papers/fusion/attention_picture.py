"""
A picture of fused attention: lines from tokens to the words and phrases that they attend to (Fig. 4 of the paper).

The attending tokens are the first of each entity, or all of a text without `<e1>..</e1>` and `<e2>..</e2>`.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from msattn.data.relation_rows import TAG, relation_row
from msattn.loading import load_trained
from msattn.plots.fused_attention import FusedAttention
from msattn.plots.style import FAINT, INK, MUTED, drawing

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.colors import Colormap
    from matplotlib.figure import Figure

# Blue and orange are safe for colour blindness; both ramps have the same brightness.
RAMPS = {
    "words": ["#e3eef9", "#6baed6", "#2171b5", "#08306b"],
    "phrases": ["#fdebdb", "#fd9a4e", "#d9540b", "#6f2503"],
}
QUERY_COLOR, ENTITY_COLOR = "#f5f6f8", "#dde1e7"

# Lines below this fraction of the strongest one are not drawn.
VISIBLE = 0.01
# Layout in inches. The sentence has three columns: phrases (right-aligned), queries (centred), words (left-aligned).
WIDTH, ROW, HEADER, FOOTER = 9.0, 0.205, 0.62, 0.15
PHRASE_TEXT, QUERY, WORD_TEXT, QUERY_HALF = 1.65, 4.85, 7.45, 0.72
LANES, LANE, LANE_GAP = 1.3, 0.24, 0.1


class Link(NamedTuple):
    """
    A line of the figure.

    Args:
        weight (`float`): The attention weight.
        query (`int`): The position of the attending token.
        scale (`int`): The length of the attended phrase; 0 for a token.
        position (`int`): The position of the attended token or phrase.
    """

    weight: float
    query: int
    scale: int
    position: int


def plot(attention: FusedAttention, path: str | os.PathLike | None = None) -> Figure:
    """Plots words (blue, right) and phrases (orange, left); darker and thicker lines have more attention."""
    queries = [start for start, _ in attention.entities] or list(range(len(attention.tokens)))
    top = 12 if len(queries) <= 4 else 2
    links = strongest_links(attention, queries, top)
    title = 0.42 if attention.label else 0.1
    height = title + HEADER + len(attention.tokens) * ROW + FOOTER
    left = 0.0 if attention.phrases else QUERY - QUERY_HALF - 0.2
    with drawing(path, (WIDTH - left, height), layout=None) as figure:
        # Coordinates are inches from the top left corner.
        axes = figure.add_axes((0, 0, 1, 1), xlim=(left, WIDTH), ylim=(height, 0))
        axes.set_axis_off()
        if attention.label:
            axes.text(left + 0.2, 0.3, attention.label, color=INK, size=12, weight="bold", va="center")
        _draw(axes, attention, queries, links, title)
    return figure


def strongest_links(attention: FusedAttention, queries: Sequence[int], top: int) -> list[Link]:
    """
    The strongest attention weights of each query, weakest first, so that dark lines are drawn last.

    Args:
        attention (`FusedAttention`): The attention of a sentence.
        queries (`Sequence[int]`): The positions of the attending tokens.
        top (`int`): Maximum number of links per query.
    """
    links = []
    for query in queries:
        rows = {0: attention.words[query], **{scale: weights[query] for scale, weights in attention.phrases.items()}}
        every = [
            Link(float(weight), query, scale, position)
            for scale, row in rows.items()
            for position, weight in enumerate(row)
        ]
        links += sorted(every, reverse=True)[:top]
    visible = VISIBLE * max(links).weight
    return sorted(link for link in links if link.weight > 0 and link.weight >= visible)


def _draw(axes: Axes, attention: FusedAttention, queries: Sequence[int], links: Sequence[Link], title: float) -> None:
    rows = title + HEADER + (np.arange(len(attention.tokens)) + 0.5) * ROW
    strongest = max((link.weight for link in links), default=1.0)
    if attention.phrases:
        _legend(axes, "phrases", PHRASE_TEXT, title + 0.16, strongest)
    _legend(axes, "words", WORD_TEXT, title + 0.16, strongest)
    axes.text(QUERY, title + 0.16, "token", color=MUTED, weight="bold", ha="center", va="center")

    lanes = _lanes(attention, axes, rows, title + HEADER - 0.12)
    _sentence(attention, axes, rows, queries)
    right = max([PHRASE_TEXT, *(edge for edge, _ in lanes.values())]) + 0.06
    for order, link in enumerate(links):
        share = link.weight / strongest
        ramp = _ramp("phrases" if link.scale else "words")
        style = {"color": ramp(share), "linewidth": 0.5 + 2.3 * share}
        start = rows[link.query]
        if not link.scale:
            end = rows[link.position]
            _curve(axes, [(QUERY + QUERY_HALF, start), (WORD_TEXT - 0.07, end)], order, style, link)
            continue
        first, last = attention.phrase(link.scale, link.position)
        end = rows[first:last].mean()
        edge, step = lanes[link.scale]
        bar = edge - step * (link.position % link.scale + 0.5)
        _curve(axes, [(QUERY - QUERY_HALF, start), (right, end), (bar, end)], order, style, link)
        _bar(axes, bar, rows[first:last], step, ramp(share), zorder=5 + share)


def _sentence(attention: FusedAttention, axes: Axes, rows: np.ndarray, queries: Sequence[int]) -> None:
    for color, (start, end) in [(QUERY_COLOR, (0, len(rows))), *((ENTITY_COLOR, span) for span in attention.entities)]:
        _rounded(axes, QUERY, 2 * QUERY_HALF, rows[start:end], 0.06, color, zorder=0)
    members = {position for start, end in attention.entities for position in range(start, end)}
    for position, (token, y) in enumerate(zip(attention.tokens, rows, strict=True)):
        text = token if len(token) <= 18 else token[:17] + "…"
        special = token.startswith("[") and token.endswith("]")
        style: dict[str, Any] = {
            "color": MUTED if special or token.startswith("##") else INK,
            "weight": "bold" if position in members and not special else "normal",
            "va": "center_baseline",
        }
        if attention.phrases:
            axes.text(PHRASE_TEXT, y, text, ha="right", **style)
        axes.text(WORD_TEXT, y, text, ha="left", **style)
        if position in queries and len(queries) < len(rows):
            style |= {"color": INK, "weight": "bold"}
        axes.text(QUERY, y, text, ha="center", **style)


def _lanes(attention: FusedAttention, axes: Axes, rows: np.ndarray, top: float) -> dict[int, tuple[float, float]]:
    """Draws all phrases in grey; returns the right edge and the bar spacing of each lane, by scale."""
    step = min(0.075, LANES / max(sum(attention.phrases), 1))
    lanes, left = {}, PHRASE_TEXT + LANE_GAP
    for scale in attention.phrases:
        edge = left + max(scale * step, LANE)
        lanes[scale] = edge, step
        axes.text(edge - scale * step / 2, top, f"k={scale}", color=MUTED, size=7.5, ha="center", va="center")
        for position in range(len(rows)):
            first, last = attention.phrase(scale, position)
            _bar(axes, edge - step * (position % scale + 0.5), rows[first:last], step, FAINT, zorder=1)
        left = edge + LANE_GAP
    return lanes


def _bar(axes: Axes, x: float, rows: np.ndarray, step: float, color, zorder: float) -> None:
    _rounded(axes, x, 0.6 * step, rows, 0.3 * step, color, zorder)


def _rounded(axes: Axes, x: float, width: float, rows: np.ndarray, radius: float, color, zorder: float) -> None:
    """Draws a rounded bar along rows of the sentence."""
    from matplotlib.patches import FancyBboxPatch

    height = rows[-1] - rows[0] + 0.84 * ROW
    shape = f"round,pad=0,rounding_size={radius}"
    corner = x - width / 2, rows[0] - 0.42 * ROW
    axes.add_patch(FancyBboxPatch(corner, width, height, shape, facecolor=color, edgecolor="none", zorder=zorder))


def _curve(axes: Axes, points: list[tuple[float, float]], order: int, style: dict, link: Link) -> None:
    from matplotlib.patches import PathPatch
    from matplotlib.path import Path as Curve

    (x0, y0), (x1, y1), *rest = points
    middle = (x0 + x1) / 2
    vertices = [(x0, y0), (middle, y0), (middle, y1), (x1, y1), *rest]
    codes = [Curve.MOVETO, *[Curve.CURVE4] * 3, *[Curve.LINETO] * len(rest)]
    curve = PathPatch(Curve(vertices, codes), fill=False, capstyle="round", zorder=2 + order / 1e6, **style)
    curve.set_gid(f"link-{link.query}-{link.scale}-{link.position}")
    axes.add_patch(curve)


def _ramp(kind: str) -> Colormap:
    from matplotlib.colors import LinearSegmentedColormap

    return LinearSegmentedColormap.from_list(kind, RAMPS[kind])


def _legend(axes: Axes, kind: str, x: float, y: float, strongest: float) -> None:
    ramp = _ramp(kind)
    side = -1 if kind == "phrases" else 1
    align = "right" if side < 0 else "left"
    axes.text(x, y, kind, color=ramp(0.75), weight="bold", ha=align, va="center")
    left = x - 1.0 if side < 0 else x
    axes.imshow(np.linspace(0, 1, 128)[None], cmap=ramp, extent=(left, left + 1.0, y + 0.23, y + 0.15), aspect="auto")
    axes.text(left - 0.05, y + 0.19, "0", color=MUTED, size=7, ha="right", va="center")
    axes.text(left + 1.05, y + 0.19, f"{strongest:.2g}", color=MUTED, size=7, ha="left", va="center")


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.strip().splitlines()[0])
    parser.add_argument("--model", required=True, help="a multi-scale model")
    parser.add_argument("--text", required=True, help="a text; entities are marked by <e1>..</e1> and <e2>..</e2>")
    parser.add_argument("--output", required=True, help="picture (.png, .svg)")
    args = parser.parse_args(argv)
    _, model, tokenizer = load_trained(args.model)
    row = relation_row({"text": args.text}, "--text") if TAG.search(args.text) else {"text": args.text}
    plot(FusedAttention.from_model(model, tokenizer, row["text"], row.get("head"), row.get("tail")), args.output)


if __name__ == "__main__":
    main()
