"""Attention and its column sums, a block of scores at a time: memory grows linearly in the tokens."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import torch
from torch.nn.functional import pad

from .first_derivative import first_derivative_only

# Scores in a block, by thread: 1 MiB in float32, which stays in the cache. Measured: docs/benchmarks.md.
BLOCK_SCORES = 2**18
# A GPU has no such cache, and every block costs it a launch.
BLOCK_SCORES_ELSEWHERE = 2**25

# The score of a hidden key, in every dtype.
HIDDEN = -1e30


class Settings(NamedTuple):
    """
    The settings of an attention softmax.

    Args:
        scaling (`float`): Factor of the scores.
        softcap (`float`, *optional*): c, if the scores are c·tanh(score / c).
        offset (`int`, *optional*): Query i sees the keys up to i + offset; all of them if `None`.
        dropout (`float`): Dropout of the weights. The column sums are taken before it.
        seed (`int`): Seed of the dropout.
        block (`int`): Scores in a block, over examples, heads, queries and keys.
    """

    scaling: float
    softcap: float | None = None
    offset: int | None = None
    dropout: float = 0.0
    seed: int = 0
    block: int = BLOCK_SCORES


class Block(NamedTuple):
    """A part of the scores: examples, heads, queries, and the keys that these queries may see."""

    examples: slice
    heads: slice
    queries: slice
    keys: slice

    @classmethod
    def whole(cls, tokens: int) -> Block:
        """All scores between so many tokens."""
        return cls(slice(None), slice(None), slice(0, tokens), slice(None))

    def rows(self, tensor: torch.Tensor) -> torch.Tensor:
        """The part of a tensor of shape `(batch, heads, queries, ...)`."""
        return tensor[self.examples, self.heads, self.queries]

    def columns(self, tensor: torch.Tensor) -> torch.Tensor:
        """The part of a tensor of shape `(batch, heads, keys, ...)`."""
        return tensor[self.examples, self.heads, self.keys]

    def of(self, tensor: torch.Tensor) -> torch.Tensor:
        """The part of a tensor that broadcasts to `(batch, heads, queries, keys)`."""
        return tensor[tuple(slice(None) if size == 1 else part for size, part in zip(tensor.shape, self, strict=True))]


def block_size(device: torch.device) -> int:
    """The number of scores in a block."""
    return BLOCK_SCORES * torch.get_num_threads() if device.type == "cpu" else BLOCK_SCORES_ELSEWHERE


def blocks(query: torch.Tensor, key: torch.Tensor, settings: Settings) -> Iterator[Block]:
    """Whole examples if they are small, else whole heads, else rows of one head."""
    batch, heads, queries, _ = query.shape
    keys = key.shape[2]
    rows = min(queries, max(1, settings.block // keys))
    heads_at_once = min(heads, max(1, settings.block // (rows * keys)))
    examples = max(1, settings.block // (heads * rows * keys)) if heads_at_once == heads else 1
    for example in range(0, batch, examples):
        for head in range(0, heads, heads_at_once):
            for start in range(0, queries, rows):
                stop = min(start + rows, queries)
                yield Block(
                    slice(example, example + examples),
                    slice(head, head + heads_at_once),
                    slice(start, stop),
                    slice(0, keys if settings.offset is None else max(1, min(keys, stop + settings.offset))),
                )


def probabilities(
    query: torch.Tensor,
    key: torch.Tensor,
    bias: torch.Tensor | None,
    sinks: torch.Tensor | None,
    mask: torch.Tensor | None,
    settings: Settings,
    first: int = 0,
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """
    The attention weights before dropout; differentiable.

    Args:
        query (`torch.Tensor` of shape `(batch, heads, queries, head_dim)`): Queries, times the scaling.
        key (`torch.Tensor` of shape `(batch, heads, keys, head_dim)`): Keys.
        bias (`torch.Tensor`, *optional*): Added to the capped scores.
        sinks (`torch.Tensor`, *optional*): Scores of one more key that has no value, `(..., queries, 1)`.
        mask (`torch.Tensor`, *optional*): True at hidden keys, or numbers to add to the scores.
        settings (`Settings`): Soft cap and causality.
        first (`int`): Position of the first query.

    Returns:
        The weights `(batch, heads, queries, keys)` and, with a soft cap, the capped scores.
    """
    scores, capped = masked_scores(query, key, bias, mask, settings, first)
    if sinks is None:
        return scores.softmax(dim=-1), capped
    scores = torch.cat([scores, sinks.to(scores.dtype).expand(*scores.shape[:-1], 1)], dim=-1)
    return scores.softmax(dim=-1)[..., :-1], capped


def masked_scores(
    query: torch.Tensor,
    key: torch.Tensor,
    bias: torch.Tensor | None,
    mask: torch.Tensor | None,
    settings: Settings,
    first: int = 0,
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """The scores whose softmax is the attention weights, and the capped ones; see [`probabilities`]."""
    scores = query @ key.mT
    capped = None
    if settings.softcap is not None:
        capped = (scores / settings.softcap).tanh() * settings.softcap
        scores = capped.clone()
    if bias is not None:
        scores = scores.add_(bias)
    # Not minus infinity: a row without a visible key, which belongs to padding, must not become NaN.
    lowest = torch.finfo(scores.dtype).min
    if mask is not None:
        scores = scores.masked_fill_(mask, lowest) if mask.dtype == torch.bool else scores.add_(mask)
    if settings.offset is not None and (start := first + settings.offset + 1) < scores.shape[-1]:
        future = torch.ones(scores.shape[-2], scores.shape[-1] - start, dtype=torch.bool, device=scores.device)
        scores[..., start:].masked_fill_(future.triu_(), lowest)
    return scores, capped


class Totals(NamedTuple):
    """The gradients that blocks add to: of the queries, the keys, and what is added to the scores."""

    query: torch.Tensor
    key: torch.Tensor
    bias: torch.Tensor | None
    sinks: torch.Tensor | None

    @classmethod
    def of(
        cls,
        query: torch.Tensor,
        key: torch.Tensor,
        bias: torch.Tensor | None,
        sinks: torch.Tensor | None,
        needed: Sequence[bool],
    ) -> Totals:
        """Zeros, but for those of the queries; `needed` says whether bias and sinks have a gradient."""
        added = [
            torch.zeros_like(tensor, dtype=query.dtype) if tensor is not None and wanted else None
            for tensor, wanted in zip((bias, sinks), needed, strict=True)
        ]
        return cls(_by_token(query, query.shape[3]), _zeros_in_columns(key), *added)


class BlockedAttention(torch.autograd.Function):
    """
    The column sums of attention and, given values, its output.

    The backward pass computes the weights of a block again and draws the same dropout from the seed. It cannot be
    differentiated itself.

    Args:
        query (`torch.Tensor` of shape `(batch, heads, queries, head_dim)`): Queries, in any dtype.
        key (`torch.Tensor` of shape `(batch, heads, keys, head_dim)`): Keys.
        value (`torch.Tensor` of shape `(batch, heads, keys, value_dim)`, *optional*): Values.
        bias, sinks, mask: See [`probabilities`]; they broadcast to `(batch, heads, queries, keys)`.
        rows (`torch.Tensor`): Weights of the queries in the sums; broadcasts to `(batch, heads, queries)`.
        settings (`Settings`): What else makes the weights.

    Returns:
        The output `(batch, heads, queries, value_dim)` in the dtype of the values, or `None`; and the sums
        `(batch, heads, keys)`, in float32 or float64.
    """

    @staticmethod
    def forward(
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor | None,
        bias: torch.Tensor | None,
        sinks: torch.Tensor | None,
        mask: torch.Tensor | None,
        rows: torch.Tensor,
        settings: Settings,
    ) -> tuple[torch.Tensor | None, torch.Tensor]:
        dtype = None if value is None else value.dtype
        query, key, value = _in_full(query, key, value)
        rows = rows.to(query.dtype).expand(query.shape[:3]).unsqueeze(-2)
        received = query.new_zeros(*query.shape[:2], 1, key.shape[2])
        output = None if value is None else _by_token(query, value.shape[3])
        draw = Dropout(settings, query.device)
        for block in blocks(query, key, settings):
            weights, _ = _of_block(block, query, key, bias, sinks, mask, settings)
            received[block.examples, block.heads, :, block.keys] += (
                rows[block.examples, block.heads, :, block.queries] @ weights
            )
            if output is not None and value is not None:
                block.rows(output).copy_(draw.kept(weights) @ block.columns(value))
        if output is not None:
            output = output.mul_(draw.scale).to(dtype) if draw.threshold else output.to(dtype)
        return output, received.squeeze(-2)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple, output: tuple) -> None:
        *tensors, ctx.settings = inputs
        ctx.save_for_backward(*tensors)

    @staticmethod
    @first_derivative_only
    def backward(ctx: Any, of_output: Any, of_received: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        *tensors, bias, sinks, mask, rows = ctx.saved_tensors
        settings = ctx.settings
        query, key, value = _in_full(*tensors)
        rows = rows.to(query.dtype).expand(query.shape[:3]).unsqueeze(-1)
        of_received = of_received.to(query.dtype).unsqueeze(-1)
        of_value = None if value is None else _zeros_in_columns(value)
        totals = Totals.of(query, key, bias, sinks, ctx.needs_input_grad[3:5])
        draw = Dropout(settings, query.device)
        if value is not None:
            of_output = (of_output * draw.scale if draw.threshold else of_output).to(query.dtype)
        for block in blocks(query, key, settings):
            weights, capped = _of_block(block, query, key, bias, sinks, mask, settings)
            # dS = P (dP - sum P dP) with dP = dO V^T + weight of the row x gradient of the sums: one more channel.
            left, right = block.rows(rows), block.columns(of_received)
            if value is not None and not draw.threshold:
                left = torch.cat([block.rows(of_output), left], dim=-1)
                right = torch.cat([block.columns(value), right], dim=-1)
            gradient = left @ right.mT
            if value is not None and of_value is not None:
                kept = draw.mask(weights)
                _add(block.columns(of_value), weights if kept is None else weights * kept, block.rows(of_output))
                if kept is not None:
                    gradient += (block.rows(of_output) @ block.columns(value).mT).mul_(kept)
            _into_scores(block, gradient, weights, capped, query, key, totals, settings)
        gradients = (totals.query, totals.key, of_value, totals.bias, totals.sinks)
        inputs = (*tensors, bias, sinks)
        return (
            *(
                None if gradient is None else gradient.to(tensor.dtype)
                for gradient, tensor in zip(gradients, inputs, strict=True)
            ),
            None,
            None,
            None,
        )


class Dropout:
    """
    Dropout masks from a seed. Each element takes 16 random bits, which a CPU draws several times as fast as Bernoulli
    numbers. The rate is rounded to 16 bits.
    """

    def __init__(self, settings: Settings, device: torch.device | str = "cpu"):
        self.threshold = round(settings.dropout * 2**16)
        self.scale = 2**16 / max(1, 2**16 - self.threshold)
        self.device = device
        self.generator = torch.Generator(device).manual_seed(settings.seed) if self.threshold else None

    def mask(self, weights: torch.Tensor) -> torch.Tensor | None:
        """True at the weights that stay, or `None` if all do."""
        if self.generator is None:
            return None
        size = weights.numel()
        bits = torch.empty(-(-size // 4), dtype=torch.int64, device=self.device)
        bits.random_(-(2**63), None, generator=self.generator)
        return (bits.view(torch.int16)[:size] >= self.threshold - 2**15).view_as(weights)

    def kept(self, weights: torch.Tensor) -> torch.Tensor:
        """The weights, zero where they are dropped; not scaled."""
        mask = self.mask(weights)
        return weights if mask is None else weights * mask


def _in_full(*tensors: torch.Tensor | None) -> list[Any]:
    """At least float32: sums over many tokens, and scores, lose too much in half precision."""
    return [
        None if tensor is None else tensor.to(torch.promote_types(tensor.dtype, torch.float32)) for tensor in tensors
    ]


def _of_block(
    block: Block,
    query: torch.Tensor,
    key: torch.Tensor,
    bias: torch.Tensor | None,
    sinks: torch.Tensor | None,
    mask: torch.Tensor | None,
    settings: Settings,
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """The [`probabilities`] of a block, given all queries, not scaled, and all keys."""
    bias, sinks, mask = (None if tensor is None else block.of(tensor) for tensor in (bias, sinks, mask))
    query, key = block.rows(query) * settings.scaling, block.columns(key)
    if mask is not None and mask.shape[-2] == 1 and settings.softcap is None:
        # A mask that is the same for all queries is one more channel, which is cheaper than a pass over scores.
        if mask.dtype == torch.bool:
            mask = query.new_zeros(mask.shape).masked_fill_(mask, HIDDEN)
        query = pad(query, (0, 1), value=1)
        key = torch.cat([key, mask.mT.to(key.dtype).expand(*key.shape[:3], 1)], dim=-1)
        mask = None
    return probabilities(query, key, bias, sinks, mask, settings, block.queries.start)


def _into_scores(
    block: Block,
    gradient: torch.Tensor,
    weights: torch.Tensor,
    capped: torch.Tensor | None,
    query: torch.Tensor,
    key: torch.Tensor,
    totals: Totals,
    settings: Settings,
) -> None:
    """Adds the gradients of a block, given that of its weights; that of the queries lacks the scaling."""
    gradient = torch.ops.aten._softmax_backward_data(gradient, weights, -1, gradient.dtype)
    if totals.sinks is not None:
        # P sums to 1 less the sink's share s, and dS to sum P dP - (1 - s) sum P dP: the sink's is the rest.
        _add_part(totals.sinks, block, -gradient.sum(dim=-1, keepdim=True))
    if totals.bias is not None:
        _add_part(totals.bias, block, gradient)
    if capped is not None and settings.softcap is not None:
        gradient = gradient * (1 - (capped / settings.softcap).square())
    block.rows(totals.query).copy_(gradient @ block.columns(key)).mul_(settings.scaling)
    _add(block.columns(totals.key), gradient, block.rows(query), settings.scaling)


def _by_token(states: torch.Tensor, width: int) -> torch.Tensor:
    """Room for `(batch, heads, tokens, width)`, where the heads of a token lie side by side, as layers take them."""
    return states.new_empty(states.shape[0], states.shape[2], states.shape[1], width).transpose(1, 2)


def _zeros_in_columns(states: torch.Tensor) -> torch.Tensor:
    """Zeros of the same shape with contiguous columns, to which [`_add`] adds in less time."""
    return torch.zeros_like(states.mT, memory_format=torch.contiguous_format).mT


def _add(total: torch.Tensor, left: torch.Tensor, right: torch.Tensor, factor: float = 1.0) -> None:
    """total += factor leftᵀ right, without a copy: the first two dimensions of a block are one."""
    total.mT.flatten(0, 1).baddbmm_(right.mT.flatten(0, 1), left.flatten(0, 1), alpha=factor)


def _add_part(total: torch.Tensor, block: Block, part: torch.Tensor) -> None:
    """Adds a block to what broadcasts to all of them."""
    target = block.of(total)
    target += part.sum_to_size(target.shape)


__all__ = ["Block", "BlockedAttention", "Dropout", "Settings", "block_size", "blocks", "probabilities"]
