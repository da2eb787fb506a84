#!/usr/bin/env python
"""
Fine-tunes BERT with multi-scale fusion self-attention, or a baseline, for relation extraction.

Without arguments it runs a small demonstration on a corpus and an encoder that it makes itself.
"""

from __future__ import annotations

import sys
from pathlib import Path

from transformers import TrainingArguments

from msattn.training.cli import parse_arguments, run_cli, set_up_logging
from msattn.training.demo import demo_arguments, show_demo
from msattn.training.experiment import ExperimentArguments
from msattn.training.guiding_arguments import GuidingArguments
from msattn.training.multiscale import MultiScaleArguments
from msattn.training.relation_extraction import (
    RelationDataArguments,
    RelationModelArguments,
    relation_experiment,
)
from msattn.training.study import run_experiment


def main() -> None:
    demo = len(sys.argv) == 1
    model_args, head_args, data_args, experiment_args, guiding_args, training_args = parse_arguments(
        (
            MultiScaleArguments,
            RelationModelArguments,
            RelationDataArguments,
            ExperimentArguments,
            GuidingArguments,
            TrainingArguments,
        ),
        demo_arguments() if demo else None,
    )
    set_up_logging(training_args)
    experiment = relation_experiment(model_args, head_args, data_args, training_args, guiding_args.needs_words)
    run_experiment(experiment, training_args, experiment_args, guiding_args)
    if demo:
        show_demo(Path(training_args.output_dir))


if __name__ == "__main__":
    run_cli(main)
