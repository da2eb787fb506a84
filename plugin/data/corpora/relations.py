"""Relation extraction examples from files and from data sets on the Hub."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from datasets import ClassLabel, Dataset, Features, Value
from datasets import Sequence as SequenceFeature
from datasets.utils import tqdm
from transformers.utils import logging

from msattn.data.corpora.relation_rows import relation_row
from msattn.data.corpora.semeval import semeval_rows
from msattn.data.files.arrow_tables import rows_to_dataset
from msattn.data.files.records import Located, csv_rows, guess_format, json_file, json_lines, parquet_rows, tsv_rows
from msattn.data.files.text_lines import text_lines
from msattn.errors import UserError

logger = logging.get_logger(__name__)

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
            OpenNRE, Wiki80, or text with character spans), `"json"` (an array of such objects, one of them, or the
            one object of FewRel that lists the examples of each relation), `"csv"` (with a header), `"tsv"` (the
            same between tabs, where quotation marks are ordinary characters) or `"parquet"`, with the fields of
            [`~msattn.data.corpora.relation_rows.relation_row`]. `"auto"` goes by the name's ending and the first line.
        labels (`Sequence[str]`, *optional*): The labels that may occur.

    Returns:
        `datasets.Dataset`: `id` (str; the row's number where the file gives none), `text` (str), `head` and `tail`
        (`[start, end)`, characters of `text` that name the first and the second argument), `label` (str, or None
        throughout an unlabelled file).

    Raises:
        UserError: If the file is missing, empty or not what its format says; the message names file and line.
    """
    if file_format == "auto":
        file_format = _guess_format(path)
    if file_format not in READERS:
        raise UserError(f"file_format must be one of {', '.join(['auto', *READERS])}, not {file_format!r}.")
    return _relations(_with_fewrel(READERS[file_format](path)), os.fspath(path), labels)


def to_relations(dataset: Iterable, source: str = "dataset", labels: Sequence[str] | None = None) -> Dataset:
    """
    Brings a data set, such as one from the Hub, into the columns of [`read_relations`].

    Args:
        dataset (`datasets.Dataset` or `datasets.IterableDataset`):
            Rows as [`~msattn.data.corpora.relation_rows.relation_row`] reads them. Numbers of a `ClassLabel` become
            its names.
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


def _guess_format(path: str | os.PathLike) -> str:
    file_format = guess_format(path)
    if file_format is None:
        where = next(where for where, line in text_lines(path) if line.strip())
        raise UserError(f"{where}: cannot tell the file's format; give file_format, one of {', '.join(READERS)}.")
    # Lines with tabs in a file of another name are those of SemEval.
    return "semeval" if file_format == "tsv" and Path(path).suffix.lower() != ".tsv" else file_format


def _with_fewrel(rows: Located) -> Located:
    """FewRel's own file is one object that lists the examples of each relation: they become rows of their own."""
    for where, row in rows:
        if not _is_fewrel(row):
            yield where, row
            continue
        for name, examples in row.items():
            for number, example in enumerate(examples, start=1):
                yield f"{where}, example {number} of {name}", {"relation": name, **example}


def _is_fewrel(row: Any) -> bool:
    return (
        isinstance(row, dict)
        and bool(row)
        and all(
            isinstance(examples, list) and examples and all(isinstance(example, dict) for example in examples)
            for examples in row.values()
        )
    )


def _relation_tsv_rows(path: str | os.PathLike) -> Located:
    _, header = next(iter(text_lines(path)), ("", "text"))
    if not {"text", "sentence"}.intersection(header.strip().split("\t")):
        raise UserError(
            f"{os.fspath(path)}:1: the header must name the columns, one of them text or sentence; lines of "
            "SemEval-2010 Task 8 have file_format semeval."
        )
    return tsv_rows(path)


READERS: dict[str, Callable[[str | os.PathLike], Located]] = {
    "semeval": semeval_rows,
    "opennre": json_lines,
    "jsonl": json_lines,
    "json": json_file,
    "csv": csv_rows,
    "tsv": _relation_tsv_rows,
    "parquet": parquet_rows,
}
