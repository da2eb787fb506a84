"""Reads the nine GLUE tasks from the official TSV files or from the Hub."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import datasets
from datasets import ClassLabel, DatasetDict, Features, Value
from transformers.utils import logging

from msattn.data.files.arrow_tables import Located, rows_to_dataset
from msattn.data.files.text_lines import text_lines
from msattn.errors import UserError, shown

logger = logging.get_logger(__name__)

# The highest score of STS-B, the only task with scores. The lowest is 0.
HIGHEST = 5
COLA_HEADER = ["source", "label", "mark", "sentence"]


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
    """

    folder: str
    columns: dict[str, str]
    labels: tuple[str, ...] | None
    label_column: str = "label"
    evaluation: tuple[tuple[str, str], ...] = (("validation", "dev"), ("test", "test"))

    @property
    def files(self) -> dict[str, str]:
        """File names by split."""
        return {split: f"{stem}.tsv" for split, stem in (("train", "train"), *self.evaluation)}


SENTENCES = {"sentence1": "sentence1", "sentence2": "sentence2"}

GLUE_TASKS: dict[str, GlueTask] = {
    "cola": GlueTask("CoLA", {"sentence": "sentence"}, ("unacceptable", "acceptable")),
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
    task: str, glue_dir: str | os.PathLike | None = None, splits: Sequence[str] | None = None
) -> DatasetDict:
    """
    Reads a GLUE task.

    Args:
        task (`str`): A key of `GLUE_TASKS`.
        glue_dir (`str` or `os.PathLike`, *optional*):
            Folder with the official task folders (`CoLA`, `SST-2`, ...) and their TSV files. Default: `nyu-mll/glue`
            on the Hub.
        splits (`Sequence[str]`, *optional*): The required splits. Default: all that exist.

    Returns:
        `datasets.DatasetDict`: `train`, `validation` and `test` (for `mnli`, the last two with `_matched` and
        `_mismatched`), with the columns of the Hub: the text columns, `label` (-1 if unlabelled) and `idx`.

    Raises:
        UserError: The task or a split is unknown, a required file is missing, or a file is malformed. The message
            names file and line.

    Example:

    ```python
    >>> from msattn.data import read_glue

    >>> read_glue("sst2", "glue_data", ["train"])["train"].column_names
    ['sentence', 'label', 'idx']
    ```
    """
    if task not in GLUE_TASKS:
        raise UserError(f"task must be one of {', '.join(GLUE_TASKS)}, not {task!r}.")
    files = GLUE_TASKS[task].files
    for split in splits or ():
        if split not in files:
            raise UserError(f"{task} has the splits {', '.join(files)}, not {split!r}.")
    if glue_dir is None:
        loaded = datasets.load_dataset("nyu-mll/glue", task)
        return DatasetDict({split: loaded[split] for split in splits or loaded})
    folder = Path(glue_dir) / GLUE_TASKS[task].folder
    found = splits or [split for split, name in files.items() if (folder / name).exists()]
    if not found:
        raise UserError(f"{folder}: none of the files {', '.join(files.values())} is there.")
    return DatasetDict({split: _read_split(task, split, folder / files[split]) for split in found})


def _read_split(task: str, split: str, path: Path) -> datasets.Dataset:
    spec = GLUE_TASKS[task]
    label = Value("float32") if spec.labels is None else ClassLabel(names=list(spec.labels))
    features = Features({**dict.fromkeys(spec.columns, Value("string")), "label": label, "idx": Value("int32")})
    return rows_to_dataset(_rows(task, split, path), features, str(path))


def _rows(task: str, split: str, path: Path) -> Located:
    spec, labelled, broken = GLUE_TASKS[task], not split.startswith("test"), 0
    # Not the csv module: quotation marks are part of the text.
    lines = ((where, line.rstrip("\n").split("\t")) for where, line in text_lines(path) if line != "\n")
    header = COLA_HEADER if task == "cola" and labelled else next(lines, ("", []))[1]
    for name in [*spec.columns.values(), *([spec.label_column] if labelled else [])]:
        if name not in header:
            raise UserError(f"{path}:1: the header lacks the column {name!r} of {spec.folder}.")
    for number, (where, fields) in enumerate(lines):
        if len(fields) < len(header) and task == "qqp":
            broken += 1
            continue
        if len(fields) != len(header):
            raise UserError(f"{where}: the row has {len(fields)} columns, but {spec.folder} has {len(header)} here.")
        row = dict(zip(header, fields, strict=True))
        texts = {column: row[name] for column, name in spec.columns.items()}
        yield where, {**texts, "label": _label(spec, row[spec.label_column], where) if labelled else -1, "idx": number}
    if broken:
        # The official files have such rows, and the Hub has left them out, too.
        logger.warning(f"{path}: {broken} rows lack columns and were left out.")


def _label(spec: GlueTask, value: str, where: str) -> Any:
    if spec.labels is None:
        try:
            score = float(value)
        except ValueError:
            raise UserError(f"{where}: the score {shown(value)} is not a number.") from None
        if not 0 <= score <= HIGHEST:
            raise UserError(f"{where}: the score {value} is out of range; {spec.folder} has 0 to {HIGHEST}.")
        return score
    if value in spec.labels:
        return spec.labels.index(value)
    if value in map(str, range(len(spec.labels))):
        return int(value)
    raise UserError(f"{where}: {shown(value)} is not a label of {spec.folder}; it has {', '.join(spec.labels)}.")
