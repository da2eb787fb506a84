"""Arguments for repeated runs, early stopping and studies."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated

from msattn.argument_values import Count, Range, Seed


@dataclass
class ExperimentArguments:
    """Seeds, early stopping and studies over training size, guided layer or dose of guiding."""

    seeds: list[Seed] | None = field(
        default=None,
        metadata={"help": "Train one model per seed, in sub-folders seed-N, and report mean and standard deviation."},
    )
    early_stopping_patience: Count | None = field(
        default=None,
        metadata={"help": "Stop training when --metric_for_best_model has not improved for this many evaluations."},
    )
    train_fraction: list[Annotated[float, Range(0, 1, above=True)]] | None = field(
        default=None,
        metadata={
            "help": "Train on this fraction of the training data, such as 0.2. Several values start a study: one run "
            "per fraction in fraction-N, nested subsets, and a table and a plot of the scores."
        },
    )
    guide_each_layer: bool = field(
        default=False,
        metadata={
            "help": "Start a study: one run per layer in layer-N, guiding only that layer, and a table and a plot of "
            "the scores."
        },
    )
    guide_doses: list[float] | None = field(
        default=None,
        metadata={
            "help": "Start a study: one run per dose in dose-N, a factor of all guiding weights (0 for none), and a "
            "table and a plot of the scores over the cosine of the attention maps."
        },
    )
    resume_anyway: bool = field(
        default=False,
        metadata={
            "help": "With --resume_from_checkpoint, go on from a checkpoint of other data, arguments or model. The "
            "model card says so."
        },
    )
    overwrite_output_dir: bool = field(
        default=False, metadata={"help": "Replace the results of another run in --output_dir."}
    )
