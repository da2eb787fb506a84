"""Draws the triples of the pipeline `"relation-extraction"` as a graph."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from msattn.analysis.arc_diagram import Arc, arcs_document, arcs_picture, printable
from msattn.data.inputs.raw_text import refuse_surrogates
from msattn.errors import UserError, shown


def relation_graph(triples: Iterable[Any], path: str | os.PathLike | None = None) -> str:
    """
    Draws triples as SVG: the entities in a row, in the order of the text, and an arc from head to tail a relation.

    Entities of the same text are one, and of equal relations between them the one of the highest score is drawn. The
    score is a tooltip. Entities that are written from right to left are drawn so.

    Args:
        triples (`Iterable`):
            What the pipeline `"relation-extraction"` returns for a text with entities, or for a list of these: `head`
            and `tail` with `text` and `start`, `label` and optionally `score`.
        path (`str` or `os.PathLike`, *optional*):
            The file to write: `.svg`, or `.dot` or `.gv` for the graph in the language of Graphviz.

    Returns:
        `str`: What is written: SVG, or DOT if `path` has that ending.

    Raises:
        UserError: `path` has another ending, a triple lacks a part, or a text has half of a character (a lone
            surrogate).

    Example:

    ```python
    >>> from msattn.analysis import relation_graph

    >>> svg = relation_graph(extract({"text": text, "entities": entities}), "relations.svg")
    ```
    """
    suffix = Path(path).suffix.lower() if path is not None else ".svg"
    if suffix not in (".svg", ".dot", ".gv"):
        raise UserError(f"{os.fspath(path or '')}: a graph is saved as .svg, .dot or .gv.")
    names, edges = _graph(triples)
    graph = _svg(names, edges) if suffix == ".svg" else _dot(names, edges)
    if path is not None:
        Path(path).write_text(graph, encoding="utf-8")
    return graph


# Numbers of head and tail, and the label.
Edge = tuple[int, int, str]


def _graph(triples: Iterable[Any]) -> tuple[list[str], dict[Edge, float | None]]:
    """The entities in the order of the text, and the relations between them with their scores."""
    # The number of the text, and the place there.
    starts: dict[str, tuple[int, int]] = {}
    scores: dict[tuple[str, str, str], float | None] = {}
    rows = list(triples)
    texts = rows if all(isinstance(row, list) for row in rows) else [rows]
    for number, triple in ((number, triple) for number, text in enumerate(texts) for triple in text):
        try:
            head, tail, label = triple["head"], triple["tail"], triple["label"]
            for entity in (head, tail):
                place = number, entity["start"]
                starts[entity["text"]] = min(place, starts.get(entity["text"], place))
            key = head["text"], tail["text"], label
            for text in key:
                refuse_surrogates(text)
            found = [score for score in (triple.get("score"), scores.get(key)) if score is not None]
            scores[key] = max(found, default=None)
        except (KeyError, TypeError, AttributeError):
            raise UserError(
                f'a triple needs "label", and "head" and "tail" with "text" and "start", but is {shown(triple)}.'
            ) from None
    names = sorted(starts, key=starts.__getitem__)
    at = {name: position for position, name in enumerate(names)}
    return names, {(at[head], at[tail], label): score for (head, tail, label), score in scores.items()}


def _svg(names: list[str], edges: dict[Edge, float | None]) -> str:
    arcs = [
        Arc(min(head, tail), max(head, tail), tail, label, f"{names[head]} → {names[tail]}: {_scored(label, score)}")
        for (head, tail, label), score in edges.items()
    ]
    arcs.sort(key=lambda arc: (arc.right - arc.left, arc.left))
    return arcs_document([arcs_picture(names, arcs)])


def _dot(names: list[str], edges: dict[Edge, float | None]) -> str:
    lines = [f"  {number} [label={_quoted(name)}];" for number, name in enumerate(names)]
    lines += [
        f"  {head} -> {tail} [label={_quoted(label)}, tooltip={_quoted(_scored(label, score))}];"
        for (head, tail, label), score in edges.items()
    ]
    return "\n".join(["digraph relations {", "  rankdir=LR;", "  node [shape=box, style=rounded];", *lines, "}\n"])


def _scored(label: str, score: float | None) -> str:
    return label if score is None else f"{label} ({score:.2f})"


def _quoted(text: str) -> str:
    """A string of DOT, where a backslash starts an escape."""
    escaped = printable(text).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
