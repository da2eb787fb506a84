"""Writes the results of the relation extraction pipeline as triples."""

from __future__ import annotations

import csv
import io
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from msattn.errors import UserError

COLUMNS = ("text", "head", "head_type", "relation", "tail", "tail_type", "score", "head_start", "tail_start")


def write_triples(results: Iterable[Any], path: str | os.PathLike) -> int:
    """
    Writes triples as a table (`.csv`) or as JSON lines (`.jsonl`).

    The columns are the number of the text, the words and types of head and tail, the relation, its probability, and
    where head and tail start. Items with an error or without a label are left out.

    Args:
        results (`Iterable`): The results of the pipeline for one text or for many, `doc._.relations` among them.
        path (`str` or `os.PathLike`): The file to write.

    Returns:
        `int`: The number of triples.

    Raises:
        UserError: The name of the file has another ending.
    """
    suffix = Path(path).suffix.lower()
    if suffix not in (".csv", ".jsonl"):
        raise UserError(f"{os.fspath(path)}: triples are written as .csv or .jsonl.")
    results = [results] if isinstance(results, Mapping) else list(results)
    # Of several entities, an item begins with its head; of a marked pair, which is a text of its own, with its label.
    of_one_text = all(isinstance(each, Mapping) and next(iter(each), None) == "head" for each in results)
    texts = [results] if of_one_text else results
    rows = [row for number, relations in enumerate(texts) for row in _rows(number, relations)]
    buffer = io.StringIO()
    if suffix == ".csv":
        writer = csv.DictWriter(buffer, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    else:
        buffer.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    Path(path).write_text(buffer.getvalue(), encoding="utf-8")
    return len(rows)


def _rows(number: int, relations: Any) -> Iterator[dict[str, Any]]:
    for relation in [relations] if isinstance(relations, Mapping) else relations:
        if relation.get("label") is not None:
            head, tail = (entity_of(relation[role]) for role in ("head", "tail"))
            yield {
                **{"text": number, "head": head[0], "head_type": head[1], "relation": relation["label"]},
                **{"tail": tail[0], "tail_type": tail[1], "score": round(relation["score"], 6)},
                **{"head_start": head[2], "tail_start": tail[2]},
            }


def entity_of(entity: Any) -> tuple[str, str, int]:
    """The words, type and start of an entity: an object, or a `Span` of spaCy."""
    if isinstance(entity, Mapping):
        return entity["text"], entity.get("label", ""), entity["start"]
    return entity.text, entity.label_, entity.start_char
