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
from transformers import DataCollatorWithPadding, EvalPrediction, PreTrainedModel, TrainingArguments
from transformers.utils import logging

from msattn.arguments.multiscale_arguments import MULTISCALE_FIELDS, MultiScaleArguments, head_fields
from msattn.arguments.pairwise_arguments import PAIRWISE_FIELDS
from msattn.arguments.pretrained import check_model, family_class, load_config, load_model, load_tokenizer
from msattn.arguments.relation_arguments import (
    HEADS,
    NO_RELATION,
    PAIRWISE,
    RelationDataArguments,
    RelationModelArguments,
)
from msattn.command_line import existing_file
from msattn.configuration.configuration_bert_pairwise import BertPairwiseConfig
from msattn.configuration.configuration_pairwise import PairwiseConfig
from msattn.data.inputs.entity_markers import (
    EntityPiecesCollator,
    add_entity_markers,
    encode_relation_dataset,
    without_markers,
)
from msattn.data.negative_label import find_negative_label
from msattn.data.negatives import Negatives
from msattn.data.relations import (
    UnknownLabelError,
    random_pairs,
    read_relations,
    relation_labels,
    to_relations,
)
from msattn.errors import UserError
from msattn.guiding.guiding_arguments import GuidingArguments
from msattn.metrics import SEMEVAL_LABELS, score_semeval
from msattn.metrics.calibration import fit_temperature, fit_threshold
from msattn.metrics.relation_reports import answers_of, confusion_table, relation_metrics, relation_report
from msattn.modeling.modeling_bert_pairwise import BertPairwiseForRelationClassification
from msattn.modeling.modeling_multiscale import MultiScaleForRelationExtraction
from msattn.modeling.modeling_multiscale_bert import BertForMultiScaleRE
from msattn.modeling.modeling_pairwise import PairwiseForRelationClassification
from msattn.tasks.hub_data import load_hub_dataset
from msattn.tasks.labels import checkpoint_labels, label_fields
from msattn.tasks.model_card import ModelCardFacts
from msattn.tasks.splits import read_each
from msattn.tasks.task import GuidedFineTuningTrainer, Task

logger = logging.get_logger(__name__)

# Configuration fields that turn logits into answers.
ANSWER_FIELDS = ("negative_label", "calibration_temperature", "decision_threshold")


class RelationExtraction(Task):
    """
    Relation extraction on any encoder: with multi-scale fusion, one of its baselines, or pairwise attention.

    Raises:
        UserError: A model argument does not apply to `--head`, `--max_seq_length` is out of range, or `--label_file`
            is not a JSON list of labels or object from label to id.
    """

    argument_classes = (MultiScaleArguments, RelationModelArguments, RelationDataArguments)
    calibrates = True
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
        self.model_class = _model_class(model_args, self.pairwise)
        check_model(self.model_class, model_args, **self._overrides)
        # Pairwise attention encodes without entity markers: they go into a copy that is not saved with the model.
        self.marking = copy.deepcopy(self.tokenizer) if self.pairwise else self.tokenizer
        self.style = _marker_style(model_args, data_args, self.pairwise, args.do_train)
        add_entity_markers(self.marking, self.style)
        most = self.tokenizer.model_max_length
        if data_args.max_seq_length is not None and not 0 < data_args.max_seq_length <= most:
            raise UserError(f"--max_seq_length {data_args.max_seq_length}: the model takes 1 to {most} tokens.")
        if data_args.negative_pairs < 0:
            raise UserError(f"--negative_pairs {data_args.negative_pairs}: give a number from 0 on.")
        if data_args.negative_pairs and data_args.negative_label == "":
            raise UserError('--negative_pairs draws pairs without a relation, and --negative_label "" is no label.')
        self.labels = _label_file(data_args.label_file) or []
        self.label_names = _label_names(data_args.label_names_file)
        self.config: Any = None  # of the model, once it is made
        self.negative: str | None = None
        self.temperature = 1.0
        self.threshold: float | None = None

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
        if not self.labels:
            raise UserError(
                "the labels are not known: give labelled training data, --label_file, or a model that was trained "
                "here."
            )
        self.negative = self._negative_label()
        if self.style == "typed" and "train" in data:
            types = {of for role in ("head_type", "tail_type") for of in data["train"].unique(role)} - {None}
            add_entity_markers(self.marking, self.style, sorted(types))

    def strata(self, data: Dataset) -> Sequence[str]:
        return data["label"][:]

    def encode(self, prefix: str, data: Dataset) -> Dataset:
        try:
            return self._encode(data, self.data_args.on_overflow, self.guiding.needs_words and prefix == "train")
        except UserError as error:
            raise UserError(f"{self._source(prefix)}, {prefix} data, {error}") from None

    def model(self) -> PreTrainedModel:
        model = load_model(
            self.model_class, self.model_args, len(self.tokenizer), **self._overrides, **label_fields(self.labels)
        )
        config = self.config = model.config
        if self.args.do_train:
            config.calibration_temperature = config.decision_threshold = None
        self.temperature = getattr(config, "calibration_temperature", None) or 1.0
        self.threshold = getattr(config, "decision_threshold", None)
        config.negative_label = self.negative or ""
        if not self.pairwise:
            config.entity_markers = self.style
        return model

    def calibrate(self, trainer: GuidedFineTuningTrainer, dataset: Dataset) -> None:
        """Fits the temperature and, if there is a negative label, the decision threshold."""
        output = trainer.predict(dataset)
        logits, references = output.predictions, output.label_ids
        self.temperature = fit_temperature(logits, references)
        if self.negative is not None:
            probabilities = softmax(logits.astype(np.float64) / self.temperature, axis=-1)
            self.threshold = fit_threshold(probabilities, references, self.labels.index(self.negative))
        self._answer_as_calibrated(trainer)

    def recall(self, trainer: GuidedFineTuningTrainer, folder: Path) -> None:
        saved, _ = trainer.model.config_class.get_config_dict(folder)
        self.temperature, self.threshold = saved.get("calibration_temperature") or 1.0, saved.get("decision_threshold")
        self._answer_as_calibrated(trainer)

    def _answer_as_calibrated(self, trainer: GuidedFineTuningTrainer) -> None:
        config = trainer.model.config
        config.calibration_temperature, config.decision_threshold = self.temperature, self.threshold

    @property
    def _overrides(self) -> dict[str, Any]:
        """The configuration fields of `--head` and, with pairwise attention, those of the command line."""
        if self.pairwise:
            return self.head_args.given(PAIRWISE_FIELDS)
        return head_fields(self.model_args, HEADS[self.head_args.head]) if self.head_args.head else {}

    def metrics(self, prediction: EvalPrediction) -> dict[str, float]:
        return relation_metrics(prediction, self.labels, self.negative, self.temperature, self.threshold)

    def further_metrics(self, trainer: GuidedFineTuningTrainer, prefix: str) -> dict[str, float]:
        """The share of random pairs of other spans, in sentences without a training example, that get a relation."""
        data = self.data[prefix]
        if "train" in self.data:
            trained = set(self.data["train"]["text"])
            data = data.select([row for row, text in enumerate(data["text"]) if text not in trained])
        pairs = None if self.negative is None else random_pairs(data, self.data_args.split_seed)
        if pairs is None:
            return {}
        encoded = self._encode(pairs, "skip")
        _, answers = self._answers(trainer.predict(encoded).predictions)
        return {"false_positive_rate": 100 * sum(label != self.negative for label in answers) / len(answers)}

    def write_predictions(self, prefix: str, predictions: np.ndarray, folder: Path) -> None:
        """
        Writes `<prefix>_predictions.tsv` and `.jsonl`; with labels, also writes `<prefix>_report.txt` and
        `<prefix>_confusion.tsv`, and prints the table of the report.
        """
        data = self.encoded[prefix]
        probabilities, answers = self._answers(predictions)
        lines = [f"{identifier}\t{label}\n" for identifier, label in zip(data["id"], answers, strict=True)]
        (folder / f"{prefix}_predictions.tsv").write_text("".join(lines), encoding="utf-8")
        examples = self.data[prefix].select(data["row"])
        with open(folder / f"{prefix}_predictions.jsonl", "w", encoding="utf-8") as file:
            for example, label, row in zip(examples, answers, probabilities, strict=True):
                probability = round(float(row[self.labels.index(label)]), 6)
                file.write(json.dumps(_predicted(example, label, probability), ensure_ascii=False) + "\n")
        if "labels" not in data.column_names:
            return
        references = [self.labels[number] for number in data["labels"]]
        if set(self.labels) <= set(SEMEVAL_LABELS):
            scores = score_semeval(answers, references)
            report, shown = scores.report(), scores.official.report()
        else:
            report = shown = relation_report(answers, references, self.negative)
        (folder / f"{prefix}_report.txt").write_text(report, encoding="utf-8")
        (folder / f"{prefix}_confusion.tsv").write_text(confusion_table(answers, references), encoding="utf-8")
        print(f"{prefix}\n{shown}")

    def card(self) -> ModelCardFacts:
        source = self.data_args.dataset_name or Path(str(self.data_args.train_file)).name
        official = set(self.labels) <= set(SEMEVAL_LABELS)
        without = "" if self.negative is None else f" without {self.negative}"
        reads, tag = _description(self.config, self.pairwise)
        return ModelCardFacts(
            # No pipeline_tag: the Hub has none for relation extraction, and other widgets cannot mark entities.
            task_type="relation-extraction",
            task_name="Relation Extraction",
            dataset_type=source,
            dataset_name=source,
            splits=self.card_splits(),
            metrics={
                "f1": "Official macro-F1" if official else f"Micro-F1{without}",
                **({"micro_f1": f"Micro-F1{without}"} if official else {}),
                "macro_f1": f"Macro-F1 over labels{without}",
                "accuracy": "Accuracy",
                "auc": "Area under the precision-recall curve",
                "ece": "Expected calibration error (%)",
                "false_positive_rate": "Random unrelated pairs that get a relation (%)",
            },
            description=(f"A relation extractor for {len(self.labels)} labels, between two marked entities: {reads}"),
            usage=_usage,
            tags=["relation-extraction", *tag],
            config_fields=(
                *(PAIRWISE_FIELDS if self.pairwise else (*MULTISCALE_FIELDS, "entity_markers")),
                *ANSWER_FIELDS,
            ),
            carries_pipeline=True,
            language="en" if official else None,
        )

    def _read(self, hub: DatasetDict, split: str) -> Dataset | None:
        if split != "train":
            self.labels = self.labels or checkpoint_labels(self.model_args) or []
        path = self.file(split)
        if path is not None:
            source, known = path, (self.labels or None, self.label_names, self._negatives(split))
            dataset = read_relations(path, self.data_args.file_format, *known)
        elif split in hub:
            source = f"{self.data_args.dataset_name}, {split}"
            known = (self.labels or None, self.label_names, self._negatives(split))
            dataset = to_relations(hub[split], source, *known)
        else:
            return None
        if split != "test" and dataset[0]["label"] is None:
            raise UserError(
                f"{source}: the examples have no labels (field relation or label); only test data may come without."
            )
        if split == "train":
            self.labels = self.labels or relation_labels(dataset)
        return dataset

    def _negatives(self, split: str) -> Negatives | None:
        args = self.data_args
        if not args.negative_pairs:
            return None
        return Negatives(args.negative_pairs, args.negative_label or NO_RELATION, args.split_seed, split == "train")

    def _negative_label(self) -> str | None:
        """The label of no relation: the given one, that of the checkpoint, or the one with such a meaning."""
        given, stored = self.data_args.negative_label, getattr(load_config(self.model_args), "negative_label", None)
        draws = self.data_args.negative_pairs > 0
        if given is None and draws and stored in self.labels and stored != NO_RELATION:
            raise UserError(
                f"--negative_pairs draws the label {NO_RELATION!r}, and {stored!r} stands for no relation in the "
                "checkpoint; name one of them with --negative_label."
            )
        if given is None and (stored in self.labels or (stored == "" and not draws)):
            given = stored
        if given and given not in self.labels:
            raise UserError(f"--negative_label {given}: not one of the labels {', '.join(self.labels)}.")
        negative = find_negative_label(self.labels) if given is None else given or None
        if negative is not None:
            # Printed as the scores are: by default, the log shows warnings only.
            if self.args.should_log:
                print(f"The label {negative!r} stands for no relation.")
        elif given is None:
            logger.warning(
                f"None of the {len(self.labels)} labels is known to stand for no relation, so F1 counts them all; "
                'name it with --negative_label, or give --negative_label "" if there is none.'
            )
        return negative

    def _encode(self, data: Dataset, on_overflow: str, words: bool = False) -> Dataset:
        encoded = encode_relation_dataset(
            data,
            self.marking,
            max_length=self.data_args.max_seq_length,
            label2id=label_fields(self.labels)["label2id"] if data[0]["label"] is not None else None,
            on_overflow=on_overflow,
            num_proc=self.data_args.preprocessing_num_workers,
            words=words,
            style=self.style,
        )
        if not self.pairwise:
            return encoded
        unmarked = partial(without_markers, tokenizer=self.marking)
        return encoded.map(unmarked, batched=True, remove_columns=encoded.column_names)

    def _answers(self, logits: np.ndarray) -> tuple[np.ndarray, list[str]]:
        """Probabilities `(examples, labels)` and labels."""
        return answers_of(logits, self.labels, self.negative, self.temperature, self.threshold)

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
    checkpoint = load_config(model_args).model_type in (PairwiseConfig.model_type, BertPairwiseConfig.model_type)
    pairwise = checkpoint if head_args.head is None else head_args.head == PAIRWISE
    for name in model_args.config_overrides() if pairwise else head_args.given(PAIRWISE_FIELDS):
        raise UserError(f"--{name} is {'not ' if pairwise else ''}for --head {PAIRWISE}.")
    return pairwise


def _model_class(model_args: MultiScaleArguments, pairwise: bool) -> type[PreTrainedModel]:
    """The class for any encoder, or its member of BERT for a checkpoint of that."""
    if pairwise:
        return family_class(model_args, PairwiseForRelationClassification, BertPairwiseForRelationClassification)
    return family_class(model_args, MultiScaleForRelationExtraction, BertForMultiScaleRE)


def _marker_style(
    model_args: MultiScaleArguments, data_args: RelationDataArguments, pairwise: bool, training: bool
) -> str:
    """
    The style of the entity markers, by `--entity_markers` or else by the checkpoint.

    Raises:
        UserError: The model reads no markers, or has been trained with others.
    """
    given, stored = data_args.entity_markers, getattr(load_config(model_args), "entity_markers", None)
    if pairwise and given is not None:
        raise UserError(f"--entity_markers is not for --head {PAIRWISE}.")
    if not training and given is not None and given != (stored or "plain"):
        raise UserError(f"--entity_markers {given}: the model has been trained with {stored or 'plain'} ones.")
    return "plain" if pairwise else given or stored or "plain"


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


def _label_names(path: str | None) -> dict[str, str]:
    if existing_file(path, "label_names_file") is None:
        return {}
    try:
        content = json.loads(Path(str(path)).read_text(encoding="utf-8-sig"))
    except ValueError as error:
        raise UserError(f"{path}: expected a JSON object from label to name ({error}).") from None
    # FewRel's file has a list of name and description.
    first = {
        label: name[0] if isinstance(name, list) and name else name
        for label, name in (content.items() if isinstance(content, dict) else ())
    }
    if not first or not all(isinstance(name, str) and name for name in first.values()):
        raise UserError(f'{path}: expected a JSON object from label to name, such as {{"P177": "crosses"}}.')
    if len(set(first.values())) < len(first):
        raise UserError(f"{path}: two labels have the same name.")
    return first


def _predicted(example: Mapping[str, Any], label: str, probability: float) -> dict[str, Any]:
    """A line of the file of predictions."""
    entities = {
        role: {
            "start": example[role][0],
            "end": example[role][1],
            "text": example["text"][slice(*example[role])],
            **({"label": example[f"{role}_type"]} if example[f"{role}_type"] else {}),
        }
        for role in ("head", "tail")
    }
    known = {"id": example["id"], "text": example["text"], **entities, "gold": example["label"]}
    return {**known, "prediction": label, "probability": probability}


def _description(config: Any, pairwise: bool) -> tuple[str, list[str]]:
    """What a model reads, and the tag of its attention."""
    if pairwise:
        if "att" not in config.features:
            return "an encoder whose hidden states of both entities are the features.", []
        beside = " beside their hidden states" if "emb" in config.features else ""
        return (
            f"an encoder whose attention between them, in all layers and heads, is a feature{beside}.",
            ["pairwise-attention"],
        )
    if not config.fusion_layers:
        return "an encoder under a classifier, without fusion attention.", []
    if not config.scales:
        return "an encoder with self-attention above it, without phrases: a baseline.", []
    return "an encoder with multi-scale fusion self-attention.", ["multi-scale-attention"]


def _usage(name: str) -> str:
    return f'''from transformers import pipeline

extract = pipeline("relation-extraction", model="{name}", trust_remote_code=True)
extract("The <e1>storm</e1> caused heavy <e2>damage</e2>.")'''
