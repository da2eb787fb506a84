"""Runs a task from the command line; the entry point of `msattn train` and of the scripts `run_*.py`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from transformers import TrainingArguments

from msattn.arguments.experiment_arguments import ExperimentArguments
from msattn.command_line import parse_arguments, run_cli, set_up_logging
from msattn.guiding.guiding_arguments import GuidingArguments
from msattn.tasks.study import run_task
from msattn.tasks.task import Task


def run(task_class: type[Task], argv: Sequence[str] | None = None, prog: str | None = None) -> None:
    """
    Trains, evaluates and predicts according to the command line. User errors give one line and exit code 2.

    Args:
        task_class (`type[Task]`): The task, whose `argument_classes` are part of the command line.
        argv (`Sequence[str]`, *optional*): Command-line arguments. Default: those of the process.
        prog (`str`, *optional*): The name of the command in `--help`. Default: the name of the script.
    """

    def main() -> None:
        guided = (GuidingArguments,) if task_class.guided else ()
        types = (*task_class.argument_classes, ExperimentArguments, *guided, TrainingArguments)
        given = dict(zip(types, parse_arguments(types, argv, prog), strict=True))
        set_up_logging(given[TrainingArguments])
        own = [given[argument_class] for argument_class in task_class.argument_classes]
        task = task_class(*[*own, given[TrainingArguments], given.get(GuidingArguments, GuidingArguments())])
        run_task(task, given[ExperimentArguments], _draw)

    run_cli(main)


def _draw(studies: Sequence[Any], path: Path) -> None:
    # What draws takes memory and seconds to import, and only studies need it.
    from msattn.analysis.study_figure import plot_study

    plot_study(studies, path)
