"""Reads relation extraction examples from files and Hub datasets."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import groupby, islice
from pathlib import Path
from typing import Any

from datasets import ClassLabel, Dataset, Features, Value
from datasets import Sequence as SequenceFeature
from datasets.utils import tqdm
from transformers.utils import logging

from msattn.data.files.arrow_tables import rows_to_dataset
from msattn.data.files.records import Located, csv_rows, guess_format, json_file, json_lines, parquet_rows, tsv_rows
from msattn.data.files.text_lines import text_lines
from msattn.data.formats.semeval import semeval_rows
from msattn.data.negatives import Negatives, entities_of, pair_rows, random_pair
from msattn.data.relation_rows import relation_row
from msattn.errors import UserError, shown

logger = logging.get_logger(__name__)

RELATION_FEATURES = Features(
    {
        "id": Value("string"),
        "text": Value("string"),
        "head": SequenceFeature(Value("int32")),
        "tail": SequenceFeature(Value("int32")),
        "head_type": Value("string"),
        "tail_type": Value("string"),
        "label": Value("string"),
    }
)


class UnknownLabelError(UserError):
    """An example has a label that is not among the known ones."""


def read_relations(
    path: str | os.PathLike,
    file_format: str = "auto",
    labels: Sequence[str] | None = None,
    label_names: Mapping[str, str] | None = None,
    negatives: Negatives | None = None,
) -> Dataset:
    """
    Reads relation extraction examples from a file.

    The file is read in batches. Only its Arrow table, about as large as the text, is kept in memory.

    Args:
        path (`str` or `os.PathLike`): The file, in UTF-8.
        file_format (`str`, *optional*, defaults to `"auto"`):
            The format, with the fields of [`~msattn.data.relation_rows.relation_row`] or of
            [`~msattn.data.negatives.pair_rows`]:

            - `"semeval"`: the three-line blocks of SemEval-2010 Task 8;
            - `"opennre"` or `"jsonl"`: one JSON object per line, as in OpenNRE and Wiki80;
            - `"json"`: an array of such objects (TACRED, SpERT, CoNLL-04, DocRED), a single one, or a FewRel object of
              examples by relation;
            - `"csv"`: with a header, the fields separated by commas or by semicolons;
            - `"tsv"`: with a header, quotation marks being ordinary characters;
            - `"parquet"`;
            - `"auto"`: guessed from the file extension and the first line.
        labels (`Sequence[str]`, *optional*): The known labels. Default: any label.
        label_names (`Mapping[str, str]`, *optional*): New names of labels, such as P177 -> crosses.
        negatives (`Negatives`, *optional*): Also draw pairs without a relation.

    Returns:
        `datasets.Dataset`: `id` (str; by default the number of the row), `text` (str), `head` and `tail` (the spans
        `[start, end)` of the entities, in characters), `head_type` and `tail_type` (str or None) and `label` (str;
        None in an unlabelled file).

    Raises:
        UserError: The file is missing, empty or malformed, or only some examples have labels. The message names file
            and line.
        UnknownLabelError: An example has a label that is not in `labels`.

    Example:

    ```python
    >>> from msattn.data import read_relations

    >>> read_relations("TRAIN_FILE.TXT").column_names
    ['id', 'text', 'head', 'tail', 'head_type', 'tail_type', 'label']
    ```
    """
    if file_format == "auto":
        file_format = _guess_format(path)
    if file_format not in READERS:
        raise UserError(f"file_format must be one of {', '.join(['auto', *READERS])}, not {file_format!r}.")
    return _relations(_with_fewrel(READERS[file_format](path)), os.fspath(path), labels, label_names, negatives)


def to_relations(
    dataset: Iterable,
    source: str = "dataset",
    labels: Sequence[str] | None = None,
    label_names: Mapping[str, str] | None = None,
    negatives: Negatives | None = None,
) -> Dataset:
    """
    Converts a dataset, such as one from the Hub, to the columns of [`read_relations`].

    Args:
        dataset (`datasets.Dataset` or `datasets.IterableDataset`):
            Rows with the fields of [`~msattn.data.relation_rows.relation_row`] or of
            [`~msattn.data.negatives.pair_rows`]. Ids of a `ClassLabel` are replaced by its names.
        source (`str`, *optional*, defaults to `"dataset"`): The name of the dataset in error messages.
        labels (`Sequence[str]`, *optional*): The known labels. Default: any label.
        label_names (`Mapping[str, str]`, *optional*): New names of labels, such as P177 -> crosses.
        negatives (`Negatives`, *optional*): Also draw pairs without a relation.

    Returns:
        `datasets.Dataset`: As for [`read_relations`].

    Raises:
        UserError: The dataset is empty, a row is invalid, or only some rows have labels. The message names the row.
        UnknownLabelError: A row has a label that is not in `labels`.
    """
    class_labels = {
        name: feature.names
        for name, feature in (getattr(dataset, "features", None) or {}).items()
        if isinstance(feature, ClassLabel)
    }

    def located() -> Iterator[tuple[str, Any]]:
        for number, row in enumerate(tqdm(dataset, desc=f"Reading {source}", delay=2, leave=False), start=1):
            where = f"{source}, row {number}"
            if isinstance(row, Mapping):
                row = {
                    **row,
                    **{name: _class_name(row.get(name), names, where) for name, names in class_labels.items()},
                }
            yield where, row

    return _relations(located(), source, labels, label_names, negatives)


def relation_labels(train: Dataset, *others: Dataset) -> list[str]:
    """
    The sorted labels of all given splits, with a warning about labels that have no training example.

    SemEval-2010 Task 8 has a label with a single training example, which a validation split can take away.

    Args:
        train (`datasets.Dataset`): The training split, with the column `label`.
        *others (`datasets.Dataset`): Further splits.
    """
    trained = set(train.unique("label")) - {None}
    every = trained.union(*(other.unique("label") for other in others)) - {None}
    if every - trained:
        logger.warning(f"No training example has the label {', '.join(sorted(every - trained))}.")
    return sorted(every)


def random_pairs(dataset: Dataset, seed: int, most: int = 1000) -> Dataset | None:
    """
    A dataset of pairs without a relation, one for each of the first examples whose sentence is long enough.

    Args:
        dataset (`datasets.Dataset`): As of [`read_relations`].
        seed (`int`): The random seed.
        most (`int`, *optional*, defaults to 1000): The largest number of pairs.

    Returns:
        `datasets.Dataset` or `None`: The pairs, without labels, see
        [`~msattn.data.negatives.random_pair`]; `None` if no sentence is long enough.
    """
    draw = random.Random(seed)

    def each() -> Iterator[dict[str, Any] | None]:
        for _, group in groupby(dataset, key=lambda example: example["text"]):
            examples = list(group)
            entities = entities_of(examples)
            yield from (random_pair(example, entities, draw) for example in examples)

    pairs = (pair for pair in each() if pair is not None)
    found = rows_to_dataset(islice(pairs, most), RELATION_FEATURES)
    return found if len(found) else None


def _class_name(value: Any, names: Sequence[str], where: str) -> str | None:
    """The name of a `ClassLabel` id; `None` for -1, by which datasets on the Hub say "no label"."""
    if value in (None, -1):
        return None
    if not isinstance(value, int) or not 0 <= value < len(names):
        raise UserError(f"{where}: {shown(value)} is not the id of a class; there are 0 to {len(names) - 1}.")
    return names[value]


def _relations(
    rows: Located,
    source: str,
    labels: Sequence[str] | None,
    label_names: Mapping[str, str] | None,
    negatives: Negatives | None,
) -> Dataset:
    examples = _checked(pair_rows(rows, negatives), None if labels is None else set(labels), label_names or {})
    dataset = rows_to_dataset(examples, RELATION_FEATURES)
    if not len(dataset):
        raise UserError(f"{source}: there is no example in it.")
    return dataset


def _checked(
    rows: Located, labels: Collection[str] | None, label_names: Mapping[str, str]
) -> Iterator[dict[str, Any]]:
    labelled = None
    for number, (where, row) in enumerate(rows, start=1):
        example = relation_row(row, where)
        example["id"] = example["id"] or str(number)
        label = example["label"] = label_names.get(example["label"], example["label"])
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
    # SemEval files have tabs, but not the extension .tsv.
    return "semeval" if file_format == "tsv" and Path(path).suffix.lower() != ".tsv" else file_format


def _with_fewrel(rows: Located) -> Located:
    """Expands FewRel objects, which list the examples of each relation, to one row per example."""
    for where, row in rows:
        if not _is_fewrel(row):
            yield where, row
            continue
        for name, examples in row.items():
            for number, example in enumerate(examples, start=1):
                of_name = f"{where}, example {number} of {name}"
                if own := {"relation", "label"} & example.keys():
                    raise UserError(f"{of_name}: it has a {min(own)} of its own; give a file of such examples only.")
                yield of_name, {"relation": name, **example}


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
