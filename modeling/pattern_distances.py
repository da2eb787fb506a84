"""The distance between attention and a pattern, a block of scores at a time: no map is kept."""

from __future__ import annotations

from typing import Any

import torch

from .attention_blocks import Block, Gradients, Scores, Settings, first_derivative_only
from .attention_call import AttentionCall
from .attention_patterns import Target, target_of


def pattern_distances(
    query: torch.Tensor,
    key: torch.Tensor,
    target: str | torch.Tensor,
    attention_mask: torch.Tensor | None = None,
    scaling: float | None = None,
    is_causal: bool = False,
    position_bias: torch.Tensor | None = None,
    softcap: float | None = None,
    sinks: torch.Tensor | None = None,
) -> torch.Tensor:
    r"""
    The distance between attention and a pattern P for each head: the mean of (A − P)² over rows with a target and
    real columns. Its mean is [`pattern_loss`] of the attention weights A before dropout.

    Args:
        query, key, attention_mask, scaling, is_causal, position_bias, softcap, sinks:
            See [`received_attention`]; as many queries as keys.
        target (`str` or `torch.Tensor`): See [`pattern_loss`].

    Returns:
        `torch.Tensor` of shape `(batch, heads)`: In float32, or in float64 if the queries are. Samples without a
        target have 0.

    Raises:
        ValueError: As in [`received_attention`] and [`pattern_loss`], or queries and keys differ in number.
        RuntimeError: The result is differentiated twice.
    """
    call = AttentionCall.of(query, key, attention_mask, scaling, is_causal, position_bias, softcap, sinks)
    return distances_of_call(call, target)


def distances_of_call(call: AttentionCall, target: str | torch.Tensor) -> torch.Tensor:
    """[`pattern_distances`] of an attention function's arguments."""
    query, key, bias, sinks, mask, settings = call.scores
    if query.shape[2] != key.shape[2]:
        raise ValueError(f"patterns need as many queries as keys, got {query.shape[2]} and {key.shape[2]}")
    real = call.real
    aim = target_of(target, real, torch.promote_types(query.dtype, torch.float32))
    with torch.autocast(query.device.type, enabled=False):
        sums = _Distances.apply(query, key, bias, sinks, mask, aim, settings)
    entries = aim.rows.sum(dim=-1) * real.sum(dim=-1)
    return sums / entries.clamp_min(1).unsqueeze(-1)


class _Distances(torch.autograd.Function):
    """Σ (A − P)² over the rows with a target, `(batch, heads)`."""

    @staticmethod
    def forward(
        query: torch.Tensor,
        key: torch.Tensor,
        bias: torch.Tensor | None,
        sinks: torch.Tensor | None,
        mask: torch.Tensor | None,
        target: Target,
        settings: Settings,
    ) -> torch.Tensor:
        # All keys: what is hidden by causality is not attended to, but may be in the pattern.
        scores = Scores(query, key, bias, sinks, mask, settings).in_full()
        sums = scores.query.new_zeros(query.shape[:2])
        for block, part in scores.blocks(every_key=True):
            weights, _ = part.weights(block.queries.start)
            _subtract(weights, target, block)
            distances = torch.linalg.vector_norm(weights, dim=-1).square()
            distances *= target.rows[block.examples, None, block.queries]
            sums[block.examples, block.heads] += distances.sum(dim=-1)
        return sums

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple, output: torch.Tensor) -> None:
        *tensors, ctx.target, ctx.settings = inputs
        ctx.save_for_backward(*tensors)

    @staticmethod
    @first_derivative_only
    def backward(ctx: Any, of_sums: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        query, key, bias, sinks, mask = ctx.saved_tensors
        target = ctx.target
        scores = Scores(query, key, bias, sinks, mask, ctx.settings).in_full()
        totals = Gradients.of(scores, ctx.needs_input_grad[2:4])
        scale = 2 * of_sums.unsqueeze(-1) * target.rows.unsqueeze(1)
        for block, part in scores.blocks():
            weights, capped = part.weights(block.queries.start)
            gradient = weights.clone()
            _subtract(gradient, target, block)
            gradient *= block.rows(scale).unsqueeze(-1)
            totals.add(block, part, gradient, weights, capped)
        return (*totals.like(query, key, bias, sinks), None, None, None)


def _subtract(weights: torch.Tensor, target: Target, block: Block) -> None:
    """A − P, in place; rows without a target are left to others."""
    if target.weights is None:
        # The columns of a block begin at 0, its rows do not.
        weights.diagonal(block.queries.start + target.offset, dim1=-2, dim2=-1).sub_(1)
        return
    rows = slice(None) if target.weights.shape[1] == 1 else block.queries
    weights -= target.weights[block.examples, rows, block.keys].unsqueeze(1)


__all__ = ["pattern_distances"]
