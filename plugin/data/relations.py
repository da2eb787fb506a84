"""Relation extraction examples from files and from data sets on the Hub."""

from __future__ import annotations

import csv
import json
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet
from datasets import ClassLabel, Dataset, Features, Value
from datasets import Sequence as SequenceFeature
from datasets.utils import tqdm
from transformers.utils import logging

from msattn.data.relation_rows import relation_row
from msattn.data.semeval import semeval_rows
from msattn.data.tables import rows_to_dataset
from msattn.data.text_lines import text_lines
from msattn.errors import UserError

logger = logging.get_logger(__name__)

Located = Iterable[tuple[str, Any]]

RELATION_FEATURES = Features(
    {
        "id": Value("string"),
        "text": Value("string"),
        "head": SequenceFeature(Value("int32")),
        "tail": SequenceFeature(Value("int32")),
        "label": Value("string"),
    }
)


class UnknownLabelError(UserError):
    """An example has a label that is not among those that may occur."""


def read_relations(path: str | os.PathLike, file_format: str = "auto", labels: Sequence[str] | None = None) -> Dataset:
    """
    Reads relation extraction examples from a file.

    The file passes through in batches: only its Arrow table, about as large as its text, stays in memory.

    Args:
        path (`str` or `os.PathLike`): The file, in UTF-8.
        file_format (`str`, *optional*, defaults to `"auto"`):
            `"semeval"` (three-line blocks of SemEval-2010 Task 8), `"opennre"` or `"jsonl"` (one JSON object a line:
            OpenNRE, Wiki80, FewRel, or text with character spans), `"json"` (an array of such objects), `"csv"` (with
            a header) or `"parquet"`, with the fields of [`~msattn.data.relation_rows.relation_row`]. `"auto"` goes by
            the name's ending and the first line.
        labels (`Sequence[str]`, *optional*): The labels that may occur.

    Returns:
        `datasets.Dataset`: `id` (str; the row's number where the file gives none), `text` (str), `head` and `tail`
        (`[start, end)`, characters of `text` that name the first and the second argument), `label` (str, or None
        throughout an unlabelled file).

    Raises:
        UserError: If the file is missing, empty or not what its format says; the message names file and line.
    """
    if file_format == "auto":
        file_format = guess_format(path)
    if file_format not in READERS:
        raise UserError(f"file_format must be one of {', '.join(['auto', *READERS])}, not {file_format!r}.")
    return _relations(READERS[file_format](path), os.fspath(path), labels)


def to_relations(dataset: Iterable, source: str = "dataset", labels: Sequence[str] | None = None) -> Dataset:
    """
    Brings a data set, such as one from the Hub, into the columns of [`read_relations`].

    Args:
        dataset (`datasets.Dataset` or `datasets.IterableDataset`):
            Rows as [`~msattn.data.relation_rows.relation_row`] reads them. Numbers of a `ClassLabel` become its names.
        source (`str`, *optional*, defaults to `"dataset"`): What error messages call it.
        labels (`Sequence[str]`, *optional*): The labels that may occur.

    Raises:
        UserError: If a row cannot be read; the message names the source and the row.
    """
    class_labels = {
        name: feature.names
        for name, feature in (getattr(dataset, "features", None) or {}).items()
        if isinstance(feature, ClassLabel)
    }

    def located() -> Iterator[tuple[str, Any]]:
        for number, row in enumerate(tqdm(dataset, desc=f"Reading {source}", delay=2, leave=False), start=1):
            # The Hub writes -1 for "no label".
            named = {
                name: None if row[name] in (None, -1) else names[row[name]] for name, names in class_labels.items()
            }
            yield f"{source}, row {number}", {**row, **named}

    return _relations(located(), source, labels)


def relation_labels(train: Dataset, *others: Dataset) -> list[str]:
    """
    Sorted labels of all the given splits. Those without a training example are named in a warning: SemEval has a label
    with one training row, which a development part can swallow.
    """
    trained = set(train.unique("label")) - {None}
    every = trained.union(*(other.unique("label") for other in others)) - {None}
    if every - trained:
        logger.warning(f"No training example has the label {', '.join(sorted(every - trained))}.")
    return sorted(every)


def _relations(rows: Located, source: str, labels: Sequence[str] | None) -> Dataset:
    dataset = rows_to_dataset(_checked(rows, None if labels is None else set(labels)), RELATION_FEATURES)
    if not len(dataset):
        raise UserError(f"{source}: there is no example in it.")
    return dataset


def _checked(rows: Located, labels: set[str] | None) -> Iterator[dict[str, Any]]:
    labelled = None
    for number, (where, row) in enumerate(rows, start=1):
        example = relation_row(row, where)
        example["id"] = example["id"] or str(number)
        label = example["label"]
        if labelled is None:
            labelled = label is not None
        if labelled != (label is not None):
            raise UserError(f"{where}: the example has {'no' if labelled else 'a'} label, unlike those before it.")
        if labels is not None and label is not None and label not in labels:
            raise UnknownLabelError(
                f"{where}: unknown label {label!r}; the known ones are {', '.join(sorted(labels))}."
            )
        yield example


def guess_format(path: str | os.PathLike) -> str:
    suffix = Path(path).suffix.lower()
    if suffix in (".csv", ".parquet"):
        return suffix[1:]
    for where, line in text_lines(path):
        if line.strip():
            if line.lstrip()[0] in "{[":
                return "jsonl" if line.lstrip()[0] == "{" else "json"
            if "\t" in line:
                return "semeval"
            raise UserError(f"{where}: cannot tell the file's format; give file_format, one of {', '.join(READERS)}.")
    raise UserError(f"{os.fspath(path)}: the file is empty.")


def _json_lines(path: str | os.PathLike) -> Iterator[tuple[str, Any]]:
    for where, line in text_lines(path):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except ValueError as error:
            raise UserError(f"{where}: the line is not a JSON object ({error}).") from None
        if _is_fewrel(row):
            yield from ((where, {"relation": name, **example}) for name in row for example in row[name])
        else:
            yield where, row


def _is_fewrel(row: Any) -> bool:
    """FewRel's own file is one object, on one line, that lists the examples of each relation."""
    return (
        isinstance(row, dict)
        and bool(row)
        and all(isinstance(value, list) and value and isinstance(value[0], dict) for value in row.values())
    )


def _json_array(path: str | os.PathLike) -> Iterator[tuple[str, Any]]:
    try:
        rows = json.loads("".join(line for _, line in text_lines(path)))
    except json.JSONDecodeError as error:
        raise UserError(f"{os.fspath(path)}:{error.lineno}: the file is not JSON ({error.msg}).") from None
    if not isinstance(rows, list):
        raise UserError(f"{os.fspath(path)}: the file must hold an array of objects, or one object a line.")
    for number, row in enumerate(rows, start=1):
        yield f"{os.fspath(path)}, example {number}", row


def _csv_rows(path: str | os.PathLike) -> Iterator[tuple[str, dict[str, str]]]:
    reader = csv.reader((line for _, line in text_lines(path, newline="")), strict=True)
    try:
        header = next(reader, [])
        for row in reader:
            where = f"{os.fspath(path)}:{reader.line_num}"
            if row and len(row) != len(header):
                raise UserError(f"{where}: the row has {len(row)} fields, but the header names {len(header)}.")
            if row:
                yield where, dict(zip(header, row, strict=True))
    except csv.Error as error:
        raise UserError(f"{os.fspath(path)}:{reader.line_num}: the file is not CSV ({error}).") from None


def _parquet_rows(path: str | os.PathLike) -> Iterator[tuple[str, dict[str, Any]]]:
    try:
        file = pa.parquet.ParquetFile(path)
    except (OSError, pa.ArrowException) as error:
        raise UserError(f"{os.fspath(path)}: the Parquet file cannot be read ({error}).") from None
    rows = (row for batch in file.iter_batches(1000) for row in batch.to_pylist())
    progress = tqdm(rows, desc=f"Reading {Path(path).name}", total=file.metadata.num_rows, delay=2, leave=False)
    for number, row in enumerate(progress, start=1):
        yield f"{os.fspath(path)}, row {number}", row


READERS: dict[str, Callable[[str | os.PathLike], Located]] = {
    "semeval": semeval_rows,
    "opennre": _json_lines,
    "jsonl": _json_lines,
    "json": _json_array,
    "csv": _csv_rows,
    "parquet": _parquet_rows,
}
