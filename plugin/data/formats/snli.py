"""Reads SNLI from its JSON lines or from the table of the RE2 release."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

from datasets import ClassLabel, Dataset, Features, Value
from transformers.utils import logging

from msattn.data.files.arrow_tables import rows_to_dataset
from msattn.data.files.records import parse_json
from msattn.data.files.text_lines import text_lines
from msattn.errors import UserError

logger = logging.get_logger(__name__)

# The order of the Hub, which the table uses too.
SNLI_LABELS = ("entailment", "neutral", "contradiction")


def read_snli(path: str | os.PathLike) -> Dataset:
    """
    Reads an SNLI file: the published JSON lines, or lines `premise TAB hypothesis TAB label id`.

    Pairs without a gold label (`"-"`) are dropped, as is usual, and counted in a warning.

    Args:
        path (`str` or `os.PathLike`): The file, in UTF-8.

    Returns:
        `datasets.Dataset`: `premise`, `hypothesis` and `label`.

    Raises:
        UserError: The file cannot be read or has no labelled pair, or a line is malformed. The message names file and
            line.
    """
    features = Features(
        {"premise": Value("string"), "hypothesis": Value("string"), "label": ClassLabel(names=list(SNLI_LABELS))}
    )
    dataset = rows_to_dataset(_rows(path), features)
    if not len(dataset):
        raise UserError(f"{os.fspath(path)}: there is no labelled pair in it.")
    return dataset


def _rows(path: str | os.PathLike) -> Iterator[dict[str, Any]]:
    undecided = 0
    for where, line in text_lines(path):
        if not line.strip():
            continue
        premise, hypothesis, label = _json_row(line, where) if line.startswith("{") else _table_row(line, where)
        if label == "-":
            undecided += 1
            continue
        if label not in SNLI_LABELS:
            raise UserError(f"{where}: {label!r} is not a label of SNLI; it has {', '.join(SNLI_LABELS)} and -.")
        yield {"premise": premise, "hypothesis": hypothesis, "label": SNLI_LABELS.index(label)}
    if undecided:
        logger.warning(f"{os.fspath(path)}: {undecided} pairs have the label - and were left out.")


def _json_row(line: str, where: str) -> tuple[str, str, str]:
    row = parse_json(line.strip(), where)
    cells = [row.get(name) for name in ("sentence1", "sentence2", "gold_label")]
    if not all(isinstance(cell, str) for cell in cells):
        raise UserError(f"{where}: the row must have the strings sentence1, sentence2 and gold_label.")
    premise, hypothesis, label = cells
    return premise, hypothesis, label


def _table_row(line: str, where: str) -> tuple[str, str, str]:
    cells = line.rstrip("\n").split("\t")
    if len(cells) != 3 or cells[2] not in ("0", "1", "2"):
        raise UserError(f"{where}: the line has to be a JSON object, or premise, hypothesis and 0, 1 or 2.")
    return cells[0], cells[1], SNLI_LABELS[int(cells[2])]
