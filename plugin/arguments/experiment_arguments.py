"""Arguments that say how often an experiment is run, and with what part of its data."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class ExperimentArguments:
    """How often and how long."""

    seeds: list[int] | None = field(
        default=None, metadata={"help": "Run once a seed, in folders seed-N, and report mean and spread."}
    )
    early_stopping_patience: int | None = field(
        default=None,
        metadata={"help": "Stop when --metric_for_best_model has not improved for so many evaluations."},
    )
    train_fraction: list[float] | None = field(
        default=None,
        metadata={
            "help": "Train with this part of the training data, such as 0.2. Several are a study: a run each, in "
            "folders fraction-N, a smaller part inside a larger one, and a table and a plot."
        },
    )
    guide_each_layer: bool = field(
        default=False,
        metadata={"help": "A study: a run a layer, in folders layer-N, that guides no other, and a table and a plot."},
    )
