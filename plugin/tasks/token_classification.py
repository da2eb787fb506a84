"""Token classification: tags every word, for part-of-speech tagging or named-entity recognition."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from datasets import Dataset, DatasetDict
from tokenizers.models import WordLevel
from transformers import (
    AutoModelForTokenClassification,
    DataCollatorForTokenClassification,
    EvalPrediction,
    PreTrainedConfig,
    PreTrainedModel,
    PreTrainedTokenizerBase,
    TrainingArguments,
)
from transformers.utils import logging

from msattn.arguments.classifier_arguments import ClassifierArguments
from msattn.arguments.pretrained import ModelArguments
from msattn.arguments.scratch_arguments import ScratchArguments
from msattn.arguments.tagging_arguments import TaggingDataArguments
from msattn.data.inputs.tagging_inputs import encode_tagged_words
from msattn.data.inputs.word_pieces import NO_LABEL
from msattn.data.tagged_words import read_tagged_words, to_tagged_words
from msattn.errors import UserError
from msattn.guiding.guiding_arguments import GuidingArguments
from msattn.metrics.tagging import ENTITY_TAG, entity_scorer, marks_entities, score_tags, tagging_report
from msattn.tasks.hub_data import load_hub_dataset
from msattn.tasks.labels import label_fields
from msattn.tasks.model_card import ModelCardFacts
from msattn.tasks.model_source import ModelSource
from msattn.tasks.splits import read_each
from msattn.tasks.task import Task

logger = logging.get_logger(__name__)

METRIC_NAMES = {"f1": "Entity F1", "precision": "Entity precision", "recall": "Entity recall", "accuracy": "Accuracy"}
# Columns that map encoded rows back to sentences and words; the model does not read them.
PLACES = ["sentence", "word_starts"]


class TokenClassification(Task):
    """
    Token classification with a checkpoint or a model trained from scratch.

    Raises:
        UserError: `--label_smoothing_factor` is set for a CRF, or the arguments of [`ModelSource`] are invalid.
    """

    argument_classes = (ModelArguments, ClassifierArguments, ScratchArguments, TaggingDataArguments)
    other_sources = " or --dataset_name"
    unit = "sentence"

    data_args: TaggingDataArguments

    def __init__(
        self,
        model_args: ModelArguments,
        classifier_args: ClassifierArguments,
        scratch_args: ScratchArguments,
        data_args: TaggingDataArguments,
        args: TrainingArguments,
        guiding: GuidingArguments,
    ):
        super().__init__(model_args, data_args, args, guiding)
        self.classifier_args = classifier_args
        self.source = ModelSource(model_args, scratch_args, args.do_train)
        if args.label_smoothing_factor and getattr(self.source.config, "crf", False):
            raise UserError("--label_smoothing_factor looks at single tokens: it would teach a CRF nothing.")
        #: By metric prefix: the sentence of each encoded row, and the first token of each of its words.
        self.places: dict[str, Dataset] = {}

    def read(self, splits: Collection[str]) -> dict[str, Dataset]:
        return read_each(splits, partial(self._read, load_hub_dataset(self.data_args, self.model_args)))

    def prepare(self, data: Mapping[str, Dataset]) -> None:
        self.labels = _labels(data, self.source.config)
        self.entities = marks_entities(self.labels)
        odd = [tag for tag in self.labels if not ENTITY_TAG.fullmatch(tag)]
        if odd and ("O" in self.labels or all(map(str.isdecimal, self.labels))):
            logger.warning(
                f"The tags are scored word by word, not as entities: {odd[0]!r} is neither O nor like B-person."
            )
        if self.entities and any("tags" in part.column_names for prefix, part in data.items() if prefix != "train"):
            entity_scorer()  # said now rather than after the training

    def make_tokenizer(self) -> PreTrainedTokenizerBase:
        trained, most = self.data.get("train"), self.data_args.max_seq_length
        tokenizer = self.source.tokenizer(None if trained is None else trained["words"])
        if most <= tokenizer.num_special_tokens_to_add():
            raise UserError(f"--max_seq_length {most} leaves no room for a word.")
        self.max_length = min(most, tokenizer.model_max_length)
        return tokenizer

    def encode(self, prefix: str, data: Dataset) -> Dataset:
        encoded, cut = encode_tagged_words(
            data,
            self.tokenizer,
            {label: number for number, label in enumerate(self.labels)},
            self.max_length,
            self.data_args.preprocessing_num_workers,
            self.guiding.needs_words and prefix == "train",
        )
        self.places[prefix] = encoded.select_columns(PLACES)
        if len(encoded) > len(data):
            logger.warning(
                f"{prefix}: sentences of more than {self.max_length} tokens (--max_seq_length) were cut between words "
                f"into parts, {len(encoded) - len(data)} more than the {len(data)} sentences; each part is tagged and "
                "scored by itself."
            )
        if cut:
            logger.warning(
                f"{prefix}: of {cut} words only the first {self.max_length} tokens are read (--max_seq_length)."
            )
        return encoded.remove_columns(PLACES)

    @property
    def collator_class(self) -> Callable[..., Any]:
        return DataCollatorForTokenClassification

    def train_groups(self) -> Sequence | None:
        return self.places["train"]["sentence"][:] if "train" in self.places else None

    def model(self) -> PreTrainedModel:
        return self.source.model(
            AutoModelForTokenClassification,
            ignore_mismatched_sizes=self.classifier_args.ignore_mismatched_sizes,
            **label_fields(self.labels),
        )

    def metrics(self, prediction: EvalPrediction) -> dict[str, float]:
        return tagging_metrics(prediction, self.labels)

    def write_predictions(self, prefix: str, predictions: np.ndarray, folder: Path) -> None:
        """
        Writes `<prefix>_predictions.conll` with the columns word, gold tag (if known) and predicted tag.

        For tagged data, also writes `<prefix>_report.txt` and prints it.
        """
        data = self.data[prefix]
        predicted: list[list[str]] = [[] for _ in range(len(data))]
        for place, answers in zip(self.places[prefix], predictions.argmax(axis=-1), strict=True):
            predicted[place["sentence"]] += [self.labels[number] for number in answers[place["word_starts"]]]
        tags = data["tags"][:] if "tags" in data.column_names else None
        columns = [data["words"][:], *([] if tags is None else [tags]), predicted]
        with open(folder / f"{prefix}_predictions.conll", "w", encoding="utf-8", newline="\n") as file:
            for sentence in zip(*columns, strict=True):
                file.writelines("\t".join(cells) + "\n" for cells in zip(*sentence, strict=True))
                file.write("\n")
        if tags is not None:
            report = tagging_report(tags, predicted, self.entities)
            (folder / f"{prefix}_report.txt").write_text(report, encoding="utf-8")
            print(f"{prefix}\n{report}")

    def card(self) -> ModelCardFacts:
        name = self.data_args.dataset_name or Path(str(self.data_args.train_file)).name
        config = self.source.config
        # True for model classes of msattn, installed or loaded from the checkpoint's code.
        carries_code = not type(config).__module__.startswith("transformers.")
        what = "named entities" if self.entities else "words"
        description = f"A tagger of {what}: it reads a sentence and classifies the first piece of each of its words."
        if getattr(config, "crf", False):
            description += " Its conditional random field needs the package pytorch-crf."
        return ModelCardFacts(
            task_type="token-classification",
            pipeline_tag="token-classification",
            task_name="Token Classification",
            dataset_type=name,
            dataset_name=name,
            dataset_config=self.data_args.dataset_config_name,
            splits=self.card_splits(),
            metrics=METRIC_NAMES,
            description=description,
            usage=partial(_usage, strategy=self._strategy, carries_code=carries_code),
            tags=["named-entity-recognition" if self.entities else "part-of-speech"],
            config_fields=self.source.card_fields,
            carries_code=carries_code,
        )

    @property
    def _strategy(self) -> str:
        """How the pipeline joins tokens. With `first` it takes the full stop behind a whole word for its end."""
        if not self.entities:
            return "none"
        return "simple" if isinstance(self.tokenizer.backend_tokenizer.model, WordLevel) else "first"

    def _read(self, hub: DatasetDict, split: str) -> Dataset | None:
        path = self.file(split)
        columns = self.data_args.word_column, self.data_args.tag_column
        if path is not None:
            dataset, source = read_tagged_words(path, *columns), path
        elif split in hub:
            source = f"{self.data_args.dataset_name}, {split}"
            dataset = to_tagged_words(hub[split], source, *columns)
        else:
            return None
        if split != "test" and "tags" not in dataset.column_names:
            raise UserError(f"{source}: the words have no tags; only test data may come without.")
        return dataset


def tagging_metrics(prediction: EvalPrediction, labels: Sequence[str]) -> dict[str, float]:
    """
    Accuracy over the labelled tokens and, for entity labels (BIO and the like), precision, recall and F1 of entities.

    Args:
        prediction (`EvalPrediction`): Logits `(rows, tokens, labels)` and label ids `(rows, tokens)`.
        labels (`Sequence[str]`): The tags in the order of their ids.
    """
    answers = prediction.predictions.argmax(axis=-1)
    rows = [
        [[labels[number] for number in numbers[row != NO_LABEL]] for numbers in (row, answer)]
        for row, answer in zip(prediction.label_ids, answers, strict=True)
    ]
    references, predictions = map(list, zip(*rows, strict=True))
    return score_tags(references, predictions, marks_entities(labels))


def _labels(sentences: Mapping[str, Dataset], config: PreTrainedConfig) -> list[str]:
    """The tags of all splits if there are training data, else those of the checkpoint."""
    tags = {prefix: _tags(dataset) for prefix, dataset in sentences.items()}
    if "train" in tags:
        known = set().union(*tags.values())
        if len(known) < 2:
            raise UserError(f"there has to be more than one tag, and every word has {min(known)!r}.")
        if known - tags["train"]:
            logger.warning(f"No training word has the tag {', '.join(sorted(known - tags['train']))}.")
        return sorted(known)
    if not any(name.endswith("ForTokenClassification") for name in config.architectures or ()):
        raise UserError("the tags are not known: give training data, or a model that was trained here.")
    labels = [config.id2label[number] for number in range(config.num_labels)]
    for prefix, found in tags.items():
        if not found <= set(labels):
            raise UserError(
                f"{prefix} data: the tag {min(found - set(labels))!r} is not one of the model's: {', '.join(labels)}."
            )
    return labels


def _tags(dataset: Dataset) -> set[str]:
    return set(chain.from_iterable(dataset["tags"])) if "tags" in dataset.column_names else set()


def _usage(name: str, strategy: str, carries_code: bool) -> str:
    return f'''{"import msattn  # noqa: F401" + chr(10) if carries_code else ""}from transformers import pipeline

tag = pipeline("token-classification", model="{name}", aggregation_strategy="{strategy}")
print(tag("My name is Sarah and I live in London."))'''
