"""What every script of the project does around its work: arguments in, one sentence out when they are wrong."""

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

from msattn.errors import UserError

# How torch.save, safetensors and tokenizers tell of a full disk, in exceptions that say no more by their type.
WRITE_FAILURES = ("PytorchStreamWriter", "unexpected pos", "iostream error", "os error")


def run_cli(main: Callable[[], Any]) -> None:
    """
    Runs a script's `main`; a mistake of the user, or a full disk, becomes one line and the exit code 2.

    Of the processes of a distributed run only the main one of a machine says it.
    """
    try:
        main()
    except (UserError, StrictDataclassError, HfHubHTTPError, OSError) as error:
        reason = str(error)
    except Exception as error:
        if not any(mark in str(error) for mark in WRITE_FAILURES):
            raise
        reason = f"a file could not be written (is the disk full?): {error}"
    else:
        return
    if os.environ.get("LOCAL_RANK", "0") in ("0", "-1"):
        print(f"error: {' '.join(reason.split())}", file=sys.stderr)
    else:
        # Launchers end all processes when the first one fails, which may be the main one before its last word.
        time.sleep(5)
    sys.exit(2)


class ArgumentParser(HfArgumentParser):
    """An [`HfArgumentParser`] that raises what it has to say, without the list of some two hundred arguments."""

    def error(self, message: str) -> NoReturn:
        raise UserError(f"{message} (--help lists the arguments)")


def parse_arguments(
    dataclass_types: Sequence[type], argv: Sequence[str] | None = None, prog: str | None = None
) -> tuple[Any, ...]:
    """
    Reads dataclasses from the command line, or from the one JSON or YAML file that it names.

    Args:
        dataclass_types (`Sequence[type]`): Dataclasses whose fields are the arguments.
        argv (`Sequence[str]`, *optional*): Arguments in place of the command line's.
        prog (`str`, *optional*): What `--help` calls the command, if not by the name of the script.

    Raises:
        UserError: The file is missing, broken or has an unknown key, or the values do not go together.
    """
    argv = list(sys.argv[1:] if argv is None else argv)
    # An abbreviated argument would be one more way to mistype another.
    description = getattr(sys.modules["__main__"], "__doc__", None)
    parser = ArgumentParser(list(dataclass_types), prog=prog, allow_abbrev=False, description=description)
    given = [field for dataclass_type in dataclass_types for field in fields(dataclass_type) if field.init]
    # By the name of an argument, or an old name of it, its name.
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
        # All else takes the way of the command line, so that it is checked as there.
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
    Log levels as in the scripts of Transformers: `--log_level` for the main process, quiet replicas.

    Raises:
        UserError: The package behind `--report_to` is missing.
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
    """`path` itself; an error that names the argument where there is no such file."""
    if path is not None and not Path(path).is_file():
        raise UserError(f"--{argument} {path}: there is no such file.")
    return path
