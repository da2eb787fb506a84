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


def brat_rows(path: str | os.PathLike) -> Iterator[tuple[str, dict[str, Any]]]:
    """
    Reads a folder of brat, or one of its documents, as rows of [`~msattn.data.entity_pairs.pair_rows`].

    Entities (`T1 TAB type start end TAB text`, in characters) and binary relations (`R1 TAB type Arg1:T1 Arg2:T2`) are
    read. Entities of several parts are left out, as are relations of these and of events; a warning counts them.

    Args:
        path (`str` or `os.PathLike`): The folder, or a `.ann` file.

    Raises:
        UserError: A folder has no `.ann` file, one of these has no `.txt` file, or a line is malformed.
    """
    files = sorted(Path(path).rglob("*.ann")) if Path(path).is_dir() else [Path(path)]
    if not files:
        raise UserError(f"{os.fspath(path)}: the folder has no file that ends in .ann, as those of brat do.")
    dropped: Counter = Counter()
    for file in files:
        text = "".join(line for _, line in text_lines(file.with_suffix(".txt"), newline=""))
        entities: list[dict[str, Any]] = []
        numbers: dict[str, int] = {}
        relations = []
        for where, line in text_lines(file):
            name, _, rest = line.rstrip("\n").partition("\t")
            fields = rest.partition("\t")[0].split(" ")
            try:
                if name[:1] == "T" and ";" in rest.partition("\t")[0]:
                    dropped["entities of several parts"] += 1
                elif name[:1] == "T":
                    of, start, end = fields
                    numbers[name] = len(entities)
                    entities.append(
                        {"start": int(start), "end": int(end), "type": of, "text": rest.partition("\t")[2] or None}
                    )
                elif name[:1] == "R":
                    of, *arguments = fields
                    head, tail = (argument.partition(":")[2] for argument in arguments[:2])
                    relations.append((of, head, tail))
                elif name[:1] == "E":
                    dropped["events"] += 1
            except ValueError:
                raise UserError(
                    f"{where}: the line is neither `T1 TAB type start end TAB text` nor `R1 TAB type Arg1:T1 Arg2:T2`."
                ) from None
        known = [(of, head, tail) for of, head, tail in relations if head in numbers and tail in numbers]
        dropped["relations of such"] += len(relations) - len(known)
        related = [{"head": numbers[head], "tail": numbers[tail], "type": of} for of, head, tail in known]
        yield os.fspath(file), {"id": file.stem, "text": text, "entities": entities, "relations": related}
    if +dropped:
        counts = ", ".join(f"{count} {what}" for what, count in (+dropped).items())
        logger.warning(f"{os.fspath(path)}: left out are {counts}.")
