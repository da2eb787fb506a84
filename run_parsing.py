#!/usr/bin/env python
"""
Trains a dependency parser that reads all of BERT's attention, scores it and parses with it.
"""

from __future__ import annotations

from transformers import TrainingArguments

from msattn.training.cli import parse_arguments, run_cli, set_up_logging
from msattn.training.experiment import ExperimentArguments
from msattn.training.guiding_arguments import GuidingArguments
from msattn.training.masked_lm import MaskedLMArguments
from msattn.training.parsing import ParserArguments, ParsingDataArguments, parsing_experiment
from msattn.training.study import run_experiment


def main() -> None:
    model_args, data_args, mlm_args, experiment_args, training_args = parse_arguments(
        (ParserArguments, ParsingDataArguments, MaskedLMArguments, ExperimentArguments, TrainingArguments)
    )
    set_up_logging(training_args)
    experiment = parsing_experiment(model_args, data_args, mlm_args, training_args)
    run_experiment(experiment, training_args, experiment_args, GuidingArguments())


if __name__ == "__main__":
    run_cli(main)
