"""Arguments for further masked-language-model pre-training before fine-tuning."""

from __future__ import annotations

from dataclasses import dataclass, field

from msattn.argument_values import NotNegative, Positive


@dataclass
class MaskedLMArguments:
    """Further pre-training of the encoder on the training text of the task."""

    mlm_epochs: Positive | None = field(
        default=None,
        metadata={
            "help": "Before fine-tuning, train the encoder as a masked language model on the training text for this "
            "many epochs."
        },
    )
    mlm_learning_rate: NotNegative = field(
        default=5e-5, metadata={"help": "Learning rate of the masked-language-model training."}
    )
