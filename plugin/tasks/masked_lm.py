"""Further training of an encoder as a masked language model, on the text of a task."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import TypeVar

from datasets import Dataset
from transformers import (
    AutoModelForMaskedLM,
    DataCollatorForLanguageModeling,
    PreTrainedTokenizerBase,
    Trainer,
    TrainingArguments,
    set_seed,
)
from transformers.trainer_utils import IntervalStrategy, SaveStrategy
from transformers.utils import logging

from msattn.arguments.masked_lm_arguments import MaskedLMArguments
from msattn.arguments.pretrained import ModelArguments, load_model
from msattn.errors import UserError
from msattn.tasks.checkpoints import is_complete

logger = logging.get_logger(__name__)

Arguments = TypeVar("Arguments", bound=ModelArguments)


def train_masked_lm(
    model_args: Arguments,
    tokenizer: PreTrainedTokenizerBase,
    sentences: Sequence[Sequence[str]],
    mlm_args: MaskedLMArguments,
    args: TrainingArguments,
) -> Arguments:
    """
    Trains the encoder of a checkpoint on sentences, once for all seeds, and leaves it in the folder `mlm` of the
    output.

    Args:
        model_args (`ModelArguments`): Names the checkpoint.
        tokenizer (`PreTrainedTokenizerBase`): Its tokenizer.
        sentences (`Sequence[Sequence[str]]`): The words of each sentence.
        mlm_args (`MaskedLMArguments`): How long and how fast.
        args (`TrainingArguments`): What else there is to say, such as the size of a batch.

    Returns:
        `ModelArguments`: The same, naming what was trained.

    Raises:
        UserError: The encoder cannot be loaded, or the tokenizer masks nothing.
    """
    if not mlm_args.mlm_epochs or mlm_args.mlm_epochs < 0:
        raise UserError(f"--mlm_epochs must be above 0, got {mlm_args.mlm_epochs}.")
    if tokenizer.mask_token is None:
        raise UserError(f"--mlm_epochs: the tokenizer of {model_args.model_name_or_path} has no token for a mask.")
    folder = Path(args.output_dir) / "mlm"
    if args.resume_from_checkpoint and is_complete(folder):
        logger.info(f"{folder} is there already.")
    else:
        own = copy.copy(args)
        own.output_dir = str(folder)
        own.num_train_epochs, own.max_steps = mlm_args.mlm_epochs, -1
        own.learning_rate = mlm_args.mlm_learning_rate
        own.eval_strategy, own.save_strategy = IntervalStrategy.NO, SaveStrategy.NO
        own.load_best_model_at_end = own.push_to_hub = False
        set_seed(own.seed)
        texts = tokenizer([" ".join(words) for words in sentences], truncation=True, return_overflowing_tokens=True)
        # Without what only the model of the task knows.
        source = ModelArguments(**{each.name: getattr(model_args, each.name) for each in fields(ModelArguments)})
        trainer = Trainer(
            model=load_model(AutoModelForMaskedLM, source, len(tokenizer)),
            args=own,
            train_dataset=Dataset.from_dict(dict(texts)),
            processing_class=tokenizer,
            data_collator=DataCollatorForLanguageModeling(tokenizer),
        )
        trainer.train()
        trainer.save_model()
        # Comes last: without it the folder is not complete.
        trainer.save_state()
    return replace(model_args, model_name_or_path=str(folder), model_revision="main")
