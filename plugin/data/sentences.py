"""Reads labelled sentences and sentence pairs from tables, Hub datasets and published corpora."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from itertools import chain, islice
from typing import Any

from datasets import Dataset, Features, IterableDataset, Value
from transformers.utils import logging

from msattn.data.columns import LOOKED_AT, check_header, find_column, ignored_columns, text_columns
from msattn.data.files.arrow_tables import (
    Located,
    class_names,
    located_rows,
    parquet_dataset,
    rows_to_dataset,
    without_empty,
)
from msattn.data.files.checked_text import check_cell, refuse_nan
from msattn.data.files.records import READERS, guess_format
from msattn.data.files.text_lines import first_line, suffix_of
from msattn.data.formats.mtl16 import review_rows
from msattn.data.formats.sentiment_trees import sentiment_tree_rows
from msattn.data.formats.snli import snli_rows
from msattn.errors import UserError, shown

logger = logging.get_logger(__name__)

WHOLE = re.compile(r"\+?(-?[0-9]{1,4000})(?:\.0+)?")


def read_sentences(
    path: str | os.PathLike,
    columns: Sequence[str] | None = None,
    label_column: str = "label",
    phrases: bool = False,
    labelled: bool = False,
) -> Dataset:
    """
    Reads a CSV, TSV, JSON, JSON lines or Parquet file, or a file of SST-5, SNLI or MTL-16.

    CSV is separated by commas, semicolons, tabs or vertical bars. In TSV, quotation marks are text, unless a field is
    quoted and has doubled ones inside. Files of SST-5, SNLI and MTL-16 are recognized by their first line.

    Args:
        path (`str` or `os.PathLike`): The file, in UTF-8.
        columns (`Sequence[str]`, *optional*):
            The one or two text columns. Default: two whose names say that they are a pair, such as `sentence1` and
            `sentence2`; or the one named `text`, `sentence` and the like; or the longest of the string columns other
            than numbers, ids such as `pair_ID`, and those with "label" or "gold" in their names.
        label_column (`str`, *optional*, defaults to `"label"`): The label column.
        phrases (`bool`, *optional*, defaults to `False`): Whether to read all phrases of SST-5 trees.
        labelled (`bool`, *optional*, defaults to `False`):
            Whether to refuse a table without labels. Rows whose text is empty are then left out, with a warning.

    Returns:
        `datasets.Dataset`: The text columns, and `label` (str) if the rows are labelled.

    Raises:
        UserError: The file is malformed or has no text column, only some rows have a label, or `phrases` is set for a
            file other than SST-5 trees. With `labelled`, a table has no label column; without it, a text is empty.
    """
    name = os.fspath(path)
    corpus = corpus_of(path)
    if phrases and corpus is not sentiment_tree_rows:
        raise UserError(f"{name}: only the trees of SST-5 have phrases.")
    if corpus is not None:
        rows = sentiment_tree_rows(path, phrases=True) if phrases else corpus(path)
        return _renamed(_by_rows(rows, name, None, "label", published=True), columns, name)
    file_format = guess_format(path)
    if file_format is None:
        raise UserError(f"{name}: the file must be CSV, TSV, JSON, JSON lines or Parquet.")
    if file_format == "parquet":
        return to_sentences(parquet_dataset(path), name, columns, label_column, labelled)
    return _by_rows(READERS[file_format](path), name, columns, label_column, labelled)


def to_sentences(
    dataset: Dataset | IterableDataset,
    source: str = "dataset",
    columns: Sequence[str] | None = None,
    label_column: str = "label",
    labelled: bool = False,
) -> Dataset:
    """
    Converts a dataset, such as one from the Hub, to the columns of [`read_sentences`].

    Args:
        dataset (`datasets.Dataset` or `datasets.IterableDataset`):
            Rows of texts and labels. Ids of a `ClassLabel` are replaced by its names.
        source (`str`, *optional*, defaults to `"dataset"`): The name of the dataset in error messages.
        columns (`Sequence[str]`, *optional*): The one or two text columns; see [`read_sentences`].
        label_column (`str`, *optional*, defaults to `"label"`): The label column.
        labelled (`bool`, *optional*, defaults to `False`): See [`read_sentences`].

    Returns:
        `datasets.Dataset`: The text columns, and `label` (str) if the rows are labelled.

    Raises:
        UserError: The dataset is empty or has no text column, or only some rows have a label. With `labelled`, there
            is no label column; without it, a text is empty.
    """
    label = find_column(label_column, dataset.features or ())
    if isinstance(dataset, Dataset) and label is not None and class_names(dataset.features[label]):
        known = [row for row, number in enumerate(dataset[label][:]) if number not in (None, -1)]
        if 0 < len(known) < len(dataset):  # as in SNLI
            logger.warning(f"{source}: {len(dataset) - len(known)} examples of no class (-1) are left out.")
            dataset = dataset.select(known)
    return _by_rows(located_rows(dataset, source), source, columns, label_column, labelled)


def _by_rows(
    rows: Located,
    source: str,
    columns: Sequence[str] | None,
    label_column: str,
    labelled: bool = False,
    published: bool = False,
) -> Dataset:
    rows = iter(rows)
    first = list(islice(rows, LOOKED_AT))
    if not first:
        raise UserError(f"{source}: there is no example in it.")
    where, row = first[0]
    if not isinstance(row, dict):
        raise UserError(f"{where}: a row has to be an object with a text and a label, not {shown(row)}.")
    own = _columns(source, where, [row for _, row in first], columns, label_column)
    columns = columns or own
    features = Features(dict.fromkeys([*columns, "label"], Value("string")))
    label = find_column(label_column, row)
    if labelled and label is None:
        others = ignored_columns(own, row, label_column)
        flag = f"--label_column_name{f' {shlex.quote(others[0])}' if len(others) == 1 else ''}"
        raise UserError(
            f"{where}: there are no labels in {label_column!r}; the columns are {', '.join(row)} ({flag})."
        )
    rows = chain(first, rows)
    # A published corpus stays as it is: MTL-16 has empty reviews.
    empty = "kept" if published else "left out" if labelled else "wrong"
    examples = _examples(rows, source, dict(zip(columns, own, strict=True)), label or label_column, empty)
    return without_empty(rows_to_dataset(examples, features, source, "label"), "label")


def _columns(source: str, where: str, rows: list, columns: Sequence[str] | None, label_column: str) -> list[str]:
    """The columns of the texts as the table names them; the log names the ones that nobody asked for."""
    header = list(rows[0])
    if columns is None:
        check_header(where, header, label_column)
        found = text_columns(where, rows, label_column)
        if ignored := ignored_columns(found, header, label_column):
            logger.warning(
                f"{source}: the text is read from {' and '.join(found)}; ignored: {', '.join(ignored)} "
                "(--text_column_names takes others)."
            )
        return found
    own = [find_column(name, header) for name in columns]
    for name, there in zip(columns, own, strict=True):
        if there is None:
            raise UserError(f"{where}: there is no column {name!r} of text; there are {', '.join(header)}.")
    return [name for name in own if name is not None]


def _examples(rows: Located, source: str, columns: Mapping[str, str], label_column: str, empty: str) -> Located:
    """The texts and labels of rows. Empty texts are `"kept"`, `"wrong"`, or `"left out"`, with a warning."""
    left_out = []
    for where, row in rows:
        texts = {name: row.get(own) if isinstance(row, dict) else False for name, own in columns.items()}
        for name, text in texts.items():
            blank = text is None or not str(text).strip()
            if blank and empty == "left out":
                left_out.append(where)
                break
            if not isinstance(text, str) or (blank and empty == "wrong"):
                raise UserError(f"{where}: the row has no text in {columns[name]!r}.")
        else:
            yield where, {**texts, "label": _label(row.get(label_column), where)}
    if left_out:
        logger.warning(
            f"{source}: {len(left_out)} rows have no text and are left out, the first of them {left_out[0]}."
        )


def corpus_of(path: str | os.PathLike) -> Callable[..., Located] | None:
    """The reader for files of SST-5, MTL-16 and SNLI; `None` for other files."""
    if suffix_of(path) in (".csv", ".parquet"):
        return None
    _, line = first_line(path, fallback="latin-1")
    if re.match(r"\([0-4] (\([0-4] |[^ ]+\)$)", line):
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
    refuse_nan(value, "label", where)
    label = "" if value is None else str(value).strip()
    if label.lower().lstrip("+-") in ("inf", "infinity"):
        raise UserError(f"{where}: the label {shown(value)} is not a finite number.")
    # `1.0`, as pandas writes whole numbers beside empty cells, and `+1` are whole numbers.
    whole = WHOLE.fullmatch(label)
    return (whole[1] if whole else check_cell(label, "label", where)) or None
