"""Answer files of SemEval-2010 Task 8 and submission files of GLUE."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from pathlib import Path

from msattn.data.files.text_lines import text_lines
from msattn.errors import UserError, shown
from msattn.metrics.semeval import SEMEVAL_LABELS

NLI_LABELS = ("entailment", "neutral", "contradiction")
PAIR_LABELS = ("entailment", "not_entailment")
BINARY_LABELS = ("0", "1")

# By task: file name without .tsv, and class names in the order of their ids (None: a score from 0 to 5).
GLUE_SUBMISSIONS: dict[str, tuple[str, tuple[str, ...] | None]] = {
    "cola": ("CoLA", BINARY_LABELS),
    "sst2": ("SST-2", BINARY_LABELS),
    "mrpc": ("MRPC", BINARY_LABELS),
    "stsb": ("STS-B", None),
    "qqp": ("QQP", BINARY_LABELS),
    "mnli": ("MNLI-m", NLI_LABELS),
    "mnli_matched": ("MNLI-m", NLI_LABELS),
    "mnli_mismatched": ("MNLI-mm", NLI_LABELS),
    "ax": ("AX", NLI_LABELS),
    "qnli": ("QNLI", PAIR_LABELS),
    "rte": ("RTE", PAIR_LABELS),
    "wnli": ("WNLI", BINARY_LABELS),
}


def read_semeval_answers(path: str | Path) -> dict[str, str]:
    """
    Reads a key or the answers of a system: lines `id TAB label`.

    Args:
        path (`str` or `Path`): The file, in UTF-8.

    Returns:
        `dict[str, str]`: Labels by id.

    Raises:
        UserError: The file cannot be read, or a line is not `id TAB label`, or has an unknown label or a repeated id.
    """
    answers: dict[str, str] = {}
    for where, line in text_lines(path):
        identifier, _, label = line.rstrip("\n").partition("\t")
        if not re.fullmatch("[0-9]{1,9}", identifier) or label not in SEMEVAL_LABELS:
            raise UserError(
                f"{where}: {shown(line)} is not an id, a TAB and a label of SemEval-2010 Task 8 such as "
                "'Cause-Effect(e1,e2)' or 'Other'."
            )
        if identifier in answers:
            raise UserError(f"{where}: the id {identifier} is there twice; give every id once.")
        answers[identifier] = label
    return answers


def write_semeval_answers(path: str | Path, ids: Sequence[str | int], labels: Sequence[str]) -> Path:
    """
    Writes answers for the official scorer and format checker of SemEval-2010 Task 8.

    Args:
        path (`str` or `Path`): The file to write; its folder is created if needed.
        ids (`Sequence[str | int]`): The ids of the sentences.
        labels (`Sequence[str]`): The predicted label of each sentence.

    Returns:
        `Path`: The path of the file.

    Raises:
        UserError: An id is not a number or is repeated, a label is unknown, or ids and labels differ in number.
    """
    if len(ids) != len(labels):
        raise UserError(f"{len(labels)} labels cannot be written for {len(ids)} ids.")
    if len(set(map(str, ids))) != len(ids):
        raise UserError("An id comes twice; SemEval-2010 Task 8 takes every id once.")
    lines = []
    for identifier, label in zip(ids, labels, strict=True):
        if not str(identifier).isdecimal() or label not in SEMEVAL_LABELS:
            raise UserError(
                f"The answer {label!r} for the id {identifier!r} cannot be written: SemEval-2010 Task 8 takes numbers "
                "as ids and labels such as 'Cause-Effect(e1,e2)' or 'Other'."
            )
        lines.append(f"{identifier}\t{label}\n")
    return _write(path, lines)


def write_glue_submission(
    task: str, folder: str | Path, predictions: Sequence[int | float | str], split: str = "test"
) -> Path:
    """
    Writes predictions for a GLUE test set in the format of gluebenchmark.com.

    Args:
        task (`str`): A GLUE task of the metric `glue`, such as `"sst2"`, or `"ax"` for the diagnostics.
        folder (`str` or `Path`): The output folder; created if needed.
        predictions (`Sequence[int | float | str]`):
            The predictions in the order of the test file: class ids as in the Hub's `glue` (MNLI: 0 entailment,
            1 neutral, 2 contradiction; QNLI, RTE: 0 entailment, 1 not_entailment) or class names. For STS-B, scores,
            which are clipped to 0..5.
        split (`str`, *optional*, defaults to `"test"`): `"test_mismatched"` selects the second test set of MNLI.

    Returns:
        `Path`: The path of the file.

    Raises:
        UserError: The task is unknown, or a prediction is not one of its classes or a score.
    """
    task = "mnli_mismatched" if task == "mnli" and split.endswith("_mismatched") else task
    if task not in GLUE_SUBMISSIONS:
        raise UserError(f"{task!r} is not a GLUE task; choose from {', '.join(GLUE_SUBMISSIONS)}.")
    name, words = GLUE_SUBMISSIONS[task]
    lines = ["index\tprediction\n"]
    lines += [f"{index}\t{_glue_cell(task, index, value, words)}\n" for index, value in enumerate(predictions)]
    return _write(Path(folder) / f"{name}.tsv", lines)


def _glue_cell(task: str, index: int, value: int | float | str, words: tuple[str, ...] | None) -> str:
    if words is None:
        if isinstance(value, str) or math.isnan(value):
            raise UserError(f"{task}, prediction {index}: {value!r} is not a score from 0 to 5.")
        return f"{min(max(value, 0.0), 5.0):.5f}"
    if value in words:
        return str(value)
    if isinstance(value, str) or value not in range(len(words)):
        allowed = f"a number from 0 to {len(words) - 1} or one of {', '.join(words)}"
        raise UserError(f"{task}, prediction {index}: {value!r} is not {allowed}.")
    return words[int(value)]


def _write(path: str | Path, lines: list[str]) -> Path:
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "w", encoding="utf-8", newline="\n") as file:
        file.writelines(lines)
    return path
