"""A forest plot: the difference of each claim with its interval, in families."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from msattn.plots.style import COLORS, INK, MUTED, drawing, tidy

if TYPE_CHECKING:
    from verdict import Verdict

SHADES = {"HOLDS": COLORS[2], "FAILS": COLORS[1], "NO DIFFERENCE": COLORS[0], "CANNOT TELL": MUTED}
WIDEST = 12.0


def draw(path: Path, verdicts: Sequence[Verdict]) -> None:
    """Draws the verdicts from top to bottom. Intervals that leave the picture end in an arrow; ids do not change."""
    from matplotlib import rc_context

    rows: list[Verdict | str] = []
    for verdict in verdicts:
        if not rows or verdict.family not in rows:
            rows.append(verdict.family)
        rows.append(verdict)
    height = 0.8 + 0.22 * len(rows)
    # Nothing depends on the machine: fixed places, the font of matplotlib, ids from the content, no date.
    same = {"svg.hashsalt": "msattn", "font.family": "DejaVu Sans"}
    with drawing(None, (9.0, height), layout=None) as figure, rc_context(same):
        axes = figure.add_axes((0.46, 0.5 / height, 0.38, (height - 0.6) / height))
        axes.axvline(0, color=MUTED, linewidth=0.8)
        beside = axes.get_yaxis_transform()
        for place, row in enumerate(rows):
            if isinstance(row, str):
                axes.text(-0.02, -place, row, ha="right", va="center", weight="bold", transform=beside)
                continue
            _row(axes, -place, row)
        axes.set_xlim(-WIDEST, WIDEST)
        axes.set_ylim(0.6 - len(rows), 0.6)
        tidy(axes, "A − B in points, 95 % interval", "")
        axes.set_yticks([])
        axes.spines["left"].set_visible(False)
        figure.savefig(path, metadata={"Date": None, "Creator": None})


def _row(axes, place: float, verdict: Verdict) -> None:
    """A line of the plot."""
    color = SHADES[verdict.word]
    beside = axes.get_yaxis_transform()
    axes.text(-0.02, place, verdict.claim["short"], ha="right", va="center", color=INK, transform=beside)
    axes.text(1.04, place, verdict.word.lower(), va="center", color=color, transform=beside)
    mean, half = verdict.difference.mean, verdict.difference.half_width()
    low, high = max(mean - half, -WIDEST), min(mean + half, WIDEST)
    axes.plot([min(low, WIDEST), max(high, -WIDEST)], [place, place], color=color, linewidth=1.6)
    if margin := verdict.claim.get("margin"):
        axes.plot([margin], [place], "|", markersize=9, color=INK)
    if abs(mean) <= WIDEST:
        axes.plot([mean], [place], "o", markersize=4.5, color=color)
    else:
        axes.plot([WIDEST if mean > 0 else -WIDEST], [place], ">" if mean > 0 else "<", color=color, clip_on=False)
