"""A Trainer whose new layers may learn at a rate of their own, and whose batches are of like lengths."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.compute as pc
import torch
from accelerate.utils.operations import ignorant_find_batch_size
from datasets import Dataset
from torch.utils.data import Sampler
from transformers import Trainer
from transformers.trainer_pt_utils import LengthGroupedSampler
from transformers.trainer_utils import PredictionOutput

# The label of what has none.
IGNORED = -100


class AccumulatingTrainer(Trainer):
    """
    A [`Trainer`] whose accumulated gradients are those of one large batch, also where the batches differ in size.

    Where the loss is a mean over what a batch has labels for, examples or tokens, the batch counts by their number.
    """

    model_accepts_loss_kwargs: bool

    def __init__(self, *args: Any, **kwargs: Any):
        super().__init__(*args, **kwargs)
        # Of the step: how many examples it has, and how many labels.
        self._examples: int | None = None
        self._labels: torch.Tensor | int = 1
        self._knows_the_loss = False
        # The Trainer divides by the batches that it accumulates. With Transformers 5.5, Accelerate does so once more.
        self.accelerator.gradient_accumulation_steps = 1

    def get_batch_samples(self, *args: Any) -> tuple[list, torch.Tensor | int | None]:
        batches, items = super().get_batch_samples(*args)
        self._examples = sum(_examples(batch) for batch in batches)
        self._labels = sum(self._labelled(batch) for batch in batches)
        return batches, items

    def compute_loss(
        self,
        model: torch.nn.Module,
        inputs: dict[str, Any],
        return_outputs: bool = False,
        num_items_in_batch: torch.Tensor | int | None = None,
    ) -> torch.Tensor | tuple[torch.Tensor, Any]:
        if model.training and num_items_in_batch is not None:
            self._look_at_the_loss(model, inputs, num_items_in_batch)
        divisor = self.divisor(num_items_in_batch) if model.training else 1
        labels = self._labelled(inputs)
        loss, outputs = super().compute_loss(model, inputs, True, num_items_in_batch)
        if divisor > 1 and self._examples is not None:
            loss = loss * divisor * labels / self._labels
        return (loss, outputs) if return_outputs else loss

    def share(self, inputs: dict[str, Any]) -> float:
        """The part of the step's examples that this batch has."""
        if self._examples is None:
            return 1 / self.args.gradient_accumulation_steps
        return _examples(inputs) / self._examples

    def divisor(self, num_items_in_batch: torch.Tensor | int | None) -> int:
        """What [`Trainer.training_step`] divides the loss by: nothing, if it is a share of the whole step already."""
        scaled = getattr(self, "loss_is_scaled_for_ga", None)
        if scaled is None:
            counts = self.model_accepts_loss_kwargs and num_items_in_batch is not None
            scaled = counts or self.compute_loss_func is not None
        return 1 if scaled else self.current_gradient_accumulation_steps

    def _labelled(self, batch: dict[str, Any]) -> torch.Tensor | int:
        """How many labels a batch has: classes, of examples or of tokens. Or, where there are others, its examples."""
        labels = batch.get(self.label_names[0]) if self.label_names else None
        if not isinstance(labels, torch.Tensor) or labels.is_floating_point():
            return _examples(batch)
        return (labels != IGNORED).sum().clamp_min(1)

    def _look_at_the_loss(
        self, model: torch.nn.Module, inputs: dict[str, Any], num_items_in_batch: torch.Tensor | int
    ) -> None:
        """
        Finds out whether the model's loss is a mean over its batch, although `forward` takes any keyword and so seems
        to divide by `num_items_in_batch`. Most classifiers are so; the Trainer takes it for a share of the whole step.
        """
        alone = self.args.gradient_accumulation_steps == self.args.world_size == 1
        if self._knows_the_loss or alone or not self.model_accepts_loss_kwargs or self.compute_loss_func is not None:
            return
        modes = [(module, module.training) for module in model.modules()]
        model.eval()
        with torch.no_grad():
            few, many = (
                super(AccumulatingTrainer, self).compute_loss(model, dict(inputs), False, items)
                for items in (num_items_in_batch, 2 * num_items_in_batch)
            )
        for module, training in modes:
            module.training = training
        if few.isfinite() and few != 0:  # a batch without labels tells nothing
            self.model_accepts_loss_kwargs = not torch.equal(few, many)
            self._knows_the_loss = True


def _examples(batch: dict[str, Any]) -> int:
    return ignorant_find_batch_size(batch) or 1


class FineTuningTrainer(AccumulatingTrainer):
    r"""
    A [`Trainer`] for an encoder with freshly initialised layers above it, which often want a higher learning rate.

    Args:
        new_layers_learning_rate (`float`, *optional*):
            Learning rate of every parameter that is not part of the pre-trained encoder; `args.learning_rate` if
            `None`. Schedule and weight decay are those of the others.
        **kwargs: Arguments of [`Trainer`].
    """

    def __init__(self, *args: Any, new_layers_learning_rate: float | None = None, **kwargs: Any):
        super().__init__(*args, **kwargs)
        self.new_layers_learning_rate = new_layers_learning_rate
        if self.args.hub_token is not None:
            self.args.hub_token = UnsavedToken(self.args.hub_token)

    def create_optimizer(self, *args: Any) -> torch.optim.Optimizer:
        fresh = self.optimizer is None
        optimizer = super().create_optimizer(*args)
        if fresh and self.new_layers_learning_rate is not None:
            self._split_groups(optimizer, *args or (self.model,))
        return optimizer

    def _get_train_sampler(self, train_dataset: Dataset | None = None) -> Sampler | None:
        dataset = self.train_dataset if train_dataset is None else train_dataset
        if self.args.train_sampling_strategy != "group_by_length" or not isinstance(dataset, Dataset):
            return super()._get_train_sampler(train_dataset)
        seed = self.args.seed if self.args.data_seed is None else self.args.data_seed
        return RepeatableLengthGroupedSampler(
            self.args.train_batch_size * self.args.gradient_accumulation_steps,
            token_counts(dataset),
            lambda: seed + int(self.state.epoch or 0),
        )

    def _get_eval_sampler(self, eval_dataset: Dataset) -> Sampler:
        return LongestFirstSampler(eval_dataset)

    def predict(self, test_dataset: Dataset, *args: Any, **kwargs: Any) -> PredictionOutput:
        """As in [`Trainer`]: the predictions come in the order of the data set, whatever the order of the batches."""
        output = super().predict(test_dataset, *args, **kwargs)
        back = np.argsort(list(LongestFirstSampler(test_dataset)))
        labels = None if output.label_ids is None else output.label_ids[back]
        return PredictionOutput(output.predictions[back], labels, output.metrics)

    def create_model_card(self, *args: Any, **kwargs: Any) -> None:
        """As in [`Trainer`], unless there is a card: a push must not replace the fuller one of a script."""
        if not Path(self.args.output_dir, "README.md").exists():
            super().create_model_card(*args, **kwargs)

    def _split_groups(self, optimizer: torch.optim.Optimizer, model: torch.nn.Module) -> None:
        prefix = f"{self.model.base_model_prefix}."
        new = {
            parameter
            for name, parameter in model.named_parameters()
            if not name.removeprefix("module.").startswith(prefix) or f"{prefix}fusion." in name
        }
        for group in list(optimizer.param_groups):
            moved = [parameter for parameter in group["params"] if parameter in new]
            if moved:
                group["params"] = [parameter for parameter in group["params"] if parameter not in new]
                optimizer.add_param_group({**group, "params": moved, "lr": self.new_layers_learning_rate})


class UnsavedToken(str):
    """A token that is left out where a Trainer saves its arguments, which are pushed with the model."""

    def __reduce__(self) -> tuple[type[None], tuple[()]]:
        return type(None), ()


def token_counts(dataset: Dataset) -> list[int]:
    """The length of `input_ids` in each row. Row by row, a `datasets.Dataset` takes seconds for this."""
    rows = dataset.select_columns("input_ids").with_format("arrow")[:]
    return pc.list_value_length(rows["input_ids"]).to_pylist()


class LongestFirstSampler(Sampler[int]):
    """
    Goes through a data set from its longest example to its shortest, so that a batch holds little padding.

    Args:
        dataset (`datasets.Dataset`): With the column `input_ids`.
    """

    def __init__(self, dataset: Dataset):
        lengths = token_counts(dataset)
        self.order = sorted(range(len(lengths)), key=lengths.__getitem__, reverse=True)

    def __iter__(self) -> Iterator[int]:
        return iter(self.order)

    def __len__(self) -> int:
        return len(self.order)


class RepeatableLengthGroupedSampler(LengthGroupedSampler):
    """
    A [`LengthGroupedSampler`] whose order depends on one number alone.

    The original draws from the global generator. A run that is resumed within its second epoch, say, then sees
    another order than the run that was not interrupted, and so may each process of a distributed run.

    Args:
        batch_size (`int`): Examples of a step.
        lengths (`list[int]`): The length of each example.
        seed (`Callable`): The seed of the epoch that begins.
    """

    def __init__(self, batch_size: int, lengths: list[int], seed: Callable[[], int]):
        super().__init__(batch_size, lengths=lengths, generator=torch.Generator())
        self.seed = seed

    def __iter__(self) -> Iterator[int]:
        self.generator.manual_seed(self.seed())
        return super().__iter__()
