"""Arguments of a classifier on a checkpoint."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class ClassifierArguments:
    """The classifier that the checkpoint has, if any."""

    ignore_mismatched_sizes: bool = field(
        default=False,
        metadata={"help": "Start from a model of another task, whose classifier has another number of labels."},
    )
