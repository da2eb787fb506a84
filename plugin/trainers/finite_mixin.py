"""Stops a training whose loss or weights are not finite any more, before the model is saved."""

from __future__ import annotations

import math
from typing import Any

import torch
from transformers import Trainer

from msattn.errors import UserError


class FiniteMixin(Trainer):
    """
    A mixin for [`Trainer`] that raises `UserError` if a logged loss, or a weight to be saved, is NaN or infinite.

    Earlier checkpoints stay as they are. Only a loss that is logged and a model that is saved are looked at, so a GPU
    does not wait at each step. `logging_nan_inf_filter`, which hides such losses, is turned off.

    Args:
        *args: Positional arguments of [`Trainer`].
        **kwargs: Keyword arguments of [`Trainer`].
    """

    def __init__(self, *args: Any, **kwargs: Any):
        super().__init__(*args, **kwargs)
        self.args.logging_nan_inf_filter = False

    def log(self, logs: dict[str, float], *args: Any, **kwargs: Any) -> None:
        """
        As in [`Trainer`].

        Raises:
            UserError: The training loss is NaN or infinite.
        """
        super().log(logs, *args, **kwargs)
        for name in ("loss", "train_loss"):
            value = logs.get(name)
            if isinstance(value, float) and not math.isfinite(value):
                raise UserError(self._diverged(f"the loss is {value}"))

    def save_model(self, *args: Any, **kwargs: Any) -> None:
        """
        As in [`Trainer`].

        Raises:
            UserError: A weight is NaN or infinite. Nothing is written.
        """
        self._check_weights()
        super().save_model(*args, **kwargs)

    def _save_checkpoint(self, *args: Any, **kwargs: Any) -> None:
        self._check_weights()
        super()._save_checkpoint(*args, **kwargs)

    def _check_weights(self) -> None:
        with torch.no_grad():
            # Under FSDP a process looks at its own part.
            parts = (getattr(weight, "to_local", lambda weight=weight: weight)() for weight in self.model.parameters())
            finite = [part.isfinite().all().to(self.args.device) for part in parts if part.is_floating_point()]
            # One value crosses from the device, and all processes stop together.
            every = self.accelerator.gather(torch.stack(finite).all().reshape(1)).all()
        if not every:
            raise UserError(self._diverged("a weight is NaN or infinite"))

    def _diverged(self, what: str) -> str:
        return (
            f"step {self.state.global_step}: {what}, at a learning rate of {self.args.learning_rate:g}; lower "
            f"--learning_rate or --max_grad_norm. What {self.args.output_dir} held before is unchanged."
        )
