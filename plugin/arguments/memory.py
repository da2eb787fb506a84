"""Refuses models that do not fit into memory before they are made."""

from __future__ import annotations

import os

from msattn.errors import UserError

FLOAT32 = 4


def refuse_too_large(parameters: int, argument: str) -> None:
    """
    Refuses a model whose weights alone, in float32, do not fit into the memory of this computer.

    Training takes about four times as much, for gradients and the two averages of Adam.

    Args:
        parameters (`int`): The number of weights.
        argument (`str`): The argument that makes the model so large, for the message.

    Raises:
        UserError: The weights do not fit.
    """
    there, needed = physical_memory(), parameters * FLOAT32
    if there is not None and needed > there:
        raise UserError(
            f"{argument}: the {parameters / 1e9:,.1f} billion weights would take {needed / 1e9:,.0f} GB, and this "
            f"computer has {there / 1e9:,.0f} GB."
        )


def physical_memory() -> int | None:
    """The memory of this computer in bytes; `None` on systems that do not tell."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):
        return None
