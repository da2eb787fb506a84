"""Checks texts and cells that are written to files of predictions."""

from __future__ import annotations

from typing import Any

from msattn.errors import UserError, shown


def check_text(text: str, where: str) -> str:
    """
    Returns the text if it can be written as UTF-8.

    Args:
        text (`str`): The text.
        where (`str`): Its location, which starts the error message.

    Raises:
        UserError: The text has a lone surrogate.
    """
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise UserError(
            f"{where}: {text[error.start]!r} at character {error.start} is a lone surrogate, half of a pair such as "
            "\\ud83d\\ude00; write both or neither, or decode the text again, with errors='replace'."
        ) from None
    return text


def check_cell(text: str | None, name: str, where: str) -> str | None:
    """
    Returns an id or a label, which files of predictions hold in a column, if a column can hold it.

    Args:
        text (`str` or `None`): The text.
        name (`str`): What it is, for the message.
        where (`str`): Its location, which starts the error message.

    Raises:
        UserError: The text has a tab, a line end or a lone surrogate.
    """
    if text is None:
        return None
    if any(sign in text for sign in "\t\r\n"):
        raise UserError(f"{where}: the {name} {shown(text)} has a tab or a line end, which its column cannot hold.")
    return check_text(text, where)


def refuse_nan(label: Any, name: str, where: str) -> None:
    """
    Refuses `nan` as a label: pandas writes empty cells so.

    Args:
        label (`Any`): The label.
        name (`str`): What it is, for the message.
        where (`str`): Its location, which starts the error message.

    Raises:
        UserError: It is `nan`, in any case.
    """
    if str(label).strip().lower() == "nan":
        raise UserError(f"{where}: the {name} is {shown(label)}, as pandas writes empty cells; leave it empty.")


def filled_text(value: Any, where: str, problem: str) -> str:
    """
    Returns `value` if it is a usable text.

    Args:
        value (`Any`): The value to check.
        where (`str`): Its location, which starts the error message.
        problem (`str`): The error message for a value that is not a string or is blank.

    Raises:
        UserError: The value is not a string, is blank or has a lone surrogate.
    """
    if not isinstance(value, str) or not value.strip():
        raise UserError(f"{where}: {problem}.")
    return check_text(value, where)
