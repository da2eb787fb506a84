"""Draws the triples of the pipeline `"relation-extraction"` as a graph."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Any

from msattn.plots.arcs import Arc, write_arcs


def relation_graph(triples: Iterable[Any], path: str | os.PathLike | None = None) -> str:
    """
    Draws triples as SVG: the entities in a row, in the order of the text, and an arc from head to tail a relation.

    Entities of the same text are one, and of equal relations between them the one of the highest score is drawn. The
    score is a tooltip. Entities that are written from right to left are drawn so.

    Args:
        triples (`Iterable`):
            What the pipeline `"relation-extraction"` returns for a text with entities, or for a list of these: `head`
            and `tail` with `text` and `start`, `label` and optionally `score`. Items of `on_error="return"` that are
            errors are left out. `doc._.relations` of spaCy works, too.
        path (`str` or `os.PathLike`, *optional*): The `.svg` file to write.

    Returns:
        `str`: The SVG document.

    Raises:
        UserError: `path` does not end in `.svg`.

    Example:

    ```python
    >>> from msattn.plots import relation_graph

    >>> svg = relation_graph(extract({"text": text, "entities": entities}), "relations.svg")
    ```
    """
    # The number of the text, and the place there.
    starts: dict[str, tuple[int, int]] = {}
    scores: dict[tuple[str, str, str], float | None] = {}
    rows: list[Any] = list(triples)
    several = any(isinstance(row, list) for row in rows)
    texts = [row if isinstance(row, list) else [row] for row in rows] if several else [rows]
    found = ((number, triple) for number, text in enumerate(texts) for triple in text if triple.get("label"))
    for number, triple in found:
        (head, at_head), (tail, at_tail) = map(_entity, (triple["head"], triple["tail"]))
        for name, start in ((head, at_head), (tail, at_tail)):
            starts[name] = min((number, start), starts.get(name, (number, start)))
        key = head, tail, triple["label"]
        scores[key] = max(
            (score for score in (triple.get("score"), scores.get(key)) if score is not None), default=None
        )
    names = sorted(starts, key=starts.__getitem__)
    arcs = []
    for (head, tail, label), score in scores.items():
        title = f"{head} → {tail}: {label}" + ("" if score is None else f" ({score:.2f})")
        arcs.append(Arc(names.index(head), names.index(tail), label, title))
    return write_arcs([(names, arcs)], path)


def _entity(entity: Any) -> tuple[str, int]:
    """The words and the start of an entity: an object, or a `Span` of spaCy."""
    if isinstance(entity, Mapping):
        return entity["text"], entity["start"]
    return entity.text, entity.start_char
