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
from itertools import chain, takewhile
from pathlib import Path
from typing import Any, NoReturn

import datasets
import transformers
import yaml
from huggingface_hub.errors import HfHubHTTPError, StrictDataclassError
from transformers import HfArgumentParser, TrainingArguments
from transformers.integrations import get_reporting_integration_callbacks

from msattn.argument_values import check_values
from msattn.errors import Terminated, UserError, shortened, shown
from msattn.plain_numbers import plain_float, plain_int
from msattn.writing import is_write_failure


def run_cli(main: Callable[[], Any]) -> None:
    """
    Runs the `main` function of a script.

    User errors, a missing package and a full disk become one line on stderr and exit code 2.

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
    except (UserError, StrictDataclassError, HfHubHTTPError, ImportError, OSError) as error:
        reason = f"error: {error}"
    except Exception as error:
        if type(error).__module__.startswith("httpx"):
            reason = f"error: the Hub cannot be reached ({error})"
        elif is_write_failure(error):
            reason = f"error: a file could not be written (is the disk full?): {error}"
        else:
            raise
    else:
        return
    if os.environ.get("LOCAL_RANK", "0") in ("0", "-1"):
        print(shortened(" ".join(reason.split())), file=sys.stderr)
    else:
        # Launchers kill all processes when one fails: give the main process time to print the message.
        time.sleep(5)
    sys.exit(code)


class ArgumentParser(HfArgumentParser):
    """
    An [`HfArgumentParser`] that checks the values by [`~msattn.argument_values.check_values`], and that raises
    `UserError` instead of printing a usage of some two hundred arguments.
    """

    def __init__(self, *args: Any, **kwargs: Any):
        super().__init__(*args, **kwargs)
        self.register("type", int, plain_int)
        self.register("type", float, plain_float)

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """As in [`HfArgumentParser`]. The dataclasses are made from the values afterwards."""
        parsed, unknown = super().parse_known_args(args, namespace)
        check_values(tuple(self.dataclass_types), vars(parsed))
        return parsed, unknown

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
        # All other values go through the command-line parser, which reads numbers and choices.
        parser.set_defaults(**{name: value for name, value in content.items() if isinstance(value, (list, dict))})
        argv = [
            f"--{name}={value}" for name, value in content.items() if not isinstance(value, (list, dict, type(None)))
        ]
    try:
        *parsed, unknown = parser.parse_args_into_dataclasses(argv, return_remaining_strings=True)
    except Exception as error:
        # What the dataclasses of Transformers raise depends on the argument: they interpret values, nothing else.
        raise UserError(f"{source}{error or type(error).__name__}") from error
    if unknown:
        raise UserError(_unknown(unknown[0].partition("=")[0], names))
    return tuple(parsed)


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


def _argument_file(path: str) -> dict[str, Any]:
    try:
        text = Path(path).read_text(encoding="utf-8-sig")
        json_file = path.endswith(".json")
        content = json.loads(text, object_pairs_hook=_distinct) if json_file else yaml.load(text, DistinctLoader)
    except FileNotFoundError:
        raise UserError(f"{path}: there is no such file; give arguments, or a JSON or YAML file of them.") from None
    except RecursionError:
        raise UserError(f"{path}: the values are nested too deeply; an argument takes a value or a list.") from None
    except (ValueError, OSError, yaml.YAMLError) as error:
        raise UserError(f"{path}: the file cannot be read ({error}).") from None
    if not isinstance(content, dict):
        raise UserError(f"{path}: expected an object with the arguments' names and values.")
    return content


class DistinctLoader(yaml.SafeLoader):
    """A safe YAML loader that refuses a name that is there twice; `yaml.safe_load` takes the last value."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict:
        """As in [`yaml.SafeLoader`]; raises `ValueError` for a repeated name."""
        _distinct([(str(key.value), None) for key, _ in node.value])
        return super().construct_mapping(node, deep)


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    names = [name for name, _ in pairs]
    if twice := [name for name in dict.fromkeys(names) if names.count(name) > 1]:
        raise ValueError(f"{shown(twice[0])} is there twice")
    return dict(pairs)


def _unknown(name: str, known: Iterable[str]) -> str:
    name = name[:80]
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
