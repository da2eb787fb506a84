"""Command-line handling of the scripts and commands: argument parsing, one-line error messages and logging."""

from __future__ import annotations

import difflib
import logging
import os
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import fields
from itertools import chain, takewhile
from pathlib import Path
from typing import Any, NoReturn

import datasets
import transformers
import yaml
from huggingface_hub.errors import StrictDataclassClassValidationError
from transformers import HfArgumentParser, TrainingArguments

from msattn.errors import UserError
from msattn.writing import is_write_failure

# Shows the traceback of an error that is otherwise one line; every script and command takes it.
DEBUG = "--debug_traceback"
# Metadata of a switch whose default is `None`: `--name` alone means `--name True`.
FLAG: dict[str, Any] = {"nargs": "?", "const": True}


def run_cli(main: Callable[[], Any]) -> None:
    """
    Runs the `main` function of a script. A `UserError`, a missing package or a full disk become one line on stderr and
    exit code 2, Ctrl-C exit code 130. Everything else is a bug and shows its traceback.

    In distributed runs, only the local main process prints the line.

    Args:
        main (`Callable[[], Any]`): The function to run.
    """
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(130)
    except Exception as error:
        mine = isinstance(error, (UserError, ImportError)) or is_write_failure(error)
        if not mine or DEBUG in sys.argv:
            raise
        if os.environ.get("LOCAL_RANK", "0") == "0":
            print(f"error: {UserError(str(error))}", file=sys.stderr)
        else:
            # Launchers kill all processes when one fails: give the main process time to print the line.
            time.sleep(5)
        sys.exit(2)


@contextmanager
def user_mistakes() -> Iterator[None]:
    """
    Whatever is raised inside is a mistake in the user's arguments, data or checkpoint, and becomes a `UserError`.

    A script puts around it everything up to the first training step. `--debug_traceback` shows where an error came
    from.

    Raises:
        UserError: Anything was raised. The message is the last line of its traceback.
    """
    try:
        yield
    except UserError:
        raise
    except Exception as error:
        # A configuration that refuses its fields wraps our sentence.
        cause = error.__cause__ if isinstance(error, StrictDataclassClassValidationError) else None
        raise UserError(traceback.format_exception_only(cause or error)[-1].strip()) from error


class ArgumentParser(HfArgumentParser):
    """An [`HfArgumentParser`] that raises `UserError` instead of printing a usage of some two hundred arguments."""

    def error(self, message: str) -> NoReturn:
        """Raises `UserError` with the message."""
        raise UserError(f"{message} (--help lists the arguments)")


def parse_arguments(
    dataclass_types: Sequence[type], argv: Sequence[str] | None = None, prog: str | None = None
) -> tuple[Any, ...]:
    """
    Parses dataclasses from the command line, or from a JSON or YAML file if that is the only argument.

    Args:
        dataclass_types (`Sequence[type]`): Dataclasses whose fields are the arguments.
        argv (`Sequence[str]`, *optional*): Command-line arguments. Default: those of the process.
        prog (`str`, *optional*): The name of the command in `--help`. Default: the name of the script.

    Returns:
        `tuple[Any, ...]`: One instance per dataclass.

    Raises:
        UserError: An argument is unknown, missing or has an invalid value, or the file is missing or malformed.
    """
    argv = [word for word in (sys.argv[1:] if argv is None else argv) if word != DEBUG]
    # No abbreviations: they turn typing errors into other arguments.
    description = getattr(sys.modules["__main__"], "__doc__", None)
    parser = ArgumentParser(list(dataclass_types), prog=prog, allow_abbrev=False, description=description)
    names = [field.name for each in dataclass_types for field in fields(each) if field.init]
    if len(argv) == 1 and argv[0].endswith((".json", ".yaml", ".yml")):
        content = _argument_file(argv[0])
        # A single value goes through the command line's parser, which reads 5e-5 and checks the choices.
        parser.set_defaults(**{name: value for name, value in content.items() if isinstance(value, (list, dict))})
        argv = [f"--{name}={value}" for name, value in content.items() if not isinstance(value, list | dict | None)]
        argv += [f"--{name}" for name in content if name not in names]
    with user_mistakes():
        *parsed, unknown = parser.parse_args_into_dataclasses(argv, return_remaining_strings=True)
    if unknown:
        name = unknown[0].partition("=")[0]
        close = difflib.get_close_matches(name.lstrip("-"), names, n=1)
        advice = f"did you mean --{close[0]}?" if close else "--help lists the arguments."
        raise UserError(f"there is no argument {name[:80]}; {advice}")
    return tuple(parsed)


def _argument_file(path: str) -> dict[str, Any]:
    try:
        content = yaml.safe_load(Path(path).read_text(encoding="utf-8-sig"))  # JSON is YAML, too
    except (OSError, ValueError, yaml.YAMLError) as error:
        raise UserError(f"{path}: the file cannot be read ({error}).") from None
    if not isinstance(content, dict):
        raise UserError(f"{path}: expected an object with the arguments' names and values.")
    return content


def named(argv: Sequence[str], *names: str) -> list[str]:
    """
    Names the leading arguments of a command: `["a", "b", "--c"]` becomes `["--model", "a", "--file", "b", "--c"]`.

    Args:
        argv (`Sequence[str]`): Command-line arguments. `"-"` counts as a value.
        *names (`str`): The names of those that need none.
    """
    positional = list(takewhile(lambda argument: argument == "-" or not argument.startswith("-"), argv))[: len(names)]
    pairs = [(f"--{name}", value) for name, value in zip(names, positional, strict=False)]
    return [*chain(*pairs), *argv[len(positional) :]]


def set_up_logging(args: TrainingArguments) -> None:
    """
    Sets the log levels as in the scripts of Transformers: `--log_level` for the main process, quiet replicas. Without
    a terminal, with `--disable_tqdm` or with `TQDM_DISABLE`, there are no progress bars.

    Args:
        args (`TrainingArguments`): With the log levels.
    """
    logging.basicConfig(format="%(asctime)s %(levelname)s %(name)s: %(message)s", datefmt="%H:%M:%S")
    level = args.get_process_log_level()
    logging.getLogger("msattn").setLevel(level)
    for library in (datasets.utils.logging, transformers.utils.logging):
        library.set_verbosity(level)
    # In a file, bars are one line of thousands of characters; the Trainer then prints its losses as lines.
    args.disable_tqdm = args.disable_tqdm or bool(os.environ.get("TQDM_DISABLE")) or not sys.stderr.isatty()
    if args.disable_tqdm or not args.should_log:
        datasets.disable_progress_bars()
    transformers.utils.logging.disable_progress_bar()  # of weights that are loaded and written
