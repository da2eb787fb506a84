"""Draws dependency trees as arc diagrams."""

from __future__ import annotations

import os
import unicodedata
from collections import defaultdict
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any, NamedTuple

from msattn.analysis.pictures import COLORS, FONTS, INK, MUTED
from msattn.data.inputs.raw_text import refuse_surrogates
from msattn.errors import UserError
from msattn.trees.parse_results import named_sentences

WORD_SIZE, LABEL_SIZE = 15, 11
# In pixels: word spacing, spacing of arc ends at a word, height of a level, corner radius, size of an arrowhead.
GAP, FOOT, LEVEL, CORNER, HEAD = 22, 9, 26, 10, 6
MARGIN = 14


class Arc(NamedTuple):
    """An arc between the words `left` and `right` that points at `dependent`; all are equal if it is the root's."""

    left: int
    right: int
    dependent: int
    label: str
    title: str


class _Picture(NamedTuple):
    """The picture of a sentence, in pixels."""

    width: float
    height: float
    from_right: bool
    shapes: list[str]


def arc_diagram(sentences: Sequence, path: str | os.PathLike | None = None) -> str:
    """
    Draws dependency trees as SVG, one below the other.

    Arrows point from heads to dependents; the arc of the root comes from above. A sentence in a script that is written
    from right to left is drawn so. Control characters are shown by their symbols.

    Args:
        sentences (`Sequence`):
            What the pipeline `"dependency-parsing"` returns, for a sentence, a text or a list of them. Of each word
            `word`, `head`, `relation` and optionally `score`, which is shown as a tooltip.
        path (`str` or `os.PathLike`, *optional*): The `.svg` file to write.

    Returns:
        `str`: The SVG document.

    Raises:
        UserError: `path` does not end in `.svg`, or a word has half of a character (a lone surrogate).

    Example:

    ```python
    >>> from msattn.analysis import arc_diagram

    >>> svg = arc_diagram(parse("Dogs sleep."), "tree.svg")  # parse = pipeline("dependency-parsing", ...)
    ```
    """
    if path is not None and Path(path).suffix.lower() != ".svg":
        raise UserError(f"{os.fspath(path)}: an arc diagram is saved as .svg.")
    pictures = [
        arcs_picture([str(word["word"]) for word in words], _arcs(words)) for _, words in named_sentences(sentences)
    ]
    picture = arcs_document(pictures)
    if path is not None:
        Path(path).write_text(picture, encoding="utf-8")
    return picture


def _arcs(words: Sequence[Mapping[str, Any]]) -> list[Arc]:
    """The arcs of a tree, shortest first."""
    arcs = []
    for dependent, word in enumerate(words):
        head = word["head"] - 1
        score = word.get("score")
        source = words[head]["word"] if head >= 0 else "ROOT"
        title = f"{source} → {word['word']}: {word['relation']}" + ("" if score is None else f" ({score:.2f})")
        # The arc of the root is vertical, above its dependent.
        other = head if head >= 0 else dependent
        arcs.append(Arc(min(other, dependent), max(other, dependent), dependent, word["relation"], title))
    return sorted(arcs, key=lambda arc: (arc.right - arc.left, arc.left))


def arcs_document(pictures: list[_Picture]) -> str:
    """The SVG document of pictures, one below the other."""
    width = max((picture.width for picture in pictures), default=MARGIN)
    parts, top = [], 0.0
    for picture in pictures:
        # From right to left, sentences start at the right.
        left = width - picture.width if picture.from_right else 0.0
        place = "" if not (left or top) else f' transform="translate({left:.1f} {top:.1f})"'
        direction = ' direction="rtl"' if picture.from_right else ""
        parts += [f"<g{place}{direction}>", *picture.shapes, "</g>"]
        top += picture.height
    fonts = ", ".join(f"'{font}'" for font in FONTS)
    height = max(top, 1.0)
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.1f} {height:.1f}" width="{width:.1f}" '
            f'height="{height:.1f}" font-family="{fonts}, sans-serif" text-anchor="middle">',
            '<rect width="100%" height="100%" fill="#ffffff"/>',
            *parts,
            "</svg>\n",
        ]
    )


def arcs_picture(words: list[str], arcs: list[Arc]) -> _Picture:
    """Words in a row with arcs above them."""
    for word in words:
        refuse_surrogates(word)
    offsets = _feet(arcs)
    centers = _centers(words, arcs, offsets)
    spans = {
        arc: (centers[arc.left] + offsets[arc, arc.left], centers[arc.right] + offsets[arc, arc.right]) for arc in arcs
    }
    levels = _levels(arcs, spans)
    width = (centers[-1] + _width(words[-1], WORD_SIZE) / 2 if words else 0) + MARGIN
    ground = MARGIN + LABEL_SIZE + LEVEL * max(levels.values(), default=0)
    height = ground + 2 * WORD_SIZE + MARGIN
    from_right = _is_from_right(words)
    if from_right:
        centers = [width - center for center in centers]
        spans = {arc: (width - left, width - right) for arc, (left, right) in spans.items()}
    shapes = [shape for arc in arcs for shape in _shape(arc, spans[arc], ground, levels[arc])]
    texts = [
        f'<text x="{center:.1f}" y="{ground + 1.5 * WORD_SIZE:.1f}">{escaped(word)}</text>'
        for word, center in zip(words, centers, strict=True)
    ]
    return _Picture(width, height, from_right, [*shapes, f'<g font-size="{WORD_SIZE}" fill="{INK}">', *texts, "</g>"])


def _is_from_right(words: list[str]) -> bool:
    """Whether most letters with a direction are written from right to left."""
    directions = [unicodedata.bidirectional(letter) for word in words for letter in word]
    return sum(direction in ("R", "AL") for direction in directions) > directions.count("L")


def escaped(text: str) -> str:
    """Text for XML."""
    return escape(printable(text))


def printable(text: str) -> str:
    """The text with symbols for control characters: XML has none of these."""
    return "".join(
        chr(0x2400 + ord(letter)) if letter < " " else "\ufffd" if letter in "\x7f\ufffe\uffff" else letter
        for letter in text
    )


def _feet(arcs: list[Arc]) -> dict[tuple[Arc, int], float]:
    """The horizontal offset of each arc end from its word: longer arcs nearer to the middle, so that none cross."""
    at: dict[int, list[tuple[tuple[int, int, int], Arc]]] = defaultdict(list)
    for number, arc in enumerate(arcs):
        length = arc.right - arc.left
        # The arc of the root is between the arcs to the left and to the right.
        at[arc.right].append(((0, length, number) if length else (1, 0, number), arc))
        if length:
            at[arc.left].append(((2, -length, -number), arc))
    for here in at.values():
        here.sort()
    return {
        (arc, word): FOOT * (number - (len(here) - 1) / 2)
        for word, here in at.items()
        for number, (_, arc) in enumerate(here)
    }


def _centers(words: list[str], arcs: list[Arc], offsets: Mapping[tuple[Arc, int], float]) -> list[float]:
    """The centre of each word, as close as words, arc ends and labels allow."""
    ending: dict[int, list[Arc]] = defaultdict(list)
    feet: dict[int, float] = defaultdict(float)
    for arc in arcs:
        ending[arc.right].append(arc)
        for end in (arc.left, arc.right):
            feet[end] = max(feet[end], 2 * abs(offsets[arc, end]))
    centers: list[float] = []
    edge = float(MARGIN)
    for number, word in enumerate(words):
        half = max(_width(word, WORD_SIZE), feet[number]) / 2
        center = edge + half
        for arc in ending[number]:
            label = _width(arc.label, LABEL_SIZE)
            if arc.left == arc.right:
                center = max(center, MARGIN + label / 2 - offsets[arc, number])
            else:
                start = centers[arc.left] + offsets[arc, arc.left]
                center = max(center, start + label + 2 * CORNER + 6 - offsets[arc, number])
        centers.append(center)
        edge = center + half + GAP
    return centers


def _levels(arcs: list[Arc], spans: Mapping[Arc, tuple[float, float]]) -> dict[Arc, int]:
    """The level of each arc: above all shorter arcs that it spans. The arc of the root is the highest."""
    levels: dict[Arc, int] = {}
    for arc in sorted(arcs, key=lambda arc: spans[arc][1] - spans[arc][0] or float("inf")):
        left, right = spans[arc]
        below = [level for other, level in levels.items() if spans[other][0] < right and spans[other][1] > left]
        levels[arc] = 1 + max(below, default=0) if left < right else 1 + max(levels.values(), default=0)
    return levels


def _shape(arc: Arc, span: tuple[float, float], ground: float, level: int) -> list[str]:
    tip = span[1] if arc.dependent == arc.right else span[0]
    left, right = sorted(span)
    top = ground - LEVEL * level
    foot = ground - 2
    color = COLORS[0] if left < right else MUTED
    if left < right:
        line = (
            f"M{left:.1f} {foot:.1f}V{top + CORNER:.1f}q0 -{CORNER} {CORNER} -{CORNER}H{right - CORNER:.1f}"
            f"q{CORNER} 0 {CORNER} {CORNER}V{foot:.1f}"
        )
    else:
        line = f"M{left:.1f} {top + LABEL_SIZE / 2:.1f}V{foot:.1f}"
    middle = (left + right) / 2
    box = _width(arc.label, LABEL_SIZE) + 6
    return [
        f"<g><title>{escaped(arc.title)}</title>",
        f'<path d="{line}" fill="none" stroke="{color}" stroke-width="1.3"/>',
        f'<path d="M{tip - HEAD / 2:.1f} {foot - HEAD:.1f}h{HEAD}L{tip:.1f} {foot + 1:.1f}z" fill="{color}"/>',
        f'<rect x="{middle - box / 2:.1f}" y="{top - 7:.1f}" width="{box:.1f}" height="14" fill="#ffffff"/>',
        f'<text x="{middle:.1f}" y="{top + LABEL_SIZE / 3:.1f}" font-size="{LABEL_SIZE}" fill="{INK}">'
        f"{escaped(arc.label)}</text></g>",
    ]


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
