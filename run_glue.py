#!/usr/bin/env python
"""
Trains a classifier of sentences or pairs: on top of a pre-trained encoder, with multi-scale fusion self-attention or
without, or from scratch, such as a Multi-Scale Transformer.
"""

from __future__ import annotations

from functools import partial

from transformers import TrainingArguments

from msattn.training.cli import parse_arguments, run_cli, set_up_logging
from msattn.training.experiment import ExperimentArguments
from msattn.training.glue import GlueModelArguments, glue_experiment
from msattn.training.glue_data import GlueDataArguments
from msattn.training.guiding_arguments import GuidingArguments
from msattn.training.multiscale import MultiScaleArguments
from msattn.training.scratch import ScratchArguments
from msattn.training.study import run_domains, run_experiment


def main() -> None:
    model_args, head_args, scratch_args, data_args, experiment_args, guiding_args, training_args = parse_arguments(
        (
            MultiScaleArguments,
            GlueModelArguments,
            ScratchArguments,
            GlueDataArguments,
            ExperimentArguments,
            GuidingArguments,
            TrainingArguments,
        )
    )
    set_up_logging(training_args)
    experiment = partial(
        glue_experiment, model_args, head_args, data_args, scratch_args, training_args, guiding_args.needs_words
    )
    if data_args.mtl16_dir:
        run_domains(experiment, data_args.domains, training_args, experiment_args, guiding_args)
    else:
        run_experiment(experiment(), training_args, experiment_args, guiding_args)


if __name__ == "__main__":
    run_cli(main)
