"""Distillation: a model learns what a fine-tuned one answers, so its training texts need no labels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from datasets import Dataset
from torch.nn.functional import cross_entropy, kl_div, log_softmax
from transformers import AutoModelForSequenceClassification, DataCollatorWithPadding, TrainingArguments
from transformers.utils import logging

from msattn.data.inputs.sentence_inputs import encode_sentences
from msattn.errors import UserError
from msattn.training.arguments import ModelArguments
from msattn.training.checkpoints import checkpoint_labels, load_config, load_model, load_tokenizer, max_tokens
from msattn.training.learning_rates import for_another_trainer
from msattn.training.trainer import FineTuningTrainer

logger = logging.get_logger(__name__)

TEMPERATURE = 2.0


class Teacher:
    """
    The checkpoint that answers, and its labels.

    Args:
        name (`str`): A folder, or a name on the Hub.
        trust_remote_code (`bool`, *optional*, defaults to `False`): Whether code of the Hub may run.

    Raises:
        UserError: It is not a classifier of sentences, or lacks weights.
    """

    def __init__(self, name: str, trust_remote_code: bool = False):
        self.source = ModelArguments(model_name_or_path=name, trust_remote_code=trust_remote_code)
        self.config = load_config(self.source)
        self.labels = checkpoint_labels(self.config, stock=True) or []
        if len(self.labels) < 2:
            raise UserError(
                f"--distill_from {name}: the checkpoint has no classes of sentences that could be learned."
            )

    def answered(
        self, rows: Dataset, columns: Sequence[str], labels: Sequence[str] | None, args: TrainingArguments
    ) -> Dataset:
        """The rows with its logits as labels, in the order of `labels`. It reads `columns` as a text or a pair."""
        if labels is None or sorted(labels) != sorted(self.labels):
            raise UserError(f"--distill_from: the teacher has the labels {', '.join(self.labels)}, the data others.")
        if len(columns) != len(read := getattr(self.config, "text_columns", None) or columns):
            raise UserError(
                f"--distill_from: the teacher reads {' and '.join(read)}, the data {' and '.join(columns)}."
            )
        tokenizer = load_tokenizer(self.source, self.config)
        rows = rows.remove_columns([name for name in rows.column_names if name == "label"])
        limit = max_tokens(None, tokenizer, self.config)
        encoded, cut = encode_sentences(rows, tokenizer, columns, limit)
        if cut:
            logger.warning(f"--distill_from: of {cut} of {len(rows)} texts, the teacher reads {limit} tokens only.")
        model = load_model(AutoModelForSequenceClassification, self.source, tokenizer, refuse_new_weights=True)
        collator = DataCollatorWithPadding(tokenizer)
        args = for_another_trainer(args)
        trainer = FineTuningTrainer(model, args, processing_class=tokenizer, data_collator=collator)
        logits = trainer.predict(encoded, metric_key_prefix="teacher").predictions
        order = [self.labels.index(label) for label in labels]
        return rows.add_column("label", logits[:, order].tolist())


def distillation_loss(
    outputs: Any, labels: torch.Tensor, num_items_in_batch: torch.Tensor | int | None = None
) -> torch.Tensor:
    r"""
    T² · KL(softmax(teacher / T) ‖ softmax(student / T)) with T = 2 ("Distilling the Knowledge in a Neural Network",
    Hinton et al., 2015); the cross-entropy of data with labels, such as development data.

    Args:
        outputs (`ModelOutput`): With `logits`, `(batch, classes)`.
        labels (`torch.Tensor`): Logits of the teacher, `(batch, classes)`, or class ids, `(batch,)`.
        num_items_in_batch (`torch.Tensor` or `int`, *optional*):
            Numbers in the labels of the step, over which the loss is a mean. Default: those of the batch.
    """
    logits = outputs["logits"].float()
    items = labels.numel() if num_items_in_batch is None else num_items_in_batch
    if not labels.is_floating_point():
        return cross_entropy(logits, labels, reduction="sum") / items
    student, teacher = (log_softmax(scores / TEMPERATURE, dim=-1) for scores in (logits, labels.float()))
    loss = kl_div(student, teacher, log_target=True, reduction="sum")
    return TEMPERATURE**2 * loss * labels.shape[-1] / items
