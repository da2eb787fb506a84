#!/usr/bin/env python
"""
Fine-tunes BERT with multi-scale fusion self-attention, or a baseline, on a GLUE task or on sentences of one's own.
"""

from __future__ import annotations

from transformers import TrainingArguments

from msattn.training.cli import parse_arguments, run_cli, set_up_logging
from msattn.training.experiment import ExperimentArguments
from msattn.training.glue import GlueDataArguments, GlueModelArguments, glue_experiment
from msattn.training.guiding import GuidingArguments
from msattn.training.multiscale import MultiScaleArguments
from msattn.training.study import run_experiment


def main() -> None:
    model_args, head_args, data_args, experiment_args, guiding_args, training_args = parse_arguments(
        (
            MultiScaleArguments,
            GlueModelArguments,
            GlueDataArguments,
            ExperimentArguments,
            GuidingArguments,
            TrainingArguments,
        )
    )
    set_up_logging(training_args)
    experiment = glue_experiment(model_args, head_args, data_args, training_args, guiding_args.needs_words)
    run_experiment(experiment, training_args, experiment_args, guiding_args)


if __name__ == "__main__":
    run_cli(main)
