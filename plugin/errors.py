"""The exception for user errors, which scripts print as one line instead of a traceback."""

from __future__ import annotations


class UserError(ValueError):
    """An error in the user's input. The message has the form `FILE:LINE: what is wrong; what would be right.`"""
