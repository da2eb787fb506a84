"""Arguments of further pre-training before the task."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class MaskedLMArguments:
    """Training of the encoder before the task."""

    mlm_epochs: float | None = field(
        default=None,
        metadata={"help": "First train the encoder so long as a masked language model, on the training text."},
    )
    mlm_learning_rate: float = field(default=5e-5, metadata={"help": "Learning rate of that."})
