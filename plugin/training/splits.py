"""The splits of a run: which are read, the held-out validation part, and limits on the number of examples."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import numpy as np
from datasets import Dataset, DatasetDict, load_dataset
from transformers import TrainingArguments
from transformers.utils import logging

from msattn.data.files.text_lines import files_in
from msattn.data.relations import lists_all_pairs, lists_entities
from msattn.errors import UserError
from msattn.training.arguments import DataArguments, HubDataArguments

logger = logging.get_logger(__name__)

# Prefixes of metrics by split.
PREFIXES = {"train": "train", "validation": "eval", "test": "test"}


def load_hub_dataset(args: HubDataArguments) -> DatasetDict:
    """The splits of `--dataset_name` on the Hub; empty without it."""
    return load_dataset(args.dataset_name, args.dataset_config_name) if args.dataset_name else DatasetDict()


def read_splits(
    read: Callable[[str], Any], data_args: DataArguments, args: TrainingArguments, sources: str = ""
) -> dict[str, Any]:
    """
    Reads the splits that a run needs.

    Args:
        read (`Callable`): Reads `"train"`, `"validation"` or `"test"`; returns `None` if there is no such split.
        data_args (`DataArguments`): Whether a part of the training data is held out.
        args (`TrainingArguments`): Whether the run trains, evaluates and predicts.
        sources (`str`, *optional*): Arguments other than files that name data, for error messages.

    Returns:
        `dict[str, Any]`: What `read` returned, by the prefix of its metrics: `"train"`, `"eval"` and `"test"`.

    Raises:
        UserError: The run has nothing to do, a split that it needs is missing, a run that trains holds out examples
            and does not evaluate, or `--push_to_hub` is given to a run that does not train.
    """
    evaluates, percentage = args.do_eval, data_args.validation_split_percentage
    held_out = percentage is not None
    if not (args.do_train or evaluates or args.do_predict):
        raise UserError("there is nothing to do: give at least one of --do_train, --do_eval and --do_predict.")
    if args.push_to_hub and not args.do_train:
        raise UserError("--push_to_hub pushes what a run trains: give --do_train, or push the folder by `hf upload`.")
    if args.do_train and not evaluates:
        if held_out:
            raise UserError("--validation_split_percentage needs --do_eval (or --eval_strategy) beside --do_train.")
        if data_args.validation_file:
            logger.warning("--validation_file is not read without --do_eval (or --eval_strategy).")
    if data_args.test_file and not args.do_predict:
        logger.warning("--test_file is not read without --do_predict.")
    if percentage is not None and not 0 < percentage < 100:
        raise UserError(f"--validation_split_percentage {percentage:g}: give a number between 0 and 100.")
    if args.do_train and data_args.early_stopping_patience is not None:
        if "no" in (args.eval_strategy, args.metric_for_best_model or "no"):
            raise UserError("--early_stopping_patience needs --eval_strategy epoch and --metric_for_best_model.")
    needed = {
        "train": args.do_train or (evaluates and held_out),
        "validation": evaluates and not held_out,
        "test": args.do_predict,
    }
    wanted = [split for split in PREFIXES if needed[split] or (split == "validation" and evaluates)]
    with files_in(data_args.encoding):
        found = {split: data for split in wanted if (data := read(split)) is not None}
    if missing := [split for split in wanted if needed[split] and split not in found]:
        cut = ", or --validation_split_percentage to hold out training data" if missing[0] == "validation" else ""
        raise UserError(f"the run needs {missing[0]} data: give --{missing[0]}_file{sources}{cut}.")
    validation = data_args.validation_file or ()
    if args.do_train and data_args.test_file in ([validation] if isinstance(validation, str) else validation):
        logger.warning(
            "--validation_file and --test_file are the same file: what is chosen or fitted on it makes its test "
            "scores too good."
        )
    return {PREFIXES[split]: data for split, data in found.items()}


def hold_out_and_limit(
    found: Mapping[str, Any],
    data_args: DataArguments,
    args: TrainingArguments,
    hold_out: Callable[[Any, DataArguments], tuple[Any, Any]] | None = None,
) -> dict[str, Any]:
    """
    Holds out the validation part of the training data and applies the limits on the number of examples.

    Args:
        found (`Mapping[str, Any]`): What [`read_splits`] returned.
        data_args (`DataArguments`): `validation_split_percentage`, `max_*_samples` and `train_fraction`.
        args (`TrainingArguments`): Whether the run trains: training data that were only read to be held out are left
            away.
        hold_out (`Callable`, *optional*):
            Cuts the training data. Default: [`held_out`], stratified by the column `label` if it has classes.

    Returns:
        `dict[str, Any]`: The data by the prefix of their metrics. With a held-out part, that is `"eval"`, and the
        validation data are `"dev"`.
    """
    data = dict(found)
    if data_args.validation_split_percentage is not None and "train" in data:
        train = data.pop("train")
        if hold_out is not None:
            train, held = hold_out(train, data_args)
        else:
            share, seed = data_args.validation_split_percentage, data_args.split_seed
            classes = "label" in train.column_names and "float" not in train.features["label"].dtype
            train, held = held_out(train, share, seed, train["label"][:] if classes else None)
        data = {"eval": held, **{prefix.replace("eval", "dev"): each for prefix, each in data.items()}, "train": train}
    if not args.do_train:
        data.pop("train", None)
    data = {prefix: _limited(prefix, each, data_args) for prefix, each in data.items()}
    if data_args.train_fraction is not None and "train" in data:
        # Texts that list entities stay whole. --negative_pairs could draw marked pairs that are left out.
        listed = isinstance(data["train"], Dataset) and lists_entities(data["train"])
        whole_texts = listed or bool(getattr(data_args, "negative_pairs", None))
        data["train"] = part_of(data["train"], data_args.train_fraction, data_args.split_seed, whole_texts)
    if args.should_log:
        print(f"Data: {', '.join(f'{prefix} {len(each)}' for prefix, each in data.items())}.")
    return data


def warn_of_repeats(texts: Mapping[str, Sequence[Any]], what: str = "examples") -> None:
    """
    Warns if the model is scored on what it is trained on.

    Args:
        texts (`Mapping[str, Sequence]`): The texts of each split, hashable, by the prefix of its metrics.
        what (`str`, *optional*, defaults to `"examples"`): What one of them is.
    """
    trained = set(texts.get("train", ()))
    for prefix, scored in texts.items():
        if prefix != "train" and (repeated := sum(text in trained for text in scored)):
            logger.warning(f"{prefix}: {repeated} of the {len(scored)} {what} are in the training data, too.")


def warn_of_labels(
    found: Mapping[str, Collection[str]], labels: Sequence[str], what: str = "example has the label"
) -> None:
    """
    Warns of labels that may be mistakes: one that a split lacks, which cannot be learned there and counts as 0 in
    scores of all labels; and, in a training, two that differ in case only.

    Args:
        found (`Mapping[str, Collection[str]]`):
            The labels of each split by the prefix of its metrics. One without any is data to predict.
        labels (`Sequence[str]`): All labels.
        what (`str`, *optional*, defaults to `"example has the label"`): What has one.
    """
    for prefix, there in found.items():
        if there and (absent := [label for label in labels if label not in there]):
            shown = ", ".join(absent[:5]) + (f" and {len(absent) - 5} others" if len(absent) > 5 else "")
            mend = ": check its spelling, shuffle the file, or take more" if prefix == "train" else ""
            logger.warning(f"{prefix}: no {what} {shown}{mend}.")
    written = {label.casefold(): label for label in labels}
    if "train" in found and (odd := next((each for each in labels if written[each.casefold()] != each), None)):
        logger.warning(f"The labels {odd!r} and {written[odd.casefold()]!r} differ in case only: write them one way.")


def split_names(data_args: DataArguments) -> dict[str, str]:
    """The names of the scored splits in a model card, by the prefix of their metrics."""
    if data_args.validation_split_percentage is None:
        return {"eval": "validation", "test": "test"}
    return {"eval": "held out of train", "dev": "validation", "test": "test"}


def held_out(
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

    Raises:
        UserError: One of the parts would be empty.
    """
    share, total = percentage / 100, len(dataset)
    held = range(math.ceil(share * total)) if labels is None else _stratified_rows(labels, share, seed)
    if not 0 < len(held) < total:
        raise UserError(
            f"--validation_split_percentage {percentage}: of {total} training examples, "
            f"{'all' if len(held) else 'none'} would be held out."
        )
    if labels is None:
        parts = dataset.train_test_split(share, seed=seed)
        return parts["train"], parts["test"]
    rows = np.random.default_rng(seed).permutation(total)
    is_held = np.isin(rows, held)
    return dataset.select(rows[~is_held]), dataset.select(rows[is_held])


def part_of(data: Any, fraction: float, seed: int, whole_texts: bool = False) -> Any:
    """
    A random part of the examples, or of the queries with all their candidates; smaller parts lie inside larger ones.

    Args:
        data (`datasets.Dataset` or queries): The examples.
        fraction (`float`): The size of the part, from 0 to 1.
        seed (`int`): The random seed.
        whole_texts (`bool`, *optional*, defaults to `False`): Whether to draw texts, with all their pairs.

    Raises:
        UserError: Nothing would be left, or the fraction is above 1.
    """
    if fraction > 1:
        raise UserError(f"--train_fraction {fraction:g}: give a number from 0 to 1.")
    of_rows = data["text"][:] if whole_texts else range(len(data))
    units = [*dict.fromkeys(of_rows)]
    order = np.random.default_rng(seed).permutation(len(units))
    kept = round(fraction * len(units))
    if kept < 1:
        raise UserError(f"--train_fraction {fraction} leaves none of the {len(units)} training examples.")
    drawn = {units[number] for number in order[:kept]}
    return data.select([row for row, unit in enumerate(of_rows) if unit in drawn])


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


def _limited(prefix: str, data: Any, args: DataArguments) -> Any:
    """The first examples of a split, up to its limit; of rows with all pairs of a text, whole texts, at least one."""
    most = {"train": args.max_train_samples, "test": args.max_predict_samples}.get(
        prefix.partition("_")[0], args.max_eval_samples
    )
    if most is None or most >= len(data):
        return data
    if isinstance(data, Dataset) and lists_all_pairs(data):  # no text with some of its pairs
        texts = data["text"][:]
        ends = [*(row for row in range(1, len(texts)) if texts[row] != texts[row - 1]), len(texts)]
        most = max((end for end in ends if end <= most), default=ends[0])
    return data.select(range(most))
