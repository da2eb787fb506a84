"""The command line of a script, from Python values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import chain
from typing import Any


def command_line(flags: Iterable[str], options: Mapping[str, Any]) -> list[str]:
    """`--flag` for each of `flags`, and `--name value ...` for each of `options` but those that are None."""
    words = (
        [f"--{name}", *map(str, value if isinstance(value, list) else [value])]
        for name, value in options.items()
        if value is not None
    )
    return [*(f"--{flag}" for flag in flags), *chain.from_iterable(words)]
