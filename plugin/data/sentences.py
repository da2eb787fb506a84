"""Reads labelled sentences and sentence pairs from tables and published corpora."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

from datasets import Dataset, Features, Value

from msattn.data.files.arrow_tables import rows_to_dataset
from msattn.data.files.checked_text import check_cell, check_text
from msattn.data.files.records import READERS, guess_format
from msattn.data.files.text_lines import text_lines
from msattn.data.formats.glue import GLUE_TASKS
from msattn.data.formats.mtl16 import read_reviews
from msattn.data.formats.sentiment_trees import read_sentiment_trees
from msattn.data.formats.snli import read_snli
from msattn.errors import UserError, shown
from msattn.plain_numbers import NUMBER, is_odd_number

WHOLE = re.compile(r"\+?(-?[0-9]{1,4000})(?:\.0+)?")
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
    reader = _corpus_reader(path)
    if reader is read_sentiment_trees:
        reader = partial(read_sentiment_trees, phrases=phrases)
    elif phrases:
        raise UserError(f"{os.fspath(path)}: only the trees of SST-5 have phrases.")
    if reader is not None:
        return _named(reader(path), columns, path)
    file_format = guess_format(path)
    if file_format is None:
        raise UserError(f"{os.fspath(path)}: the file must be CSV, TSV, JSON, JSON lines or Parquet.")
    return _sentences(READERS[file_format](path), os.fspath(path), columns, label_column)


def to_sentences(
    dataset: Dataset, source: str = "dataset", columns: Sequence[str] | None = None, label_column: str = "label"
) -> Dataset:
    """
    Converts a dataset, such as one from the Hub, to the columns of [`read_sentences`].

    Args:
        dataset (`datasets.Dataset`): Rows of texts and labels. Ids of a `ClassLabel` are replaced by its names.
        source (`str`, *optional*, defaults to `"dataset"`): The name of the dataset in error messages.
        columns (`Sequence[str]`, *optional*): The one or two text columns; see [`read_sentences`].
        label_column (`str`, *optional*, defaults to `"label"`): The label column.

    Returns:
        `datasets.Dataset`: The text columns, and `label` (str) if the rows are labelled.

    Raises:
        UserError: The dataset is empty or has no text column, a text is missing, or only some rows have a label.
    """
    names = getattr(dataset.features.get(label_column), "names", None)

    def located() -> Iterator[tuple[str, Any]]:
        for number, row in enumerate(dataset, start=1):
            if names:  # -1 is "no label"
                row = {**row, label_column: None if row[label_column] in (None, -1) else names[row[label_column]]}
            yield f"{source}, row {number}", row

    return _sentences(located(), source, columns, label_column)


def _sentences(
    located: Iterable[tuple[str, Any]], source: str, columns: Sequence[str] | None, label_column: str
) -> Dataset:
    rows = iter(located)
    first = next(rows, None)
    if first is None:
        raise UserError(f"{source}: there is no example in it.")
    columns = columns or text_columns(*first, label_column)
    features = Features(dict.fromkeys([*columns, "label"], Value("string")))
    dataset = rows_to_dataset(_checked(chain([first], rows), columns, label_column), features)
    return dataset.remove_columns("label") if dataset[0]["label"] is None else dataset


def _corpus_reader(path: str | os.PathLike) -> Callable[..., Dataset] | None:
    """The reader for files of SST-5, MTL-16 and SNLI; `None` for other files."""
    if Path(path).suffix.lower() in (".csv", ".parquet"):
        return None
    line = next((line for _, line in text_lines(path, fallback="latin-1") if line.strip()), "").strip("\r\n")
    if re.match(r"\([0-4] ", line):
        return read_sentiment_trees
    if re.match(r"[01]\t[^\t]*$", line):
        return read_reviews
    # A number is an id, not a premise.
    if re.match(r"(?!\d+\t)[^\t]+\t[^\t]+\t[012]$", line) or (line.startswith("{") and '"annotator_labels"' in line):
        return read_snli
    return None


def _named(dataset: Dataset, columns: Sequence[str] | None, path: str | os.PathLike) -> Dataset:
    """Renames the text columns to `columns`, if given, and converts the labels to strings."""
    own = [name for name in dataset.column_names if name != "label"]
    if columns is not None and len(columns) != len(own):
        raise UserError(f"{os.fspath(path)}: the file has {' and '.join(own)}, and not {' and '.join(columns)}.")
    labels = dataset.features["label"].int2str(dataset["label"][:])
    dataset = dataset.remove_columns("label").rename_columns(dict(zip(own, columns or own, strict=True)))
    return dataset.add_column("label", labels)


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


def _checked(
    rows: Iterable[tuple[str, Any]], columns: Sequence[str], label_column: str
) -> Iterator[dict[str, str | None]]:
    labelled = None
    for where, row in rows:
        for column in columns:
            if not isinstance(row, dict) or not isinstance(row.get(column), str):
                raise UserError(f"{where}: the row has no text in {column!r}.")
        label = row.get(label_column)
        if isinstance(label, (list, dict)):
            raise UserError(f"{where}: the label must be a string or a number, not {shown(label)}.")
        label = None if label in (None, "") else _label(label, where)
        if label is not None and is_odd_number(label):
            raise UserError(f"{where}: the label {shown(label)} is not a plain, finite number; write 10 or 0.5.")
        check_cell(label, "label", where)
        example = {**{column: check_text(row[column], where) for column in columns}, "label": label}
        if labelled is None:
            labelled = label is not None
        if labelled != (label is not None):
            raise UserError(f"{where}: the example has {'no' if labelled else 'a'} label, unlike those before it.")
        yield example


def _label(value: Any, where: str) -> str:
    try:
        label = str(value).strip()
    except ValueError:
        raise UserError(f"{where}: the label is a number of over 4,300 digits.") from None
    # `1.0`, as pandas writes whole numbers beside empty cells, and `+1` are whole numbers.
    whole = WHOLE.fullmatch(label)
    return whole[1] if whole else label
