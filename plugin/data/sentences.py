"""Reads labelled sentences and sentence pairs from tables, Hub datasets and published corpora."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import pyarrow as pa
from datasets import Dataset, Features, IterableDataset, Value

from msattn.data.files.arrow_tables import (
    Located,
    is_text,
    located_rows,
    named_table,
    parquet_dataset,
    rows_to_dataset,
    without_empty,
)
from msattn.data.files.checked_text import check_cell
from msattn.data.files.records import READERS, guess_format
from msattn.data.files.text_lines import first_line
from msattn.data.formats.glue import GLUE_TASKS
from msattn.data.formats.mtl16 import review_rows
from msattn.data.formats.sentiment_trees import sentiment_tree_rows
from msattn.data.formats.snli import snli_rows
from msattn.errors import UserError, shown

WHOLE = re.compile(r"\+?(-?[0-9]{1,4000})(?:\.0+)?")
NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
# Columns of strings that are no texts: ids (`idx`, `pair_ID`, `uid`), and what tells the label (`label_text`).
NOT_TEXTS = re.compile(r"(?i:label|gold|^index$|^idx$|^[gu]?u?id$|_id$)|[a-z](ID|Id)$")


def read_sentences(
    path: str | os.PathLike,
    columns: Sequence[str] | None = None,
    label_column: str = "label",
    phrases: bool = False,
) -> Dataset:
    """
    Reads a CSV, TSV (without quoting), JSON, JSON lines or Parquet file, or a file of SST-5, SNLI or MTL-16.

    Files of SST-5, SNLI and MTL-16 are recognized by their first line.

    Args:
        path (`str` or `os.PathLike`): The file, in UTF-8.
        columns (`Sequence[str]`, *optional*):
            The one or two text columns. Default: those of a GLUE task, such as `sentence1` and `sentence2`, or else
            the first one or two string columns other than numbers, ids such as `pair_ID`, and those with "label" or
            "gold" in their names.
        label_column (`str`, *optional*, defaults to `"label"`): The label column.
        phrases (`bool`, *optional*, defaults to `False`): Whether to read all phrases of SST-5 trees.

    Returns:
        `datasets.Dataset`: The text columns, and `label` (str) if the rows are labelled.

    Raises:
        UserError: The file is malformed or has no text column, a text is missing, only some rows have a label, or
            `phrases` is set for a file other than SST-5 trees.
    """
    name = os.fspath(path)
    corpus = _corpus(path)
    if phrases and corpus is not sentiment_tree_rows:
        raise UserError(f"{name}: only the trees of SST-5 have phrases.")
    if corpus is not None:
        rows = sentiment_tree_rows(path, phrases=True) if phrases else corpus(path)
        return _renamed(_by_rows(rows, name, None, "label"), columns, name)
    file_format = guess_format(path)
    if file_format == "parquet":
        return to_sentences(parquet_dataset(path), name, columns, label_column)
    if file_format is None:
        raise UserError(f"{name}: the file must be CSV, TSV, JSON, JSON lines or Parquet.")
    return _by_rows(READERS[file_format](path), name, columns, label_column)


def to_sentences(
    dataset: Dataset | IterableDataset,
    source: str = "dataset",
    columns: Sequence[str] | None = None,
    label_column: str = "label",
) -> Dataset:
    """
    Converts a dataset, such as one from the Hub, to the columns of [`read_sentences`].

    Args:
        dataset (`datasets.Dataset` or `datasets.IterableDataset`):
            Rows of texts and labels. Ids of a `ClassLabel` are replaced by its names.
        source (`str`, *optional*, defaults to `"dataset"`): The name of the dataset in error messages.
        columns (`Sequence[str]`, *optional*): The one or two text columns; see [`read_sentences`].
        label_column (`str`, *optional*, defaults to `"label"`): The label column.

    Returns:
        `datasets.Dataset`: The text columns, and `label` (str) if the rows are labelled.

    Raises:
        UserError: The dataset is empty or has no text column, a text is missing, or only some rows have a label.
    """
    found = _by_columns(dataset, source, columns, label_column) if isinstance(dataset, Dataset) else None
    return found if found is not None else _by_rows(located_rows(dataset, source), source, columns, label_column)


def text_columns(where: str, row: Any, label_column: str = "label") -> list[str]:
    """
    The one or two columns of a row that hold its text; see [`read_sentences`].

    Raises:
        UserError: There is none.
    """
    names = list(row) if isinstance(row, dict) else []
    # Pairs first: the column `sentence` of CoLA is also one of the two columns of QNLI.
    for columns in sorted((list(task.columns) for task in GLUE_TASKS.values()), key=len, reverse=True):
        if set(columns) <= set(names):
            return columns
    texts = [n for n in names if isinstance(row[n], str) and n != label_column and not NOT_TEXTS.search(n)]
    # In tables, numbers are strings.
    texts = [name for name in texts if not NUMBER.fullmatch(row[name].strip())] or texts
    if not texts:
        names_found = ", ".join(names) or "no columns"
        raise UserError(f"{where}: there is no column of text beside {label_column} among {names_found}.")
    return texts[:2]


def _by_rows(rows: Located, source: str, columns: Sequence[str] | None, label_column: str) -> Dataset:
    rows = iter(rows)
    first = next(rows, None)
    if first is None:
        raise UserError(f"{source}: there is no example in it.")
    columns = columns or text_columns(*first, label_column)
    features = Features(dict.fromkeys([*columns, "label"], Value("string")))
    examples = _examples(chain([first], rows), columns, label_column)
    return without_empty(rows_to_dataset(examples, features, source, "label"), "label")


def _examples(rows: Located, columns: Sequence[str], label_column: str) -> Located:
    for where, row in rows:
        for column in columns:
            if not isinstance(row, dict) or not isinstance(row.get(column), str):
                raise UserError(f"{where}: the row has no text in {column!r}.")
        label = _label(row.get(label_column), where)
        yield where, {**{column: row[column] for column in columns}, "label": label}


def _by_columns(dataset: Dataset, source: str, columns: Sequence[str] | None, label_column: str) -> Dataset | None:
    """The examples, checked by whole columns; `None` if anything is wrong, which a look at the rows then names."""
    if not len(dataset):
        return None
    columns = columns or text_columns(f"{source}, row 1", dataset[0], label_column)
    table = named_table(dataset)
    if not set(columns) <= set(table.column_names) or not all(is_text(table[name]) for name in columns):
        return None
    found = {name: table[name].cast(pa.string()) for name in columns}
    if label_column in table.column_names:
        try:
            values = table[label_column].combine_chunks().dictionary_encode()
            labels = pa.array([_label(value, "") for value in values.dictionary.to_pylist()], pa.string())
        except (UserError, pa.ArrowNotImplementedError):
            return None
        found["label"] = labels.take(values.indices)
    if found.get("label", pa.nulls(0)).null_count not in (0, len(table)):
        return None
    dataset = Dataset(pa.table(found))
    return without_empty(dataset, "label") if "label" in found else dataset


def _corpus(path: str | os.PathLike) -> Callable[..., Located] | None:
    """The reader for files of SST-5, MTL-16 and SNLI; `None` for other files."""
    if Path(path).suffix.lower() in (".csv", ".parquet"):
        return None
    _, line = first_line(path, fallback="latin-1")
    if re.match(r"\([0-4] ", line):
        return sentiment_tree_rows
    if re.match(r"[01]\t[^\t]*$", line):
        return review_rows
    # A number is an id, not a premise.
    if re.match(r"(?!\d+\t)[^\t]+\t[^\t]+\t[012]$", line) or (line.startswith("{") and '"annotator_labels"' in line):
        return snli_rows
    return None


def _renamed(dataset: Dataset, columns: Sequence[str] | None, path: str) -> Dataset:
    own = [name for name in dataset.column_names if name != "label"]
    if columns is not None and len(columns) != len(own):
        raise UserError(f"{path}: the file has {' and '.join(own)}, and not {' and '.join(columns)}.")
    return dataset.rename_columns(dict(zip(own, columns or own, strict=True)))


def _label(value: Any, where: str) -> str | None:
    """A label as a string; `None` if it is empty or missing."""
    if isinstance(value, (list, dict)):
        raise UserError(f"{where}: the label must be a string or a number, not {shown(value)}.")
    label = "" if value is None else str(value).strip()
    if label.lower().lstrip("+-") in ("nan", "inf", "infinity"):
        raise UserError(f"{where}: the label {shown(value)} is not a finite number.")
    # `1.0`, as pandas writes whole numbers beside empty cells, and `+1` are whole numbers.
    whole = WHOLE.fullmatch(label)
    return (whole[1] if whole else check_cell(label, "label", where)) or None
