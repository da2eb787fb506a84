"""The exceptions that scripts print as one line instead of a traceback, and what raises them for missing packages."""

from __future__ import annotations

import os
import re
import reprlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

# Most characters of a message, paths apart: one that a data file fills would hide what is wrong.
MESSAGE = 500
LINE_END = re.compile(r"\s*[\r\n]\s*")


class UserError(ValueError):
    """
    An error in the user's input. The message has the form `FILE:LINE: what is wrong; what would be right.`

    Args:
        message (`str`):
            The message, which becomes one line. Long ones are cut in the middle, to 500 characters besides paths.
    """

    def __init__(self, message: str = ""):
        super().__init__(shortened(LINE_END.sub(" ", message)))


class TooFarApart(UserError):
    """Two entities do not fit into what a model reads."""


def refuse_below(arguments: Any, **least: float) -> None:
    """
    Checks numbers of the command line; `None` stands for one that is left out.

    Args:
        arguments (`Any`): A dataclass of arguments, which are attributes.
        **least: The smallest value of each, by its name.

    Raises:
        UserError: One is smaller, or not a number (NaN).
    """
    for name, smallest in least.items():
        value = getattr(arguments, name)
        if value is not None and not value >= smallest:
            raise UserError(f"--{name} {value:g}: give {smallest:g} or more.")


def missing_weights(checkpoint: str, names: Sequence[str]) -> UserError:
    """The error for a checkpoint that lacks weights, which would be random."""
    return UserError(
        f"{checkpoint}: {names[0]} and {len(names) - 1} other weights are missing and would be random; give a "
        "checkpoint that was trained for the task, with its own tokenizer; of adapters, save "
        "merge_and_unload() and load that."
    )


@contextmanager
def extra(name: str) -> Iterator[None]:
    """
    The imports in its body belong to an extra of msattn, such as `"train"` in `pip install 'msattn[train]'`.

    Raises:
        ImportError: One of the packages is not installed. The message has the command that installs it.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        raise ImportError(
            f"the package {package} is not installed: pip install 'msattn[{name}]'", name=package
        ) from None


def shortened(message: str) -> str:
    """The message with at most 500 characters and its paths; the middle of a longer one becomes `" ... "`."""
    paths = sum(len(word) for word in message.split() if os.sep in word and not word.startswith("--"))
    most = MESSAGE + paths
    if len(message) <= most:
        return message
    start = most * 2 // 3
    return f"{message[:start]} ... {message[len(message) - (most - start - 5) :]}"


def shown(value: Any) -> str:
    """A value for an error message: `repr`, of which deep, long and huge values show the beginning."""
    try:
        return _SHORT.repr(value)
    except (ValueError, RecursionError):
        return f"a value of the type {type(value).__name__}"


_SHORT = reprlib.Repr()
_SHORT.maxlevel, _SHORT.maxstring, _SHORT.maxother, _SHORT.maxlong = 3, 80, 80, 40
