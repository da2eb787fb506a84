"""A Trainer for pre-trained encoders: a separate learning rate for new layers, and batches with little padding."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from datasets import Dataset
from torch.utils.data import DataLoader, Sampler
from transformers import ProgressCallback, Trainer
from transformers.trainer_utils import PredictionOutput

from msattn.errors import UserError
from msattn.trainers.finite_mixin import FiniteMixin
from msattn.trainers.named_progress import NamedProgress
from msattn.trainers.resumption import ResumableMixin
from msattn.trainers.unsaved_token import UnsavedToken
from msattn.training.accumulation import AccumulationMixin
from msattn.training.length_samplers import LongestFirstSampler, RepeatableLengthGroupedSampler, token_counts


class FineTuningTrainer(FiniteMixin, AccumulationMixin, ResumableMixin, Trainer):
    r"""
    A [`Trainer`] with separate learning rates for the randomly initialized layers above a pre-trained encoder, and for
    the token embeddings.

    It stops if the loss or a weight becomes NaN or infinite; see [`FiniteMixin`].

    Args:
        *args: Positional arguments of [`Trainer`].
        new_layers_learning_rate (`float`, *optional*):
            Learning rate of the new layers: all parameters outside the base model, and those of the sub-modules listed
            in the `new_layers` attribute of the model class. Schedule and weight decay are shared with the other
            parameters. Default: `args.learning_rate`.
        embedding_learning_rate (`float`, *optional*):
            Learning rate of the token embeddings; 0 freezes them. Default: `args.learning_rate`.
        **kwargs: Keyword arguments of [`Trainer`].

    Raises:
        UserError: Transformers or Accelerate refuse a training argument, or the package that it needs is missing.
    """

    def __init__(
        self,
        *args: Any,
        new_layers_learning_rate: float | None = None,
        embedding_learning_rate: float | None = None,
        **kwargs: Any,
    ):
        with _refused_arguments():
            super().__init__(*args, **kwargs)
        for callback in [*self.callback_handler.callbacks]:
            if type(callback) is ProgressCallback:  # not that of a notebook, or the user's own
                self.pop_callback(callback)
                self.add_callback(NamedProgress())
        self.new_layers_learning_rate = new_layers_learning_rate
        self.embedding_learning_rate = embedding_learning_rate
        if embedding_learning_rate == 0:  # saves their gradients, too
            self.model.get_input_embeddings().requires_grad_(False)
        if self.args.hub_token is not None:
            self.args.hub_token = UnsavedToken(self.args.hub_token)
        plugin = getattr(self.accelerator.state, "fsdp_plugin", None)
        if plugin is not None and plugin.transformer_cls_names_to_wrap is None:
            plugin.transformer_cls_names_to_wrap = _blocks(self.model)

    def create_optimizer(self, *args: Any) -> torch.optim.Optimizer:
        fresh = self.optimizer is None
        with _refused_arguments():
            optimizer = super().create_optimizer(*args)
        if fresh:
            model = args[0] if args else self.model
            for belongs, rate in (
                (_is_new, self.new_layers_learning_rate),
                (_is_embedding, self.embedding_learning_rate),
            ):
                if rate is not None:
                    named = ((name.removeprefix("module."), tensor) for name, tensor in model.named_parameters())
                    _move(optimizer, {tensor for name, tensor in named if belongs(name, self.model)}, rate)
        return optimizer

    def create_scheduler(self, *args: Any, **kwargs: Any) -> torch.optim.lr_scheduler.LRScheduler:
        with _refused_arguments():
            return super().create_scheduler(*args, **kwargs)

    def get_train_dataloader(self) -> DataLoader:
        with _refused_arguments():
            return super().get_train_dataloader()

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

    def prediction_step(self, *args: Any, **kwargs: Any) -> tuple[Any, Any, Any]:
        loss, logits, labels = super().prediction_step(*args, **kwargs)
        # Some models, such as T5, return further tensors behind the logits.
        return loss, logits[0] if isinstance(logits, tuple) else logits, labels

    def predict(self, test_dataset: Dataset, *args: Any, **kwargs: Any) -> PredictionOutput:
        """As in [`Trainer`]. The predictions are in dataset order, although the batches are sorted by length."""
        output = super().predict(test_dataset, *args, **kwargs)
        back = np.argsort(list(LongestFirstSampler(test_dataset)))
        labels = None if output.label_ids is None else output.label_ids[back]
        return PredictionOutput(output.predictions[back], labels, output.metrics)

    def create_model_card(self, *args: Any, **kwargs: Any) -> None:
        """As in [`Trainer`], but keeps an existing `README.md`, such as the detailed card of a script."""
        if not Path(self.args.output_dir, "README.md").exists():
            super().create_model_card(*args, **kwargs)


@contextmanager
def _refused_arguments() -> Iterator[None]:
    """Turns what Transformers and its libraries raise for wrong training arguments into a `UserError`."""
    try:
        yield
    except (ImportError, TypeError, ValueError) as error:
        raise UserError(str(error) if isinstance(error, UserError) else f"training arguments: {error}") from error


def _move(optimizer: torch.optim.Optimizer, parameters: set[torch.nn.Parameter], learning_rate: float) -> None:
    """Moves parameters to groups of their own, with this learning rate."""
    for group in list(optimizer.param_groups):
        moved = [parameter for parameter in group["params"] if parameter in parameters]
        if moved:
            group["params"] = [parameter for parameter in group["params"] if parameter not in parameters]
            optimizer.add_param_group({**group, "params": moved, "lr": learning_rate})


def _blocks(model: Any) -> list[str]:
    """The classes of blocks that the model names, but those around the embeddings, which accelerate shards itself."""
    embeddings = model.get_input_embeddings()
    found = {type(module).__name__: module for module in model.modules()}
    named = found.keys() & set(model._no_split_modules or ())
    return sorted(name for name in named if all(part is not embeddings for part in found[name].modules()))


def _is_new(name: str, model: torch.nn.Module) -> bool:
    """Whether the parameter belongs to a new layer, not to the pre-trained encoder."""
    encoder = getattr(model, "_encoder_path", model.base_model_prefix)
    declared = tuple(f"{layer}." for layer in getattr(model, "new_layers", ()))
    return not name.startswith(f"{encoder}.") or name.startswith(declared)


def _is_embedding(name: str, model: Any) -> bool:
    """Whether the parameter belongs to the token embeddings."""
    embeddings = model.get_input_embeddings()
    return any(module is embeddings and name.startswith(f"{place}.") for place, module in model.named_modules())
