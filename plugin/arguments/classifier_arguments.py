"""Arguments for the classification head of a checkpoint."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class ClassifierArguments:
    """How to treat the classification head of the checkpoint."""

    ignore_mismatched_sizes: bool = field(
        default=False,
        metadata={
            "help": "Re-initialize the classification head if the checkpoint's has a different number of labels."
        },
    )
