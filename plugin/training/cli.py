"""What every script of the project does around its work: arguments in, one sentence out when they are wrong."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import datasets
import transformers
from datasets import Dataset
from huggingface_hub.errors import HfHubHTTPError, StrictDataclassError
from safetensors import SafetensorError
from transformers import HfArgumentParser, TrainingArguments

from msattn.errors import UserError


def run_cli(main: Callable[[], Any]) -> None:
    """Runs a script's `main`; a mistake of the user, or a full disk, becomes one line and the exit code 2."""
    try:
        main()
    except (UserError, StrictDataclassError, SafetensorError, HfHubHTTPError, OSError) as error:
        reason = str(error)
    except RuntimeError as error:
        # How torch.save reports a disk that is full.
        if "PytorchStreamWriter" not in str(error):
            raise
        reason = f"a checkpoint could not be written (is the disk full?): {error}"
    else:
        return
    print(f"error: {' '.join(reason.split())}", file=sys.stderr)
    sys.exit(2)


def parse_arguments(dataclass_types: Sequence[type], argv: Sequence[str] | None = None) -> tuple[Any, ...]:
    """
    Reads dataclasses from the command line, or from the one JSON or YAML file that it names.

    Args:
        dataclass_types (`Sequence[type]`): Dataclasses whose fields are the arguments.
        argv (`Sequence[str]`, *optional*): Arguments in place of the command line's.

    Raises:
        UserError: The file is missing, broken or has an unknown key, or the values do not go together.
    """
    argv = list(sys.argv[1:] if argv is None else argv)
    parser = HfArgumentParser(list(dataclass_types))
    try:
        if len(argv) == 1 and argv[0].endswith(".json"):
            return parser.parse_json_file(argv[0])
        if len(argv) == 1 and argv[0].endswith((".yaml", ".yml")):
            return parser.parse_yaml_file(argv[0])
        return parser.parse_args_into_dataclasses(args=argv)
    except FileNotFoundError:
        raise UserError(f"{argv[0]}: there is no such file; give arguments, or a JSON or YAML file of them.") from None
    except (ValueError, TypeError) as error:
        raise UserError(f"{argv[0] + ': ' if len(argv) == 1 else ''}{error}") from error


def set_up_logging(args: TrainingArguments) -> None:
    """Log levels as in the scripts of Transformers: `--log_level` for the main process, quiet replicas."""
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


def hold_out(dataset: Dataset, percentage: float, seed: int) -> tuple[Dataset, Dataset]:
    """The rest of `dataset`, and the part that `--validation_split_percentage` cuts off."""
    if not 0 < percentage < 100:
        raise UserError(f"--validation_split_percentage must be between 0 and 100, got {percentage}.")
    try:
        parts = dataset.train_test_split(percentage / 100, seed=seed)
    except ValueError as error:
        raise UserError(f"--validation_split_percentage {percentage}: {error}") from None
    return parts["train"], parts["test"]
