"""What a task is: arguments, data, model, scores and card. How it is trained is the same for all: [`Experiment`]."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from datasets import Dataset
from transformers import (
    DataCollatorWithPadding,
    EvalPrediction,
    PreTrainedModel,
    PreTrainedTokenizerBase,
    TrainingArguments,
)

from msattn.arguments.data_arguments import DataArguments
from msattn.arguments.pretrained import ModelArguments
from msattn.command_line import existing_file
from msattn.errors import UserError
from msattn.guiding.guiding_arguments import GuidingArguments
from msattn.tasks.model_card import ModelCardFacts
from msattn.tasks.splits import hold_out, is_used, most_samples, used_splits
from msattn.trainers.fine_tuning_trainer import FineTuningTrainer
from msattn.trainers.guiding_mixin import GuidingMixin


class GuidedFineTuningTrainer(GuidingMixin, FineTuningTrainer):
    """A [`FineTuningTrainer`] that guides the attention, if it is asked to."""


class Task(ABC):
    """
    One thing to learn, from the arguments of a command line. [`Task.load`] comes first; then all else can be called.

    Args:
        model_args (`ModelArguments`): Names the checkpoint.
        data_args (`DataArguments`): Name the data.
        args (`TrainingArguments`): Say which of them are used.
        guiding (`GuidingArguments`): Say whether the training data are encoded with their words.

    Attributes:
        data (`dict[str, Any]`): What was read, by the prefix of its metrics.
        encoded (`dict[str, datasets.Dataset]`): The model inputs made of it.
        tokenizer (`PreTrainedTokenizerBase`): Pads the batches and is saved with the model; set by `load`.
    """

    #: The dataclasses of the command line, in the order in which the task takes them.
    argument_classes: ClassVar[Sequence[type]]
    #: Whether its attention can be guided.
    guided: ClassVar[bool] = True
    #: The arguments that name data beside files, for messages.
    other_sources: ClassVar[str] = ""
    #: What the data consist of, for messages.
    unit: ClassVar[str] = "example"

    #: See [`Trainer`]; the model's own loss if `None`.
    loss: Callable[..., torch.Tensor] | None = None

    tokenizer: PreTrainedTokenizerBase

    def __init__(
        self, model_args: ModelArguments, data_args: DataArguments, args: TrainingArguments, guiding: GuidingArguments
    ):
        self.model_args, self.data_args, self.args, self.guiding = model_args, data_args, args, guiding
        self.data: dict[str, Any] = {}
        self.encoded: dict[str, Dataset] = {}

    # What a task says

    @abstractmethod
    def read(self, splits: Collection[str]) -> dict[str, Any]:
        """The data of those of `train`, `validation` and `test` that there are, by the prefix of their metrics."""

    @abstractmethod
    def encode(self, prefix: str, data: Any) -> Dataset:
        """Model inputs, with the column `labels` where there are any."""

    @abstractmethod
    def model(self) -> PreTrainedModel:
        """A model to train or to evaluate. The seed is set before."""

    @abstractmethod
    def metrics(self, prediction: EvalPrediction) -> dict[str, float]:
        """The scores of predictions."""

    @abstractmethod
    def card(self) -> ModelCardFacts:
        """What the model card says about task and data."""

    @abstractmethod
    def write_predictions(self, prefix: str, predictions: np.ndarray, folder: Path) -> None:
        """Writes predictions, and a report if there are labels."""

    @abstractmethod
    def prepare(self, data: Mapping[str, Any]) -> None:
        """Takes from all the data that were read what the model has to know, such as the labels."""

    # What it may say otherwise

    def make_tokenizer(self) -> PreTrainedTokenizerBase:
        """The tokenizer, if it depends on the data."""
        return self.tokenizer

    @property
    def domains(self) -> Mapping[str, Task]:
        """Tasks to be run in its place, each by its name; a table compares them."""
        return {}

    @property
    def collator_class(self) -> Callable[..., Any]:
        """Makes a collator from the tokenizer and `pad_to_multiple_of`."""
        return DataCollatorWithPadding

    @property
    def trainer_class(self) -> Callable[..., GuidedFineTuningTrainer]:
        return GuidedFineTuningTrainer

    def train_groups(self) -> Sequence | None:
        """The group of each training example, such as its query, if a part of the data has to have whole groups."""
        return None

    def strata(self, data: Any) -> Sequence | None:
        """The label of each example, if it has just one."""
        return None

    def hold_out(self, data: Any) -> tuple[Any, Any]:
        """Training data without the part that `--validation_split_percentage` holds out, and that part."""
        percentage = self.data_args.validation_split_percentage or 0
        return hold_out(data, percentage, self.data_args.split_seed, self.strata(data))

    def first(self, data: Any, count: int) -> Any:
        """The first examples of the data."""
        return data.select(range(min(count, len(data))))

    # What is the same for all

    @property
    def scored(self) -> list[str]:
        """The prefixes of the data that are scored."""
        return [prefix for prefix in self.data if prefix != "train"]

    def load(self) -> dict[str, Dataset]:
        """
        Reads and encodes the data that the arguments use.

        The part that `--validation_split_percentage` cuts off becomes `eval`, and development data that were there
        before `dev`.

        Returns:
            `dict[str, datasets.Dataset]`: Model inputs by the prefix of their metrics, the part to choose with first.

        Raises:
            UserError: There are no data, or files, labels or arguments are wrong.
        """
        splits = used_splits(self.data_args, self.args)
        if not splits:
            raise UserError("there is nothing to do: give at least one of --do_train, --do_eval and --do_predict.")
        found = self.read(splits)
        self._check(found)
        self.prepare(found)
        if self.data_args.validation_split_percentage is not None and "train" in found:
            train, held = self.hold_out(found.pop("train"))
            others = {prefix.replace("eval", "dev"): data for prefix, data in found.items()}
            found = {"eval": held, **others, "train": train}
        self.data = {
            prefix: self._limited(prefix, data) for prefix, data in found.items() if is_used(prefix, self.args)
        }
        self.tokenizer = self.make_tokenizer()
        for prefix, data in self.data.items():
            with self.args.main_process_first(desc=f"encoding {prefix}"):
                self.encoded[prefix] = self.encode(prefix, data)
        return self.encoded

    def file(self, split: str) -> str | None:
        """
        The file of a split; `None` if there is none.

        Raises:
            UserError: There is no such file.
        """
        return existing_file(getattr(self.data_args, f"{split}_file"), f"{split}_file")

    def card_splits(self) -> dict[str, str]:
        """For the model card: what the prefixes of the metrics stand for."""
        if self.data_args.validation_split_percentage is None:
            return {"eval": "validation", "test": "test"}
        return {"eval": "held out of train", "dev": "validation", "test": "test"}

    def _check(self, found: Mapping[str, Any]) -> None:
        """Checks that what the arguments use was found."""
        args = self.args
        cut = self.data_args.validation_split_percentage is not None and is_used("eval", args)
        scores = "do_eval" if args.do_eval else f"eval_strategy {args.eval_strategy.value}"
        for wanted, prefix, what in (
            (args.do_train, "train", "do_train needs training data: give --train_file"),
            (cut, "train", "validation_split_percentage needs training data: give --train_file"),
            (not cut and is_used("eval", args), "eval", f"{scores} needs validation data: give --validation_file"),
            (args.do_predict, "test", "do_predict needs test data: give --test_file"),
        ):
            if wanted and prefix not in found:
                raise UserError(f"--{what}{self.other_sources}.")

    def _limited(self, prefix: str, data: Any) -> Any:
        most = most_samples(prefix, self.data_args)
        if most is None:
            return data
        if most < 1:
            raise UserError(f"{prefix}: at least one {self.unit} has to be left, not {most}.")
        return self.first(data, most)
