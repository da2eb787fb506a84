"""Submission files of GLUE."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

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
    "mnli_mm": ("MNLI-mm", NLI_LABELS),
    "qnli": ("QNLI", PAIR_LABELS),
    "rte": ("RTE", PAIR_LABELS),
    "wnli": ("WNLI", BINARY_LABELS),
}


def write_glue_submission(task: str, folder: str | Path, predictions: Sequence[int | float]) -> None:
    """
    Writes predictions for a GLUE test set in the format of gluebenchmark.com.

    Args:
        task (`str`): A GLUE task, such as `"sst2"`; `"mnli_mm"` for the second test set of MNLI.
        folder (`str` or `Path`): The output folder.
        predictions (`Sequence[int | float]`):
            Class ids in the order of the test file, or scores of STS-B, which are clipped to 0..5.
    """
    name, labels = GLUE_SUBMISSIONS[task]
    cells = [f"{min(max(each, 0.0), 5.0):.5f}" if labels is None else labels[int(each)] for each in predictions]
    lines = ["index\tprediction\n", *(f"{index}\t{cell}\n" for index, cell in enumerate(cells))]
    Path(folder, f"{name}.tsv").write_text("".join(lines), encoding="utf-8", newline="\n")
