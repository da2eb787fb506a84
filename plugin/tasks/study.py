"""Studies: repeated experiments over training size, guided layer, dose of guiding or MTL-16 domain."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from transformers import TrainingArguments

from msattn.arguments.experiment_arguments import ExperimentArguments
from msattn.errors import UserError
from msattn.results import DomainStudy, Study, write_json
from msattn.tasks.checkpoints import resumes, takes_last
from msattn.tasks.experiment import Experiment, check_arguments
from msattn.tasks.folder_lock import lock_folder
from msattn.tasks.identity import arguments_of
from msattn.tasks.run_folder import RunFolder, written_folder
from msattn.tasks.task import Task
from msattn.writing import write_whole

# Fixed, so that runs with different seeds train on the same subset.
PART_SEED = 42

Draw = Callable[[Sequence[Study], Path], Any]


def run_task(task: Task, experiment_args: ExperimentArguments, draw: Draw) -> None:
    """
    Runs a task once, or once per point of the study that the arguments ask for.

    Each point of a study has its own sub-folder, such as `fraction-0.2`, `layer-0`, `dose-0.1` or the name of a
    domain. After each
    point, the table, the numbers (JSON) and the plot of the study are updated; domains have no plot. A resumed study
    keeps the figures of its finished points.

    Args:
        task (`Task`): The task.
        experiment_args (`ExperimentArguments`): Seeds, training fractions, guided layers and doses.
        draw (`Callable`): Plots a list of studies to a file; see [`~msattn.analysis.study_figure.plot_study`].

    Raises:
        UserError: A study lacks `--do_train` or scores, varies two things at once or is pushed to the Hub, another run
            writes to the folder, or an argument of the experiment is invalid.
    """
    check_arguments(task.args, experiment_args)
    with lock_folder(Path(task.args.output_dir)) if task.args.process_index == 0 else nullcontext():
        _run_task(task, experiment_args, draw)


def _run_task(task: Task, experiment_args: ExperimentArguments, draw: Draw) -> None:
    args, guiding = task.args, task.guiding
    if task.domains:
        _run_domains(task, experiment_args, draw)
        return
    fractions = sorted(set(experiment_args.train_fraction or ()))
    if fractions and not args.do_train:
        raise UserError("--train_fraction needs --do_train.")
    experiment = Experiment.of(task)
    parts = {fraction: training_part(experiment, fraction) for fraction in fractions or [1.0]}
    part = next(iter(parts.values()))
    if experiment_args.guide_doses:
        _run_study(
            Study("guiding_dose"), _runs_of_doses(part, experiment_args, len(parts)), task, experiment_args, draw
        )
    elif experiment_args.guide_each_layer:
        if len(parts) > 1:
            raise UserError("--guide_each_layer takes one --train_fraction: a study has one variable.")
        if not guiding.weights or not args.do_train:
            raise UserError("--guide_each_layer needs --do_train and a weight, such as --mdg_weight 0.01.")
        if guiding.guided_layers is not None:
            raise UserError("--guide_each_layer guides every layer in turn: leave out --guided_layers.")
        layers = range(getattr(task.model().config, "num_hidden_layers", 0))
        guided = {
            layer: partial(part.run, experiment_args=experiment_args, guiding=replace(guiding, guided_layers=[layer]))
            for layer in layers
        }
        _run_study(Study("guided_layer"), guided, task, experiment_args, draw)
    elif len(parts) > 1:
        runs = {fraction: partial(part.run, experiment_args=experiment_args) for fraction, part in parts.items()}
        _run_study(Study("train_fraction"), runs, task, experiment_args, draw)
    else:
        part.run(args, experiment_args)


def _run_domains(task: Task, experiment_args: ExperimentArguments, draw: Draw) -> None:
    for name in ("train_fraction", "guide_each_layer", "guide_doses"):
        if getattr(experiment_args, name):
            raise UserError(f"--mtl16_dir is a study over domains: leave out --{name}.")

    def run(domain: Task, placed: TrainingArguments) -> dict[str, float]:
        return Experiment.of(domain).run(placed, experiment_args)

    runs = {name: partial(run, domain) for name, domain in task.domains.items()}
    _run_study(DomainStudy(), runs, task, experiment_args, draw)


def _runs_of_doses(
    experiment: Experiment, experiment_args: ExperimentArguments, parts: int
) -> dict[float, Callable[[TrainingArguments], dict[str, float]]]:
    """One run per dose, in ascending order."""
    guiding, doses = experiment.task.guiding, sorted(set(experiment_args.guide_doses or ()))
    if parts > 1 or experiment_args.guide_each_layer:
        raise UserError(
            "--guide_doses takes one --train_fraction and no --guide_each_layer: a study has one variable."
        )
    if not guiding.weights or not experiment.task.args.do_train:
        raise UserError("--guide_doses needs --do_train and a weight, such as --mdg_weight 0.1.")
    if not all(0 <= dose < math.inf for dose in doses):
        raise UserError(f"--guide_doses must be 0 or positive numbers, got {' '.join(map(str, doses))}.")
    runs: dict[float, Callable[[TrainingArguments], dict[str, float]]] = {}
    for dose in doses:
        weights = {name: dose * getattr(guiding, name) for name in ("mdg_weight", "pdg_weight", "pattern_weight")}
        runs[dose] = partial(experiment.run, experiment_args=experiment_args, guiding=replace(guiding, **weights))
    return runs


def training_part(experiment: Experiment, fraction: float) -> Experiment:
    """
    The experiment on a random fraction of its training data. Smaller fractions are subsets of larger ones.

    Args:
        experiment (`Experiment`): The experiment. Its `train_groups` are not split.
        fraction (`float`): Fraction of the examples or groups, above 0 and at most 1.

    Raises:
        UserError: The fraction is out of range, or no example is left.
    """
    if not 0 < fraction <= 1:
        raise UserError(f"--train_fraction must be above 0 and at most 1, got {fraction}.")
    data = experiment.train_dataset
    if fraction == 1 or data is None:
        return experiment
    groups = np.asarray(range(len(data)) if experiment.train_groups is None else experiment.train_groups)
    order = np.random.default_rng(PART_SEED).permutation(np.unique(groups))
    drawn = np.flatnonzero(np.isin(groups, order[: round(fraction * len(order))]))
    if not len(drawn):
        raise UserError(f"--train_fraction {fraction} leaves none of the {len(data)} training examples.")
    return replace(experiment, datasets={**experiment.datasets, "train": data.select(drawn)})


def _run_study(
    study: Study,
    runs: Mapping[Any, Callable[[TrainingArguments], dict[str, float]]],
    task: Task,
    experiment_args: ExperimentArguments,
    draw: Draw,
) -> None:
    args = task.args
    if args.push_to_hub:
        raise UserError("--push_to_hub takes one model, and a study has many.")
    if not (args.do_eval or args.do_predict):
        raise UserError("a study needs scores: give --do_eval or --do_predict.")
    if resumes(args) and not takes_last(args):
        raise UserError("a study has many checkpoints: it is resumed with --resume_from_checkpoint last.")
    folder = Path(args.output_dir)
    identity = {"holds": study.variable, **arguments_of(task, args, experiment_args)}
    with written_folder(RunFolder(folder, identity, args, experiment_args)):
        for number, (value, run) in enumerate(runs.items(), start=1):
            if args.should_log:
                print(f"{study.variable} {value} ({number} of {len(runs)})", flush=True)
            placed = copy.copy(args)
            placed.output_dir = str(folder / study.point_folder(value))
            study.points.append({study.variable: value, **run(placed)})
            if not study.scores:
                raise UserError("a study needs scores, and there are none without labels.")
            if args.should_save:
                write_json(folder / f"{study.stem}.json", study.to_dict())
                write_whole(folder / f"{study.stem}.md", study.table() + "\n")
                if not isinstance(study, DomainStudy):
                    draw([study], folder / "study.png")
    if args.should_log:
        print(study.table())
