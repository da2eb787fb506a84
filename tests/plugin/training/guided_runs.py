"""One step of SGD in a Trainer, whose gradients and logs tests compare."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from transformers import TrainingArguments

ONE_STEP = {
    "max_steps": 1,
    "per_device_train_batch_size": 6,
    "logging_steps": 1,
    "learning_rate": 1e-3,
    "max_grad_norm": 0.0,
    "optim": "sgd",
    "save_strategy": "no",
    "report_to": "none",
    "disable_tqdm": True,
    "use_cpu": True,
}


def one_step(folder: Path, **changes: Any) -> TrainingArguments:
    return TrainingArguments(str(folder), **{**ONE_STEP, **changes})


def moves(trainer) -> dict[str, torch.Tensor]:
    """By how much one step of SGD moved each weight, as multiples of the rate: the gradient."""
    before = {name: weight.detach().clone() for name, weight in trainer.model.named_parameters()}
    trainer.train()
    rate = trainer.args.learning_rate
    return {name: (before[name] - weight.detach()) / rate for name, weight in trainer.model.named_parameters()}


def logged(trainer) -> list[dict[str, float]]:
    return [line for line in trainer.state.log_history if "loss" in line]
