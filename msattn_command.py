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

# Module, class and description of each task.
TASKS = {
    "relations": ("relation_extraction", "RelationExtraction", "relations between entities; run_re.py"),
    "glue": ("sequence_classification", "SequenceClassification", "classes of texts and pairs; run_glue.py"),
    "tagging": ("token_classification", "TokenClassification", "entities and parts of speech; run_tagging.py"),
    "parsing": ("dependency_parsing", "DependencyParsing", "dependency trees; run_parsing.py"),
    "ranking": ("ranking", "Ranking", "cross-encoders for re-ranking; run_ranking.py"),
}
TRAIN_HELP = "\n".join(
    [
        "usage: msattn train TASK ... (msattn train TASK --help lists its arguments)",
        "",
        *(f"  {task:11}{description}" for task, (_, _, description) in TASKS.items()),
    ]
)
HELP = """usage: msattn COMMAND ...

  train       train, score and predict: msattn train relations --help
  predict     apply a checkpoint to a file: msattn predict MODEL FILE
  analysis    pictures and measures of attention; msattn analysis lists them
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
    elif name == "analysis":
        _run("msattn.analysis.__main__", "main", rest, "msattn analysis")
    elif name == "predict":
        _run("msattn.predict", "main", rest)
    elif name == "app":
        _run("msattn.app.command", "main", rest)
    elif name == "export":
        _run("msattn.onnx.command", "main", rest)
    elif name == "demo":
        demo()
    else:
        _refuse("command", name, ("train", "predict", "analysis", "app", "export", "demo"))


def train(task: str, argv: Sequence[str], prog: str | None = None) -> None:
    """
    Runs a task. A user's mistake or a missing package ends in one sentence and exit code 2.

    Args:
        task (`str`): One of `TASKS`.
        argv (`Sequence[str]`): The arguments of the task.
        prog (`str`, *optional*): The name of the command in `--help`. Default: the name of the script.
    """
    module, name, _ = TASKS[task]
    # The imports of a task need the extra `train`.
    _run_cli(
        lambda: import_module("msattn.run").run(getattr(import_module(f"msattn.tasks.{module}"), name), argv, prog)
    )


def demo() -> None:
    """Runs the demonstration. A missing package ends in one sentence and exit code 2."""
    _run("msattn.demo", "run_demo")


def _train(task: str, *rest: str) -> None:
    if task in ("-h", "--help"):
        print(TRAIN_HELP)
    elif task not in TASKS:
        _refuse("task", task, TASKS)
    else:
        train(task, rest, f"msattn train {task}")


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
