"""Reads numbers as other programs do: without `1_0`, `nan`, and the digits of other scripts, which Python takes."""

from __future__ import annotations

import re

NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
# float32, in which scores and vectors are kept.
LARGEST = 3.4028234663852886e38


def plain_int(text: str) -> int:
    """
    The whole number that a text holds.

    Raises:
        ValueError: The text is not made of the digits 0 to 9 and one sign before them, or has over 4,300 digits.
    """
    if not re.fullmatch(r"[+-]?[0-9]+", text.strip(" ")):
        raise ValueError(f"{text[:40]!r} is not a whole number")
    return int(text)


def plain_float(text: str) -> float:
    """
    The number that a text holds.

    Raises:
        ValueError: The text is not a decimal number, or too large for float32.
    """
    number = float(text) if NUMBER.fullmatch(text.strip(" ")) else LARGEST * 2
    if abs(number) > LARGEST:
        raise ValueError(f"{text[:40]!r} is not a finite decimal number")
    return number


def is_odd_number(text: str) -> bool:
    """Whether only Python reads the text as a number: `nan`, `inf`, `1_0`, `1e39` in float32, digits of a script."""
    try:
        float(text)
    except ValueError:
        return False
    try:
        plain_float(text)
    except ValueError:
        return True
    return False
