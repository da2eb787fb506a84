"""Functions of `run_tagging.py`: tags, metrics, files of predictions, the model card."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from datasets import Dataset
from tokenizers.models import WordLevel
from transformers import EvalPrediction, PreTrainedConfig, PreTrainedTokenizerBase, TrainingArguments
from transformers.utils import logging

from msattn.data.inputs.entity_tags import ENTITY_TAG, marks_entities
from msattn.data.inputs.word_pieces import NO_LABEL
from msattn.data.tagged_words import read_tagged_words, to_tagged_words
from msattn.errors import UserError, shown
from msattn.metrics.baselines import most_frequent
from msattn.metrics.tagging import score_tags, tagging_report
from msattn.training.from_scratch import scratch_card_fields
from msattn.training.model_card import ModelCardFacts
from msattn.training.splits import load_hub_dataset, read_splits, split_names, warn_of_labels

logger = logging.get_logger(__name__)

# Tags of entities in any writing, such as `b-per` and `B_PER`.
LIKE_ENTITIES = re.compile("o|[bieslu][-_].+", re.IGNORECASE)
METRIC_NAMES = {
    "f1": "Entity F1",
    "precision": "Entity precision",
    "recall": "Entity recall",
    "accuracy": "Accuracy",
    "majority_accuracy": "Accuracy of the most frequent tag",
}


def read_tagging_splits(data_args: Any, args: TrainingArguments) -> dict[str, Dataset]:
    """
    Reads the splits that a run needs, from a dataset on the Hub or local files.

    Args:
        data_args (`TaggingDataArguments`): Names the data.
        args (`TrainingArguments`): Whether the run trains, evaluates and predicts.

    Returns:
        `dict[str, datasets.Dataset]`: The splits by the prefix of their metrics.

    Raises:
        UserError: A split is missing, or training or validation data have no tags.
    """
    hub = load_hub_dataset(data_args)
    columns = data_args.word_column, data_args.tag_column

    def read(split: str) -> Dataset | None:
        if path := getattr(data_args, f"{split}_file"):
            source, sentences = path, read_tagged_words(path, *columns)
        elif split in hub:
            source = f"{data_args.dataset_name}, {split}"
            sentences = to_tagged_words(hub[split], source, *columns)
        else:
            return None
        if split != "test" and "tags" not in sentences.column_names:
            raise UserError(f"{source}: the words have no tags (name their column by --tag_column).")
        return sentences

    return read_splits(read, data_args, args, " or --dataset_name")


def find_tags(splits: Mapping[str, Dataset], config: PreTrainedConfig, training: bool) -> list[str]:
    """
    The tags of all splits in a training, else those of the checkpoint.

    Args:
        splits (`Mapping[str, datasets.Dataset]`): The sentences by the prefix of their metrics.
        config (`PreTrainedConfig`): The configuration of the checkpoint.
        training (`bool`): Whether something is trained.

    Raises:
        UserError: All words have the same tag, the checkpoint is no tagger, or it lacks a tag of the data.
    """
    found = {
        prefix: {*chain(*rows["tags"])} - {None} for prefix, rows in splits.items() if "tags" in rows.column_names
    }
    if training:
        tags = sorted(set().union(*found.values()))
        if len(tags) < 2:
            raise UserError(f"there has to be more than one tag, and every word has {tags[0]!r}.")
    else:
        if not any(name.endswith("ForTokenClassification") for name in config.architectures or ()):
            raise UserError("the tags are not known: give training data, or a model that was trained here.")
        tags = [config.id2label[number] for number in range(config.num_labels)]
        for prefix, others in found.items():
            if strange := sorted(others - set(tags)):
                rows = enumerate(splits[prefix], start=1)
                number, words = next((number, row["words"]) for number, row in rows if strange[0] in row["tags"])
                raise UserError(
                    f"{prefix} data, sentence {number}, {shown(' '.join(words))}: the tag {strange[0]!r} is not one "
                    f"of the model's: {', '.join(tags)}."
                )
    warn_of_labels(found, tags, "word has the tag")
    _warn_of_odd_tags(tags)
    return tags


def _warn_of_odd_tags(tags: Sequence[str]) -> None:
    """Warns of tags of entities that are not written as `O` and `B-person`, which are scored as any others."""
    odd = [tag for tag in tags if not ENTITY_TAG.fullmatch(tag)]
    if all(map(str.isdecimal, tags)):
        logger.warning(
            "The tags are numbers: words are scored one by one, and the model will answer numbers; names such as "
            "B-person in the data would score entities."
        )
    elif odd and any(map(LIKE_ENTITIES.fullmatch, tags)):
        logger.warning(
            f"The tags are scored word by word, not as entities: {odd[0]!r} is neither O nor like B-person."
        )


def tagging_metrics(prediction: EvalPrediction, tags: Sequence[str]) -> dict[str, float]:
    """
    In percent: accuracy over the labelled tokens, that of always naming the most frequent tag (`majority_accuracy`),
    and for entity tags (BIO and the like) precision, recall and F1 of entities.

    Args:
        prediction (`EvalPrediction`): Logits `(rows, tokens, tags)` and label ids `(rows, tokens)`.
        tags (`Sequence[str]`): The tags in the order of their ids.
    """
    answers = prediction.predictions.argmax(axis=-1)
    rows = [
        [[tags[number] for number in numbers[row != NO_LABEL]] for numbers in (row, answer)]
        for row, answer in zip(prediction.label_ids, answers, strict=True)
    ]
    references, predictions = map(list, zip(*rows, strict=True))
    scores = score_tags(predictions=predictions, references=references, entities=marks_entities(tags))
    baseline = {"majority_accuracy": most_frequent(chain(*references))[1]}
    return {name: 100 * score for name, score in scores.items()} | baseline


def write_tagging_predictions(
    folder: str, prefix: str, sentences: Dataset, encoded: Dataset, logits: np.ndarray, tags: Sequence[str]
) -> None:
    """
    Writes `<prefix>_predictions.conll` with the columns word, gold tag (if known) and predicted tag.

    For tagged data, also writes `<prefix>_report.txt` and prints it.

    Args:
        folder (`str`): The folder.
        prefix (`str`): The prefix of the split, such as `"test"`.
        sentences (`datasets.Dataset`): The sentences as read.
        encoded (`datasets.Dataset`): The rows of the model, with `sentence` and `word_starts`.
        logits (`np.ndarray` of shape `(rows, tokens, tags)`): The outputs of the model.
        tags (`Sequence[str]`): The tags in the order of their ids.
    """
    predicted: list[list[str]] = [[] for _ in range(len(sentences))]
    for sentence, starts, answers in zip(
        encoded["sentence"], encoded["word_starts"], logits.argmax(axis=-1), strict=True
    ):
        predicted[sentence] += [tags[number] for number in answers[starts]]
    gold = [sentences["tags"][:]] if "tags" in sentences.column_names else []
    with open(Path(folder, f"{prefix}_predictions.conll"), "w", encoding="utf-8", newline="\n") as file:
        for sentence in zip(sentences["words"], *gold, predicted, strict=True):
            lines = ("\t".join(cell or "_" for cell in cells) for cells in zip(*sentence, strict=True))
            file.writelines(f"{line}\n" for line in lines)
            file.write("\n")
    if gold:
        rows = (zip(*row, strict=True) for row in zip(gold[0], predicted, strict=True))
        known = [[pair for pair in row if pair[0] is not None] for row in rows]
        true, found = ([[pair[side] for pair in row] for row in known] for side in (0, 1))
        report = tagging_report(predictions=found, references=true, entities=marks_entities(tags))
        Path(folder, f"{prefix}_report.txt").write_text(report, encoding="utf-8")
        print(report)


def tagging_card(
    config: PreTrainedConfig,
    tokenizer: PreTrainedTokenizerBase,
    data_args: Any,
    tags: Sequence[str],
    fresh: bool,
) -> ModelCardFacts:
    """
    The facts for the model card of a tagger.

    Args:
        config (`PreTrainedConfig`): The configuration of the model.
        tokenizer (`PreTrainedTokenizerBase`): Its tokenizer.
        data_args (`TaggingDataArguments`): Names the data.
        tags (`Sequence[str]`): All tags.
        fresh (`bool`): Whether it was trained from scratch.
    """
    entities = marks_entities(tags)
    what = "named entities" if entities else "words"
    description = (
        f"A tagger of {what}: it reads a sentence and classifies the first piece of each of its words. "
        "`msattn predict` tags the words that were scored; the pipeline below may join a word and a full stop."
    )
    if getattr(config, "crf", False):
        description += " Its conditional random field needs the package pytorch-crf."
    # How the pipeline joins tokens. With `first` it takes the full stop behind a whole word for its end.
    whole_words = isinstance(tokenizer.backend_tokenizer.model, WordLevel)
    strategy = "none" if not entities else "simple" if whole_words else "first"
    return ModelCardFacts(
        task_type="token-classification",
        dataset_name=data_args.source,
        dataset_config=data_args.dataset_config_name,
        splits=split_names(data_args),
        metrics=METRIC_NAMES,
        description=description,
        usage=partial(_usage, strategy=strategy),
        tags=["named-entity-recognition" if entities else "part-of-speech"],
        config_fields=scratch_card_fields(config) if fresh else ("model_type",),
    )


def _usage(name: str, strategy: str) -> str:
    return f'''tag = pipeline("token-classification", model="{name}", aggregation_strategy="{strategy}")
print(tag("My name is Sarah and I live in London."))'''
