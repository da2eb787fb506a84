"""Models in evaluation mode for a while."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from torch import nn


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """
    A context in which a model is in evaluation mode.

    Args:
        model (`nn.Module`): The model. On exit, each of its modules gets its own mode back: a frozen encoder in a
            model in training stays in evaluation mode.
    """
    training = [module for module in model.modules() if module.training]
    model.eval()
    try:
        yield
    finally:
        for module in training:
            module.training = True
