"""The nine GLUE tasks, from a folder in GLUE's own layout or from the Hub."""

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
from msattn.errors import UserError

logger = logging.get_logger(__name__)

COLA_HEADER = ("source", "label", "mark", "sentence")


@dataclass(frozen=True)
class GlueTask:
    """
    Args:
        folder: Name of its folder in GLUE's own layout.
        columns: Text columns as the Hub names them, each with the header under which the files have it.
        labels: Names of the classes in the Hub's order; `None` for regression.
        label_column: Header of the label.
        evaluation: Splits beside `train`, each with the stem of its file.
        headerless: Splits whose files have no header but the columns of CoLA.
        has_broken_rows: Whether the official files are known to hold rows that lack columns; they are left out, as on
            the Hub, and counted in a warning.
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
        """File name of each split."""
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
            Folder that holds the task's own (`CoLA`, `SST-2`, ...) with its original TSV files. The Hub's
            `nyu-mll/glue` if `None`.
        splits (`Sequence[str]`, *optional*): Those needed. All that are there if `None`.
        cache_dir (`str`, *optional*): Where to keep what comes from the Hub.

    Returns:
        `datasets.DatasetDict`: `train`, `validation` and `test` (for `mnli`, the last two with `_matched` and
        `_mismatched`), with the Hub's columns: the task's text columns, `label` (-1 where there is none) and `idx`.

    Raises:
        UserError: If a split that is needed is missing, or a file is malformed; the message names file and line.
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
    # No quoting at all: a quotation mark is part of the text.
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
        try:
            return float(value)
        except ValueError:
            raise UserError(f"{where}: the score {value!r} is not a number.") from None
    if value in spec.labels:
        return spec.labels.index(value)
    if value in map(str, range(len(spec.labels))):
        return int(value)
    raise UserError(f"{where}: {value!r} is not a label of {spec.folder}; it has {', '.join(spec.labels)}.")
