"""Trained classifiers and labelled texts for the analysis commands, and accuracy."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import torch
from transformers import (
    AutoModelForSequenceClassification,
    BatchEncoding,
    DataCollatorWithPadding,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)

from msattn.analysis.arguments import load_config
from msattn.analysis.attention_maps import Text, padded_batches
from msattn.arguments.pretrained import ModelArguments, load_model, load_tokenizer
from msattn.data.sentences import read_sentences
from msattn.errors import UserError

Batches = Callable[[], Iterator[BatchEncoding]]


@dataclass(kw_only=True)
class ClassifierArguments:
    """Arguments of the commands that run a classifier on labelled sentences."""

    model: str = field(metadata={"help": "A trained sequence classifier: a local folder or a name on the Hub."})
    file: str = field(
        metadata={"help": "File of labelled sentences: CSV, TSV, JSON, JSON lines, Parquet, SST-5, SNLI or MTL-16."}
    )
    text_column_names: list[str] | None = field(
        default=None,
        metadata={"help": "One or two text columns of --file. Default: the first columns that hold text."},
    )
    label_column_name: str = field(default="label", metadata={"help": "The label column of --file."})
    max_eval_samples: int | None = field(default=None, metadata={"help": "Maximum number of sentences."})
    batch_size: int = field(default=32, metadata={"help": "Number of sentences per batch."})
    output: list[str] | None = field(
        default=None, metadata={"help": "Output files: .json for the numbers, .png or .svg for a figure."}
    )

    def check_positive(self, *names: str) -> None:
        """
        Raises:
            UserError: One of these numbers, `--batch_size` or `--max_eval_samples` is not positive.
        """
        for name in (*names, "batch_size", "max_eval_samples"):
            if (value := getattr(self, name)) is not None and value < 1:
                raise UserError(f"--{name} must be at least 1, not {value}.")

    def load(self) -> tuple[PreTrainedModel, PreTrainedTokenizerBase, list[Text], list[int]]:
        """
        The classifier, its tokenizer, and the sentences with the numbers of their classes.

        Raises:
            UserError: The model or the file cannot be read, or a label is missing or unknown.
        """
        load_config(self.model)
        named = ModelArguments(model_name_or_path=self.model)
        tokenizer = load_tokenizer(named)
        dataset = read_sentences(self.file, self.text_column_names, self.label_column_name)
        if "label" not in dataset.column_names:
            raise UserError(f"{self.file}: the sentences have no labels in {self.label_column_name!r}.")
        dataset = dataset.select(range(min(len(dataset), self.max_eval_samples or len(dataset))))
        model = load_model(AutoModelForSequenceClassification, named, len(tokenizer)).float()
        if tokenizer.pad_token is None:  # as in training; padding is masked
            tokenizer.pad_token = tokenizer.eos_token or tokenizer.unk_token
            model.config.pad_token_id = tokenizer.pad_token_id
        texts = list(zip(*(dataset[name] for name in dataset.column_names if name != "label"), strict=True))
        labels = _classes(model, dataset["label"][:], self.file)
        return model.to("cuda" if torch.cuda.is_available() else "cpu"), tokenizer, texts, labels


def check_classifier(model: PreTrainedModel) -> None:
    """
    Raises:
        UserError: The model has no classes of which one is right.
    """
    if getattr(model.config, "num_labels", 0) < 2 or model.config.problem_type in (
        "regression",
        "multi_label_classification",
    ):
        raise UserError(f"{type(model).__name__} has no classes of which one is right: there is no accuracy.")


def labelled_batches(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    texts: Sequence[Text],
    labels: Sequence[int],
    batch_size: int,
) -> Batches:
    """What gives the batches of labelled texts, longest texts first, whenever it is called."""
    encoded = tokenizer(*map(list, zip(*texts, strict=True)), truncation=True)
    features = [
        {**{name: values[row] for name, values in encoded.items()}, "labels": label}
        for row, label in enumerate(labels)
    ]

    def batches() -> Iterator[BatchEncoding]:
        for batch in padded_batches(features, DataCollatorWithPadding(tokenizer), batch_size):
            yield batch.to(model.device)

    return batches


@torch.no_grad()
def accuracy(model: PreTrainedModel, batches: Batches) -> float:
    """The share of the texts that a model classifies right."""
    right = count = 0
    for batch in batches():
        labels = batch.pop("labels")
        right += int((model(**batch).logits.argmax(dim=-1) == labels).sum())
        count += len(labels)
    return right / count


def _classes(model: PreTrainedModel, labels: Sequence[str], path: str) -> list[int]:
    """The classes of labels: names of the model, or numbers."""
    known = {str(name): number for name, number in (model.config.label2id or {}).items()}
    known = {**{str(number): number for number in range(model.config.num_labels)}, **known}
    for label in labels:
        if label not in known:
            names = ", ".join(map(str, model.config.id2label.values()))
            raise UserError(f"{path}: the model does not know the label {label!r}; it knows {names}.")
    return [known[label] for label in labels]
