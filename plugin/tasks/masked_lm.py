"""Further pre-training of an encoder as a masked language model on the training text of a task."""

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
from msattn.tasks.checkpoints import other_run, resumes
from msattn.tasks.identity import changed_arguments, rows_hash, weights_hash
from msattn.trainers.fingerprint import differences, read_fingerprint, torn_files, write_fingerprint
from msattn.trainers.finite_mixin import FiniteMixin

logger = logging.get_logger(__name__)

Arguments = TypeVar("Arguments", bound=ModelArguments)


class MaskedLMTrainer(FiniteMixin, Trainer):
    """A [`Trainer`] that stops if the loss or a weight becomes NaN or infinite."""


def train_masked_lm(
    model_args: Arguments,
    tokenizer: PreTrainedTokenizerBase,
    sentences: Sequence[Sequence[str]],
    mlm_args: MaskedLMArguments,
    args: TrainingArguments,
) -> Arguments:
    """
    Trains a checkpoint as a masked language model and saves it to the sub-folder `mlm` of the output folder.

    It runs once for all seeds. A resumed run reuses a complete `mlm` folder of the same data and arguments.

    Args:
        model_args (`ModelArguments`): Names the checkpoint.
        tokenizer (`PreTrainedTokenizerBase`): The tokenizer of the checkpoint.
        sentences (`Sequence[Sequence[str]]`): The words of each sentence.
        mlm_args (`MaskedLMArguments`): Number of epochs and learning rate.
        args (`TrainingArguments`): All other training arguments, such as the batch size.

    Returns:
        `ModelArguments`: A copy of `model_args` that names the trained checkpoint.

    Raises:
        UserError: `--mlm_epochs` is not positive, the tokenizer has no mask token, or the encoder cannot be loaded.
    """
    if not mlm_args.mlm_epochs or mlm_args.mlm_epochs < 0:
        raise UserError(f"--mlm_epochs must be above 0, got {mlm_args.mlm_epochs}.")
    if tokenizer.mask_token is None:
        raise UserError(f"--mlm_epochs: the tokenizer of {model_args.model_name_or_path} has no token for a mask.")
    folder = Path(args.output_dir) / "mlm"
    own = copy.copy(args)
    own.output_dir = str(folder)
    own.num_train_epochs, own.max_steps = mlm_args.mlm_epochs, -1
    own.learning_rate = mlm_args.mlm_learning_rate
    own.eval_strategy, own.save_strategy = IntervalStrategy.NO, SaveStrategy.NO
    own.load_best_model_at_end = own.push_to_hub = False
    texts = tokenizer([" ".join(words) for words in sentences], truncation=True, return_overflowing_tokens=True)
    dataset = Dataset.from_dict(dict(texts))
    identity = {
        **changed_arguments(own),
        "weights": weights_hash(model_args.model_name_or_path),
        "data.train": rows_hash(dataset),
    }
    before = read_fingerprint(folder) if resumes(args) else None
    changed = [] if before is None else differences(before["run"], identity)
    if changed:
        raise UserError(other_run(str(folder), changed, "give another --output_dir"))
    if before is not None and not torn_files(folder, before):
        logger.info(f"{folder} is there already.")
    else:
        set_seed(own.seed)
        # Drop the fields of task-specific subclasses, which a masked language model does not have.
        source = ModelArguments(**{each.name: getattr(model_args, each.name) for each in fields(ModelArguments)})
        trainer = MaskedLMTrainer(
            model=load_model(AutoModelForMaskedLM, source, len(tokenizer)),
            args=own,
            train_dataset=dataset,
            processing_class=tokenizer,
            data_collator=DataCollatorForLanguageModeling(tokenizer),
        )
        trainer.train()
        trainer.save_model()
        write_fingerprint(folder, [path for path in folder.iterdir() if path.is_file()], run=identity)
    return replace(model_args, model_name_or_path=str(folder), model_revision="main")
