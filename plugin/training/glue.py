"""Classification and regression of sentences and pairs, GLUE's or one's own, as an experiment from arguments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from datasets import Dataset
from sklearn.metrics import accuracy_score, classification_report, f1_score, mean_squared_error
from transformers import (
    AutoModelForSequenceClassification,
    EvalPrediction,
    PreTrainedConfig,
    PreTrainedTokenizerBase,
    TrainingArguments,
)
from transformers.tokenization_utils_base import VERY_LARGE_INTEGER
from transformers.utils import logging

from msattn import metrics
from msattn.configuration.configuration_ms_transformer import MSTransformerConfig
from msattn.data.glue import GLUE_TASKS, read_glue
from msattn.data.mtl16 import MTL16_DOMAINS, read_mtl16
from msattn.data.relations import relation_labels
from msattn.data.sentences import encode_sentences, read_sentences
from msattn.data.sentiment_trees import SENTIMENTS
from msattn.data.snli import SNLI_LABELS
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
from msattn.training.pretrained import most_tokens
from msattn.training.scratch import ModelSource, ScratchArguments

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
# Tokens of an example for a model that has no room for any number of them.
MAX_SEQ_LENGTH = 128
# Classes that have an order of their own.
ORDERS: tuple[Sequence[str], ...] = (SENTIMENTS, SNLI_LABELS)
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


def glue_experiment(
    model_args: MultiScaleArguments,
    head_args: GlueModelArguments,
    data_args: GlueDataArguments,
    scratch_args: ScratchArguments,
    training_args: TrainingArguments,
    words: bool = False,
    domain: str | None = None,
) -> Experiment:
    """
    Reads and encodes the data, of MTL-16 those of a domain, on request those of the training with their words, and
    says how the model is built and scored.

    Raises:
        UserError: Files, labels, model or arguments are not as they should be.
    """
    source = ModelSource(model_args, scratch_args)
    multiscale = not source.fresh and stands_on_bert(model_args, head_args.head)
    if source.fresh:
        for name in (["head"] if head_args.head else []) + list(model_args.config_overrides()):
            raise UserError(f"--{name} is for a pre-trained BERT; with --model_type there is --config_overrides.")
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
    data = _data(data_args, model_args, used, domain)
    splits, share = data.splits, data_args.validation_split_percentage
    if share is not None and (used["train"] or used["eval"]):
        splits = _held_out(splits, share, data_args.split_seed)
    splits = {
        prefix: _limited(dataset, at_most[prefix.partition("_")[0]], prefix)
        for prefix, dataset in splits.items()
        if used[prefix.partition("_")[0]]
    }
    pairs = len(data.columns) == 2
    trained = splits.get("train")
    tokenizer = source.tokenizer(
        None if trained is None else chain.from_iterable(trained[column] for column in data.columns)
    )
    max_length = _max_length(data_args, source.config, tokenizer, pairs)

    def encoded(prefix: str, dataset: Dataset) -> Dataset:
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

    datasets = {prefix: encoded(prefix, dataset) for prefix, dataset in splits.items()}
    task, labels = data_args.task_name, data.labels
    names = ["LABEL_0"] if labels is None else labels
    return Experiment(
        model_init=partial(
            source.model,
            BertForMultiScaleSequenceClassification if multiscale else AutoModelForSequenceClassification,
            **({"sentence_pairs": pairs} if source.fresh and hasattr(source.config, "sentence_pairs") else {}),
            **(head_fields(model_args, HEADS[head_args.head]) if head_args.head else {}),
            ignore_mismatched_sizes=head_args.ignore_mismatched_sizes,
            problem_type="regression" if labels is None else "single_label_classification",
            id2label=dict(enumerate(names)),
            label2id={label: number for number, label in enumerate(names)},
        ),
        tokenizer=tokenizer,
        compute_metrics=partial(glue_metrics, task=task, regression=labels is None),
        card=_card(data_args, splits, pairs, source, multiscale, domain),
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


def _max_length(
    data_args: GlueDataArguments, config: PreTrainedConfig, tokenizer: PreTrainedTokenizerBase, pairs: bool
) -> int | None:
    """The most tokens of an example; `None` for any number."""
    wanted = data_args.max_seq_length
    if wanted is None:
        wanted = VERY_LARGE_INTEGER if most_tokens(config) is None else MAX_SEQ_LENGTH
    elif wanted <= tokenizer.num_special_tokens_to_add(pair=pairs):
        raise UserError(f"--max_seq_length {wanted} leaves no room for a word.")
    most = min(wanted, tokenizer.model_max_length)
    if data_args.max_seq_length is not None and most < wanted:
        logger.warning(f"--max_seq_length {wanted}: the model takes {most} tokens at most.")
    if most < VERY_LARGE_INTEGER:
        return most
    if data_args.pad_to_max_length:
        raise UserError("--pad_to_max_length needs --max_seq_length: the model takes any number of tokens.")
    return None


def _limited(dataset: Dataset, most: int | None, prefix: str) -> Dataset:
    if most is None:
        return dataset
    if most < 1:
        raise UserError(f"{prefix}: at least one example has to be left, not {most}.")
    return dataset.select(range(min(most, len(dataset))))


def _data(
    data_args: GlueDataArguments, model_args: MultiScaleArguments, used: Mapping[str, bool], domain: str | None
) -> SentenceData:
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
    if data_args.mtl16_dir:
        return _domain_data(data_args.mtl16_dir, domain or "")
    if data_args.task_name:
        return _glue_data(data_args.task_name, data_args, used, model_args.cache_dir)
    return _own_data(data_args, model_args)


def _domain_data(folder: str, domain: str) -> SentenceData:
    """A domain of MTL-16. `test_unseen` has the test reviews that the training data lack, if there are others."""
    data = read_mtl16(folder, domain)
    test = data["test"]
    unseen = test.select(np.flatnonzero(~np.asarray(test["in_train"])))
    splits = {"train": data["train"], "test": test.remove_columns("in_train")}
    if 0 < len(unseen) < len(test):
        splits["test_unseen"] = unseen.remove_columns("in_train")
    return SentenceData(splits, ["sentence"], test.features["label"].names)


def _glue_data(
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


def _card(
    data_args: GlueDataArguments,
    splits: Mapping[str, Dataset],
    pairs: bool,
    source: ModelSource,
    multiscale: bool,
    domain: str | None,
) -> ModelCardFacts:
    task = data_args.task_name
    name = f"MTL-16 {domain}" if domain else Path(str(data_args.train_file)).name
    if task:
        name = f"GLUE {GLUE_TASKS[task].folder}"
    matched = "_matched" if task == "mnli" else ""
    names = {"": f"validation{matched}", "_mm": "validation_mismatched"}
    official = "dev" if "dev" in splits else "eval"
    family = source.config.model_type
    config_fields = source.card_fields
    if multiscale:
        model = (
            "BERT with multi-scale fusion self-attention, or without (`fusion_layers: 0` or `scales: ()` below), as a "
            "baseline,"
        )
        config_fields = CONFIG_FIELDS
    elif source.fresh:
        model = f"a model of the family `{family}`, trained from scratch,"
    else:
        model = "a pre-trained encoder"
    carries_code = multiscale or not type(source.config).__module__.startswith("transformers.")
    tags = ["multi-scale-attention"] if multiscale or family == MSTransformerConfig.model_type else []
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
            "test_unseen": "test without what is in train",
        },
        metrics=METRIC_NAMES,
        description=f"A model for {name}: {model} under a classifier of {'sentence pairs' if pairs else 'sentences'}.",
        usage=partial(_usage, pair=pairs, carries_code=carries_code),
        tags=[*tags, *(["glue"] if task else [])],
        config_fields=config_fields,
        carries_code=carries_code,
    )


def _usage(name: str, pair: bool, carries_code: bool) -> str:
    example = '{"text": "A man is eating.", "text_pair": "Someone eats."}' if pair else '"A man is eating."'
    return f'''{"import msattn" if carries_code else ""}
from transformers import pipeline

classify = pipeline("text-classification", model="{name}")
classify({example})'''.lstrip()
