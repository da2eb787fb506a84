"""Splits of a run: which are used, the held-out validation split, and limits on the number of examples."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Collection, Sequence
from typing import Any

import numpy as np
from datasets import Dataset
from transformers import TrainingArguments

from msattn.arguments.data_arguments import DataArguments
from msattn.errors import UserError

# Metric prefixes by split.
PREFIXES = {"train": "train", "validation": "eval", "test": "test"}


def used_splits(data_args: DataArguments, args: TrainingArguments) -> list[str]:
    """The splits that a run reads; `train` also for an evaluation on `--validation_split_percentage`."""
    evaluates = args.do_eval or args.eval_strategy != "no"
    used = {
        "train": args.do_train or (evaluates and data_args.validation_split_percentage is not None),
        "validation": evaluates,
        "test": args.do_predict,
    }
    return [split for split, needed in used.items() if needed]


def read_each(splits: Collection[str], read: Callable[[str], Any]) -> dict[str, Any]:
    """Calls `read` for each split and returns the results by metric prefix; `None` results are dropped."""
    return {PREFIXES[split]: data for split in splits if (data := read(split)) is not None}


def is_used(prefix: str, args: TrainingArguments) -> bool:
    """Whether a run uses the data with this metric prefix: `train`, `eval`, `dev_mm`, `test`, ..."""
    kind = prefix.partition("_")[0]
    if kind == "train":
        return args.do_train
    return args.do_predict if kind == "test" else args.do_eval or args.eval_strategy != "no"


def most_samples(prefix: str, data_args: DataArguments) -> int | None:
    """The maximum number of examples for this metric prefix; `None` if there is no limit."""
    kind = prefix.partition("_")[0]
    most = {"train": data_args.max_train_samples, "test": data_args.max_predict_samples}
    return most.get(kind, data_args.max_eval_samples)


def hold_out(
    dataset: Dataset, percentage: float, seed: int, labels: Sequence | None = None
) -> tuple[Dataset, Dataset]:
    """
    Splits a dataset at random into a training part and a held-out part.

    Args:
        dataset (`datasets.Dataset`): The examples.
        percentage (`float`): Size of the held-out part in percent, rounded up to whole examples.
        seed (`int`): Random seed of the split.
        labels (`Sequence`, *optional*):
            The label of each example, for a stratified split. A label with a single example stays in the training
            part.

    Returns:
        `tuple[datasets.Dataset, datasets.Dataset]`: The training part and the held-out part.

    Raises:
        UserError: The percentage is not between 0 and 100, or one part would be empty.
    """
    if not 0 < percentage < 100:
        raise UserError(f"--validation_split_percentage must be between 0 and 100, got {percentage}.")
    if labels is None:
        try:
            parts = dataset.train_test_split(percentage / 100, seed=seed)
        except ValueError as error:
            raise UserError(f"--validation_split_percentage {percentage}: {error}") from None
        return parts["train"], parts["test"]
    held = _stratified_rows(labels, percentage / 100, seed)
    if not len(held) or len(held) == len(labels):
        raise UserError(
            f"--validation_split_percentage {percentage}: of {len(labels)} training examples, "
            f"{'none' if not len(held) else 'all'} would be held out."
        )
    rows = np.random.default_rng(seed).permutation(len(labels))
    is_held = np.isin(rows, held)
    return dataset.select(rows[~is_held]), dataset.select(rows[is_held])


def _stratified_rows(labels: Sequence, share: float, seed: int) -> np.ndarray:
    """Rows to hold out: the share of each label rounded down, the rest by largest remainder."""
    rows: dict[object, list[int]] = defaultdict(list)
    for row, label in enumerate(labels):
        rows[label].append(row)
    wanted = {label: share * len(found) for label, found in rows.items()}
    counts = {label: math.floor(size) for label, size in wanted.items()}
    missing = math.ceil(share * len(labels)) - sum(counts.values())
    by_loss = sorted(rows, key=lambda label: counts[label] - wanted[label])
    for label in [label for label in by_loss if counts[label] + 1 < len(rows[label])][:missing]:
        counts[label] += 1
    draw = np.random.default_rng(seed)
    return np.concatenate([draw.permutation(found)[: counts[label]] for label, found in rows.items()])
