"""Reads the standoff annotation of brat: `.txt` files beside `.ann` files."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from transformers.utils import logging

from msattn.data.files.text_lines import text_lines
from msattn.errors import UserError

logger = logging.get_logger(__name__)

# What is counted, by the first letter of its name.
OTHERS = {"E": "events", "A": "attributes", "M": "attributes", "*": "equivalences"}


def brat_rows(path: str | os.PathLike) -> Iterator[tuple[str, dict[str, Any]]]:
    """
    Reads a folder of brat, or one of its documents, as rows of [`~msattn.data.entity_pairs.pair_rows`].

    Entities (`T1 TAB type start end TAB text`, in characters) and binary relations (`R1 TAB type Arg1:T1 Arg2:T2`) are
    read. Entities of several parts are left out, as are relations of these and of events, equivalences and attributes;
    a warning counts them. Parts with only white space between them are one: brat divides an entity at a line end.

    Args:
        path (`str` or `os.PathLike`): The folder, or a `.ann` file.

    Raises:
        UserError: A folder has no `.ann` file, one of these has no `.txt` file, a line is malformed, a name is there
            twice, or a relation names an entity that is not there.
    """
    files = sorted(Path(path).rglob("*.ann")) if Path(path).is_dir() else [Path(path)]
    if not files:
        raise UserError(f"{os.fspath(path)}: the folder has no file that ends in .ann, as those of brat do.")
    dropped: Counter = Counter()
    for file in files:
        text = "".join(line for _, line in text_lines(file.with_suffix(".txt"), newline=""))
        entities: list[dict[str, Any]] = []
        numbers: dict[str, int | None] = {}  # of the entities that are read
        relations = []
        for where, line in text_lines(file):
            name, _, rest = line.rstrip("\n").partition("\t")
            bounds, _, named = rest.partition("\t")
            of, _, fields = bounds.partition(" ")
            if name in numbers:
                raise UserError(f"{where}: {name} is there twice; each entity needs a name of its own.")
            try:
                if name[:1] == "T":
                    start, *inner, end = map(int, fields.replace(";", " ").split())
                    gaps = [text[slice(*gap)] for gap in zip(inner[::2], inner[1::2], strict=True)]
                    whole = not "".join(gaps).strip()
                    numbers[name] = len(entities) if whole else None
                    if whole:
                        entities.append({"start": start, "end": end, "type": of, "text": named or None})
                    else:
                        dropped["entities of several parts"] += 1
                elif name[:1] == "R":
                    (role, _, head), (_, _, tail) = (argument.partition(":") for argument in fields.split())
                    relations.append((where, of, *((tail, head) if role == "Arg2" else (head, tail))))
                elif name[:1] in OTHERS:
                    dropped[OTHERS[name[:1]]] += 1
            except ValueError:
                raise UserError(
                    f"{where}: the line is neither `T1 TAB type start end TAB text` nor `R1 TAB type Arg1:T1 Arg2:T2`."
                ) from None
        related = []
        for where, of, *ends in relations:
            if missing := [end for end in ends if end not in numbers and end[:1] != "E"]:
                raise UserError(f"{where}: the relation names {missing[0]}, which is not in the file.")
            pair = [numbers.get(end) for end in ends]
            if None in pair:
                dropped["relations of such"] += 1
            else:
                related.append({"head": pair[0], "tail": pair[1], "type": of})
        yield os.fspath(file), {"id": file.stem, "text": text, "entities": entities, "relations": related}
    if +dropped:
        counts = ", ".join(f"{count} {what}" for what, count in (+dropped).items())
        logger.warning(f"{os.fspath(path)}: left out are {counts}.")
