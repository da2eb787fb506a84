"""
The command `msattn`.

A module of its own, since `msattn` itself imports torch, which takes seconds: `msattn --help` should not.
"""

from __future__ import annotations

import difflib
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from importlib.metadata import version
from typing import Any

# Script and description of each task. The wheel carries the scripts of the repository as they are.
TASKS = {
    "relations": ("run_re", "relations between entities"),
    "glue": ("run_glue", "classes of texts and pairs"),
    "tagging": ("run_tagging", "entities and parts of speech"),
    "parsing": ("run_parsing", "dependency trees"),
    "ranking": ("run_ranking", "cross-encoders for re-ranking"),
}
TRAIN_HELP = "\n".join(
    [
        "usage: msattn train TASK ... (msattn train TASK --help lists its arguments)",
        "",
        *(f"  {task:11}{description}; {script}.py" for task, (script, description) in TASKS.items()),
    ]
)
HELP = """usage: msattn COMMAND ...

  train       train, score and predict: msattn train relations --help
  predict     apply a checkpoint to a file: msattn predict MODEL FILE
  plot        draw attention, trees, relations, errors: msattn plot --help
  doubt       write sentences worth annotating: msattn doubt MODEL FILE
  app         show what checkpoints find in a text, in the browser: msattn app MODEL [MODEL ...]
  export      write a checkpoint in another format: msattn export onnx MODEL FOLDER
  demo        train, score and use a small relation extractor, in about a minute
  --version   the version of msattn"""


def main(argv: Sequence[str] | None = None) -> None:
    """
    Runs a command. A user's mistake ends in one sentence and exit code 2.

    Args:
        argv (`Sequence[str]`, *optional*): Command-line arguments. Default: those of the process.
    """
    name, *rest = list(sys.argv[1:] if argv is None else argv) or ["--help"]
    if name in ("-h", "--help"):
        print(HELP)
    elif name == "--version":
        print(version("msattn"))
    elif name == "train":
        _train(*(rest or ["--help"]))
    elif name in ("plot", "doubt"):
        _run("msattn.plots.command", name, rest)
    elif name == "analysis":
        print(f"error: msattn analysis is gone; {_moved(*rest[:1])}.", file=sys.stderr)
        sys.exit(2)
    elif name == "predict":
        _run("msattn.predict", "main", rest)
    elif name == "app":
        _run("msattn.app.command", "main", rest)
    elif name == "export":
        _run("msattn.export", "main", rest)
    elif name == "demo":
        demo()
    else:
        _refuse("command", name, ("train", "predict", "plot", "doubt", "app", "export", "demo"))


def train(task: str, argv: Sequence[str]) -> None:
    """
    Runs the script of a task.

    Args:
        task (`str`): One of `TASKS`.
        argv (`Sequence[str]`): The arguments of the script.
    """
    script, _ = TASKS[task]
    _run(f"msattn.scripts.{script}", "main", argv)


def demo() -> None:
    """Runs the demonstration."""
    _run_cli(lambda: import_module("msattn.demo").run_demo(import_module("msattn.scripts.run_re").main))


def _moved(kind: str = "") -> str:
    """Where a command of `msattn analysis` went."""
    plots = {"fused": "fused", "errors": "errors", "map": "maps", "distances": "heads", "windows": "windows"}
    if kind in plots:
        return f"use msattn plot {plots[kind]}"
    return (
        "use msattn doubt"
        if kind == "doubt"
        else "pictures: msattn plot; studies: the scripts in papers/ of the source"
    )


def _train(task: str, *rest: str) -> None:
    if task in ("-h", "--help"):
        print(TRAIN_HELP)
    elif task not in TASKS:
        _refuse("task", task, TASKS)
    else:
        train(task, rest)


def _run(module: str, function: str, *arguments: Any) -> None:
    _run_cli(lambda: getattr(import_module(module), function)(*arguments))


def _run_cli(main: Callable[[], Any]) -> None:
    # Imports msattn. Within the function that it runs, a missing package is one sentence.
    import_module("msattn.command_line").run_cli(main)


def _refuse(kind: str, name: str, known: Sequence[str] | dict) -> None:
    close = difflib.get_close_matches(name, list(known), n=1)
    advice = f"did you mean {close[0]}?" if close else f"there are {', '.join(known)}."
    print(f"error: there is no {kind} {name[:80]}; {advice}", file=sys.stderr)
    sys.exit(2)


if __name__ == "__main__":
    main()
