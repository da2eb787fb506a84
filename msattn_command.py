"""
The command `msattn`, and what the scripts answer before they import anything.

A module of its own, since `msattn` itself imports torch, which takes seconds: `msattn --help` should not.
"""

from __future__ import annotations

import argparse
import ast
import difflib
import os
import sys
from collections.abc import Callable, Sequence
from importlib import import_module, util
from importlib.metadata import version
from itertools import takewhile
from pathlib import Path
from typing import Any, NoReturn

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
DEMO_HELP = """usage: msattn demo

Trains, scores and uses a small relation extractor in outputs/demo, in about two minutes."""
# The module and the function of each other command.
COMMANDS = {
    "predict": ("msattn.predict", "main"),
    "plot": ("msattn.plots.command", "plot"),
    "doubt": ("msattn.plots.command", "doubt"),
    "app": ("msattn.app.command", "main"),
    "export": ("msattn.export", "main"),
}
HELP = """usage: msattn COMMAND ...

  train       train, score and predict: msattn train relations --help
  predict     apply a checkpoint to a file: msattn predict MODEL FILE
  plot        draw attention, trees, relations, errors: msattn plot --help
  doubt       write sentences worth annotating: msattn doubt MODEL FILE --output FILE
  app         show what checkpoints find in a text, in the browser: msattn app MODEL [MODEL ...]
  export      write a checkpoint in another format: msattn export onnx MODEL FOLDER
  demo        train, score and use a small relation extractor, in about two minutes
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
    elif name in COMMANDS:
        _run(*COMMANDS[name], rest)
    elif name == "demo":
        _demo(*(word for word in rest if word != "--debug_traceback"))
    else:
        _refuse("command", name, ("train", *COMMANDS, "demo"))


def start(script: str | os.PathLike, argv: Sequence[str] | None = None) -> None:
    """
    Answers `--help`, a mistyped flag, a missing file and a missing package: before the imports of a script, which take
    seconds. All else is left to the script.

    Args:
        script (`str` or `os.PathLike`): Its path. It calls `parse_arguments` with the dataclasses of its arguments.
        argv (`Sequence[str]`, *optional*): Its arguments. Default: those of the process.
    """
    argv = sys.argv[1:] if argv is None else argv
    try:
        tree = ast.parse(Path(script).read_text(encoding="utf-8"))
        (call,) = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and _name(node) == "parse_arguments"]
        fields = _fields(Path(script), [_name(each) for each in getattr(call.args[0], "elts", ())])
    except (OSError, LookupError, ValueError):  # a copy that reads its arguments in another way
        return
    if {"-h", "--help"} & {*argv}:
        usage = f"{os.path.basename(script)} --NAME VALUE ..."
        parser = argparse.ArgumentParser(usage=usage, description=ast.get_docstring(tree))
        for name, field in fields.items():
            parser.add_argument(f"--{name}", metavar="", help=_help(field))
        parser.print_help()
        sys.exit(0)
    for package in ("sklearn", "scipy"):
        if util.find_spec(package) is None:
            _stop(f"the package {package} is not installed: pip install 'msattn[train]'")
    for place, word in enumerate(argv):
        name, _, value = word.partition("=")
        key = name.lstrip("-").replace("-", "_")
        if not name.startswith("--") or name == "--debug_traceback":
            continue
        if key.removeprefix("no_") not in fields and key not in fields:
            _refuse("argument", name, [f"--{name}" for name in fields], "--help lists the arguments.")
        if key.endswith("_file"):
            values = takewhile(lambda each: not each.startswith("--"), argv[place + 1 :])
            for file in [value] if value else values:
                if not os.path.exists(file):
                    _stop(f"{file}: the file cannot be read (No such file or directory).")


def _fields(file: Path, names: Sequence[str]) -> dict[str, ast.AnnAssign]:
    """The fields of dataclasses that the file defines or imports. The code is read and not run."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    classes = {node.name: node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)}
    fields: dict[str, ast.AnnAssign] = {}  # the first of a name is that of the subclass
    wanted = [*names]
    for name in wanted:  # which grows by bases
        if name in classes:
            wanted += [_name(base) for base in classes[name].bases]
            for each in classes[name].body:
                if isinstance(each, ast.AnnAssign) and "init" not in _keywords(each):
                    fields.setdefault(_name(each.target), each)
    missing = {*wanted} - {*classes}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (imported := missing & {alias.name for alias in node.names}):
            for name, field in _fields(_file(node, file), sorted(imported)).items():
                fields.setdefault(name, field)
            missing -= imported
    if missing:
        raise LookupError(f"{file}: {missing}")
    return fields


def _help(field: ast.AnnAssign) -> str:
    dicts = [node for node in ast.walk(field) if isinstance(node, ast.Dict)]
    metadata = dict(zip(map(_value, dicts[0].keys), dicts[0].values, strict=True)) if dicts else {}
    default = _value(_keywords(field).get("default"))
    text = _value(metadata.get("help")) or ""
    return text if default is None or "efault: " in text else f"{text} (default: {default})"


def _keywords(field: ast.AnnAssign) -> dict[str | None, ast.expr]:
    """What `field(...)` is given; `init=False` makes it no argument of a script."""
    return {each.arg: each.value for each in getattr(field.value, "keywords", ())}


def _value(node: ast.AST | None) -> Any:
    return getattr(node, "value", None)


def _name(node: ast.AST) -> str:
    """The name of a name, an attribute or what is called."""
    return _name(node.func) if isinstance(node, ast.Call) else getattr(node, "id", getattr(node, "attr", ""))


def _file(node: ast.ImportFrom, file: Path) -> Path:
    """The file that a statement imports from; nothing is imported."""
    package, *parts = (node.module or "").split(".")
    path = (file.parents[node.level - 1] / package if node.level else _package(package)).joinpath(*parts)
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


def _package(name: str = "msattn") -> Path:
    spec = util.find_spec(name)
    if spec is None or not spec.submodule_search_locations:
        raise LookupError(name)
    return Path(spec.submodule_search_locations[0])


def _train(task: str, *rest: str) -> None:
    if task in ("-h", "--help"):
        print(TRAIN_HELP)
    elif task not in TASKS:
        _refuse("task", task, TASKS)
    else:
        script, _ = TASKS[task]
        start(_package() / "scripts" / f"{script}.py", rest)
        _run(f"msattn.scripts.{script}", "main", rest)


def _demo(*rest: str) -> None:
    if not rest:
        _run_cli(lambda: import_module("msattn.demo").run_demo(import_module("msattn.scripts.run_re").main))
    elif rest[0] in ("-h", "--help"):
        print(DEMO_HELP)
    else:
        _refuse("argument", rest[0], (), "msattn demo takes none.")


def _run(module: str, function: str, *arguments: Any) -> None:
    _run_cli(lambda: getattr(import_module(module), function)(*arguments))


def _run_cli(main: Callable[[], Any]) -> None:
    # Imports msattn. Within the function that it runs, a missing package is one sentence.
    import_module("msattn.command_line").run_cli(main)


def _refuse(kind: str, name: str, known: Sequence[str] | dict, advice: str = "") -> NoReturn:
    close = difflib.get_close_matches(name, list(known), n=1)
    advice = f"did you mean {close[0]}?" if close else advice or f"there are {', '.join(known)}."
    _stop(f"there is no {kind} {name[:80]}; {advice}")


def _stop(message: str) -> NoReturn:
    if os.environ.get("LOCAL_RANK", "0") == "0":
        print(f"error: {message}", file=sys.stderr)
    sys.exit(2)


if __name__ == "__main__":
    main()
