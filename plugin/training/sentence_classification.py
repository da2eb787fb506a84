"""Functions of `run_glue.py`: heads, labels, files of predictions, the model card."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from datasets import Dataset
from transformers import PreTrainedConfig, TrainingArguments
from transformers.utils import logging

from msattn.data.formats.glue import GLUE_TASKS, read_glue
from msattn.data.formats.glue_submissions import write_glue_submission
from msattn.data.formats.sentiment_trees import SENTIMENTS
from msattn.data.formats.snli import SNLI_LABELS
from msattn.data.sentences import read_sentences, to_sentences
from msattn.errors import UserError, extra, shown
from msattn.metrics.report_tables import label_report
from msattn.metrics.sentences import sentence_answers
from msattn.training.from_scratch import scratch_card_fields
from msattn.training.fusion import fusion_card_fields
from msattn.training.model_card import ModelCardFacts
from msattn.training.splits import load_hub_dataset, read_splits, split_names

with extra("train"):
    from scipy.special import softmax


logger = logging.get_logger(__name__)

# The values of --head: the classifier of Transformers, and multi-scale fusion and its baselines.
HEADS = ("plain", "multiscale", "cls", "mean", "plain-attention")
# Default length for models with a limited number of positions.
MAX_SEQ_LENGTH = 128
# Label sets whose published order differs from the alphabetical one.
ORDERS: tuple[Sequence[str], ...] = (SENTIMENTS, SNLI_LABELS)
# Display names of the metrics.
METRIC_NAMES = {
    "matthews_correlation": "Matthews correlation",
    "accuracy": "Accuracy",
    "majority_accuracy": "Accuracy of the most frequent label",
    "f1": "F1",
    "macro_f1": "Macro F1",
    "pearson": "Pearson",
    "spearmanr": "Spearmanr",
    "mse": "MSE (no percent)",
    "combined_score": "Combined score",
}


def labels_in(rows: Dataset, labels: Sequence[str]) -> set[str]:
    """The labels of a split, whose column `label` has ids; none without that column."""
    return {labels[number] for number in rows.unique("label")} if "label" in rows.column_names else set()


def read_sentence_splits(
    data_args: Any,
    args: TrainingArguments,
    known: Sequence[str] | None,
    config: PreTrainedConfig | None = None,
    taught: Sequence[str] | None = None,
) -> tuple[dict[str, Dataset], list[str], list[str] | None]:
    """
    Reads the splits that a run needs, from a task of GLUE, a dataset on the Hub or local files.

    Args:
        data_args (`SentenceDataArguments`): Names the data.
        args (`TrainingArguments`): Whether the run trains, evaluates and predicts.
        known (`Sequence[str]` or `None`): The labels of the checkpoint, for data without a training set.
        config (`PreTrainedConfig`, *optional*):
            The configuration of the checkpoint: without training, the columns are those that it was trained on.
        taught (`Sequence[str]`, *optional*): The labels of a teacher: training data need none.

    Returns:
        `tuple[dict[str, datasets.Dataset], list[str], list[str] | None]`: The splits by the prefix of their metrics,
        with class ids or scores in the column `label`; the one or two text columns; and the labels in the order of
        their ids, or `None` for regression.

    Raises:
        UserError: A split is missing, training or validation data have no labels, or no labels are known.
    """
    columns, label_column = data_args.text_column_names, data_args.label_column_name
    if data_args.task_name is None and data_args.glue_dir:
        raise UserError("--glue_dir is for --task_name.")
    if data_args.train_phrases and not data_args.train_file:
        raise UserError("--train_phrases is for trees of SST-5 in --train_file.")
    if data_args.train_phrases and data_args.validation_split_percentage is not None:
        raise UserError(
            "--validation_split_percentage would hold out phrases of sentences in the training data: with "
            "--train_phrases, give --validation_file."
        )
    if data_args.task_name and (columns or label_column != "label"):
        raise UserError("--task_name has columns of its own: leave out --text_column_names and --label_column_name.")
    if not args.do_train:
        columns = columns or getattr(config, "text_columns", None)
        label_column = getattr(config, "label_column", label_column) if label_column == "label" else label_column
    if data_args.task_name is not None:
        return _read_task(data_args, args)
    if columns is not None and len(columns) > 2:
        raise UserError(f"--text_column_names takes one column or two, not {len(columns)}.")
    hub = load_hub_dataset(data_args)
    unlabelled = ("test",) if taught is None or data_args.validation_split_percentage else ("test", "train")

    def read(split: str) -> Dataset | None:
        nonlocal columns
        labelled = split not in unlabelled
        if path := getattr(data_args, f"{split}_file"):
            phrases = data_args.train_phrases and split == "train"
            source, rows = path, read_sentences(path, columns, label_column, phrases, labelled)
        elif split in hub:
            source = f"{data_args.dataset_name}, {split}"
            rows = to_sentences(hub[split], source, columns, label_column, labelled)
        else:
            return None
        columns = [name for name in rows.column_names if name != "label"]
        if split == "test" and "label" in rows.column_names and rows.unique("label") == ["-1"]:
            logger.warning(f"{source}: every label is -1, as the Hub writes for none: the data count as unlabelled.")
            rows = rows.remove_columns("label")
        if labelled and "label" not in rows.column_names:
            raise UserError(f"{source}: there are no labels in {label_column!r} (--label_column_name).")
        return rows

    found = read_splits(read, data_args, args, ", --dataset_name or --task_name")
    classes = None
    if "train" in hub and not data_args.train_file and (args.do_train or "LABEL_0" in (known or ())):
        classes = getattr(hub["train"].features.get(label_column), "names", None)
    labels = list(taught) if taught else classes or _find_labels(found, known, args.do_train)
    return {prefix: _with_label_ids(rows, labels, prefix) for prefix, rows in found.items()}, columns or [], labels


def _read_task(data_args: Any, args: TrainingArguments) -> tuple[dict[str, Dataset], list[str], list[str] | None]:
    """A task of GLUE. MNLI has two validation sets and two test sets."""
    task = GLUE_TASKS[data_args.task_name]
    if data_args.train_file or data_args.validation_file or data_args.test_file or data_args.dataset_name:
        raise UserError("--task_name names the data: leave out --dataset_name and the files.")

    def read(split: str, ending: str = "") -> Dataset:
        name = split if split in task.files else f"{split}{ending or '_matched'}"
        rows = read_glue(data_args.task_name, data_args.glue_dir, [name])[name]
        return rows.remove_columns("label") if split == "test" else rows

    found = read_splits(read, data_args, args)
    for prefix, split in (("eval", "validation"), ("test", "test")):
        if prefix in found and split not in task.files:
            found[f"{prefix}_mm"] = read(split, "_mismatched")
    return found, list(task.columns), None if task.labels is None else list(task.labels)


def _find_labels(splits: Mapping[str, Dataset], known: Sequence[str] | None, training: bool) -> list[str] | None:
    """
    The classes of all data, or those of the checkpoint if nothing is trained; `None` for regression, which one decimal
    number makes it.

    Args:
        splits (`Mapping[str, datasets.Dataset]`): The data by the prefix of their metrics, with labels as strings.
        known (`Sequence[str]` or `None`): The labels of the checkpoint.
        training (`bool`): Whether something is trained.

    Raises:
        UserError: There are neither training data nor a classifier, all examples have the same label, a label is
            written in another case than in the training data, or the labels are numbers with a decimal comma.
    """
    if not training:
        if known is None:
            raise UserError("the labels are not known: give --train_file, or a model that was trained here.")
        return list(known) if len(known) > 1 else None
    trained = splits["train"].unique("label")
    of_splits = (rows.unique("label") for rows in splits.values() if "label" in rows.column_names)
    labels = sorted({*chain(*of_splits)} - {None})
    if decimals := [label for label in labels if _is_number(label) and not _is_whole(label)]:
        if not {*decimals} & {*trained}:
            logger.warning(f"The label {decimals[0]} makes this a regression; no label of the training data does.")
        return None
    commas = [label for label in trained if "," in label]
    if commas and all(_is_number(label.replace(",", ".")) for label in trained):
        raise UserError(f"the labels are numbers with a decimal comma, such as {commas[0]!r}: write a point.")
    cases = {label.casefold(): label for label in trained}
    if odd := next((label for label in labels if label not in trained and label.casefold() in cases), None):
        raise UserError(f"the label {odd!r} is {cases[odd.casefold()]!r} in the training data: write it one way.")
    if len(labels) == 1:
        raise UserError(f"there has to be more than one label, and every example has {labels[0]!r}.")
    for order in ORDERS:
        if set(labels) <= set(order):
            return sorted(labels, key=order.index)
    return sorted(labels, key=int) if all(map(_is_whole, labels)) else labels


def _with_label_ids(rows: Dataset, labels: Sequence[str] | None, prefix: str) -> Dataset:
    """
    Replaces the labels of a file, strings, by class ids or, for regression, by numbers.

    Args:
        rows (`datasets.Dataset`): The examples. Those without labels stay as they are.
        labels (`Sequence[str]` or `None`): The classes in the order of their ids; `None` for regression.
        prefix (`str`): The prefix of the split, for error messages.

    Raises:
        UserError: A label is not one of the classes, or no number.
    """
    if "label" not in rows.column_names:
        return rows
    ids = None if labels is None else {label: number for number, label in enumerate(labels)}
    for number, label in enumerate(rows["label"], start=1):
        if not (_is_number(label) if ids is None else label in ids):
            expected = "a number, as other labels are" if labels is None else f"one of {', '.join(labels)}"
            text = shown(next(iter(rows.remove_columns("label")[number - 1].values())))
            raise UserError(f"{prefix} data, example {number}, {text}: the label {label!r} is not {expected}.")
    values = [float(label) if ids is None else ids[label] for label in rows["label"]]
    return rows.remove_columns("label").add_column("label", values)


def write_sentence_predictions(
    folder: str,
    prefix: str,
    examples: Dataset,
    columns: Sequence[str],
    logits: np.ndarray,
    labels: Sequence[str] | None,
    task: str | None,
) -> None:
    """
    Writes `<prefix>_predictions.tsv`, or for a GLUE test set the submission file.

    For labelled data, also writes `<prefix>_predictions.jsonl`, with the texts; for classes also their probabilities
    and `<prefix>_report.txt`, which it prints.

    Args:
        folder (`str`): The folder.
        prefix (`str`): The prefix of the split, such as `"test"`.
        examples (`datasets.Dataset`): The examples, with class ids in the column `label` if they are labelled.
        columns (`Sequence[str]`): The one or two text columns.
        logits (`np.ndarray` of shape `(examples, labels)`): The outputs of the model.
        labels (`Sequence[str]` or `None`): The classes; `None` for regression.
        task (`str` or `None`): The GLUE task.
    """
    answers = sentence_answers(logits, labels is None)
    if task and prefix.startswith("test"):
        write_glue_submission(f"{task}_mm" if prefix == "test_mm" else task, folder, answers.tolist())
        return
    cells = [f"{answer:.5f}" for answer in answers] if labels is None else [labels[answer] for answer in answers]
    lines = ["index\tprediction\n", *(f"{number}\t{cell}\n" for number, cell in enumerate(cells))]
    Path(folder, f"{prefix}_predictions.tsv").write_text("".join(lines), encoding="utf-8")
    if "label" not in examples.column_names:
        return
    with open(Path(folder, f"{prefix}_predictions.jsonl"), "w", encoding="utf-8") as file:
        for example, row, cell in zip(examples, softmax(logits, -1), cells, strict=True):
            line = {name: example[key] for name, key in zip(("text", "text_pair"), columns, strict=False)}
            if labels is None:
                line |= {"gold": example["label"], "prediction": float(cell)}
            else:
                probabilities = {label: round(float(value), 6) for label, value in zip(labels, row, strict=True)}
                line |= {"gold": labels[example["label"]], "prediction": cell, "probabilities": probabilities}
            file.write(json.dumps(line, ensure_ascii=False) + "\n")
    if labels is None:
        return
    report = label_report(examples["label"][:], answers.tolist(), range(len(labels)), labels)
    Path(folder, f"{prefix}_report.txt").write_text(report, encoding="utf-8")
    print(report)


def sentence_card(config: PreTrainedConfig, kind: str, data_args: Any, pairs: bool) -> ModelCardFacts:
    """
    The facts for the model card of a sentence classifier.

    Args:
        config (`PreTrainedConfig`): The configuration of the model.
        kind (`str`): `"fused"` (multi-scale fusion and its baselines), `"fresh"` (trained from scratch) or `"plain"`.
        data_args (`SentenceDataArguments`): Names the data.
        pairs (`bool`): Whether an example has two texts.
    """
    task, splits = data_args.task_name, split_names(data_args)
    if task == "mnli":
        official = "dev" if "dev" in splits else "eval"
        splits |= {official: "validation_matched", f"{official}_mm": "validation_mismatched"}
    name = f"GLUE {GLUE_TASKS[task].folder}" if task else data_args.source
    layers = "multi-scale fusion self-attention, or a baseline without it,"
    reads, fields = {
        "fused": (f"an encoder with {layers}", fusion_card_fields(config)),
        "fresh": (f"a model of the family `{config.model_type}`, trained from scratch,", scratch_card_fields(config)),
        "plain": ("a pre-trained encoder", ("model_type",)),
    }[kind]
    classes = "sentence pairs" if pairs else "sentences"
    if data_args.distill_from:
        classes += f", which learned the answers of {data_args.distill_from}"
    several = getattr(config, "fusion_layers", 1) and getattr(config, "scales", ())
    return ModelCardFacts(
        task_type="text-classification",
        dataset_type="nyu-mll/glue" if task else None,
        dataset_name=name,
        dataset_config=task or data_args.dataset_config_name,
        splits=splits,
        metrics=METRIC_NAMES,
        description=f"A model for {name}: {reads} under a classifier of {classes}.",
        usage=partial(_usage, pair=pairs),
        tags=[*(["multi-scale-attention"] if several else []), *(["glue"] if task else [])],
        config_fields=fields,
        language="en" if task else None,
    )


def _usage(name: str, pair: bool) -> str:
    example = '{"text": "A man is eating.", "text_pair": "Someone eats."}' if pair else '"A man is eating."'
    return f'''classify = pipeline("text-classification", model="{name}")
classify({example}, truncation=True)'''


def _is_number(label: str) -> bool:
    return re.fullmatch(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", label, re.ASCII) is not None


def _is_whole(label: str) -> bool:
    return re.fullmatch("-?[0-9]{1,4000}", label) is not None
