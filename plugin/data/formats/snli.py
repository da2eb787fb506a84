"""Reads SNLI from its JSON lines or from the table of the RE2 release."""

from __future__ import annotations

import os

from transformers.utils import logging

from msattn.data.files.arrow_tables import Located
from msattn.data.files.records import parse_json
from msattn.data.files.text_lines import text_lines
from msattn.errors import UserError

logger = logging.get_logger(__name__)

# The order of the Hub, which the table uses too.
SNLI_LABELS = ("entailment", "neutral", "contradiction")


def snli_rows(path: str | os.PathLike) -> Located:
    """
    Reads an SNLI file: the published JSON lines, or lines `premise TAB hypothesis TAB label id`.

    Pairs without a gold label (`"-"`) are dropped, as is usual, and counted in a warning.

    Args:
        path (`str` or `os.PathLike`): The file, in UTF-8.

    Yields:
        `tuple[str, dict[str, str]]`: The location, and a row with `premise`, `hypothesis` and `label`.

    Raises:
        UserError: The file cannot be read, or a line is malformed. The message names file and line.
    """
    undecided, numbers = 0, False
    for where, line in text_lines(path):
        if not line.strip():
            continue
        if line.startswith("{"):
            row = parse_json(line.strip(), where)
            cells = [row.get(name) for name in ("sentence1", "sentence2", "gold_label")]
        else:
            cells = line.rstrip("\n").split("\t")
            if len(cells) == 3 and cells[2] in ("0", "1", "2"):
                cells[2] = SNLI_LABELS[int(cells[2])]
                if not numbers:
                    logger.warning(
                        f"{where}: without a header, the line is read as of SNLI: 0 is entailment, 1 neutral and 2 "
                        "contradiction; other data need a header."
                    )
                numbers = True
        if len(cells) != 3 or None in cells or cells[2] not in (*SNLI_LABELS, "-"):
            raise UserError(
                f"{where}: the line has to be a JSON object with sentence1, sentence2 and gold_label "
                f"({', '.join(SNLI_LABELS)} or -), or premise, hypothesis and 0, 1 or 2."
            )
        if cells[2] == "-":
            undecided += 1
        else:
            yield where, dict(zip(("premise", "hypothesis", "label"), cells, strict=True))
    if undecided:
        logger.warning(f"{os.fspath(path)}: {undecided} pairs have the label - and were left out.")
