"""Further pre-training of an encoder as a masked language model on the training text of a task."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeVar

from datasets import Dataset
from transformers import (
    AutoModelForMaskedLM,
    DataCollatorForLanguageModeling,
    PreTrainedTokenizerBase,
    TrainingArguments,
    set_seed,
)
from transformers.utils import logging

from msattn.errors import UserError, refuse_below
from msattn.training.arguments import ModelArguments
from msattn.training.checkpoints import load_model
from msattn.training.learning_rates import for_another_trainer
from msattn.training.resuming import RECORD, RunRecord
from msattn.training.trainer import FineTuningTrainer

logger = logging.get_logger(__name__)

Arguments = TypeVar("Arguments", bound=ModelArguments)


@dataclass
class MaskedLMArguments:
    """Further pre-training of the encoder on the training text of the task."""

    mlm_epochs: float | None = field(
        default=None,
        metadata={
            "help": "Before fine-tuning, train the encoder as a masked language model on the training text for this "
            "many epochs."
        },
    )
    mlm_learning_rate: float = field(
        default=5e-5, metadata={"help": "Learning rate of the masked-language-model training."}
    )

    def __post_init__(self) -> None:
        refuse_below(self, mlm_epochs=0, mlm_learning_rate=0)
        if not self.mlm_epochs and self.mlm_learning_rate != MaskedLMArguments.mlm_learning_rate:
            raise UserError("--mlm_learning_rate is for --mlm_epochs: give the number of epochs, too.")


def train_masked_lm(
    model_args: Arguments,
    tokenizer: PreTrainedTokenizerBase,
    sentences: Sequence[Sequence[str]],
    mlm_args: MaskedLMArguments,
    args: TrainingArguments,
) -> Arguments:
    """
    Trains a checkpoint as a masked language model and saves it to the sub-folder `mlm` of the output folder.

    A resumed run takes the folder as it is if it is complete and of the same data and arguments.

    Args:
        model_args (`ModelArguments`): Names the checkpoint.
        tokenizer (`PreTrainedTokenizerBase`): The tokenizer of the checkpoint.
        sentences (`Sequence[Sequence[str]]`): The words of each sentence.
        mlm_args (`MaskedLMArguments`): Number of epochs and learning rate.
        args (`TrainingArguments`): All other training arguments, such as the batch size.

    Returns:
        `ModelArguments`: A copy of `model_args` that names the folder.

    Raises:
        UserError: The tokenizer has no mask token.
    """
    if tokenizer.mask_token is None:
        raise UserError(f"--mlm_epochs: the tokenizer of {model_args.model_name_or_path} has no token for a mask.")
    folder = Path(args.output_dir, "mlm")
    own = for_another_trainer(args)
    own.output_dir, own.learning_rate = str(folder), mlm_args.mlm_learning_rate
    own.num_train_epochs, own.max_steps = mlm_args.mlm_epochs, -1
    trained = replace(model_args, model_name_or_path=str(folder), model_revision="main")
    texts = tokenizer([" ".join(words) for words in sentences], truncation=True, return_overflowing_tokens=True)
    dataset = Dataset.from_dict(dict(texts))
    record, facts = folder / RECORD, RunRecord(own, dataset, model_args, mlm_args).facts
    if args.resume_from_checkpoint and record.exists() and json.loads(record.read_text(encoding="utf-8")) == facts:
        logger.info(f"{folder} is there already.")
        return trained
    set_seed(own.seed)
    trainer = FineTuningTrainer(
        load_model(AutoModelForMaskedLM, replace(model_args, config_overrides=None), tokenizer),
        own,
        train_dataset=dataset,
        processing_class=tokenizer,
        data_collator=DataCollatorForLanguageModeling(tokenizer),
        embedding_learning_rate=model_args.embedding_learning_rate,
    )
    trainer.train()
    trainer.save_model()
    if args.should_save:
        record.write_text(json.dumps(facts, indent=2) + "\n", encoding="utf-8")
    trainer.accelerator.wait_for_everyone()  # all processes go on from the folder
    return trained
