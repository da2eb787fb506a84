from __future__ import annotations

import ast
import subprocess
import sys
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


def test_the_version(capsys):
    main(["--version"])
    assert capsys.readouterr().out.strip() == version("msattn")


def test_help_imports_nothing_but_the_standard_library():
    """torch alone takes longer than help should."""
    code = "import sys, msattn_command; msattn_command.main(['train']); msattn_command.main([]); print(*sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = run.stdout.splitlines()[-1].split()
    assert not {"torch", "numpy", "transformers", "msattn"} & set(loaded)
    imported = [
        node for node in ast.parse(Path(msattn_command.__file__).read_text()).body if "Import" in type(node).__name__
    ]
    assert {getattr(node, "module", None) or node.names[0].name for node in imported} <= {
        *("__future__", "collections.abc", "difflib", "importlib", "importlib.metadata", "sys", "typing")
    }


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["trian"], "error: there is no command trian; did you mean train?"),
        (["x"], "error: there is no command x; there are train, predict, plot, doubt, app, export, demo."),
        (["train", "relation"], "error: there is no task relation; did you mean relations?"),
        (["train", "relations", "--head", "x"], "error: argument --head: invalid choice"),
        (["predict", "model"], "error: the following arguments are required: --file"),
        (["analysis", "map"], "error: msattn analysis is gone; use msattn plot maps."),
        (
            ["analysis", "probe"],
            "error: msattn analysis is gone; pictures: msattn plot; studies: the scripts in papers/",
        ),
        (["app"], "error: the following arguments are required: --model"),
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
