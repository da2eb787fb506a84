"""Tagging of words, such as parts of speech and named entities, as an experiment from arguments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from pathlib import Path

import numpy as np
from datasets import Dataset, DatasetDict, load_dataset
from transformers import (
    AutoModelForTokenClassification,
    DataCollatorForTokenClassification,
    EvalPrediction,
    PreTrainedConfig,
    TrainingArguments,
)
from transformers.utils import logging

from msattn.data.tagged_words import NO_LABEL, encode_tagged_words, read_tagged_words, to_tagged_words
from msattn.errors import UserError
from msattn.metrics.tagging import marks_entities, score_tags, tagging_report
from msattn.training.cli import existing_file, hold_out
from msattn.training.experiment import Experiment
from msattn.training.model_card import ModelCardFacts
from msattn.training.pretrained import ModelArguments
from msattn.training.scratch import ModelSource, ScratchArguments

logger = logging.get_logger(__name__)

PREFIXES = {"train": "train", "validation": "eval", "test": "test"}
METRIC_NAMES = {"f1": "Entity F1", "precision": "Entity precision", "recall": "Entity recall", "accuracy": "Accuracy"}
# Where the rows of a data set come from, which the model does not read.
PLACES = ["sentence", "word_starts"]


@dataclass
class TaggingModelArguments(ModelArguments):
    """The tagger: any model that classifies tokens."""

    ignore_mismatched_sizes: bool = field(
        default=False,
        metadata={"help": "Start from a model of another task, whose classifier has another number of labels."},
    )


@dataclass
class TaggingDataArguments:
    """The data: CoNLL columns, CoNLL-U, or a data set on the Hub."""

    train_file: str | None = field(
        default=None,
        metadata={"help": "CoNLL-U (.conllu, .conllu.gz), or a word a line with its columns behind tabs or spaces."},
    )
    validation_file: str | None = field(default=None, metadata={"help": "Development sentences."})
    test_file: str | None = field(default=None, metadata={"help": "Test sentences, with or without tags."})
    dataset_name: str | None = field(default=None, metadata={"help": "Name of a data set on the Hub."})
    dataset_config_name: str | None = field(default=None, metadata={"help": "Its configuration."})
    word_column: str | None = field(
        default=None, metadata={"help": "The words: the number of the column (1), or its name on the Hub (tokens)."}
    )
    tag_column: str | None = field(
        default=None,
        metadata={
            "help": "The tags: upos (the default) or xpos of CoNLL-U, the number of the column (the last), or its "
            "name on the Hub (the only one of classes)."
        },
    )
    validation_split_percentage: float | None = field(
        default=None,
        metadata={
            "help": "Cut this share of the training sentences off and choose with it: it is then called eval, and the "
            "development data dev."
        },
    )
    split_seed: int = field(default=42, metadata={"help": "Seed of that cut, the same for every --seeds."})
    max_seq_length: int = field(
        default=512,
        metadata={"help": "Most tokens in a row; a longer sentence becomes several, and they are counted."},
    )
    max_train_samples: int | None = field(default=None, metadata={"help": "Use so many training sentences at most."})
    max_eval_samples: int | None = field(default=None, metadata={"help": "The same for development."})
    max_predict_samples: int | None = field(default=None, metadata={"help": "The same for the test."})
    preprocessing_num_workers: int | None = field(default=None, metadata={"help": "Processes that tokenise."})


def tagging_experiment(
    model_args: TaggingModelArguments,
    data_args: TaggingDataArguments,
    scratch_args: ScratchArguments,
    training_args: TrainingArguments,
    words: bool = False,
) -> Experiment:
    """
    Reads and encodes the data, on request those of the training with their words, and says how the model is built and
    scored.

    Raises:
        UserError: Files, tags, model or arguments are not as they should be.
    """
    source = ModelSource(model_args, scratch_args)
    if training_args.label_smoothing_factor and getattr(source.config, "crf", False):
        raise UserError("--label_smoothing_factor looks at single tokens: it would teach a CRF nothing.")
    sentences, labels = _sentences(data_args, source, training_args)
    tokenizer = source.tokenizer(sentences["train"]["words"] if "train" in sentences else None)
    if data_args.max_seq_length <= tokenizer.num_special_tokens_to_add():
        raise UserError(f"--max_seq_length {data_args.max_seq_length} leaves no room for a word.")
    max_length = min(data_args.max_seq_length, tokenizer.model_max_length)
    datasets, places = {}, {}
    for prefix, dataset in sentences.items():
        with training_args.main_process_first(desc=f"encoding {prefix}"):
            encoded, cut = encode_tagged_words(
                dataset,
                tokenizer,
                {label: number for number, label in enumerate(labels)},
                max_length,
                data_args.preprocessing_num_workers,
                words and prefix == "train",
            )
        datasets[prefix], places[prefix] = encoded.remove_columns(PLACES), encoded.select_columns(PLACES)
        if len(encoded) > len(dataset):
            repeated = len(encoded) - len(dataset)
            logger.warning(
                f"{prefix}: sentences of more than {max_length} tokens (--max_seq_length) were cut between words into "
                f"parts, {repeated} more than the {len(dataset)} sentences; each part is tagged and scored by itself."
            )
        if cut:
            logger.warning(f"{prefix}: of {cut} words only the first {max_length} tokens are read (--max_seq_length).")
    entities = marks_entities(labels)
    return Experiment(
        model_init=partial(
            source.model,
            AutoModelForTokenClassification,
            ignore_mismatched_sizes=model_args.ignore_mismatched_sizes,
            id2label=dict(enumerate(labels)),
            label2id={label: number for number, label in enumerate(labels)},
        ),
        tokenizer=tokenizer,
        compute_metrics=partial(tagging_metrics, labels=labels),
        card=_card(data_args, source, sentences, entities),
        train_dataset=datasets.get("train"),
        train_groups=places["train"]["sentence"][:] if "train" in places else None,
        eval_datasets={prefix: dataset for prefix, dataset in datasets.items() if prefix in ("eval", "dev")},
        test_datasets={prefix: dataset for prefix, dataset in datasets.items() if prefix == "test"},
        write_predictions=partial(_write_predictions, sentences=sentences, places=places, labels=labels),
        new_layers_learning_rate=model_args.new_layers_learning_rate,
        collator_class=DataCollatorForTokenClassification,
    )


def tagging_metrics(prediction: EvalPrediction, labels: Sequence[str]) -> dict[str, float]:
    """Accuracy, and precision, recall and F1 of entities if the labels mark such, over the tokens with a label."""
    answers = prediction.predictions.argmax(axis=-1)
    rows = [
        [[labels[number] for number in numbers[row != NO_LABEL]] for numbers in (row, answer)]
        for row, answer in zip(prediction.label_ids, answers, strict=True)
    ]
    references, predictions = map(list, zip(*rows, strict=True))
    return score_tags(references, predictions, marks_entities(labels))


def _sentences(
    data_args: TaggingDataArguments, source: ModelSource, training_args: TrainingArguments
) -> tuple[dict[str, Dataset], list[str]]:
    """What the arguments use, by metric prefix, the set to choose with first; and the labels."""
    share = data_args.validation_split_percentage
    wants_eval = training_args.do_eval or training_args.eval_strategy != "no"
    used = {
        "train": training_args.do_train or (wants_eval and share is not None),
        "validation": wants_eval,
        "test": training_args.do_predict,
    }
    hub = _hub_dataset(data_args, source.model_args)
    found = {PREFIXES[split]: data for split in used if used[split] and (data := _read(data_args, hub, split))}
    if not found:
        raise UserError(
            "there are no data to train, score or tag: give --train_file, --validation_file or --test_file, or "
            "--dataset_name, and --do_train, --do_eval or --do_predict."
        )
    if share is not None and wants_eval and "train" not in found:
        raise UserError("--validation_split_percentage needs training data.")
    labels = _labels(found, source.config)
    if share is not None and wants_eval:
        train, held = hold_out(found.pop("train"), share, data_args.split_seed)
        others = {prefix.replace("eval", "dev"): data for prefix, data in found.items()}
        # The first evaluation set is the one that a Trainer chooses with.
        found = {"eval": held, **others, "train": train}
    if not training_args.do_train:
        found.pop("train", None)
    at_most = {
        "train": data_args.max_train_samples,
        "eval": data_args.max_eval_samples,
        "dev": data_args.max_eval_samples,
        "test": data_args.max_predict_samples,
    }
    return {prefix: _limited(data, at_most[prefix], prefix) for prefix, data in found.items()}, labels


def _read(data_args: TaggingDataArguments, hub: DatasetDict | None, split: str) -> Dataset | None:
    path = existing_file(getattr(data_args, f"{split}_file"), f"{split}_file")
    columns = data_args.word_column, data_args.tag_column
    if path is not None:
        dataset, source = read_tagged_words(path, *columns), path
    elif hub is not None and split in hub:
        source = f"{data_args.dataset_name}, {split}"
        dataset = to_tagged_words(hub[split], source, *columns)
    else:
        return None
    if split != "test" and "tags" not in dataset.column_names:
        raise UserError(f"{source}: the words have no tags; only test data may come without.")
    return dataset


def _hub_dataset(data_args: TaggingDataArguments, model_args: ModelArguments) -> DatasetDict | None:
    name = data_args.dataset_name
    if name is None:
        return None
    try:
        return load_dataset(
            name, data_args.dataset_config_name, cache_dir=model_args.cache_dir, token=model_args.token
        )
    except (OSError, ValueError) as error:
        raise UserError(f"--dataset_name {name}: {error}") from error


def _labels(sentences: Mapping[str, Dataset], config: PreTrainedConfig) -> list[str]:
    """The tags of all the data if there are training data, or those of the checkpoint."""
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


def _limited(dataset: Dataset, most: int | None, prefix: str) -> Dataset:
    if most is None:
        return dataset
    if most < 1:
        raise UserError(f"{prefix}: at least one sentence has to be left, not {most}.")
    return dataset.select(range(min(most, len(dataset))))


def _write_predictions(
    prefix: str,
    logits: np.ndarray,
    folder: Path,
    sentences: Mapping[str, Dataset],
    places: Mapping[str, Dataset],
    labels: Sequence[str],
) -> None:
    """
    `<prefix>_predictions.conll`, whole sentences with columns for the word, its tag if there is one, and the predicted
    one; and with tags `<prefix>_report.txt`, which is printed as well.
    """
    dataset = sentences[prefix]
    predicted: list[list[str]] = [[] for _ in range(len(dataset))]
    for place, answers in zip(places[prefix], logits.argmax(axis=-1), strict=True):
        predicted[place["sentence"]] += [labels[number] for number in answers[place["word_starts"]]]
    tags = dataset["tags"][:] if "tags" in dataset.column_names else None
    columns = [dataset["words"][:], *([] if tags is None else [tags]), predicted]
    with open(folder / f"{prefix}_predictions.conll", "w", encoding="utf-8", newline="\n") as file:
        for sentence in zip(*columns, strict=True):
            file.writelines("\t".join(cells) + "\n" for cells in zip(*sentence, strict=True))
            file.write("\n")
    if tags is not None:
        report = tagging_report(tags, predicted, marks_entities(labels))
        (folder / f"{prefix}_report.txt").write_text(report, encoding="utf-8")
        print(f"{prefix}\n{report}")


def _card(
    data_args: TaggingDataArguments, source: ModelSource, sentences: Mapping[str, Dataset], entities: bool
) -> ModelCardFacts:
    name = data_args.dataset_name or Path(str(data_args.train_file)).name
    held_out = {"eval": "held out of train"} if data_args.validation_split_percentage is not None else {}
    # A class of ours, installed or brought along by a checkpoint.
    carries_code = not type(source.config).__module__.startswith("transformers.")
    what = "named entities" if entities else "words"
    description = f"A tagger of {what}: it reads a sentence and classifies the first piece of each of its words."
    if getattr(source.config, "crf", False):
        description += " Its conditional random field needs the package pytorch-crf."
    return ModelCardFacts(
        task_type="token-classification",
        pipeline_tag="token-classification",
        task_name="Token Classification",
        dataset_type=name,
        dataset_name=name,
        dataset_config=data_args.dataset_config_name,
        splits={"dev" if "dev" in sentences else "eval": "validation", "test": "test", **held_out},
        metrics=METRIC_NAMES,
        description=description,
        usage=partial(_usage, entities=entities, carries_code=carries_code),
        tags=["named-entity-recognition" if entities else "part-of-speech"],
        config_fields=source.card_fields,
        carries_code=carries_code,
    )


def _usage(name: str, entities: bool, carries_code: bool) -> str:
    strategy = "first" if entities else "none"
    return f'''{"import msattn  # noqa: F401" + chr(10) if carries_code else ""}from transformers import pipeline

tag = pipeline("token-classification", model="{name}", aggregation_strategy="{strategy}")
print(tag("My name is Sarah and I live in London ."))'''
