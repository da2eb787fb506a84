"""The examples of sentence classification and regression: a task of GLUE, a domain of MTL-16, or one's own files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from datasets import Dataset
from transformers import TrainingArguments
from transformers.utils import logging

from msattn.data.glue import GLUE_TASKS, read_glue
from msattn.data.mtl16 import MTL16_DOMAINS, read_mtl16
from msattn.data.relations import relation_labels
from msattn.data.sentences import read_sentences
from msattn.data.sentiment_trees import SENTIMENTS
from msattn.data.snli import SNLI_LABELS
from msattn.errors import UserError
from msattn.training.cli import existing_file, hold_out
from msattn.training.multiscale import MultiScaleArguments, checkpoint_labels

logger = logging.get_logger(__name__)

PREFIXES = {
    "train": "train",
    "validation": "eval",
    "validation_matched": "eval",
    "validation_mismatched": "eval_mm",
    "test": "test",
    "test_matched": "test",
    "test_mismatched": "test_mm",
}
# Tokens of an example for a model that has no room for any number of them.
MAX_SEQ_LENGTH = 128
# Classes that have an order of their own.
ORDERS: tuple[Sequence[str], ...] = (SENTIMENTS, SNLI_LABELS)


@dataclass
class GlueDataArguments:
    """The data: a task of GLUE, from the Hub or a folder, the domains of MTL-16, or files of one's own."""

    task_name: str | None = field(
        default=None, metadata={"help": "The task of GLUE; without it, give files.", "choices": list(GLUE_TASKS)}
    )
    glue_dir: str | None = field(
        default=None,
        metadata={"help": "Folder with GLUE's own TSV files (glue_dir/SST-2/train.tsv); without it, the Hub."},
    )
    train_file: str | None = field(
        default=None,
        metadata={
            "help": "CSV, TSV, JSON (lines) or Parquet: one or two columns of text, and label (decimals: regression); "
            "or a file of SST-5 (trees), SNLI or MTL-16 as published."
        },
    )
    train_phrases: bool = field(
        default=False, metadata={"help": "Of the trees of SST-5, train with every phrase and not the sentences alone."}
    )
    mtl16_dir: str | None = field(
        default=None,
        metadata={
            "help": "Folder of MTL-16 with its files DOMAIN.task.train and DOMAIN.task.test: a model a domain, in "
            "folders of their names, and a table."
        },
    )
    domains: list[str] | None = field(
        default=None, metadata={"help": "Of MTL-16 these domains only.", "choices": list(MTL16_DOMAINS)}
    )
    text_column_names: list[str] | None = field(
        default=None,
        metadata={"help": "The one or two columns of text of these files; without it, the first that hold text."},
    )
    label_column_name: str = field(default="label", metadata={"help": "Their column of labels."})
    validation_file: str | None = field(default=None, metadata={"help": "Development examples."})
    test_file: str | None = field(default=None, metadata={"help": "Test examples, with or without labels."})
    validation_split_percentage: float | None = field(
        default=None,
        metadata={
            "help": "Cut this share of the training data off and choose with it: it is then called eval, and the "
            "development data of the task's own dev."
        },
    )
    split_seed: int = field(default=42, metadata={"help": "Seed of that cut, the same for every --seeds."})
    max_seq_length: int | None = field(
        default=None,
        metadata={
            "help": f"Most tokens in an example; longer ones are truncated, and counted. {MAX_SEQ_LENGTH} if left "
            "out, or any number for a model without positions."
        },
    )
    pad_to_max_length: bool = field(
        default=False, metadata={"help": "Pad every example to --max_seq_length, and not to the longest of its batch."}
    )
    max_train_samples: int | None = field(default=None, metadata={"help": "Use so many training examples at most."})
    max_eval_samples: int | None = field(default=None, metadata={"help": "The same for development."})
    max_predict_samples: int | None = field(default=None, metadata={"help": "The same for the test."})
    preprocessing_num_workers: int | None = field(default=None, metadata={"help": "Processes that tokenise."})


@dataclass(frozen=True)
class SentenceData:
    """
    Args:
        splits (`Mapping[str, datasets.Dataset]`):
            By metric prefix; `label` holds class numbers or scores, and is missing where there are none.
        columns (`Sequence[str]`): The columns of text.
        labels (`Sequence[str]`, *optional*): The classes; `None` for regression.
    """

    splits: Mapping[str, Dataset]
    columns: Sequence[str]
    labels: Sequence[str] | None


def glue_data(
    data_args: GlueDataArguments, model_args: MultiScaleArguments, training_args: TrainingArguments, domain: str | None
) -> SentenceData:
    """
    Reads what the training arguments need, of MTL-16 the data of a domain. A cut off training data becomes `eval`, and
    the development data that were there before `dev`.

    Raises:
        UserError: Files, labels or arguments are not as they should be.
    """
    _check_source(data_args)
    wants_eval = training_args.do_eval or training_args.eval_strategy != "no"
    used = {
        "train": training_args.do_train,
        "eval": wants_eval,
        "dev": wants_eval,
        "test": training_args.do_predict,
    }
    at_most = {
        "train": data_args.max_train_samples,
        "eval": data_args.max_eval_samples,
        "dev": data_args.max_eval_samples,
        "test": data_args.max_predict_samples,
    }
    if data_args.mtl16_dir:
        data = _domain_data(data_args.mtl16_dir, domain or "")
    elif data_args.task_name:
        data = _task_data(data_args.task_name, data_args, used, model_args.cache_dir)
    else:
        data = _own_data(data_args, model_args)
    splits, share = data.splits, data_args.validation_split_percentage
    if share is not None and (used["train"] or used["eval"]):
        splits = _held_out(data, share, data_args.split_seed)
    splits = {
        prefix: _limited(dataset, at_most[prefix.partition("_")[0]], prefix)
        for prefix, dataset in splits.items()
        if used[prefix.partition("_")[0]]
    }
    return replace(data, splits=splits)


def _check_source(data_args: GlueDataArguments) -> None:
    """Refuses arguments that name the data twice, or belong to others."""
    named = [name for name in ("task_name", "mtl16_dir") if getattr(data_args, name)]
    if len(named) > 1:
        raise UserError("--task_name and --mtl16_dir both name the data: give one of them.")
    if named and (data_args.train_file or data_args.validation_file or data_args.test_file):
        raise UserError(f"--{named[0]} names the data: leave out --train_file, --validation_file and --test_file.")
    if named and data_args.text_column_names:
        raise UserError(f"--{named[0]} names the columns: leave out --text_column_names.")
    if named and data_args.train_phrases:
        raise UserError("--train_phrases is for the trees of SST-5: give --train_file.")
    if data_args.domains and not data_args.mtl16_dir:
        raise UserError("--domains are those of MTL-16: give --mtl16_dir.")


def _domain_data(folder: str, domain: str) -> SentenceData:
    """A domain of MTL-16. `test_unseen` has the test reviews that the training data lack, if there are others."""
    data = read_mtl16(folder, domain)
    test = data["test"]
    unseen = test.select(np.flatnonzero(~np.asarray(test["in_train"])))
    splits = {"train": data["train"], "test": test.remove_columns("in_train")}
    if 0 < len(unseen) < len(test):
        splits["test_unseen"] = unseen.remove_columns("in_train")
    return SentenceData(splits, ["sentence"], test.features["label"].names)


def _task_data(
    name: str, data_args: GlueDataArguments, used: Mapping[str, bool], cache_dir: str | None
) -> SentenceData:
    task = GLUE_TASKS[name]
    cut = data_args.validation_split_percentage is not None
    needed = {**used, "train": used["train"] or (cut and used["eval"])}
    wanted = [split for split in task.files if needed[PREFIXES[split].partition("_")[0]]]
    if not wanted:
        raise UserError("there is nothing to do: give at least one of --do_train, --do_eval and --do_predict.")
    raw = read_glue(name, data_args.glue_dir, wanted, cache_dir)
    splits = {
        PREFIXES[split]: dataset.remove_columns("label") if split.startswith("test") else dataset
        for split, dataset in raw.items()
    }
    return SentenceData(splits, list(task.columns), task.labels)


def _own_data(data_args: GlueDataArguments, model_args: MultiScaleArguments) -> SentenceData:
    if data_args.glue_dir:
        raise UserError("--glue_dir needs the task: give --task_name.")
    raw: dict[str, Dataset] = {}
    columns = data_args.text_column_names
    if columns is not None and not 1 <= len(columns) <= 2:
        raise UserError(f"--text_column_names takes one column or two, not {len(columns)}.")
    for split in ("train", "validation", "test"):
        path = existing_file(getattr(data_args, f"{split}_file"), f"{split}_file")
        if path is None:
            continue
        phrases = data_args.train_phrases and split == "train"
        dataset = read_sentences(path, columns, data_args.label_column_name, phrases)
        columns = [name for name in dataset.column_names if name != "label"]
        if split != "test" and "label" not in dataset.column_names:
            raise UserError(
                f"{path}: there are no labels in {data_args.label_column_name!r} (--label_column_name); only test "
                "data may come without."
            )
        raw[PREFIXES[split]] = dataset
    if columns is None or not raw:
        raise UserError(
            "there are no data: give --task_name, or --train_file, --validation_file or --test_file, or --mtl16_dir."
        )
    logger.info(f"The text is read from {' and '.join(columns)}.")
    labels = _own_labels(raw, model_args)
    splits = {
        prefix: _with_numbers(dataset, labels, prefix) if "label" in dataset.column_names else dataset
        for prefix, dataset in raw.items()
    }
    return SentenceData(splits, columns, labels)


def _own_labels(raw: Mapping[str, Dataset], model_args: MultiScaleArguments) -> list[str] | None:
    """The classes of the labelled data, or of the checkpoint where nothing trains; `None` for regression."""
    if "train" not in raw:
        known = checkpoint_labels(model_args) if model_args.model_name_or_path else None
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
    """Class numbers, or scores, in place of the strings of the file."""
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
        return bool(np.isfinite(float(label)))
    except ValueError:
        return False


def _is_whole(label: str) -> bool:
    return label.removeprefix("-").isdecimal()


def _held_out(data: SentenceData, percentage: float, seed: int) -> dict[str, Dataset]:
    """The cut becomes eval; development data that were there before become dev."""
    splits = data.splits
    if "train" not in splits:
        raise UserError("--validation_split_percentage needs training data.")
    train, held = hold_out(splits["train"], percentage, seed)
    texts, cut = (zip(*(part[column][:] for column in data.columns), strict=True) for part in (train, held))
    seen = set(texts)
    if repeated := sum(text in seen for text in cut):
        logger.warning(
            f"{repeated} of the {len(held)} examples that --validation_split_percentage cuts off have the same text "
            "as one that is left."
        )
    others = {prefix.replace("eval", "dev"): dataset for prefix, dataset in splits.items()}
    # The first evaluation set is the one that a Trainer chooses with.
    return {"eval": held, **others, "train": train}


def _limited(dataset: Dataset, most: int | None, prefix: str) -> Dataset:
    if most is None:
        return dataset
    if most < 1:
        raise UserError(f"{prefix}: at least one example has to be left, not {most}.")
    return dataset.select(range(min(most, len(dataset))))
