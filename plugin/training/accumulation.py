"""Gradient accumulation with the same gradients as one large batch."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import torch
from accelerate.utils.operations import ignorant_find_batch_size

from msattn.data.inputs.word_pieces import NO_LABEL
from msattn.modeling.evaluation_mode import evaluating

if TYPE_CHECKING:
    from transformers import Trainer as _Trainer
else:
    _Trainer = object  # the mixin works in front of any Trainer


class AccumulationMixin(_Trainer):
    """
    Makes gradient accumulation in any [`Trainer`] equal to one large batch, even if the batches differ in size.

    A loss that is a mean over the examples or tokens of a batch is weighted by the number of labels in the batch.

    Args:
        *args: Positional arguments of the Trainer.
        **kwargs: Keyword arguments of the Trainer.

    Example:

    ```python
    >>> class MyTrainer(AccumulationMixin, Trainer): ...
    ```
    """

    model_accepts_loss_kwargs: bool

    def __init__(self, *args: Any, **kwargs: Any):
        super().__init__(*args, **kwargs)
        # Number of examples and labels in the current training step.
        self._examples: int | None = None
        self._labels: torch.Tensor | int = 1
        self._knows_the_loss = False

    def get_batch_samples(self, *args: Any) -> tuple[list, torch.Tensor | int | None]:
        batches, items = super().get_batch_samples(*args)
        if all(isinstance(batch, Mapping) for batch in batches):  # not the prompts of TRL's GRPOTrainer
            self._examples = sum(batch_rows(batch) for batch in batches)
            self._labels = torch.as_tensor(sum(self._labelled(batch) for batch in batches)).clamp_min(1)
        # A model may divide by it.
        return batches, items if items is None else torch.as_tensor(items).clamp_min(1)

    def compute_loss(
        self,
        model: torch.nn.Module,
        inputs: dict[str, Any],
        return_outputs: bool = False,
        num_items_in_batch: torch.Tensor | int | None = None,
    ) -> torch.Tensor | tuple[torch.Tensor, Any]:
        if num_items_in_batch is not None:
            self._look_at_the_loss(model, inputs, num_items_in_batch)
        divisor = self.divisor(num_items_in_batch) if model.training else 1
        labels = self._labelled(inputs)
        # Outputs that nobody asked for may cost a Trainer a second pass, as TRL's.
        result = super().compute_loss(model, inputs, return_outputs, num_items_in_batch)
        loss, *outputs = result if return_outputs else (result,)
        if isinstance(labels, torch.Tensor):  # the mean over no labels is NaN
            loss = torch.where(labels.to(loss.device) > 0, loss, loss.nan_to_num())
        if divisor != 1 and self._examples is not None:
            loss = loss * (divisor * labels / self._labels)
        return (loss, *outputs) if return_outputs else loss

    def share(self, inputs: dict[str, Any]) -> float:
        """The fraction of the training step's examples that is in this batch."""
        if self._examples is None:
            return 1 / self.args.gradient_accumulation_steps
        return batch_rows(inputs) / self._examples

    def divisor(self, num_items_in_batch: torch.Tensor | int | None) -> int:
        """The number that [`Trainer.training_step`] divides the loss by; 1 if it is already scaled."""
        scaled = self.loss_is_scaled_for_ga
        if scaled is None:
            counts = self.model_accepts_loss_kwargs and num_items_in_batch is not None
            scaled = counts or self.compute_loss_func is not None
        return 1 if scaled else self.current_gradient_accumulation_steps

    def _labelled(self, batch: dict[str, Any]) -> torch.Tensor | int:
        """The number of class labels in a batch, of examples or tokens; without class labels, of its examples."""
        labels = batch.get(self.label_names[0]) if self.label_names else None
        if not isinstance(labels, torch.Tensor) or labels.is_floating_point():
            return batch_rows(batch)
        return (labels != NO_LABEL).sum()

    def _look_at_the_loss(
        self, model: torch.nn.Module, inputs: dict[str, Any], num_items_in_batch: torch.Tensor | int
    ) -> None:
        """
        Tests whether the model's loss depends on `num_items_in_batch`.

        The Trainer assumes so for every `forward` with `**kwargs`, but most classifiers ignore it and return a mean
        over the batch.
        """
        alone = self.args.gradient_accumulation_steps == self.args.world_size == 1 and self.args.n_gpu <= 1
        if self._knows_the_loss or alone or not self.model_accepts_loss_kwargs or self.compute_loss_func is not None:
            return
        recorded = copy.deepcopy(getattr(self, "_metrics", None))  # TRL's trainers count each pass
        with torch.no_grad(), evaluating(model):
            few, many = (
                super(AccumulationMixin, self).compute_loss(model, dict(inputs), False, items).mean()  # over GPUs
                for items in (num_items_in_batch, 2 * num_items_in_batch)
            )
        if recorded is not None:
            self._metrics = recorded
        # All processes decide alike; batches without labels are inconclusive.
        few, many = self.accelerator.gather(torch.stack([few, many])[None]).nan_to_num(0, 0, 0).sum(dim=0)
        if few != 0:
            self.model_accepts_loss_kwargs = not torch.equal(few, many)
            self._knows_the_loss = True


def batch_rows(batch: dict[str, Any]) -> int:
    """The number of examples of a batch."""
    # The first value says; sentence-transformers puts the name of a data set before it.
    return ignorant_find_batch_size([value for value in batch.values() if not isinstance(value, str)]) or 1
