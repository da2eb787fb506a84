"""The base class of tasks: arguments, data, model, metrics and model card. [`Experiment`] trains them."""

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
from transformers.utils import logging

from msattn.arguments.data_arguments import DataArguments
from msattn.arguments.pretrained import ModelArguments
from msattn.command_line import existing_file
from msattn.errors import UserError
from msattn.guiding.guiding_arguments import GuidingArguments
from msattn.tasks.model_card import ModelCardFacts
from msattn.tasks.sentence_stream import SentenceStream
from msattn.tasks.splits import hold_out, is_used, most_samples, used_splits
from msattn.trainers.fine_tuning_trainer import FineTuningTrainer
from msattn.training.guiding_mixin import GuidingMixin
from msattn.training.unknown_tokens import warn_of_unknown

logger = logging.get_logger(__name__)


class GuidedFineTuningTrainer(GuidingMixin, FineTuningTrainer):
    """A [`FineTuningTrainer`] with attention guiding."""

    def progress(self) -> dict[str, Any]:
        return {**super().progress(), "guiding": self._guided.record.state()}

    def go_on(self, progress: Mapping[str, Any]) -> None:
        super().go_on(progress)
        self._guided.record.load_state(progress["guiding"], self.args.device)


class Task(ABC):
    """
    A task that is set up from command-line arguments. Call [`Task.load`] before any other method.

    Args:
        model_args (`ModelArguments`): Names the checkpoint.
        data_args (`DataArguments`): Names the data.
        args (`TrainingArguments`): Determines which splits are read.
        guiding (`GuidingArguments`): Determines whether the training data are encoded with their words.

    Attributes:
        data (`dict[str, Any]`): The data by metric prefix, as read.
        encoded (`dict[str, datasets.Dataset]`): The model inputs by metric prefix.
        tokenizer (`PreTrainedTokenizerBase`): Pads the batches and is saved with the model; set by `load`.
    """

    #: The argument dataclasses, in the order of the constructor.
    argument_classes: ClassVar[Sequence[type]]
    #: Whether the task supports attention guiding.
    guided: ClassVar[bool] = True
    #: Whether [`Task.calibrate`] fits something.
    calibrates: ClassVar[bool] = False
    #: Arguments other than files that name data, for error messages.
    other_sources: ClassVar[str] = ""
    #: The unit of the data, for error messages.
    unit: ClassVar[str] = "example"

    #: The `compute_loss_func` of [`Trainer`]; `None` for the loss of the model.
    loss: Callable[..., torch.Tensor] | None = None

    tokenizer: PreTrainedTokenizerBase

    def __init__(
        self, model_args: ModelArguments, data_args: DataArguments, args: TrainingArguments, guiding: GuidingArguments
    ):
        self.model_args, self.data_args, self.args, self.guiding = model_args, data_args, args, guiding
        self.data: dict[str, Any] = {}
        self.encoded: dict[str, Dataset] = {}

    # Every task implements these.

    @abstractmethod
    def read(self, splits: Collection[str]) -> dict[str, Any]:
        """
        Reads the data.

        Args:
            splits (`Collection[str]`): Some of `"train"`, `"validation"` and `"test"`.

        Returns:
            `dict[str, Any]`: The data of the splits that exist, by metric prefix.
        """

    @abstractmethod
    def encode(self, prefix: str, data: Any) -> Dataset:
        """Encodes the data of a metric prefix as model inputs, with the column `labels` if they are labelled."""

    @abstractmethod
    def model(self) -> PreTrainedModel:
        """Creates the model to train or evaluate. The random seed is set by the caller."""

    @abstractmethod
    def metrics(self, prediction: EvalPrediction) -> dict[str, float]:
        """Computes the metrics of predictions."""

    @abstractmethod
    def card(self) -> ModelCardFacts:
        """The task-specific parts of the model card."""

    @abstractmethod
    def write_predictions(self, prefix: str, predictions: np.ndarray, folder: Path) -> None:
        """Writes the predictions for a metric prefix, and a report if they are labelled."""

    @abstractmethod
    def prepare(self, data: Mapping[str, Any]) -> None:
        """Collects from the data what the model needs, such as the labels."""

    # A task may override these.

    def make_tokenizer(self) -> PreTrainedTokenizerBase:
        """Creates the tokenizer after the data are read, for tasks whose vocabulary depends on them."""
        return self.tokenizer

    @property
    def domains(self) -> Mapping[str, Task]:
        """Tasks by domain to run instead of this one as a study; empty for none."""
        return {}

    @property
    def collator_class(self) -> Callable[..., Any]:
        """The class of the data collator, called with the tokenizer and `pad_to_multiple_of`."""
        return DataCollatorWithPadding

    @property
    def trainer_class(self) -> Callable[..., GuidedFineTuningTrainer]:
        """The class of the Trainer."""
        return GuidedFineTuningTrainer

    def calibrate(self, trainer: GuidedFineTuningTrainer, dataset: Dataset) -> None:
        """Fits after training what turns the outputs of the model into answers, on the first validation set."""
        return None

    def recall(self, trainer: GuidedFineTuningTrainer, folder: Path) -> None:
        """Takes what `calibrate` fitted from the folder of a finished run."""
        return None

    def further_metrics(self, trainer: GuidedFineTuningTrainer, prefix: str) -> dict[str, float]:
        """Metrics of the data of a metric prefix that need other predictions, without the prefix."""
        return {}

    def predict_stream(
        self, trainer: Any, prefix: str, stream: SentenceStream, depends_on: Sequence
    ) -> dict[str, float]:
        """
        Predicts data that `encode` leaves in their file, writes the predictions and returns the metrics.

        Args:
            trainer (`Trainer`): The trainer of the task.
            prefix (`str`): The metric prefix.
            stream (`SentenceStream`): The data.
            depends_on (`Sequence`): What the predictions depend on beside the weights, such as the arguments.
        """
        raise NotImplementedError

    def train_groups(self) -> Sequence | None:
        """The group of each training example, such as its query; subsets never split a group. `None` for no groups."""
        return None

    def strata(self, data: Any) -> Sequence | None:
        """The label of each example for a stratified split; `None` for an unstratified one."""
        return None

    def hold_out(self, data: Any) -> tuple[Any, Any]:
        """Splits the training data by `--validation_split_percentage` into a training and a held-out part."""
        percentage = self.data_args.validation_split_percentage or 0
        return hold_out(data, percentage, self.data_args.split_seed, self.strata(data))

    def first(self, data: Any, count: int) -> Any:
        """The first `count` examples of the data."""
        return data.select(range(min(count, len(data))))

    # All tasks share these.

    @property
    def scored(self) -> list[str]:
        """The metric prefixes of the data that are evaluated or predicted."""
        return [prefix for prefix in self.data if prefix != "train"]

    def load(self) -> dict[str, Dataset]:
        """
        Reads and encodes the splits that the run uses.

        With `--validation_split_percentage`, the held-out part has the prefix `eval`, and the validation data `dev`.

        Returns:
            `dict[str, datasets.Dataset]`: Model inputs by metric prefix. The first validation set selects the model.

        Raises:
            UserError: None of `--do_train`, `--do_eval` and `--do_predict` is set, a split that they need is missing,
                or a file or label is invalid.
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
            if isinstance(self.encoded[prefix], Dataset):
                warn_of_unknown(prefix, self.encoded[prefix], self.tokenizer)
        return self.encoded

    def file(self, split: str) -> str | None:
        """
        The path of a split's file; `None` if it is not given.

        Raises:
            UserError: The file does not exist.
        """
        return existing_file(getattr(self.data_args, f"{split}_file"), f"{split}_file")

    def card_splits(self) -> dict[str, str]:
        """The names of the splits in the model card, by metric prefix."""
        if self.data_args.validation_split_percentage is None:
            return {"eval": "validation", "test": "test"}
        return {"eval": "held out of train", "dev": "validation", "test": "test"}

    def _check(self, found: Mapping[str, Any]) -> None:
        """Raises `UserError` if a split that the run needs is missing."""
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
        test, validation = self.data_args.test_file, self.data_args.validation_file
        same = test and test in (validation if isinstance(validation, list) else [validation])  # a list of treebanks
        if same and args.do_train and args.do_predict and is_used("eval", args) and not cut:
            logger.warning(
                "--validation_file and --test_file are the same file: what is chosen or fitted on it makes its test "
                "scores too good."
            )

    def _limited(self, prefix: str, data: Any) -> Any:
        most = most_samples(prefix, self.data_args)
        if most is None:
            return data
        if most < 1:
            raise UserError(f"{prefix}: at least one {self.unit} has to be left, not {most}.")
        kept = self.first(data, most)
        labels = self.strata(data) if prefix == "train" else None
        if labels is not None and (lost := len({*labels} - {*(self.strata(kept) or ())})):
            logger.warning(
                f"The first {most} {self.unit}s lack {lost} of the {len({*labels})} labels of the training data: "
                "shuffle the file, or take more."
            )
        return kept
