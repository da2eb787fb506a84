"""How many steps a training takes, and whether they are enough to learn anything."""

from __future__ import annotations

import math

from torch import nn
from transformers import TrainingArguments
from transformers.utils import logging

logger = logging.get_logger(__name__)

# New layers on an encoder: fewer steps at the usual rates leave them near the answer for the most frequent label.
FEW = 100


def training_steps(args: TrainingArguments, examples: int) -> int:
    """The steps of a training with so many examples."""
    batch = args.train_batch_size * args.world_size * args.gradient_accumulation_steps
    return args.max_steps if args.max_steps > 0 else math.ceil(math.ceil(examples / batch) * args.num_train_epochs)


def warn_of_few_steps(args: TrainingArguments, model: nn.Module, examples: int, least: int = FEW) -> None:
    """
    Warns if a training of new layers is too short to be judged by its scores.

    Args:
        args (`TrainingArguments`): The training arguments.
        model (`PreTrainedModel`): The model. Without `new_weights`, which [`load_model`] sets, all of it is new.
        examples (`int`): The number of training examples.
        least (`int`, *optional*): The steps below which it warns.
    """
    steps = training_steps(args, examples)
    if args.do_train and steps < least and getattr(model, "new_weights", True):
        way = "--max_steps" if args.max_steps > 0 else "--num_train_epochs"
        logger.warning(
            f"{steps} steps are few: new layers may still answer little else than the most frequent label. {least} or "
            f"more are usual; raise {way} or --learning_rate, or lower --per_device_train_batch_size."
        )
