from __future__ import annotations

import subprocess
import sys
from dataclasses import fields
from importlib import import_module
from importlib.metadata import version
from pathlib import Path

import pytest

import msattn_command
from msattn_command import TASKS, main

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize("argv", [[], ["--help"], ["-h"]])
def test_the_commands_are_listed(argv, capsys):
    main(argv)
    listed = capsys.readouterr().out
    assert listed.startswith("usage: msattn COMMAND")
    assert [line.split()[0] for line in listed.splitlines()[2:]] == [
        *("train", "predict", "plot", "doubt", "app", "export", "demo", "--version")
    ]


def test_the_tasks_are_listed_and_each_has_its_script(capsys):
    main(["train"])
    listed = capsys.readouterr().out
    for task, (script, _) in TASKS.items():
        assert f"\n  {task} " in listed and f"; {script}.py" in listed
        assert "def main(argv: Sequence[str] | None = None)" in (ROOT / f"{script}.py").read_text()


def test_the_demonstration_has_help(capsys):
    main(["demo", "--help"])
    assert capsys.readouterr().out.startswith("usage: msattn demo\n")


def test_the_version(capsys):
    main(["--version"])
    assert capsys.readouterr().out.strip() == version("msattn")


@pytest.mark.parametrize(
    ("command", "shown"),
    [
        ("msattn_command.main(['train'])", "usage: msattn train"),
        ("msattn_command.main(['train', 'glue', '--help'])", "--head"),
        ("msattn_command.start('run_re.py', ['--seed', '1', '--outptu_dir', 'x'])", "did you mean --output_dir?"),
        ("msattn_command.start('run_re.py', ['--train-file=no.csv'])", "error: no.csv: the file cannot be read"),
        ("msattn_command.start('run_parsing.py', ['--train_file', 'setup.cfg', 'no.conllu'])", "error: no.conllu: "),
    ],
)
def test_help_and_mistyped_arguments_wait_for_no_import(command, shown):
    """torch alone takes longer than they should."""
    code = f"import atexit, sys, msattn_command; atexit.register(lambda: print(*sys.modules)); {command}"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert not {"torch", "numpy", "transformers", "msattn"} & set(run.stdout.splitlines()[-1].split())
    assert shown in run.stdout + run.stderr and run.returncode == (0 if shown in run.stdout else 2)


@pytest.mark.parametrize("script", [script for script, _ in TASKS.values()])
def test_arguments_are_known_without_imports(script, monkeypatch):
    asked: list[type] = []
    module = import_module(f"msattn.scripts.{script}")
    monkeypatch.setattr(module, "parse_arguments", lambda types, argv: asked.extend(types) or sys.exit())
    with pytest.raises(SystemExit):
        module.main([])
    known = msattn_command._fields(ROOT / f"{script}.py", [each.__name__ for each in asked])
    helps = {each.name: each.metadata.get("help", "") for types in asked for each in fields(types) if each.init}
    assert {*known} == {*helps}
    assert {name: node for name, node in known.items() if not msattn_command._help(node).startswith(helps[name])} == {}


def test_a_copy_that_reads_its_arguments_in_another_way_is_left_alone(tmp_path):
    copy = tmp_path / "copy.py"
    copy.write_text("from mine import MyArguments\n\nparse_arguments((MyArguments,))")
    msattn_command.start(copy, ["--whatever", "1"])


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["trian"], "error: there is no command trian; did you mean train?"),
        (["x"], "error: there is no command x; there are train, predict, plot, doubt, app, export, demo."),
        (["train", "relation"], "error: there is no task relation; did you mean relations?"),
        (["train", "relations", "--head", "x"], "error: argument --head: invalid choice"),
        (["predict", "model"], "error: the following arguments are required: --file"),
        (["analysis", "map"], "error: there is no command analysis; there are train, predict, plot, "),
        (["app"], "error: the following arguments are required: --model"),
        (["demo", "--seed", "1"], "error: there is no argument --seed; msattn demo takes none."),
        (["export", "tflite"], "error: there is no format tflite; there is onnx."),
    ],
)
def test_mistakes_end_in_one_sentence(argv, message, capsys):
    with pytest.raises(SystemExit) as stop:
        main(argv)
    (line,) = capsys.readouterr().err.splitlines()
    assert stop.value.code == 2 and line.startswith(message), line


def test_a_task_is_its_script(monkeypatch):
    ran = []
    monkeypatch.setattr("msattn.scripts.run_parsing.main", ran.append)
    main(["train", "parsing", "--seed", "3"])
    assert [list(argv) for argv in ran] == [["--seed", "3"]]


@pytest.mark.parametrize("argv", [["train", "glue"], ["demo"]])
def test_a_missing_extra_is_one_sentence(argv, monkeypatch, capsys):
    for name in ("sklearn", "sklearn.metrics"):
        monkeypatch.setitem(sys.modules, name, None)
    rooms = ("msattn.scripts", "msattn.metrics", "msattn.training", "msattn.demo")
    for name in [name for name in sys.modules if name.startswith(rooms)]:
        monkeypatch.delitem(sys.modules, name)
    with pytest.raises(SystemExit) as stop:
        main(argv)
    assert stop.value.code == 2
    assert capsys.readouterr().err == "error: the package sklearn is not installed: pip install 'msattn[train]'\n"
