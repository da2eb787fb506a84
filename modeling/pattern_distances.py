"""The distance between attention and a pattern, a block of scores at a time: no map is kept."""

from __future__ import annotations

from typing import Any

import torch
from transformers.integrations.sdpa_attention import repeat_kv

from .attention_patterns import Target, target_of
from .blocked_attention import (
    Block,
    Settings,
    Totals,
    _in_full,
    _into_scores,
    _of_block,
    block_size,
    blocks,
)
from .first_derivative import first_derivative_only
from .received_attention import _real_keys, _scope


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
    scope = _scope(query, key, attention_mask, is_causal, position_bias, sinks)
    if query.shape[2] != key.shape[2]:
        raise ValueError(f"patterns need as many queries as keys, got {query.shape[2]} and {key.shape[2]}")
    real = _real_keys(scope, key)
    settings = Settings(
        query.shape[-1] ** -0.5 if scaling is None else scaling, softcap, scope.offset, block=block_size(query.device)
    )
    aim = target_of(target, real, torch.promote_types(query.dtype, torch.float32))
    mask = scope.mask
    if mask is not None and query.device.type == "cpu" and (mask == mask[..., :1, :]).all():
        mask = mask[..., :1, :]
    key = repeat_kv(key, query.shape[1] // key.shape[1])
    with torch.autocast(query.device.type, enabled=False):
        sums = _Distances.apply(query, key, position_bias, scope.sinks, mask, aim, settings)
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
        query, key = _in_full(query, key)
        sums = query.new_zeros(query.shape[:2])
        # All keys: what is hidden by causality is not attended to, but may be in the pattern.
        for block in blocks(query, key, settings._replace(offset=None)):
            weights, _ = _of_block(block, query, key, bias, sinks, mask, settings)
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
        *tensors, bias, sinks, mask = ctx.saved_tensors
        settings, target = ctx.settings, ctx.target
        query, key = _in_full(*tensors)
        totals = Totals.of(query, key, bias, sinks, ctx.needs_input_grad[2:4])
        scale = 2 * of_sums.unsqueeze(-1) * target.rows.unsqueeze(1)
        for block in blocks(query, key, settings):
            weights, capped = _of_block(block, query, key, bias, sinks, mask, settings)
            gradient = weights.clone()
            _subtract(gradient, target, block)
            gradient *= block.rows(scale).unsqueeze(-1)
            _into_scores(block, gradient, weights, capped, query, key, totals, settings)
        gradients = (totals.query, totals.key, totals.bias, totals.sinks)
        return (
            *(
                None if gradient is None else gradient.to(tensor.dtype)
                for gradient, tensor in zip(gradients, (*tensors, bias, sinks), strict=True)
            ),
            None,
            None,
            None,
        )


def _subtract(weights: torch.Tensor, target: Target, block: Block) -> None:
    """A − P, in place; rows without a target are left to others."""
    if target.weights is None:
        # The columns of a block begin at 0, its rows do not.
        weights.diagonal(block.queries.start + target.offset, dim1=-2, dim2=-1).sub_(1)
        return
    rows = slice(None) if target.weights.shape[1] == 1 else block.queries
    weights -= target.weights[block.examples, rows, block.keys].unsqueeze(1)


__all__ = ["pattern_distances"]
