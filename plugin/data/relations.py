"""Reads relation extraction examples from files and Hub datasets."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import chain, islice
from pathlib import Path

from datasets import Dataset, Features, IterableDataset, List, Value

from msattn.data.entity_pairs import has_entities, pair_rows
from msattn.data.files import records
from msattn.data.files.arrow_tables import Located, located_rows, rows_to_dataset
from msattn.data.files.checked_text import refuse_nan
from msattn.data.files.text_lines import first_line, suffix_of
from msattn.data.formats.brat import brat_rows
from msattn.data.formats.fewrel import fewrel_rows
from msattn.data.formats.semeval import SEMEVAL, semeval_rows
from msattn.data.negatives import Negatives
from msattn.data.row_checks import checked_rows
from msattn.errors import UserError

RELATION_FEATURES = Features(
    {
        "id": Value("string"),
        "text": Value("string"),
        "head": List(Value("int32")),
        "tail": List(Value("int32")),
        "head_type": Value("string"),
        "tail_type": Value("string"),
        "label": Value("string"),
    }
)

# The description of a dataset whose texts list their entities, which `lists_entities` and `lists_all_pairs` read.
# Selections of rows keep it.
LISTED, ALL_PAIRS = "All entities of a text are listed.", "All pairs of the entities of a text are listed."


def read_relations(
    path: str | os.PathLike,
    file_format: str = "auto",
    labels: Sequence[str] | None = None,
    label_names: Mapping[str, str] | None = None,
    negatives: Negatives | None = None,
    span_ends: str | None = None,
    multi_label: bool = False,
) -> Dataset:
    """
    Reads relation extraction examples from a file.

    The file is read in batches. Only an Arrow table with a row a pair is kept in memory: each text as often as it has
    pairs.

    Args:
        path (`str` or `os.PathLike`): The file, in UTF-8.
        file_format (`str`, *optional*, defaults to `"auto"`):
            The format, with the fields of [`~msattn.data.relation_rows.relation_row`] or of
            [`~msattn.data.entity_pairs.pair_rows`]:

            - `"semeval"`: the three-line blocks of SemEval-2010 Task 8;
            - `"jsonl"`: one JSON object per line, as in OpenNRE and Wiki80;
            - `"json"`: an array of such objects (TACRED, SpERT, CoNLL-04, DocRED, Label Studio), a single one, or a
              FewRel object of examples by relation;
            - `"csv"`: with a header, the fields separated by commas, semicolons, tabs or vertical bars;
            - `"tsv"`: with a header; quotation marks are text, unless a field is quoted and has doubled ones inside;
            - `"brat"`: a folder of `.txt` and `.ann` files, or one `.ann` file;
            - `"parquet"`;
            - `"auto"`: guessed from the file extension and the first line.
        labels (`Sequence[str]`, *optional*): The known labels. Default: any label.
        label_names (`Mapping[str, str]`, *optional*): New names of labels, such as P177 -> crosses.
        negatives (`Negatives`, *optional*): Also yield pairs without a relation.
        span_ends (`str`, *optional*): `"inclusive"` or `"exclusive"`. Default: exclusive, but for TACRED.
        multi_label (`bool`, *optional*, defaults to `False`):
            Whether all labels of a pair are in one row, in a further column `labels` (a list of str).

    Returns:
        `datasets.Dataset`: `id` (str; by default the number of the row), `text` (str), `head` and `tail` (the spans
        `[start, end)` of the entities, in characters), `head_type` and `tail_type` (str or None) and `label` (str;
        None in an unlabelled file).

    Raises:
        UserError: The file is missing, empty or malformed, only some examples have labels, or a label is not in
            `labels`. The message names file and line.

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
    return _by_rows(
        READERS[file_format](path), os.fspath(path), labels, label_names, negatives, span_ends, multi_label
    )


def to_relations(
    dataset: Dataset | IterableDataset,
    source: str = "dataset",
    labels: Sequence[str] | None = None,
    label_names: Mapping[str, str] | None = None,
    negatives: Negatives | None = None,
    span_ends: str | None = None,
    multi_label: bool = False,
) -> Dataset:
    """
    Converts a dataset, such as one from the Hub, to the columns of [`read_relations`].

    Args:
        dataset (`datasets.Dataset` or `datasets.IterableDataset`):
            Rows with the fields of [`~msattn.data.relation_rows.relation_row`] or of
            [`~msattn.data.entity_pairs.pair_rows`]. Ids of a `ClassLabel` are replaced by its names.
        source (`str`, *optional*, defaults to `"dataset"`): The name of the dataset in error messages.
        labels (`Sequence[str]`, *optional*): The known labels. Default: any label.
        label_names (`Mapping[str, str]`, *optional*): New names of labels, such as P177 -> crosses.
        negatives (`Negatives`, *optional*): Also yield pairs without a relation.
        span_ends (`str`, *optional*): `"inclusive"` or `"exclusive"`. Default: exclusive, but for TACRED.
        multi_label (`bool`, *optional*, defaults to `False`):
            Whether all labels of a pair are in one row, in a further column `labels` (a list of str).

    Returns:
        `datasets.Dataset`: As for [`read_relations`].

    Raises:
        UserError: The dataset is empty, a row is invalid, only some rows have labels, or a label is not in `labels`.
            The message names the row.
    """
    return _by_rows(located_rows(dataset, source), source, labels, label_names, negatives, span_ends, multi_label)


def labels_in(rows: Dataset) -> set[str]:
    """The labels of a dataset, also those of pairs with several."""
    several = chain.from_iterable(rows["labels"]) if "labels" in rows.column_names else ()
    return {*rows.unique("label"), *several} - {None}


def lists_entities(rows: Dataset) -> bool:
    """Whether the texts list their entities: rows are pairs of these, and not those that the data mark."""
    return rows.info.description in (LISTED, ALL_PAIRS)


def lists_all_pairs(rows: Dataset) -> bool:
    """Whether the texts list their entities, and rows are all ordered pairs of these."""
    return rows.info.description == ALL_PAIRS


def _by_rows(
    rows: Located,
    source: str,
    labels: Sequence[str] | None,
    label_names: Mapping[str, str] | None,
    negatives: Negatives | None,
    span_ends: str | None,
    multi_label: bool,
) -> Dataset:
    rows = iter(fewrel_rows(rows))
    first = list(islice(rows, 1))
    several = any(has_entities(row) for _, row in first)
    rows = pair_rows(chain(first, rows), negatives, span_ends == "inclusive")
    examples = checked_rows(iter(rows), source, span_ends, multi_label)
    found = rows_to_dataset(_checked(examples, labels, label_names or {}), RELATION_FEATURES, source, "label")
    found = _with_all_labels(found) if multi_label else found
    complete = found[0]["label"] is None or (negatives is not None and negatives.count is None)
    found.info.description = (ALL_PAIRS if complete else LISTED) if several else ""
    return found


def _with_all_labels(rows: Dataset) -> Dataset:
    """One row a pair, with the column `labels`."""
    found: dict[int, list[str]] = defaultdict(list)
    first = []
    for number, row in enumerate(zip(rows["text"], rows["head"], rows["tail"], rows["label"], strict=True)):
        pair = hash((row[0], *row[1], *row[2]))  # in place of the text, which would be kept for each pair
        if pair not in found:
            first.append(number)
        if row[3] is not None and row[3] not in found[pair]:
            found[pair].append(row[3])
        found[pair]  # of a pair without label
    return rows.select(first).add_column("labels", [*found.values()], feature=List(Value("string")))


def _checked(examples: Located, labels: Collection[str] | None, label_names: Mapping[str, str]) -> Located:
    for number, (where, example) in enumerate(examples, start=1):
        for name in ("head_type", "tail_type", "label"):
            refuse_nan(example[name], name.replace("_", " "), where)
        label = label_names.get(example["label"], example["label"])
        if labels is not None and label is not None and label not in labels:
            raise UserError(f"{where}: unknown label {label!r}; the known ones are {', '.join(sorted(labels))}.")
        yield where, {**example, "id": example["id"] or str(number), "label": label}


def _guess_format(path: str | os.PathLike) -> str:
    if Path(path).is_dir() or Path(path).suffix == ".ann":
        return "brat"
    if suffix_of(path) != ".parquet" and SEMEVAL.match(first_line(path)[1]):
        return "semeval"
    if file_format := records.guess_format(path):
        return file_format
    raise UserError(
        f"{first_line(path)[0]}: cannot tell the file's format; give file_format, one of {', '.join(READERS)}."
    )


READERS: dict[str, Callable[[str | os.PathLike], Located]] = {
    "semeval": semeval_rows,
    "brat": brat_rows,
    **records.READERS,
}
