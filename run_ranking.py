#!/usr/bin/env python
"""
Fine-tunes a cross-encoder that ranks the candidates of a query anew, scores it, and writes its rankings.
"""

from __future__ import annotations

from transformers import TrainingArguments

from msattn.training.cli import parse_arguments, run_cli, set_up_logging
from msattn.training.experiment import ExperimentArguments
from msattn.training.guiding_arguments import GuidingArguments
from msattn.training.ranking import RankingDataArguments, RankingModelArguments, ranking_experiment
from msattn.training.study import run_experiment


def main() -> None:
    model_args, data_args, experiment_args, guiding_args, training_args = parse_arguments(
        (RankingModelArguments, RankingDataArguments, ExperimentArguments, GuidingArguments, TrainingArguments)
    )
    set_up_logging(training_args)
    experiment = ranking_experiment(model_args, data_args, training_args, guiding_args.needs_words)
    run_experiment(experiment, training_args, experiment_args, guiding_args)


if __name__ == "__main__":
    run_cli(main)
