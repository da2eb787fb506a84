"""Reads the nine GLUE tasks from the official TSV files or from the Hub."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import datasets
from datasets import ClassLabel, DatasetDict, Features, Value
from transformers.utils import logging

from msattn.data.files.arrow_tables import rows_to_dataset
from msattn.data.files.text_lines import text_lines
from msattn.errors import UserError, shown
from msattn.plain_numbers import plain_float

logger = logging.get_logger(__name__)

# The range of STS-B, the only task with scores.
SCORES = (0, 5)
COLA_HEADER = ("source", "label", "mark", "sentence")


@dataclass(frozen=True)
class GlueTask:
    """
    The format of a GLUE task.

    Args:
        folder (`str`): The folder name in the official layout, such as `"SST-2"`.
        columns (`dict[str, str]`): Headers in the official files by text column on the Hub.
        labels (`tuple[str, ...]` or `None`): Class names in the order of the Hub; `None` for regression.
        label_column (`str`, *optional*, defaults to `"label"`): Header of the label in the official files.
        evaluation (`tuple[tuple[str, str], ...]`, *optional*): Pairs of split and file stem, without `train`.
        headerless (`tuple[str, ...]`, *optional*, defaults to `()`):
            Splits without a header, with the columns of CoLA.
        has_broken_rows (`bool`, *optional*, defaults to `False`):
            Whether the official files have rows with missing columns. They are skipped, as on the Hub, and counted in
            a warning.
    """

    folder: str
    columns: dict[str, str]
    labels: tuple[str, ...] | None
    label_column: str = "label"
    evaluation: tuple[tuple[str, str], ...] = (("validation", "dev"), ("test", "test"))
    headerless: tuple[str, ...] = ()
    has_broken_rows: bool = False

    @property
    def files(self) -> dict[str, str]:
        """File names by split."""
        return {split: f"{stem}.tsv" for split, stem in (("train", "train"), *self.evaluation)}


SENTENCES = {"sentence1": "sentence1", "sentence2": "sentence2"}

GLUE_TASKS: dict[str, GlueTask] = {
    "cola": GlueTask(
        "CoLA",
        {"sentence": "sentence"},
        ("unacceptable", "acceptable"),
        headerless=("train", "validation"),
    ),
    "sst2": GlueTask("SST-2", {"sentence": "sentence"}, ("negative", "positive")),
    "mrpc": GlueTask(
        "MRPC",
        {"sentence1": "#1 String", "sentence2": "#2 String"},
        ("not_equivalent", "equivalent"),
        label_column="Quality",
    ),
    "qqp": GlueTask(
        "QQP",
        {"question1": "question1", "question2": "question2"},
        ("not_duplicate", "duplicate"),
        label_column="is_duplicate",
        has_broken_rows=True,
    ),
    "stsb": GlueTask("STS-B", SENTENCES, None, label_column="score"),
    "mnli": GlueTask(
        "MNLI",
        {"premise": "sentence1", "hypothesis": "sentence2"},
        ("entailment", "neutral", "contradiction"),
        label_column="gold_label",
        evaluation=(
            ("validation_matched", "dev_matched"),
            ("validation_mismatched", "dev_mismatched"),
            ("test_matched", "test_matched"),
            ("test_mismatched", "test_mismatched"),
        ),
    ),
    "qnli": GlueTask("QNLI", {"question": "question", "sentence": "sentence"}, ("entailment", "not_entailment")),
    "rte": GlueTask("RTE", SENTENCES, ("entailment", "not_entailment")),
    "wnli": GlueTask("WNLI", SENTENCES, ("not_entailment", "entailment")),
}
"""The tasks of GLUE by name: folder, columns, labels and splits of each."""


def read_glue(
    task: str,
    glue_dir: str | os.PathLike | None = None,
    splits: Sequence[str] | None = None,
    cache_dir: str | None = None,
) -> DatasetDict:
    """
    Reads a GLUE task.

    Args:
        task (`str`): A key of `GLUE_TASKS`.
        glue_dir (`str` or `os.PathLike`, *optional*):
            Folder with the official task folders (`CoLA`, `SST-2`, ...) and their TSV files. Default: `nyu-mll/glue`
            on the Hub.
        splits (`Sequence[str]`, *optional*): The required splits. Default: all that exist.
        cache_dir (`str`, *optional*): Cache folder for downloads from the Hub.

    Returns:
        `datasets.DatasetDict`: `train`, `validation` and `test` (for `mnli`, the last two with `_matched` and
        `_mismatched`), with the columns of the Hub: the text columns, `label` (-1 if unlabelled) and `idx`.

    Raises:
        UserError: The task or a split is unknown, the Hub cannot be reached, a required file is missing, or a file is
            malformed. The message names file and line.

    Example:

    ```python
    >>> from msattn.data import read_glue

    >>> read_glue("sst2", "glue_data", ["train"])["train"].column_names
    ['sentence', 'label', 'idx']
    ```
    """
    if task not in GLUE_TASKS:
        raise UserError(f"task must be one of {', '.join(GLUE_TASKS)}, not {task!r}.")
    spec = GLUE_TASKS[task]
    for split in splits or ():
        if split not in spec.files:
            raise UserError(f"{task} has the splits {', '.join(spec.files)}, not {split!r}.")
    if glue_dir is None:
        try:
            loaded = datasets.load_dataset("nyu-mll/glue", task, cache_dir=cache_dir)
        except (OSError, ValueError) as error:
            raise UserError(
                f"nyu-mll/glue cannot be loaded from the Hub ({error}); give a folder with GLUE's TSV files."
            ) from None
        return DatasetDict({split: loaded[split] for split in splits or loaded})

    folder = Path(glue_dir) / spec.folder
    if not folder.is_dir():
        raise UserError(f"{folder}: there is no such folder; it should hold the TSV files of {task}.")
    found = {split: folder / name for split, name in spec.files.items() if (folder / name).exists()}
    for split in splits or ():
        if split not in found:
            raise UserError(f"{folder / spec.files[split]}: there is no such file, and the {split} split needs it.")
    if not found:
        raise UserError(f"{folder}: none of the files {', '.join(spec.files.values())} is there.")
    return DatasetDict({split: _read_split(spec, split, found[split]) for split in splits or found})


def _read_split(spec: GlueTask, split: str, path: Path) -> datasets.Dataset:
    features = Features(
        {
            **dict.fromkeys(spec.columns, Value("string")),
            "label": Value("float32") if spec.labels is None else ClassLabel(names=list(spec.labels)),
            "idx": Value("int32"),
        }
    )
    dataset = rows_to_dataset(_rows(spec, split, path), features)
    if not len(dataset):
        raise UserError(f"{path}: there is no example in it.")
    return dataset


def _rows(spec: GlueTask, split: str, path: Path) -> Iterator[dict[str, Any]]:
    # Not the csv module: quotation marks are part of the text.
    lines = ((where, line.rstrip("\n").split("\t")) for where, line in text_lines(path) if line != "\n")
    header = list(COLA_HEADER) if split in spec.headerless else next(lines, ("", []))[1]
    labelled = not split.startswith("test")
    for name in [*spec.columns.values(), *([spec.label_column] if labelled else [])]:
        if name not in header:
            raise UserError(f"{path}:1: the header lacks the column {name!r} of {spec.folder}.")
    texts = {column: header.index(name) for column, name in spec.columns.items()}
    broken = 0
    for number, (where, fields) in enumerate(lines):
        if len(fields) < len(header) and spec.has_broken_rows:
            broken += 1
            continue
        if len(fields) != len(header):
            raise UserError(f"{where}: the row has {len(fields)} columns, but {spec.folder} has {len(header)} here.")
        row: dict[str, Any] = {column: fields[position] for column, position in texts.items()}
        label = fields[header.index(spec.label_column)] if labelled else None
        yield {**row, "label": _label(spec, label, where), "idx": number}
    if broken:
        logger.warning(f"{path}: {broken} rows lack columns and were left out.")


def _label(spec: GlueTask, value: str | None, where: str) -> int | float:
    if value is None:
        return -1
    if spec.labels is None:
        low, high = SCORES
        try:
            score = plain_float(value)
        except ValueError:
            raise UserError(f"{where}: the score {shown(value)} is not a number.") from None
        if not low <= score <= high:
            raise UserError(f"{where}: the score {value} is out of range; {spec.folder} has {low} to {high}.")
        return score
    if value in spec.labels:
        return spec.labels.index(value)
    if value in map(str, range(len(spec.labels))):
        return int(value)
    raise UserError(f"{where}: {shown(value)} is not a label of {spec.folder}; it has {', '.join(spec.labels)}.")
