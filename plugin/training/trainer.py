"""A Trainer whose new layers may learn at a rate of their own."""

from __future__ import annotations

from typing import Any

import torch
from transformers import Trainer


class FineTuningTrainer(Trainer):
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

    def create_optimizer(self, *args: Any) -> torch.optim.Optimizer:
        fresh = self.optimizer is None
        optimizer = super().create_optimizer(*args)
        if fresh and self.new_layers_learning_rate is not None:
            self._split_groups(optimizer, *args or (self.model,))
        return optimizer

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
