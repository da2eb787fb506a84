"""A task from the command line, and what the five tasks share."""

from __future__ import annotations

import json
from dataclasses import fields

import pytest

from msattn.arguments.data_arguments import DataArguments
from msattn.arguments.relation_arguments import RelationDataArguments
from msattn.command_line import parse_arguments
from msattn.run import run
from msattn.tasks.dependency_parsing import DependencyParsing
from msattn.tasks.ranking import Ranking
from msattn.tasks.relation_extraction import RelationExtraction
from msattn.tasks.sequence_classification import SequenceClassification
from msattn.tasks.token_classification import TokenClassification

TASKS = [RelationExtraction, SequenceClassification, TokenClassification, DependencyParsing, Ranking]
every_task = pytest.mark.parametrize("task", TASKS, ids=lambda task: task.__name__)


@every_task
def test_the_same_thing_has_the_same_name(task):
    names = {field.name for argument_class in task.argument_classes for field in fields(argument_class)}
    assert {field.name for field in fields(DataArguments)} <= names
    assert {"max_seq_length", "model_name_or_path", "new_layers_learning_rate"} <= names


@every_task
def test_a_mistake_is_one_line(task, tmp_path, capsys):
    with pytest.raises(SystemExit) as stop:
        run(task, ["--output_dir", str(tmp_path), "--do_trian"])
    assert stop.value.code == 2
    assert capsys.readouterr().err == "error: there is no argument --do_trian; did you mean do_train?\n"


@every_task
def test_help_names_every_argument(task, capsys):
    with pytest.raises(SystemExit) as stop:
        run(task, ["--help"])
    shown = capsys.readouterr().out
    assert stop.value.code == 0
    assert all(f"--{name} " in shown for name in ("seeds", "split_seed", "max_seq_length", "learning_rate"))
    assert ("--mdg_weight " in shown) == task.guided


@pytest.mark.parametrize("name", ["max_seq_length", "max_length"])
def test_the_old_name_of_an_argument(name, tmp_path):
    (data_args,) = parse_arguments([RelationDataArguments], [f"--{name}", "64"])
    assert data_args.max_seq_length == 64
    file = tmp_path / "arguments.json"
    file.write_text(json.dumps({name: 32}))
    (data_args,) = parse_arguments([RelationDataArguments], [str(file)])
    assert data_args.max_seq_length == 32
