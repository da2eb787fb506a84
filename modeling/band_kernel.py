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
    """Whether a band is faster than the whole matrix on a CPU; measured."""
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
    batch, heads, tokens, _ = query.shape
    block = block_size(band)
    blocks = -(-tokens // block)
    missing = blocks * block - tokens
    size = band.before + block + band.after
    queries = pad(query.transpose(1, 2), (0, 0, 0, 0, 0, missing)).reshape(batch * blocks, block, heads, -1)
    keys, values = (Neighbourhoods.apply(tensor.transpose(1, 2), blocks, block, band) for tensor in (key, value))

    if real is None:
        real = query.new_ones(1, tokens, dtype=torch.bool)
    outside = ~pad(real, (band.before, missing + band.after)).unfold(1, size, block).unsqueeze(2)
    distances = torch.arange(-band.before, block + band.after, device=query.device)
    distances = distances - torch.arange(block, device=query.device).unsqueeze(1)
    if limits is None:
        beyond = ~band.holds(distances)
    else:
        beyond = distances.abs() > limits.unsqueeze(-1).unsqueeze(-1)
    bias = hidden(query.dtype) * outside.to(query.dtype) + hidden(query.dtype) * beyond.to(query.dtype)
    bias = bias.expand(batch, -1, -1, -1).reshape(batch * blocks, 1, block, size)

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
    output = output.transpose(1, 2).reshape(batch, blocks * block, heads, -1)
    return output[:, :tokens].transpose(1, 2)


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
