"""Relation extraction: classifies the relation between two entities of a sentence."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from datasets import Dataset, DatasetDict
from scipy.special import softmax
from sklearn.metrics import classification_report
from transformers import DataCollatorWithPadding, EvalPrediction, PreTrainedModel, TrainingArguments
from transformers.utils import logging

from msattn import metrics
from msattn.arguments.multiscale_arguments import MULTISCALE_FIELDS, MultiScaleArguments, head_fields
from msattn.arguments.pairwise_arguments import PAIRWISE_FIELDS
from msattn.arguments.pretrained import load_config, load_model, load_tokenizer
from msattn.arguments.relation_arguments import (
    HEADS,
    PAIRWISE,
    RelationDataArguments,
    RelationModelArguments,
    find_negative_label,
)
from msattn.command_line import existing_file
from msattn.configuration.configuration_bert_pairwise import BertPairwiseConfig
from msattn.data.corpora.relations import UnknownLabelError, read_relations, relation_labels, to_relations
from msattn.data.inputs.entity_markers import (
    EntityPiecesCollator,
    add_entity_markers,
    encode_relation_dataset,
    without_markers,
)
from msattn.errors import UserError
from msattn.guiding.guiding_arguments import GuidingArguments
from msattn.metrics import SEMEVAL_LABELS, score_semeval
from msattn.modeling.modeling_bert_pairwise import BertPairwiseForRelationClassification
from msattn.modeling.modeling_multiscale_bert import BertForMultiScaleRE
from msattn.tasks.hub_data import load_hub_dataset
from msattn.tasks.labels import checkpoint_labels, label_fields
from msattn.tasks.model_card import ModelCardFacts
from msattn.tasks.splits import read_each
from msattn.tasks.task import Task

logger = logging.get_logger(__name__)


class RelationExtraction(Task):
    """
    Relation extraction with BERT-MS, one of its baselines, or pairwise attention.

    Raises:
        UserError: A model argument does not apply to `--head`, `--max_seq_length` is out of range, or `--label_file`
            is not a JSON list of labels or object from label to id.
    """

    argument_classes = (MultiScaleArguments, RelationModelArguments, RelationDataArguments)
    other_sources = " or --dataset_name"

    model_args: MultiScaleArguments
    data_args: RelationDataArguments

    def __init__(
        self,
        model_args: MultiScaleArguments,
        head_args: RelationModelArguments,
        data_args: RelationDataArguments,
        args: TrainingArguments,
        guiding: GuidingArguments,
    ):
        super().__init__(model_args, data_args, args, guiding)
        self.head_args = head_args
        self.tokenizer = load_tokenizer(model_args)
        self.pairwise = _is_pairwise(model_args, head_args)
        # Pairwise attention encodes without entity markers: they go into a copy that is not saved with the model.
        self.marking = copy.deepcopy(self.tokenizer) if self.pairwise else self.tokenizer
        add_entity_markers(self.marking)
        most = self.tokenizer.model_max_length
        if data_args.max_seq_length is not None and not 0 < data_args.max_seq_length <= most:
            raise UserError(f"--max_seq_length {data_args.max_seq_length}: the model takes 1 to {most} tokens.")
        self.labels = _label_file(data_args.label_file) or []

    def read(self, splits: Collection[str]) -> dict[str, Dataset]:
        try:
            return read_each(splits, partial(self._read, load_hub_dataset(self.data_args, self.model_args)))
        except UnknownLabelError as error:
            if "train" not in splits or self.data_args.label_file:
                raise
            raise UserError(f"{error} The training data have no other; name all labels in a --label_file.") from None

    @property
    def collator_class(self) -> Callable[..., Any]:
        return EntityPiecesCollator if self.pairwise else DataCollatorWithPadding

    def prepare(self, data: Mapping[str, Dataset]) -> None:
        given = self.data_args.negative_label
        if not self.labels:
            raise UserError(
                "the labels are not known: give labelled training data, --label_file, or a model that was trained "
                "here."
            )
        if given and given not in self.labels:
            raise UserError(f"--negative_label {given}: not one of the labels {', '.join(self.labels)}.")
        self.negative = given or find_negative_label(self.labels)
        logger.warning(
            f"The label {self.negative!r} stands for no relation (--negative_label)."
            if self.negative
            else "No label stands for no relation: give --negative_label if one does."
        )

    def strata(self, data: Dataset) -> Sequence[str]:
        return data["label"][:]

    def encode(self, prefix: str, data: Dataset) -> Dataset:
        try:
            encoded = encode_relation_dataset(
                data,
                self.marking,
                max_length=self.data_args.max_seq_length,
                label2id=label_fields(self.labels)["label2id"] if data[0]["label"] is not None else None,
                on_overflow=self.data_args.on_overflow,
                num_proc=self.data_args.preprocessing_num_workers,
                words=self.guiding.needs_words and prefix == "train",
            )
        except UserError as error:
            raise UserError(f"{self._source(prefix)}, {prefix} data, {error}") from None
        if not self.pairwise:
            return encoded
        unmarked = partial(without_markers, tokenizer=self.marking)
        return encoded.map(unmarked, batched=True, remove_columns=encoded.column_names)

    def model(self) -> PreTrainedModel:
        if self.pairwise:
            overrides = self.head_args.given(PAIRWISE_FIELDS)
        else:
            overrides = head_fields(self.model_args, HEADS[self.head_args.head]) if self.head_args.head else {}
        return load_model(
            BertPairwiseForRelationClassification if self.pairwise else BertForMultiScaleRE,
            self.model_args,
            len(self.tokenizer),
            **overrides,
            **label_fields(self.labels),
        )

    def metrics(self, prediction: EvalPrediction) -> dict[str, float]:
        return relation_metrics(prediction, self.labels, self.negative)

    def write_predictions(self, prefix: str, predictions: np.ndarray, folder: Path) -> None:
        """Writes `<prefix>_predictions.tsv`; with labels, also writes `<prefix>_report.txt` and prints its table."""
        data = self.encoded[prefix]
        answers = np.asarray(self.labels)[predictions.argmax(axis=-1)].tolist()
        lines = [f"{identifier}\t{label}\n" for identifier, label in zip(data["id"], answers, strict=True)]
        (folder / f"{prefix}_predictions.tsv").write_text("".join(lines), encoding="utf-8")
        if "labels" not in data.column_names:
            return
        references = [self.labels[number] for number in data["labels"]]
        if set(self.labels) <= set(SEMEVAL_LABELS):
            scores = score_semeval(answers, references)
            report, shown = scores.report(), scores.official.report()
        else:
            report = shown = classification_report(references, answers, digits=4, zero_division=0)
        (folder / f"{prefix}_report.txt").write_text(report, encoding="utf-8")
        print(f"{prefix}\n{shown}")

    def card(self) -> ModelCardFacts:
        source = self.data_args.dataset_name or Path(str(self.data_args.train_file)).name
        official = set(self.labels) <= set(SEMEVAL_LABELS)
        reads = (
            "whose attention between them, in all layers and heads, is a feature beside their hidden states "
            "(`features` below)."
            if self.pairwise
            else "with multi-scale fusion self-attention, or without (`fusion_layers: 0` or `scales: ()` below), as a "
            "baseline."
        )
        return ModelCardFacts(
            # No pipeline_tag: the Hub has none for relation extraction, and other widgets cannot mark entities.
            task_type="relation-extraction",
            task_name="Relation Extraction",
            dataset_type=source,
            dataset_name=source,
            splits=self.card_splits(),
            metrics={
                "f1": "Official macro-F1" if official else "Micro-F1",
                "macro_f1": "Macro-F1 over labels",
                "accuracy": "Accuracy",
                "auc": "Area under the precision-recall curve",
            },
            description=(
                f"A relation extractor for {len(self.labels)} labels, between two marked entities: BERT {reads}"
            ),
            usage=_usage,
            tags=["relation-extraction", "pairwise-attention" if self.pairwise else "multi-scale-attention"],
            config_fields=PAIRWISE_FIELDS if self.pairwise else MULTISCALE_FIELDS,
        )

    def _read(self, hub: DatasetDict, split: str) -> Dataset | None:
        if split != "train":
            self.labels = self.labels or checkpoint_labels(self.model_args) or []
        path = self.file(split)
        if path is not None:
            dataset, source = read_relations(path, self.data_args.file_format, self.labels or None), path
        elif split in hub:
            source = f"{self.data_args.dataset_name}, {split}"
            dataset = to_relations(hub[split], source, self.labels or None)
        else:
            return None
        if split != "test" and dataset[0]["label"] is None:
            raise UserError(f"{source}: the examples have no labels; only test data may come without.")
        if split == "train":
            self.labels = self.labels or relation_labels(dataset)
        return dataset

    def _source(self, prefix: str) -> str | None:
        """The file or dataset of a metric prefix, for error messages."""
        args = self.data_args
        files = {"dev": args.validation_file, "test": args.test_file}
        if args.validation_split_percentage is None:
            files["eval"] = args.validation_file
        return files.get(prefix, args.train_file) or args.dataset_name


def _is_pairwise(model_args: MultiScaleArguments, head_args: RelationModelArguments) -> bool:
    """
    Whether the model is the pairwise-attention classifier, by `--head` or else by the checkpoint.

    Raises:
        UserError: A given argument does not apply to that model.
    """
    checkpoint = load_config(model_args).model_type == BertPairwiseConfig.model_type
    pairwise = checkpoint if head_args.head is None else head_args.head == PAIRWISE
    for name in model_args.config_overrides() if pairwise else head_args.given(PAIRWISE_FIELDS):
        raise UserError(f"--{name} is {'not ' if pairwise else ''}for --head {PAIRWISE}.")
    return pairwise


def relation_metrics(prediction: EvalPrediction, labels: Sequence[str], negative: str | None) -> dict[str, float]:
    """
    Accuracy, micro-F1, macro-F1 and the area under the precision-recall curve, in percent.

    `f1` is the official macro-F1 for the labels of SemEval-2010 Task 8, and the micro-F1 for all others.

    Args:
        prediction (`EvalPrediction`): Logits of shape `(examples, labels)` and label ids `(examples,)`.
        labels (`Sequence[str]`): The labels in the order of their ids.
        negative (`str` or `None`): The label of no relation, which micro-F1 ignores.
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


def _usage(name: str) -> str:
    return f'''import msattn
from transformers import pipeline

extract = pipeline("relation-extraction", model="{name}")
extract("The <e1>storm</e1> caused heavy <e2>damage</e2>.")'''
