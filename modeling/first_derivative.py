"""Gradients that cannot be differentiated again, and say so."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import torch


def first_derivative_only(backward: Callable[..., Any]) -> Callable[..., Any]:
    """
    A decorator for the `backward` of a `torch.autograd.Function`: a second derivative raises an error.

    `torch.autograd.function.once_differentiable` is silent where the incoming gradient is a constant, as for a loss
    that is linear in the output: the second derivative is then taken to be zero.

    Args:
        backward (`Callable`): The method `backward(ctx, *gradients)`.

    Returns:
        `Callable`: The method. With `create_graph=True`, differentiating its results raises `RuntimeError`.
    """

    @wraps(backward)
    def checked(ctx: Any, *gradients: torch.Tensor | None) -> Any:
        with torch.no_grad():
            results = backward(ctx, *gradients)
        # torch.compile refuses second derivatives itself.
        if torch.compiler.is_compiling() or not torch.is_grad_enabled():
            return results
        several = results if isinstance(results, tuple) else (results,)
        ends = tuple(one if one is None else _End.apply(one.detach().requires_grad_()) for one in several)
        return ends if isinstance(results, tuple) else ends[0]

    return checked


class _End(torch.autograd.Function):
    """The identity, without a gradient."""

    @staticmethod
    def forward(ctx: Any, value: torch.Tensor) -> torch.Tensor:
        return value.view_as(value)

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> None:
        raise RuntimeError("attention that is read block by block has a first derivative only, no second one")


__all__ = ["first_derivative_only"]
