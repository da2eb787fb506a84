"""Command-line handling of all scripts: argument parsing, one-line error messages and logging."""

from __future__ import annotations

import difflib
import json
import logging
import os
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any, NoReturn

import datasets
import transformers
import yaml
from huggingface_hub.errors import HfHubHTTPError, StrictDataclassError
from transformers import HfArgumentParser, TrainingArguments
from transformers.integrations import get_reporting_integration_callbacks

from msattn.errors import Terminated, UserError
from msattn.writing import is_write_failure


def run_cli(main: Callable[[], Any]) -> None:
    """
    Runs the `main` function of a script. User errors and a full disk become one line on stderr and exit code 2.

    So does Ctrl-C, with exit code 130, and SIGTERM after the checkpoint is saved, with 143. In distributed runs, only
    the local main process prints the message.

    Args:
        main (`Callable[[], Any]`): The function to run.
    """
    code = 2
    try:
        main()
    except KeyboardInterrupt:
        code, reason = 130, "interrupted."
    except Terminated as stop:
        code, reason = 143, str(stop)
    except (UserError, StrictDataclassError, HfHubHTTPError, OSError) as error:
        reason = f"error: {error}"
    except Exception as error:
        if not is_write_failure(error):
            raise
        reason = f"error: a file could not be written (is the disk full?): {error}"
    else:
        return
    if os.environ.get("LOCAL_RANK", "0") in ("0", "-1"):
        print(" ".join(reason.split()), file=sys.stderr)
    else:
        # Launchers kill all processes when one fails: give the main process time to print the message.
        time.sleep(5)
    sys.exit(code)


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
    argv = list(sys.argv[1:] if argv is None else argv)
    # No abbreviations: they turn typing errors into other arguments.
    description = getattr(sys.modules["__main__"], "__doc__", None)
    parser = ArgumentParser(list(dataclass_types), prog=prog, allow_abbrev=False, description=description)
    given = [field for dataclass_type in dataclass_types for field in fields(dataclass_type) if field.init]
    # Names of arguments by name and alias.
    names = {field.name: field.name for field in given}
    names |= {old.lstrip("-"): field.name for field in given for old in field.metadata.get("aliases", ())}
    source = ""
    if len(argv) == 1 and argv[0].endswith((".json", ".yaml", ".yml")):
        source = f"{argv[0]}: "
        content = {}
        for name, value in _argument_file(argv[0]).items():
            if name not in names:
                raise UserError(f"{source}{_unknown(str(name), names)}")
            content[names[name]] = value
        # All other values go through the command-line parser, which validates them.
        parser.set_defaults(**{name: value for name, value in content.items() if isinstance(value, (list, dict))})
        argv = [
            f"--{name}={value}" for name, value in content.items() if not isinstance(value, (list, dict, type(None)))
        ]
    try:
        *parsed, unknown = parser.parse_args_into_dataclasses(argv, return_remaining_strings=True)
    except (ValueError, TypeError) as error:
        raise UserError(f"{source}{error}") from error
    if unknown:
        raise UserError(_unknown(unknown[0].partition("=")[0], names))
    return tuple(parsed)


def _argument_file(path: str) -> dict[str, Any]:
    try:
        text = Path(path).read_text(encoding="utf-8-sig")
        content = json.loads(text) if path.endswith(".json") else yaml.safe_load(text)
    except FileNotFoundError:
        raise UserError(f"{path}: there is no such file; give arguments, or a JSON or YAML file of them.") from None
    except (ValueError, yaml.YAMLError) as error:
        raise UserError(f"{path}: the file cannot be read ({error}).") from None
    if not isinstance(content, dict):
        raise UserError(f"{path}: expected an object with the arguments' names and values.")
    return content


def _unknown(name: str, known: Iterable[str]) -> str:
    close = difflib.get_close_matches(name.lstrip("-"), known, n=1)
    return f"there is no argument {name}" + (f"; did you mean {close[0]}?" if close else " (--help lists them).")


def set_up_logging(args: TrainingArguments) -> None:
    """
    Sets the log levels as in the scripts of Transformers: `--log_level` for the main process, quiet replicas.

    Args:
        args (`TrainingArguments`): With `report_to` and the log levels.

    Raises:
        UserError: The package for `--report_to` is not installed.
    """
    try:
        for reporter in get_reporting_integration_callbacks(args.report_to):
            reporter()
    except (ImportError, RuntimeError, ValueError) as error:
        raise UserError(f"--report_to {' '.join(args.report_to)}: {error}") from error
    logging.basicConfig(format="%(asctime)s %(levelname)s %(name)s: %(message)s", datefmt="%H:%M:%S")
    level = args.get_process_log_level()
    logging.getLogger("msattn").setLevel(level)
    for library in (datasets.utils.logging, transformers.utils.logging):
        library.set_verbosity(level)
    if not args.should_log:
        datasets.disable_progress_bars()


def existing_file(path: str | None, argument: str) -> str | None:
    """
    Checks that a file exists.

    Args:
        path (`str` or `None`): The file; `None` if the argument is not given.
        argument (`str`): The name of the argument, for the error message.

    Returns:
        `str` or `None`: `path`.

    Raises:
        UserError: The file does not exist.
    """
    if path is not None and not Path(path).is_file():
        raise UserError(f"--{argument} {path}: there is no such file.")
    return path
