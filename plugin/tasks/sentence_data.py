"""Data for sentence classification and regression: a GLUE task, an MTL-16 domain, a Hub dataset, or local files."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from datasets import Dataset

from msattn.arguments.pretrained import ModelArguments
from msattn.arguments.sentence_arguments import SentenceDataArguments
from msattn.command_line import existing_file
from msattn.data.formats.glue import GLUE_TASKS, read_glue
from msattn.data.formats.mtl16 import read_mtl16
from msattn.data.formats.sentiment_trees import SENTIMENTS
from msattn.data.formats.snli import SNLI_LABELS
from msattn.data.relations import relation_labels
from msattn.data.sentences import read_sentences, to_sentences
from msattn.errors import UserError
from msattn.plain_numbers import plain_float
from msattn.tasks.hub_data import load_hub_dataset
from msattn.tasks.labels import checkpoint_labels

PREFIXES = {
    "train": "train",
    "validation": "eval",
    "validation_matched": "eval",
    "validation_mismatched": "eval_mm",
    "test": "test",
    "test_matched": "test",
    "test_mismatched": "test_mm",
}
# Label sets whose published order differs from the alphabetical one.
ORDERS: tuple[Sequence[str], ...] = (SENTIMENTS, SNLI_LABELS)


@dataclass(frozen=True)
class SentenceData:
    """
    The splits of a classification or regression dataset.

    Args:
        splits (`Mapping[str, datasets.Dataset]`):
            The splits by metric prefix. The column `label` holds class ids or scores; unlabelled splits lack it.
        columns (`Sequence[str]`): The one or two text columns.
        labels (`Sequence[str]` or `None`): The class names in the order of their ids; `None` for regression.
    """

    splits: Mapping[str, Dataset]
    columns: Sequence[str]
    labels: Sequence[str] | None


def read_sentence_data(
    data_args: SentenceDataArguments,
    model_args: ModelArguments,
    splits: Collection[str],
    domain: str | None,
    stock: bool = False,
) -> SentenceData:
    """
    Reads the requested splits from MTL-16, GLUE, the Hub or local files.

    Args:
        data_args (`SentenceDataArguments`): Names the data.
        model_args (`ModelArguments`): Cache folder, and the checkpoint that has the labels if nothing is trained.
        splits (`Collection[str]`): Some of `"train"`, `"validation"` and `"test"`. Missing ones are skipped.
        domain (`str` or `None`): The domain, for MTL-16 only.
        stock (`bool`, *optional*, defaults to `False`): See [`~msattn.tasks.labels.checkpoint_labels`].

    Returns:
        `SentenceData`: The splits, their text columns and their labels.

    Raises:
        UserError: A file cannot be read, a label is missing or unknown, or the arguments contradict each other.
    """
    if data_args.mtl16_dir:
        return _domain_data(data_args.mtl16_dir, domain or "")
    if data_args.task_name:
        return _task_data(data_args.task_name, data_args, splits, model_args.cache_dir)
    return _own_data(data_args, model_args, splits, stock)


def check_source(data_args: SentenceDataArguments) -> None:
    """
    Checks that the arguments name one data source.

    Raises:
        UserError: Two sources are given, or an argument does not apply to the source.
    """
    named = [name for name in ("task_name", "mtl16_dir") if getattr(data_args, name)]
    sources = [*named, *(["dataset_name"] if data_args.dataset_name else [])]
    if len(sources) > 1:
        raise UserError(f"--{sources[0]} and --{sources[1]} both name the data: give one of them.")
    if named and (data_args.train_file or data_args.validation_file or data_args.test_file):
        raise UserError(f"--{named[0]} names the data: leave out --train_file, --validation_file and --test_file.")
    if named and data_args.text_column_names:
        raise UserError(f"--{named[0]} names the columns: leave out --text_column_names.")
    if named and data_args.train_phrases:
        raise UserError("--train_phrases is for the trees of SST-5: give --train_file.")
    if data_args.domains and not data_args.mtl16_dir:
        raise UserError("--domains are those of MTL-16: give --mtl16_dir.")


def _domain_data(folder: str, domain: str) -> SentenceData:
    """Reads an MTL-16 domain; `test_unseen` is the test set without reviews that also occur in the training data."""
    data = read_mtl16(folder, domain)
    test = data["test"]
    unseen = test.select(np.flatnonzero(~np.asarray(test["in_train"])))
    splits = {"train": data["train"], "test": test.remove_columns("in_train")}
    if 0 < len(unseen) < len(test):
        splits["test_unseen"] = unseen.remove_columns("in_train")
    return SentenceData(splits, ["sentence"], test.features["label"].names)


def _task_data(
    name: str, data_args: SentenceDataArguments, splits: Collection[str], cache_dir: str | None
) -> SentenceData:
    task = GLUE_TASKS[name]
    wanted = [split for split in task.files if split.partition("_")[0] in splits]
    raw = read_glue(name, data_args.glue_dir, wanted, cache_dir)
    found = {
        PREFIXES[split]: dataset.remove_columns("label") if split.startswith("test") else dataset
        for split, dataset in raw.items()
    }
    return SentenceData(found, list(task.columns), task.labels)


def _own_data(
    data_args: SentenceDataArguments, model_args: ModelArguments, wanted: Collection[str], stock: bool
) -> SentenceData:
    if data_args.glue_dir:
        raise UserError("--glue_dir needs the task: give --task_name.")
    raw: dict[str, Dataset] = {}
    columns = data_args.text_column_names
    if columns is not None and not 1 <= len(columns) <= 2:
        raise UserError(f"--text_column_names takes one column or two, not {len(columns)}.")
    hub = load_hub_dataset(data_args, model_args)
    classes = None
    for split in wanted:
        path = existing_file(getattr(data_args, f"{split}_file"), f"{split}_file")
        if path is not None:
            phrases = data_args.train_phrases and split == "train"
            dataset, source = read_sentences(path, columns, data_args.label_column_name, phrases), path
        elif split in hub:
            source = f"{data_args.dataset_name}, {split}"
            dataset = to_sentences(hub[split], source, columns, data_args.label_column_name)
            if split == "train":
                classes = getattr(hub[split].features.get(data_args.label_column_name), "names", None)
        else:
            continue
        columns = [name for name in dataset.column_names if name != "label"]
        if split != "test" and "label" not in dataset.column_names:
            raise UserError(
                f"{source}: there are no labels in {data_args.label_column_name!r} (--label_column_name); only test "
                "data may come without."
            )
        raw[PREFIXES[split]] = dataset
    if columns is None or not raw:
        return SentenceData({}, [], None)
    labels = classes or _own_labels(raw, model_args, stock)
    splits = {
        prefix: _with_numbers(dataset, labels, prefix) if "label" in dataset.column_names else dataset
        for prefix, dataset in raw.items()
    }
    return SentenceData(splits, columns, labels)


def _own_labels(raw: Mapping[str, Dataset], model_args: ModelArguments, stock: bool) -> list[str] | None:
    """The classes of the training data, or of the checkpoint if there is none; `None` for regression."""
    if "train" not in raw:
        known = checkpoint_labels(model_args, stock) if model_args.model_name_or_path else None
        if known is None:
            raise UserError("the labels are not known: give --train_file, or a model that was trained here.")
        return known if len(known) > 1 else None
    trained = raw["train"].unique("label")
    if all(map(_is_number, trained)) and not all(map(_is_whole, trained)):
        return None
    labels = relation_labels(*(dataset for dataset in raw.values() if "label" in dataset.column_names))
    if len(labels) == 1:
        raise UserError(f"there has to be more than one label, and every example has {labels[0]!r}.")
    for order in ORDERS:
        if set(labels) <= set(order):
            return sorted(labels, key=order.index)
    return sorted(labels, key=int) if all(map(_is_whole, labels)) else labels


def _with_numbers(dataset: Dataset, labels: Sequence[str] | None, prefix: str) -> Dataset:
    """Replaces the label strings of a file by class ids or, for regression, by numbers."""
    texts = dataset["label"]
    known = None if labels is None else {label: number for number, label in enumerate(labels)}
    for number, label in enumerate(texts, start=1):
        if not (_is_number(label) if known is None else label in known):
            expected = "a number" if known is None else f"one of {', '.join(known)}"
            raise UserError(f"{prefix} data, example {number}: the label {label!r} is not {expected}.")
    values = [float(label) if known is None else known[label] for label in texts]
    return dataset.remove_columns("label").add_column("label", values)


def _is_number(label: str) -> bool:
    try:
        plain_float(label)
    except ValueError:
        return False
    return True


def _is_whole(label: str) -> bool:
    return re.fullmatch("-?[0-9]{1,4000}", label) is not None
