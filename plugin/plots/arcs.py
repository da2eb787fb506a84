"""Draws dependency trees as arc diagrams."""

from __future__ import annotations

import os
import re
import unicodedata
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any, NamedTuple

from msattn.errors import UserError
from msattn.plots.style import COLORS, FONTS, INK, MUTED, check_suffix
from msattn.trees.parse_results import named_sentences

WORD_SIZE, LABEL_SIZE = 15, 11
# In pixels: word spacing, distance of outgoing arcs from the middle of a word, height of a level, corner radius, size
# of an arrowhead.
GAP, FOOT, LEVEL, CORNER, HEAD = 22, 9, 26, 10, 6
MARGIN = 14
# The colours on a dark ground. In a page, its `color-scheme` decides. Readers without `light-dark` ignore the rules.
DARK = {"#ffffff": "#14181d", INK: "#e6edf3", MUTED: "#9da7b3", COLORS[0]: "#56b4e9"}
STYLE = "svg.arcs:root{color-scheme:light dark}" + "".join(
    f'.arcs [{name}="{light}"]{{{name}:light-dark({light},{dark})}}'
    for light, dark in DARK.items()
    for name in ("fill", "stroke")
)
# What XML cannot hold: control characters and halves of characters.
NOT_XML = re.compile(r"[^\t\n\r\x20-\x7e\x80-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


class Arc(NamedTuple):
    """An arc between words, by their numbers; that of the root goes from its word to itself."""

    source: int
    target: int
    label: str
    title: str

    @property
    def left(self) -> int:
        return min(self.source, self.target)

    @property
    def right(self) -> int:
        return max(self.source, self.target)


def arc_diagram(sentences: Sequence, path: str | os.PathLike | None = None) -> str:
    """
    Draws dependency trees as SVG, one below the other.

    Arrows point from heads to dependents; the arc of the root comes from above. A sentence in a script that is written
    from right to left is drawn so. Characters that XML cannot hold are shown as �. Librsvg makes a PDF or PNG of it:
    `rsvg-convert -f pdf -o tree.pdf tree.svg`.

    Args:
        sentences (`Sequence`):
            What the pipeline `"dependency-parsing"` returns, for a sentence, a text or a list of them. Of each word
            `word`, `head`, `relation` and optionally `score`, which is shown as a tooltip.
        path (`str` or `os.PathLike`, *optional*): The `.svg` file to write.

    Returns:
        `str`: The SVG document.

    Raises:
        UserError: `path` does not end in `.svg`, or a head is no word of its sentence.

    Example:

    ```python
    >>> from msattn.plots import arc_diagram

    >>> svg = arc_diagram(parse("Dogs sleep."), "tree.svg")  # parse = pipeline("dependency-parsing", ...)
    ```
    """
    trees = [([str(word["word"]) for word in words], _arcs(words)) for _, words in named_sentences(sentences)]
    return write_arcs(trees, path)


def _arcs(words: Sequence[Mapping[str, Any]]) -> list[Arc]:
    arcs = []
    for target, word in enumerate(words):
        source = word["head"] - 1
        if not -1 <= source < len(words):
            raise UserError(f"word {target + 1} has the head {word['head']}; give 0 to {len(words)}, the last word.")
        name = words[source]["word"] if source >= 0 else "ROOT"
        score = "" if word.get("score") is None else f" ({word['score']:.2f})"
        title = f"{name} → {word['word']}: {word['relation']}{score}"
        arcs.append(Arc(source if source >= 0 else target, target, word["relation"], title))
    return arcs


def write_arcs(rows: Sequence[tuple[Sequence[str], Sequence[Arc]]], path: str | os.PathLike | None) -> str:
    """The SVG document of rows of words with arcs above them; written if there is a path."""
    check_suffix(path, ".svg")
    shapes: list[str] = []
    width = height = 1.0
    for words, arcs in rows:
        own, right, bottom = _row(words, arcs, height)
        shapes += own
        width, height = max(width, right), bottom
    fonts = ", ".join(f"'{font}'" for font in FONTS)
    picture = "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" class="arcs" viewBox="0 0 {width:.1f} {height:.1f}" '
            f'width="{width:.1f}" height="{height:.1f}" font-family="{fonts}, sans-serif" text-anchor="middle">',
            f"<style>{STYLE}</style>",
            '<rect width="100%" height="100%" fill="#ffffff"/>',
            *shapes,
            "</svg>\n",
        ]
    )
    if path is not None:
        Path(path).write_text(picture, encoding="utf-8")
    return picture


def _row(words: Sequence[str], arcs: Sequence[Arc], top: float) -> tuple[list[str], float, float]:
    """The shapes of a row of words below `top`, its width and its lower edge."""
    arcs = sorted(arcs, key=lambda arc: (arc.right - arc.left, arc.left))
    centers = _centers(words, arcs)
    # Outgoing arcs start beside the middle of a word, where the incoming one ends.
    spans = {
        arc: (
            centers[arc.source] + FOOT * ((arc.target > arc.source) - (arc.target < arc.source)),
            centers[arc.target],
        )
        for arc in arcs
    }
    levels = _levels(spans)
    ground = top + MARGIN + LABEL_SIZE + LEVEL * max(levels.values(), default=0)
    ends = [center + _width(word, WORD_SIZE) / 2 for center, word in zip(centers, words, strict=True)]
    ends += [(sum(spans[arc]) + _width(arc.label, LABEL_SIZE)) / 2 for arc in arcs]
    width = max(ends, default=0) + MARGIN
    if _is_from_right(words):
        centers = [width - center for center in centers]
        spans = {arc: (width - source, width - target) for arc, (source, target) in spans.items()}
    shapes = [_shape(arc, *spans[arc], ground, levels[arc]) for arc in arcs]
    line = ground + 1.5 * WORD_SIZE
    shapes += [
        f'<text x="{center:.1f}" y="{line:.1f}" font-size="{WORD_SIZE}" fill="{INK}">{escaped(word)}</text>'
        for word, center in zip(words, centers, strict=True)
    ]
    return shapes, width, line + WORD_SIZE / 2 + MARGIN


def _centers(words: Sequence[str], arcs: Sequence[Arc]) -> list[float]:
    """The middle of each word, as close as words and labels allow."""
    centers: list[float] = []
    edge = float(MARGIN)
    for number, word in enumerate(words):
        half = max(_width(word, WORD_SIZE) / 2, FOOT)
        center = edge + half
        for arc in arcs:
            if arc.right == number:
                label = _width(arc.label, LABEL_SIZE)
                start = centers[arc.left] + 2 * CORNER + FOOT + 6 if arc.left < number else MARGIN - label / 2
                center = max(center, start + label)
        centers.append(center)
        edge = center + half + GAP
    return centers


def _levels(spans: Mapping[Arc, tuple[float, float]]) -> dict[Arc, int]:
    """The level of each arc: above all shorter arcs that it spans. The arc of the root is the highest."""
    levels: dict[Arc, int] = {}
    for arc in sorted(spans, key=lambda arc: abs(spans[arc][1] - spans[arc][0]) or float("inf")):
        left, right = sorted(spans[arc])
        below = [level for one, level in levels.items() if min(spans[one]) < right and max(spans[one]) > left]
        levels[arc] = 1 + max(below if left < right else levels.values(), default=0)
    return levels


def _shape(arc: Arc, start: float, tip: float, ground: float, level: int) -> str:
    left, right = sorted((start, tip))
    top, foot = ground - LEVEL * level, ground - 2
    color = COLORS[0] if left < right else MUTED
    line = f"M{left:.1f} {top + LABEL_SIZE / 2:.1f}V{foot:.1f}"
    if left < right:
        line = (
            f"M{left:.1f} {foot:.1f}V{top + CORNER:.1f}q0 -{CORNER} {CORNER} -{CORNER}H{right - CORNER:.1f}"
            f"q{CORNER} 0 {CORNER} {CORNER}V{foot:.1f}"
        )
    middle = (left + right) / 2
    box = _width(arc.label, LABEL_SIZE) + 6
    return (
        f"<g><title>{escaped(arc.title)}</title>"
        f'<path d="{line}" fill="none" stroke="{color}" stroke-width="1.3"/>'
        f'<path d="M{tip - HEAD / 2:.1f} {foot - HEAD:.1f}h{HEAD}L{tip:.1f} {foot + 1:.1f}z" fill="{color}"/>'
        f'<rect x="{middle - box / 2:.1f}" y="{top - 7:.1f}" width="{box:.1f}" height="14" fill="#ffffff"/>'
        f'<text x="{middle:.1f}" y="{top + LABEL_SIZE / 3:.1f}" font-size="{LABEL_SIZE}" fill="{INK}">'
        f"{escaped(arc.label)}</text></g>"
    )


def escaped(text: str) -> str:
    """Text for XML."""
    return escape(NOT_XML.sub("\ufffd", text))


def _is_from_right(words: Sequence[str]) -> bool:
    """Whether most letters with a direction are written from right to left."""
    directions = [unicodedata.bidirectional(letter) for word in words for letter in word]
    return sum(direction in ("R", "AL") for direction in directions) > directions.count("L")


def _width(text: str, size: float) -> float:
    """The approximate width of a text in a sans-serif font."""
    return size * sum(_letter_width(letter) for letter in text)


def _letter_width(letter: str) -> float:
    if unicodedata.combining(letter) or unicodedata.category(letter) == "Cf":
        return 0.0
    if unicodedata.east_asian_width(letter) in "WF":
        return 1.0
    if letter in "ijlI.,:;'!|()[]ft ’‘":
        return 0.4
    return 0.95 if letter in "mwMW@—…" else 0.7 if letter.isupper() else 0.62
