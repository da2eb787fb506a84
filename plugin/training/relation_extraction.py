"""Relation extraction as an experiment: data, labels, model and scores from arguments."""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from datasets import Dataset, load_dataset
from scipy.special import softmax
from sklearn.metrics import classification_report
from transformers import DataCollatorWithPadding, EvalPrediction, TrainingArguments

from msattn import metrics
from msattn.configuration.configuration_bert_pairwise import BertPairwiseConfig
from msattn.data.entity_markers import (
    EntityPiecesCollator,
    add_entity_markers,
    encode_relation_dataset,
    without_markers,
)
from msattn.data.relations import UnknownLabelError, read_relations, relation_labels, to_relations
from msattn.errors import UserError
from msattn.metrics import SEMEVAL_LABELS, score_semeval
from msattn.modeling.modeling_bert_pairwise import BertPairwiseForRelationClassification
from msattn.modeling.modeling_multiscale_bert import BertForMultiScaleRE
from msattn.training.cli import existing_file, hold_out
from msattn.training.experiment import Experiment
from msattn.training.model_card import ModelCardFacts
from msattn.training.multiscale import CONFIG_FIELDS, MultiScaleArguments, checkpoint_labels, head_fields
from msattn.training.pairwise import PairwiseArguments
from msattn.training.pretrained import load_config, load_model, load_tokenizer

# The rows of the paper's Table 1 that this code reproduces, and the control that has the size but no phrases.
HEADS: dict[str, dict[str, Any]] = {
    "multiscale": {},
    "bert": {"fusion_layers": 0, "pooling": "cls"},
    "bert-entity": {"fusion_layers": 0, "pooling": "entity_start"},
    "plain-attention": {"scales": (), "mask_mode": "none"},
}
# The relation classifier of pairwise attention, which is another model.
PAIRWISE = "pairwise"
PAIRWISE_FIELDS = ("features", "scorer", "relation_size", "freeze_encoder", "attention_scale")
NEGATIVE_LABELS = ("Other", "no_relation", "NA", "NONE")


@dataclass
class RelationModelArguments(PairwiseArguments):
    """What sits on top of the encoder; all but the head is for --head pairwise."""

    head: str | None = field(
        default=None,
        metadata={
            "help": "multiscale (BERT-MS, the default for a plain BERT checkpoint), or a baseline: bert ([CLS]), "
            "bert-entity (entity markers) or plain-attention (as large as multiscale, but words only); or pairwise, "
            "which reads the attention between the entities, without markers.",
            "choices": [*HEADS, PAIRWISE],
        },
    )


@dataclass
class RelationDataArguments:
    """The data: local files, or a data set of the Hub."""

    train_file: str | None = field(
        default=None, metadata={"help": "Training examples: SemEval text, JSON lines, JSON, CSV, TSV or Parquet."}
    )
    validation_file: str | None = field(default=None, metadata={"help": "Development examples."})
    test_file: str | None = field(default=None, metadata={"help": "Test examples, with or without labels."})
    file_format: str = field(
        default="auto",
        metadata={"help": "Format of the files: auto, semeval, opennre, jsonl, json, csv, tsv or parquet."},
    )
    dataset_name: str | None = field(default=None, metadata={"help": "Name of a data set on the Hub."})
    dataset_config_name: str | None = field(default=None, metadata={"help": "Its configuration."})
    label_file: str | None = field(
        default=None,
        metadata={"help": "JSON list of the labels, or object from label to number; else those of the training data."},
    )
    validation_split_percentage: float | None = field(
        default=None, metadata={"help": "Cut this share of the training data off for development."}
    )
    split_seed: int = field(default=42, metadata={"help": "Seed of that cut, the same for every --seeds."})
    max_length: int | None = field(
        default=None, metadata={"help": "Most tokens in an example; longer ones are windowed around the entities."}
    )
    on_overflow: str = field(
        default="error",
        metadata={"help": "Where both entities do not fit: error, or skip.", "choices": ["error", "skip"]},
    )
    negative_label: str | None = field(
        default=None,
        metadata={"help": f"The label of no relation. Default: {', '.join(NEGATIVE_LABELS)}, if there."},
    )
    max_train_samples: int | None = field(default=None, metadata={"help": "Use so many training examples at most."})
    max_eval_samples: int | None = field(default=None, metadata={"help": "The same for development."})
    max_predict_samples: int | None = field(default=None, metadata={"help": "The same for the test."})
    preprocessing_num_workers: int | None = field(default=None, metadata={"help": "Processes that tokenise."})


def relation_experiment(
    model_args: MultiScaleArguments,
    head_args: RelationModelArguments,
    data_args: RelationDataArguments,
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
    pairwise = _is_pairwise(model_args, head_args)
    # Of the one that pairwise attention reads with the markers are no part.
    marking = copy.deepcopy(tokenizer) if pairwise else tokenizer
    add_entity_markers(marking)
    if data_args.max_length is not None and not 0 < data_args.max_length <= tokenizer.model_max_length:
        raise UserError(
            f"--max_length {data_args.max_length}: the model takes 1 to {tokenizer.model_max_length} tokens."
        )
    raw, labels = _read(data_args, model_args)
    label2id = {label: number for number, label in enumerate(labels)}
    negative = data_args.negative_label or next((label for label in NEGATIVE_LABELS if label in label2id), None)
    if negative is not None and negative not in label2id:
        raise UserError(f"--negative_label {negative}: not one of the labels {', '.join(labels)}.")

    def encoded(split: str, at_most: int | None) -> Dataset | None:
        if split not in raw:
            return None
        dataset = raw[split]
        labelled = dataset[0]["label"] is not None
        if split != "test" and not labelled:
            raise UserError(f"the {split} data have no labels; only test data may come without.")
        if at_most is not None:
            if at_most < 1:
                raise UserError(f"{split}: at least one example has to be left, not {at_most}.")
            dataset = dataset.select(range(min(at_most, len(dataset))))
        with training_args.main_process_first(desc=f"encoding {split}"):
            try:
                marked = encode_relation_dataset(
                    dataset,
                    marking,
                    max_length=data_args.max_length,
                    label2id=label2id if labelled else None,
                    on_overflow=data_args.on_overflow,
                    num_proc=data_args.preprocessing_num_workers,
                    words=words and split == "train",
                )
            except UserError as error:
                source = getattr(data_args, f"{split}_file") or data_args.dataset_name or data_args.train_file
                raise UserError(f"{source}, {split} data, {error}") from None
            if not pairwise:
                return marked
            return marked.map(
                partial(without_markers, tokenizer=marking), batched=True, remove_columns=marked.column_names
            )

    train = encoded("train", data_args.max_train_samples) if training_args.do_train else None
    wants_eval = training_args.do_eval or training_args.eval_strategy != "no"
    validation = encoded("validation", data_args.max_eval_samples) if wants_eval else None
    test = encoded("test", data_args.max_predict_samples) if training_args.do_predict else None

    eval_datasets = {} if validation is None else {"eval": validation}
    test_datasets = {} if test is None else {"test": test}
    if pairwise:
        overrides = head_args.given(PAIRWISE_FIELDS)
    else:
        overrides = head_fields(model_args, HEADS[head_args.head]) if head_args.head else {}
    return Experiment(
        model_init=partial(
            load_model,
            BertPairwiseForRelationClassification if pairwise else BertForMultiScaleRE,
            model_args,
            len(tokenizer),
            **overrides,
            id2label=dict(enumerate(labels)),
            label2id=label2id,
        ),
        tokenizer=tokenizer,
        compute_metrics=partial(relation_metrics, labels=labels, negative=negative),
        card=_card(data_args, labels, pairwise),
        train_dataset=train,
        eval_datasets=eval_datasets,
        test_datasets=test_datasets,
        write_predictions=partial(_write_predictions, datasets=eval_datasets | test_datasets, labels=labels),
        new_layers_learning_rate=model_args.new_layers_learning_rate,
        collator_class=EntityPiecesCollator if pairwise else DataCollatorWithPadding,
    )


def _is_pairwise(model_args: MultiScaleArguments, head_args: RelationModelArguments) -> bool:
    """Whether the model is that of pairwise attention, which the checkpoint may say, too."""
    checkpoint = load_config(model_args).model_type == BertPairwiseConfig.model_type
    pairwise = checkpoint if head_args.head is None else head_args.head == PAIRWISE
    for name in model_args.config_overrides() if pairwise else head_args.given(PAIRWISE_FIELDS):
        raise UserError(f"--{name} is {'not ' if pairwise else ''}for --head {PAIRWISE}.")
    return pairwise


def relation_metrics(prediction: EvalPrediction, labels: Sequence[str], negative: str | None) -> dict[str, float]:
    """
    Accuracy, micro-F1 without the negative label and macro-F1, in percent; on SemEval's labels `f1` is the official
    score, on others the micro-F1.
    """
    names = np.asarray(labels)
    predictions = names[prediction.predictions.argmax(axis=-1)].tolist()
    references = names[prediction.label_ids].tolist()
    general = metrics.load("relation_classification").compute(
        predictions=predictions,
        references=references,
        negative_label=negative,
        scores=softmax(prediction.predictions.astype(np.float64), axis=-1),
        labels=list(labels),
    )
    values = {
        "f1": general["f1"],
        "accuracy": general["accuracy"],
        "micro_f1": general["f1"],
        "macro_f1": general["macro_f1"],
        "auc": general["auc"],
    }
    percent = {name: 100 * value for name, value in values.items()}
    if set(labels) <= set(SEMEVAL_LABELS):
        percent["f1"] = score_semeval(predictions, references).official.macro[2]
    return percent


def _read(data_args: RelationDataArguments, model_args: MultiScaleArguments) -> tuple[dict[str, Dataset], list[str]]:
    """The splits that there are, and the labels: of the label file, the training data or the checkpoint."""
    labels = _label_file(data_args.label_file)
    raw: dict[str, Dataset] = {}
    for split in ("train", "validation", "test"):
        try:
            dataset = _read_split(split, data_args, model_args, labels)
        except UnknownLabelError as error:
            if "train" not in raw or data_args.label_file:
                raise
            raise UserError(f"{error} The training data have no other; name all labels in a --label_file.") from None
        if dataset is not None:
            raw[split] = dataset
            labels = labels or (relation_labels(dataset) if split == "train" else None)
        if split == "train":
            labels = labels or checkpoint_labels(model_args)
    if not raw:
        raise UserError("there are no data: give --train_file, --validation_file or --test_file, or --dataset_name.")
    if not labels:
        raise UserError(
            "the labels are not known: give labelled training data, --label_file, or a model that was trained here."
        )
    share = data_args.validation_split_percentage
    if share is not None:
        if "validation" in raw or "train" not in raw:
            raise UserError("--validation_split_percentage needs training data and no validation data of its own.")
        raw["train"], raw["validation"] = hold_out(raw["train"], share, data_args.split_seed)
    return raw, labels


def _read_split(
    split: str, data_args: RelationDataArguments, model_args: MultiScaleArguments, labels: list[str] | None
) -> Dataset | None:
    path = existing_file(getattr(data_args, f"{split}_file"), f"{split}_file")
    if path is not None:
        return read_relations(path, data_args.file_format, labels)
    name = data_args.dataset_name
    if name is None:
        return None
    try:
        hub = load_dataset(name, data_args.dataset_config_name, cache_dir=model_args.cache_dir, token=model_args.token)
    except (OSError, ValueError) as error:
        raise UserError(f"--dataset_name {name}: {error}") from error
    return to_relations(hub[split], f"{name}, {split}", labels) if split in hub else None


def _label_file(path: str | None) -> list[str] | None:
    if existing_file(path, "label_file") is None:
        return None
    try:
        content = json.loads(Path(str(path)).read_text(encoding="utf-8-sig"))
        labels = sorted(content, key=content.__getitem__) if isinstance(content, dict) else list(content)
    except (ValueError, TypeError) as error:
        raise UserError(
            f"{path}: expected a JSON list of labels, or an object from label to number ({error})."
        ) from None
    if not labels or not all(isinstance(label, str) for label in labels) or len(set(labels)) < len(labels):
        raise UserError(f"{path}: expected different labels, each a string.")
    return labels


def _write_predictions(
    prefix: str, logits: np.ndarray, folder: Path, datasets: Mapping[str, Dataset], labels: Sequence[str]
) -> None:
    """`<prefix>_predictions.tsv`, and where the labels are known `<prefix>_report.txt`, whose table is shown."""
    dataset = datasets[prefix]
    predictions = np.asarray(labels)[logits.argmax(axis=-1)].tolist()
    lines = [f"{identifier}\t{label}\n" for identifier, label in zip(dataset["id"], predictions, strict=True)]
    (folder / f"{prefix}_predictions.tsv").write_text("".join(lines), encoding="utf-8")
    if "labels" not in dataset.column_names:
        return
    references = [labels[number] for number in dataset["labels"]]
    if set(labels) <= set(SEMEVAL_LABELS):
        scores = score_semeval(predictions, references)
        report, shown = scores.report(), scores.official.report()
    else:
        report = shown = classification_report(references, predictions, digits=4, zero_division=0)
    (folder / f"{prefix}_report.txt").write_text(report, encoding="utf-8")
    print(f"{prefix}\n{shown}")


def _card(data_args: RelationDataArguments, labels: Sequence[str], pairwise: bool) -> ModelCardFacts:
    source = data_args.dataset_name or Path(str(data_args.train_file)).name
    official = set(labels) <= set(SEMEVAL_LABELS)
    return ModelCardFacts(
        # No pipeline_tag: the Hub knows no such task, and its snippet for another would leave out the entities.
        task_type="relation-extraction",
        task_name="Relation Extraction",
        dataset_type=source,
        dataset_name=source,
        metrics={
            "f1": "Official macro-F1" if official else "Micro-F1",
            "macro_f1": "Macro-F1 over labels",
            "accuracy": "Accuracy",
            "auc": "Area under the precision-recall curve",
        },
        description=(
            f"A relation extractor for {len(labels)} labels, between two marked entities: BERT "
            + (
                "whose attention between them, in all layers and heads, is a feature beside their hidden states "
                "(`features` below)."
                if pairwise
                else "with multi-scale fusion self-attention, or without (`fusion_layers: 0` or `scales: ()` below), "
                "as a baseline."
            )
        ),
        usage=_usage,
        tags=["relation-extraction", "pairwise-attention" if pairwise else "multi-scale-attention"],
        config_fields=PAIRWISE_FIELDS if pairwise else CONFIG_FIELDS,
    )


def _usage(name: str) -> str:
    return f'''import msattn
from transformers import pipeline

extract = pipeline("relation-extraction", model="{name}")
extract("The <e1>storm</e1> caused heavy <e2>damage</e2>.")'''
