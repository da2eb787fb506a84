"""Attention within a band around the diagonal: time and memory follow the width of the band, not the text."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch.nn.functional import pad, scaled_dot_product_attention

from .mask_bands import Band

# Least and most queries of a block in a band.
SMALLEST_BLOCK, LARGEST_BLOCK = 32, 256
# A band is slower than the whole matrix once the keys of a block, plus the overhead, are this part of the tokens.
DENSE_FROM, BLOCK_OVERHEAD = 0.9, 40
# The widest band of an exported program, which does not know how short texts will be.
WIDEST_EXPORTED = 512


class Others(NamedTuple):
    """
    Keys that are seen from outside of the band, too.

    Args:
        places (`torch.LongTensor` of shape `(batch, others)`): Their positions.
        valid (`torch.BoolTensor` of shape `(batch, others)`): False at positions that fill up.
        band (`Band`): The distances at which they are visible.
    """

    places: torch.Tensor
    valid: torch.Tensor
    band: Band


def block_size(band: Band) -> int:
    """How many queries are computed together."""
    return min(max(SMALLEST_BLOCK, (band.before + band.after) // 2), LARGEST_BLOCK)


def is_worthwhile(band: Band, tokens: int) -> bool:
    """
    Whether a band is faster than the whole matrix on a CPU; measured. In an exported program, whether it is bounded
    and not too wide: a comparison with `tokens` would tie the program to some lengths.
    """
    if torch.compiler.is_exporting():
        return band.before + band.after <= WIDEST_EXPORTED
    return block_size(band) + band.before + band.after + BLOCK_OVERHEAD <= DENSE_FROM * tokens


def hidden(dtype: torch.dtype) -> float:
    """
    The number that hides a key when added to its score. Twice as much is still finite: a row without a visible key,
    which belongs to padding, must not become NaN.
    """
    return torch.finfo(dtype).min / 2


def band_attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    band: Band,
    real: torch.Tensor | None = None,
    limits: torch.Tensor | None = None,
    dropout_p: float = 0.0,
    scale: float | None = None,
    others: Others | None = None,
) -> torch.Tensor:
    """
    Each block of queries attends to the keys of the block and those of the band on either side. All blocks of all
    sentences are one batch of a fused attention.

    Args:
        query, key (`torch.Tensor` of shape `(batch, heads, tokens, head_dim)`): Queries and keys.
        value (`torch.Tensor` of shape `(batch, heads, tokens, value_dim)`): Values.
        band (`Band`): The visible distances, bounded.
        real (`torch.BoolTensor` of shape `(batch or 1, tokens)`, *optional*): False at keys that nobody sees.
        limits (`torch.LongTensor` of shape `(batch or 1, 1)`, *optional*): The window of each sentence in the band.
        dropout_p (`float`, *optional*, defaults to 0.0): Dropout of the attention weights.
        scale (`float`, *optional*): Factor of the scores; 1/√head_dim if `None`.
        others (`Others`, *optional*): Keys that are seen from outside of the band, too.

    Returns:
        `torch.Tensor` of shape `(batch, heads, tokens, value_dim)`: Finite, and meaningless, where no key is visible.
    """
    batch, _, tokens, _ = query.shape
    block = block_size(band)
    size = band.before + block + band.after
    if real is None:
        real = query.new_ones(1, tokens, dtype=torch.bool)
    exporting = torch.compiler.is_exporting()
    # One block more than needed: a program that may have a single one is refused.
    blocks = (tokens - 1) // block + (2 if exporting else 1)
    cut = _copied_blocks if exporting else _viewed_blocks
    queries, keys, values, inside = cut(
        query.transpose(1, 2), key.transpose(1, 2), value.transpose(1, 2), real, blocks, block, band
    )
    # The distances of all pairs in a block, in one line of which each query sees a part.
    distances = torch.arange(1 - block - band.before, block + band.after, device=query.device)
    beyond = ~band.holds(distances) if limits is None else distances.abs() > limits
    bias = (hidden(query.dtype) * beyond.to(query.dtype)).unfold(-1, size, 1).flip(-2)
    bias = bias.unsqueeze(-3) + hidden(query.dtype) * (~inside).to(query.dtype).unsqueeze(2)
    bias = bias.expand(batch, -1, -1, -1).flatten(0, 1).unsqueeze(1)

    keys, values = keys.transpose(1, 2), values.transpose(1, 2)
    if others is not None:
        keys, values = (
            torch.cat([near, _of_blocks(gather_tokens(tensor, others.places), blocks)], dim=2)
            for near, tensor in ((keys, key), (values, value))
        )
        bias = torch.cat([bias, _bias_of_others(others, band, blocks, block, query.dtype)], dim=-1)
    output = scaled_dot_product_attention(
        queries.transpose(1, 2), keys, values, attn_mask=bias, dropout_p=dropout_p, scale=scale
    )
    output = output.transpose(1, 2).unflatten(0, (batch, blocks)).flatten(1, 2)
    if exporting:  # the end of a slice would be compared with the length
        return output[:, torch.arange(tokens, device=output.device)].transpose(1, 2)
    return output[:, :tokens].transpose(1, 2)


Blocks = tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]


def _viewed_blocks(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    real: torch.Tensor,
    blocks: int,
    block: int,
    band: Band,
) -> Blocks:
    """
    The queries of each block, the keys and values around it, `(batch * blocks, tokens, heads, width)`, and which of
    the keys are real, `(batch or 1, blocks, keys)`. Overlapping views.
    """
    missing = blocks * block - query.shape[1]
    queries = pad(query, (0, 0, 0, 0, 0, missing)).unflatten(1, (blocks, block)).flatten(0, 1)
    keys, values = (Neighbourhoods.apply(states, blocks, block, band) for states in (key, value))
    real = pad(real, (band.before, missing + band.after))
    return queries, keys, values, real.unfold(1, band.before + block + band.after, block)


def _copied_blocks(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    real: torch.Tensor,
    blocks: int,
    block: int,
    band: Band,
) -> Blocks:
    """The same by their positions, which compares no size with another: an exported program takes any length."""
    last = query.shape[1] - 1
    starts = block * torch.arange(blocks, device=query.device).unsqueeze(1)
    rows = starts + torch.arange(block, device=query.device)
    columns = starts + torch.arange(-band.before, block + band.after, device=query.device)
    near = columns.clamp(0, last)
    queries, keys, values = (
        states[:, places].flatten(0, 1)
        for states, places in ((query, rows.clamp(0, last)), (key, near), (value, near))
    )
    return queries, keys, values, real[:, near] & (columns == near)


def gather_tokens(states: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
    """The states `(batch, heads, others, width)` of the tokens at `places`, `(batch, others)`."""
    return states.gather(2, places[:, None, :, None].expand(-1, states.shape[1], -1, states.shape[3]))


def _of_blocks(states: torch.Tensor, blocks: int) -> torch.Tensor:
    """The same for each block of a sentence."""
    return states.unsqueeze(1).expand(-1, blocks, -1, -1, -1).flatten(0, 1)


def _bias_of_others(others: Others, band: Band, blocks: int, block: int, dtype: torch.dtype) -> torch.Tensor:
    """What to add to the scores of the other keys, `(batch * blocks, 1, block, others)`."""
    queries = torch.arange(blocks * block, device=others.places.device).view(1, blocks, block, 1)
    distances = others.places[:, None, None, :] - queries
    visible = others.band.holds(distances) & ~band.holds(distances) & others.valid[:, None, None, :]
    return hidden(dtype) * (~visible).to(dtype).flatten(0, 1).unsqueeze(1)


class Neighbourhoods(torch.autograd.Function):
    """
    Blocks of tokens with the tokens of a band on either side, as overlapping views of one tensor:
    `(batch, tokens, heads, head_dim)` to `(batch * blocks, before + block + after, heads, head_dim)`. Beyond the edges
    of a sentence are zeros or other sentences.
    """

    @staticmethod
    def forward(states: torch.Tensor, blocks: int, block: int, band: Band) -> torch.Tensor:
        batch, tokens = states.shape[:2]
        length = blocks * block
        stream = states.new_zeros(band.before + batch * length + band.after, *states.shape[2:])
        stream[band.before : band.before + batch * length].unflatten(0, (batch, length))[:, :tokens] = states
        return stream.unfold(0, band.before + block + band.after, block).movedim(-1, 1)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple, output: torch.Tensor) -> None:
        states, _, ctx.block, ctx.band = inputs
        ctx.batch, ctx.tokens = states.shape[:2]

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        blocks, size = gradient.shape[:2]
        block = ctx.block
        stream = gradient.new_zeros((blocks + -(-size // block)) * block, *gradient.shape[2:])
        for start in range(0, size, block):
            part = gradient[:, start : start + block]
            shifted = stream[start : start + blocks * block].unflatten(0, (blocks, block))
            shifted[:, : part.shape[1]] += part
        states = stream[ctx.band.before : ctx.band.before + blocks * block].unflatten(0, (ctx.batch, -1))
        return states[:, : ctx.tokens], None, None, None


__all__ = ["Others", "band_attention", "block_size", "gather_tokens", "hidden", "is_worthwhile"]
