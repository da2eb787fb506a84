"""Which splits a run uses, the part of the training data that is held out, and how many examples are used."""

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

# From the splits of a data set to the prefixes of their metrics.
PREFIXES = {"train": "train", "validation": "eval", "test": "test"}


def used_splits(data_args: DataArguments, args: TrainingArguments) -> list[str]:
    """The splits that a run reads: `train` also if it only evaluates, on a part of it."""
    evaluates = args.do_eval or args.eval_strategy != "no"
    used = {
        "train": args.do_train or (evaluates and data_args.validation_split_percentage is not None),
        "validation": evaluates,
        "test": args.do_predict,
    }
    return [split for split, needed in used.items() if needed]


def read_each(splits: Collection[str], read: Callable[[str], Any]) -> dict[str, Any]:
    """What `read` makes of the splits, by the prefix of their metrics; `None` is left out."""
    return {PREFIXES[split]: data for split in splits if (data := read(split)) is not None}


def is_used(prefix: str, args: TrainingArguments) -> bool:
    """Whether a run trains, scores or predicts the data with this prefix: `train`, `eval`, `dev_mm`, `test`, ..."""
    kind = prefix.partition("_")[0]
    if kind == "train":
        return args.do_train
    return args.do_predict if kind == "test" else args.do_eval or args.eval_strategy != "no"


def most_samples(prefix: str, data_args: DataArguments) -> int | None:
    """How many examples of the data with this prefix are used, at most."""
    kind = prefix.partition("_")[0]
    most = {"train": data_args.max_train_samples, "test": data_args.max_predict_samples}
    return most.get(kind, data_args.max_eval_samples)


def hold_out(
    dataset: Dataset, percentage: float, seed: int, labels: Sequence | None = None
) -> tuple[Dataset, Dataset]:
    """
    Splits a data set in two.

    Args:
        dataset (`datasets.Dataset`): The examples.
        percentage (`float`): The share of the second part, rounded up to whole examples.
        seed (`int`): Of the draw.
        labels (`Sequence`, *optional*):
            The label of each example. Both parts then have each label in the same proportion, as far as whole
            examples allow, and a label with one example stays in the first.

    Returns:
        `tuple[datasets.Dataset, datasets.Dataset]`: What is left, and what is held out.

    Raises:
        UserError: The percentage is not between 0 and 100, or leaves nothing.
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
    """Rows to hold out: of each label its share rounded down, then one more of those that lose most by rounding."""
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
