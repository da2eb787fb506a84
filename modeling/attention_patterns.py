"""The loss of attention guided to a pattern: what a head should attend to, fixed in advance."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch.nn.functional import pad

from .attention_blocks import Block, Gradients, Scores, Settings, first_derivative_only
from .attention_call import AttentionCall
from .real_tokens import first_token, real_of

POSITIONS = ("first", "next", "prev")


def pattern_loss(
    attention: torch.Tensor, target: str | torch.Tensor, attention_mask: torch.Tensor | None = None
) -> torch.Tensor:
    r"""
    The distance between attention maps A and a pattern P: the mean of (A − P)² over rows with a target and real
    columns (Deshpande and Narasimhan, *Guiding Attention for Self-Supervised Learning with Transformers*).

    Args:
        attention (`torch.Tensor` of shape `(batch, heads, tokens, tokens)`):
            The maps of the guided heads of a layer, queries before keys.
        target (`str` or `torch.Tensor`):
            What each token should attend to:

            - `"first"`, `"next"` or `"prev"`: the first real token, the token after it, or the token before it.
            - A tensor of shape `(batch, tokens)`: these tokens, in these proportions, for every row.
            - A tensor of shape `(batch, tokens, tokens)`: proportions for each row.

            Proportions are not negative. They are scaled to a sum of 1 over the real tokens; all zeros mean no target.
        attention_mask (`torch.Tensor` of shape `(batch, tokens)`, *optional*):
            1 or true at real tokens, which are consecutive. The others are ignored.

    Returns:
        `torch.Tensor` of shape `()`: The mean over heads and samples, in float32, or in float64 if `attention` is. A
        sample without a target counts as 0.

    Raises:
        ValueError: `attention` is not `(batch, heads, tokens, tokens)` or empty, `attention_mask` or `target` does not
            fit to it, or the pattern is unknown.
    """
    if attention.dim() != 4 or attention.shape[-1] != attention.shape[-2] or 0 in attention.shape:
        raise ValueError(
            f"attention must be (batch, heads, tokens, tokens) and not empty, got {tuple(attention.shape)}"
        )
    real = real_of(attention_mask, (attention.shape[0], attention.shape[2]), attention.device)
    with torch.autocast(attention.device.type, enabled=False):
        attention = attention.to(torch.promote_types(attention.dtype, torch.float32))
        aim = target_of(target, real, attention.dtype)
        differences = attention.clone()
        _subtract(differences, aim, Block(*[slice(0, None)] * 4))
        distances = (differences * real[:, None, None]).square().sum(dim=-1) * aim.rows.unsqueeze(1)
        return _mean(distances.sum(dim=-1), aim.rows, real).mean()


def pattern_distances(call: AttentionCall, target: str | torch.Tensor) -> torch.Tensor:
    r"""
    The distance between attention and a pattern P for each head: the mean of (A − P)² over rows with a target and
    real columns. Its mean is [`pattern_loss`] of the attention weights A before dropout. No map is kept.

    Args:
        call (`AttentionCall`): What makes the weights; as many queries as keys.
        target (`str` or `torch.Tensor`): See [`pattern_loss`].

    Returns:
        `torch.Tensor` of shape `(batch, heads)`: In float32, or in float64 if the queries are. Samples without a
        target have 0.

    Raises:
        ValueError: As in [`pattern_loss`], or queries and keys differ in number.
        RuntimeError: The result is differentiated twice.
    """
    query, key, bias, sinks, mask, settings = call.scores
    if query.shape[2] != key.shape[2]:
        raise ValueError(f"patterns need as many queries as keys, got {query.shape[2]} and {key.shape[2]}")
    real = call.real
    aim = target_of(target, real, torch.promote_types(query.dtype, torch.float32))
    with torch.autocast(query.device.type, enabled=False):
        return _mean(_Distances.apply(query, key, bias, sinks, mask, aim, settings), aim.rows, real)


class Target(NamedTuple):
    """
    A pattern P: what each token should attend to.

    Args:
        rows (`torch.BoolTensor` of shape `(batch, tokens)`): The rows that have a target.
        weights (`torch.Tensor`, *optional*):
            Proportions, of shape `(batch, tokens, tokens)`, or `(batch, 1, tokens)` if they are the same for all rows.
        offset (`int`): How far away the one token is that is attended to, if there are no proportions.
    """

    rows: torch.Tensor
    weights: torch.Tensor | None
    offset: int = 0


def target_of(target: str | torch.Tensor, real: torch.Tensor, dtype: torch.dtype) -> Target:
    """
    A pattern over real tokens, `(batch, tokens)`.

    Raises:
        ValueError: See [`pattern_loss`].
    """
    batch, tokens = real.shape
    if isinstance(target, str):
        if target in ("next", "prev"):
            pairs = real[:, 1:] & real[:, :-1]
            return Target(pad(pairs, (0, 1) if target == "next" else (1, 0)), None, 1 if target == "next" else -1)
        if target != "first":
            raise ValueError(f"target must be one of {', '.join(POSITIONS)} or a tensor, got {target!r}")
        target = first_token(real)
    target = target.to(real.device, dtype)
    if target.shape == (batch, tokens):
        weights = _proportions(target * real).unsqueeze(1)
    elif target.shape == (batch, tokens, tokens):
        weights = _proportions(target * real.unsqueeze(1) * real.unsqueeze(2))
    else:
        raise ValueError(f"target must be {(batch, tokens)} or {(batch, tokens, tokens)}, got {tuple(target.shape)}")
    return Target(real & (weights > 0).any(dim=-1), weights)


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


def _subtract(maps: torch.Tensor, target: Target, block: Block) -> None:
    """A − P of a block, in place; what it leaves in rows without a target does not count."""
    if target.weights is None:
        # The columns of a block begin at 0, its rows do not.
        maps.diagonal(block.queries.start + target.offset, dim1=-2, dim2=-1).sub_(1)
        return
    rows = slice(None) if target.weights.shape[1] == 1 else block.queries
    maps -= target.weights[block.examples, rows, block.keys].unsqueeze(1)


def _mean(sums: torch.Tensor, rows: torch.Tensor, real: torch.Tensor) -> torch.Tensor:
    """The mean over rows `(batch, tokens)` and real columns of sums over them, `(batch, heads)`."""
    entries = rows.sum(dim=-1) * real.sum(dim=-1)
    return sums / entries.clamp_min(1).unsqueeze(-1)


def _proportions(target: torch.Tensor) -> torch.Tensor:
    total = target.sum(dim=-1, keepdim=True)
    return target / total.where(total > 0, 1)
