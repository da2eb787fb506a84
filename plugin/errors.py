"""The exceptions that scripts print as one line instead of a traceback."""

from __future__ import annotations


class UserError(ValueError):
    """An error in the user's input. The message has the form `FILE:LINE: what is wrong; what would be right.`"""


class Terminated(Exception):
    """The end of a run that was told to stop (SIGTERM), after it has saved a checkpoint."""
