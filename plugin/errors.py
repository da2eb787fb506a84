"""What the user gave is wrong: one sentence instead of a traceback."""

from __future__ import annotations


class UserError(ValueError):
    """A mistake in the user's input. The message names the file, the line and what would be right."""
