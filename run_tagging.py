#!/usr/bin/env python
"""
Trains any model that classifies tokens to tag words, with parts of speech or named entities for example: a checkpoint,
or a family with fresh weights.
"""

from __future__ import annotations

from transformers import TrainingArguments

from msattn.training.cli import parse_arguments, run_cli, set_up_logging
from msattn.training.experiment import ExperimentArguments
from msattn.training.guiding_arguments import GuidingArguments
from msattn.training.scratch import ScratchArguments
from msattn.training.study import run_experiment
from msattn.training.tagging import TaggingDataArguments, TaggingModelArguments, tagging_experiment


def main() -> None:
    model_args, data_args, scratch_args, experiment_args, guiding_args, training_args = parse_arguments(
        (
            TaggingModelArguments,
            TaggingDataArguments,
            ScratchArguments,
            ExperimentArguments,
            GuidingArguments,
            TrainingArguments,
        )
    )
    set_up_logging(training_args)
    experiment = tagging_experiment(model_args, data_args, scratch_args, training_args, guiding_args.needs_words)
    run_experiment(experiment, training_args, experiment_args, guiding_args)


if __name__ == "__main__":
    run_cli(main)
