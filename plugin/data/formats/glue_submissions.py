"""Submission files of GLUE."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from msattn.data.formats.glue import GLUE_TASKS, HIGHEST

# Tasks whose answers are names of classes. Those of the others are ids, or scores.
NAMED = ("MNLI", "QNLI", "RTE")
# The files of the two test sets of MNLI; those of the other tasks are called like their folders.
MNLI_FILES = {"mnli": "MNLI-m", "mnli_mm": "MNLI-mm"}


def write_glue_submission(task: str, folder: str | Path, predictions: Sequence[int | float]) -> None:
    """
    Writes predictions for a GLUE test set in the format of gluebenchmark.com.

    Args:
        task (`str`): A GLUE task, such as `"sst2"`; `"mnli_mm"` for the second test set of MNLI.
        folder (`str` or `Path`): The output folder.
        predictions (`Sequence[int | float]`):
            Class ids in the order of the test file, or scores of STS-B, which are clipped to 0..5.
    """
    spec = GLUE_TASKS[task.removesuffix("_mm")]
    if spec.labels is None:
        cells = [f"{min(max(each, 0.0), HIGHEST):.5f}" for each in predictions]
    else:
        cells = [spec.labels[int(each)] if spec.folder in NAMED else str(int(each)) for each in predictions]
    lines = ["index\tprediction\n", *(f"{index}\t{cell}\n" for index, cell in enumerate(cells))]
    Path(folder, f"{MNLI_FILES.get(task, spec.folder)}.tsv").write_text("".join(lines), encoding="utf-8", newline="\n")
