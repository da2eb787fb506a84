"""Classification and regression of sentences and pairs, GLUE's or one's own, as an experiment from arguments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from datasets import Dataset
from sklearn.metrics import accuracy_score, classification_report, f1_score, mean_squared_error
from transformers import AutoModelForSequenceClassification, EvalPrediction, TrainingArguments
from transformers.utils import logging

from msattn import metrics
from msattn.data.glue import GLUE_TASKS, read_glue
from msattn.data.relations import relation_labels
from msattn.data.sentences import encode_sentences, read_sentences
from msattn.errors import UserError
from msattn.metrics import write_glue_submission
from msattn.modeling.modeling_multiscale_bert import BertForMultiScaleSequenceClassification
from msattn.training.cli import existing_file, hold_out
from msattn.training.experiment import Experiment
from msattn.training.model_card import ModelCardFacts
from msattn.training.multiscale import (
    CONFIG_FIELDS,
    MultiScaleArguments,
    checkpoint_labels,
    head_fields,
    stands_on_bert,
)
from msattn.training.pretrained import load_model, load_tokenizer

logger = logging.get_logger(__name__)

HEADS: dict[str, dict[str, Any]] = {
    "multiscale": {},
    "bert": {"fusion_layers": 0},
    "plain-attention": {"scales": (), "mask_mode": "none"},
}
PREFIXES = {
    "train": "train",
    "validation": "eval",
    "validation_matched": "eval",
    "validation_mismatched": "eval_mm",
    "test": "test",
    "test_matched": "test",
    "test_mismatched": "test_mm",
}
METRIC_NAMES = {
    "matthews_correlation": "Matthews correlation",
    "accuracy": "Accuracy",
    "f1": "F1",
    "macro_f1": "Macro F1",
    "pearson": "Pearson",
    "spearmanr": "Spearmanr",
    "mse": "MSE",
    "combined_score": "Combined score",
}


@dataclass
class GlueModelArguments:
    """What sits on top of the encoder."""

    head: str | None = field(
        default=None,
        metadata={
            "help": "For BERT: multiscale (BERT-MS, the default for a plain checkpoint), or a baseline: bert (the "
            "encoder alone, under the same classifier) or plain-attention (as large as multiscale, but words only). "
            "An encoder of another family has the classifier that Transformers has for it.",
            "choices": list(HEADS),
        },
    )
    ignore_mismatched_sizes: bool = field(
        default=False,
        metadata={"help": "Start from a model of another task, whose classifier has another number of labels."},
    )


@dataclass
class GlueDataArguments:
    """The data: a task of GLUE, from the Hub or a folder, or files of one's own."""

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
            "help": "CSV, TSV, JSON (lines) or Parquet: one or two columns of text, and label (decimals: regression)."
        },
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
    max_seq_length: int = field(
        default=128, metadata={"help": "Most tokens in an example; longer ones are truncated, and counted."}
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


def glue_experiment(
    model_args: MultiScaleArguments,
    head_args: GlueModelArguments,
    data_args: GlueDataArguments,
    training_args: TrainingArguments,
    words: bool = False,
) -> Experiment:
    """
    Reads and encodes the data, on request those of the training with their words, and says how the model is built and
    scored.

    Raises:
        UserError: Files, labels, model or arguments are not as they should be.
    """
    tokenizer = load_tokenizer(model_args)
    multiscale = stands_on_bert(model_args, head_args.head)
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
    task = data_args.task_name
    data = _glue_data(task, data_args, used, model_args.cache_dir) if task else _own_data(data_args, model_args)
    splits, share = data.splits, data_args.validation_split_percentage
    if share is not None and (used["train"] or used["eval"]):
        splits = _held_out(splits, share, data_args.split_seed)
    if data_args.max_seq_length <= tokenizer.num_special_tokens_to_add(pair=len(data.columns) == 2):
        raise UserError(f"--max_seq_length {data_args.max_seq_length} leaves no room for a word.")
    max_length = min(data_args.max_seq_length, tokenizer.model_max_length)
    if max_length < data_args.max_seq_length:
        logger.warning(f"--max_seq_length {data_args.max_seq_length}: the model takes {max_length} tokens at most.")

    def encoded(prefix: str, dataset: Dataset) -> Dataset:
        limit = at_most[prefix.partition("_")[0]]
        if limit is not None:
            if limit < 1:
                raise UserError(f"{prefix}: at least one example has to be left, not {limit}.")
            dataset = dataset.select(range(min(limit, len(dataset))))
        with training_args.main_process_first(desc=f"encoding {prefix}"):
            dataset, truncated = encode_sentences(
                dataset,
                tokenizer,
                data.columns,
                max_length,
                data_args.pad_to_max_length,
                data_args.preprocessing_num_workers,
                words and prefix == "train",
            )
        if truncated:
            logger.warning(
                f"{prefix}: {truncated} of {len(dataset)} examples are longer than {max_length} tokens and were "
                "truncated (--max_seq_length)."
            )
        return dataset

    datasets = {
        prefix: encoded(prefix, dataset) for prefix, dataset in splits.items() if used[prefix.partition("_")[0]]
    }
    labels = data.labels
    names = ["LABEL_0"] if labels is None else labels
    return Experiment(
        model_init=partial(
            load_model,
            BertForMultiScaleSequenceClassification if multiscale else AutoModelForSequenceClassification,
            model_args,
            len(tokenizer),
            **(head_fields(model_args, HEADS[head_args.head]) if head_args.head else {}),
            ignore_mismatched_sizes=head_args.ignore_mismatched_sizes,
            problem_type="regression" if labels is None else "single_label_classification",
            id2label=dict(enumerate(names)),
            label2id={label: number for number, label in enumerate(names)},
        ),
        tokenizer=tokenizer,
        compute_metrics=partial(glue_metrics, task=task, regression=labels is None),
        card=_card(data_args, splits, len(data.columns), multiscale),
        train_dataset=datasets.get("train"),
        eval_datasets={name: dataset for name, dataset in datasets.items() if name.startswith(("eval", "dev"))},
        test_datasets={name: dataset for name, dataset in datasets.items() if name.startswith("test")},
        write_predictions=partial(_write_predictions, datasets=datasets, labels=labels, task=task),
        new_layers_learning_rate=model_args.new_layers_learning_rate,
    )


def glue_metrics(prediction: EvalPrediction, task: str | None, regression: bool = False) -> dict[str, float]:
    """
    The measures of a GLUE task under their names in `evaluate`; of several also the mean, as `combined_score`.

    Without a task: accuracy and macro-F1, or for regression the correlations of STS-B and the mean squared error.
    """
    answers = _answers(prediction.predictions, regression)
    references = prediction.label_ids
    if task is None and not regression:
        return {
            "accuracy": float(accuracy_score(references, answers)),
            "macro_f1": float(f1_score(references, answers, average="macro", zero_division=0)),
        }
    values = metrics.load("glue", task or "stsb").compute(predictions=answers, references=references)
    if len(values) > 1:
        values["combined_score"] = float(np.mean(list(values.values())))
    if task is None:
        values["mse"] = float(mean_squared_error(references, answers))
    return values


def _answers(logits: np.ndarray, regression: bool) -> np.ndarray:
    return logits[:, 0] if regression else logits.argmax(axis=-1)


def _glue_data(
    name: str, data_args: GlueDataArguments, used: Mapping[str, bool], cache_dir: str | None
) -> SentenceData:
    if data_args.train_file or data_args.validation_file or data_args.test_file:
        raise UserError("--task_name names the data: leave out --train_file, --validation_file and --test_file.")
    if data_args.text_column_names:
        raise UserError("--task_name names the columns: leave out --text_column_names.")
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
        dataset = read_sentences(path, columns, data_args.label_column_name)
        columns = [name for name in dataset.column_names if name != "label"]
        if split != "test" and "label" not in dataset.column_names:
            raise UserError(
                f"{path}: there are no labels in {data_args.label_column_name!r} (--label_column_name); only test "
                "data may come without."
            )
        raw[PREFIXES[split]] = dataset
    if columns is None or not raw:
        raise UserError("there are no data: give --task_name, or --train_file, --validation_file or --test_file.")
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
        known = checkpoint_labels(model_args)
        if known is None:
            raise UserError("the labels are not known: give --train_file, or a model that was trained here.")
        return known if len(known) > 1 else None
    trained = raw["train"].unique("label")
    if all(map(_is_number, trained)) and not all(map(_is_whole, trained)):
        return None
    labels = relation_labels(*(dataset for dataset in raw.values() if "label" in dataset.column_names))
    if len(labels) == 1:
        raise UserError(f"there has to be more than one label, and every example has {labels[0]!r}.")
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


def _held_out(splits: Mapping[str, Dataset], percentage: float, seed: int) -> dict[str, Dataset]:
    """The cut becomes eval; development data that were there before become dev."""
    if "train" not in splits:
        raise UserError("--validation_split_percentage needs training data.")
    train, held = hold_out(splits["train"], percentage, seed)
    others = {prefix.replace("eval", "dev"): dataset for prefix, dataset in splits.items()}
    # The first evaluation set is the one that a Trainer chooses with.
    return {"eval": held, **others, "train": train}


def _write_predictions(
    prefix: str,
    logits: np.ndarray,
    folder: Path,
    datasets: Mapping[str, Dataset],
    labels: Sequence[str] | None,
    task: str | None,
) -> None:
    """
    `<prefix>_predictions.tsv`, or for a test set of GLUE the file that its server takes; and where the classes are
    known `<prefix>_report.txt`, which is printed as well.
    """
    answers = _answers(logits, labels is None)
    if task and prefix.startswith("test"):
        split = "test_mismatched" if prefix == "test_mm" else "test"
        logger.info(f"wrote {write_glue_submission(task, folder, answers.tolist(), split)}")
        return
    cells = [f"{answer:.5f}" for answer in answers] if labels is None else [labels[answer] for answer in answers]
    lines = ["index\tprediction\n", *(f"{number}\t{cell}\n" for number, cell in enumerate(cells))]
    (folder / f"{prefix}_predictions.tsv").write_text("".join(lines), encoding="utf-8")
    references = datasets[prefix]["labels"] if "labels" in datasets[prefix].column_names else None
    if labels is None or references is None:
        return
    report = classification_report(
        references, answers, labels=range(len(labels)), target_names=list(labels), digits=4, zero_division=0
    )
    (folder / f"{prefix}_report.txt").write_text(report, encoding="utf-8")
    print(f"{prefix}\n{report}")


def _card(data_args: GlueDataArguments, splits: Mapping[str, Dataset], texts: int, multiscale: bool) -> ModelCardFacts:
    task = data_args.task_name
    name = f"GLUE {GLUE_TASKS[task].folder}" if task else Path(str(data_args.train_file)).name
    matched = "_matched" if task == "mnli" else ""
    names = {"": f"validation{matched}", "_mm": "validation_mismatched"}
    official = "dev" if "dev" in splits else "eval"
    encoder = "a pre-trained encoder"
    if multiscale:
        encoder = (
            "BERT with multi-scale fusion self-attention, or without (`fusion_layers: 0` or `scales: ()` below), as a "
            "baseline,"
        )
    return ModelCardFacts(
        task_type="text-classification",
        pipeline_tag="text-classification",
        task_name="Text Classification",
        dataset_type="nyu-mll/glue" if task else name,
        dataset_name=name,
        dataset_config=task,
        splits={
            **({"eval": "held out of train"} if data_args.validation_split_percentage is not None else {}),
            **{f"{official}{suffix}": split for suffix, split in names.items()},
            "test": "test",
        },
        metrics=METRIC_NAMES,
        description=(
            f"A model for {name}: {encoder} under a classifier of {'sentence pairs' if texts == 2 else 'sentences'}."
        ),
        usage=partial(_usage, pair=texts == 2, multiscale=multiscale),
        tags=[*(["multi-scale-attention"] if multiscale else []), *(["glue"] if task else [])],
        config_fields=CONFIG_FIELDS if multiscale else ["model_type"],
        carries_code=multiscale,
    )


def _usage(name: str, pair: bool, multiscale: bool) -> str:
    example = '{"text": "A man is eating.", "text_pair": "Someone eats."}' if pair else '"A man is eating."'
    return f'''{"import msattn" if multiscale else ""}
from transformers import pipeline

classify = pipeline("text-classification", model="{name}")
classify({example})'''.lstrip()
