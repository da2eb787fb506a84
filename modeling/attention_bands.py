"""Attention within a band around the diagonal: time and memory follow the width of the band, not the text."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import torch
from torch.nn.functional import dropout, embedding, pad, scaled_dot_product_attention

from .attention_call import AttentionRefused
from .mask_bands import Band

# The fused kernel takes so many queries at once; a block has up to a multiple of them, and at most the second number.
# Its keys are cut to a multiple of the third, the numbers that a processor works on at once.
QUERIES, MOST_QUERIES, LANES = 32, 256, 16
# Bands that reach over so few keys are not left to the fused kernel on a CPU.
NARROW = 8
# A band is slower than the whole matrix once the keys of a block, plus the overhead, are this part of the tokens.
DENSE_FROM, BLOCK_OVERHEAD = 0.9, 40
# One masked matrix is faster than bands, and than groups of heads, for up to so many tokens on a GPU. At twice as
# many, it is slower with one window, faster with several, and takes up to six times the memory with padding. Measured
# on an H200 in bfloat16 (benchmarks/bench_one_matrix.py).
SHORT_ON_GPU = 1024
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


def queries_per_block(band: Band) -> int:
    """The number of queries in a block of the fused kernel; measured."""
    reach = band.before + band.after
    queries = min(QUERIES * max(1, math.ceil(reach / (4 * QUERIES))), MOST_QUERIES)
    if torch.compiler.is_compiling():  # for texts of any length it takes minutes unless this is a power of two
        return 1 << (queries - 1).bit_length()
    return (queries + reach) // LANES * LANES - reach


def is_short_on_gpu(tokens: int, device: torch.device | str) -> bool:
    """Whether one matrix of all heads is faster than any band, as it is on a GPU or another accelerator; measured."""
    return torch.device(device).type != "cpu" and tokens <= SHORT_ON_GPU


def is_worthwhile(band: Band, tokens: int, device: torch.device | str) -> bool:
    """
    Whether a band is faster than the whole matrix on this device; measured. In an exported program, whether it is
    bounded and not too wide: a comparison with `tokens` would tie the program to some lengths.
    """
    if torch.compiler.is_exporting():
        return band.before + band.after <= WIDEST_EXPORTED
    if is_short_on_gpu(tokens, device):
        return False
    return queries_per_block(band) + band.before + band.after + BLOCK_OVERHEAD <= DENSE_FROM * tokens


def hidden(dtype: torch.dtype) -> float:
    """
    The number that hides a key when added to its score. Twice as much is still finite. It is too large for a row
    without a visible key, whose gradient becomes NaN in kernels of a GPU: a token that is padding sees itself.
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
    Each block of queries attends to the keys of the block and those of the band on either side, all blocks of all
    sentences at once.

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

    Raises:
        AttentionRefused: It is exported with torch below 2.13.
    """
    if torch.compiler.is_exporting() and torch.__version__ < "2.13":  # 2.7 refuses the number of blocks
        raise AttentionRefused(f"a window cannot be exported with torch {torch.__version__}: upgrade to 2.13.")
    tokens, reach = query.shape[2], band.before + band.after
    scale = query.shape[-1] ** -0.5 if scale is None else scale
    narrow = others is None and reach <= NARROW and _multiplies_well(query)
    block = LANES - reach if narrow else queries_per_block(band)
    # Exported: one block more than needed, as a program that may have a single one is refused.
    blocks = (tokens - 1) // block + (2 if torch.compiler.is_exporting() else 1)
    if real is None:
        real = query.new_ones(1, tokens, dtype=torch.bool)
    distances = torch.arange(-band.before, block + band.after, device=query.device)
    distances = distances - torch.arange(block, device=query.device).unsqueeze(1)  # of all pairs in a block
    beyond = ~band.holds(distances)
    if limits is not None:
        beyond = beyond | (distances.abs() > limits.unsqueeze(-1))
    inside = _inside(real, blocks, block, band)
    bias = hidden(query.dtype) * beyond.to(query.dtype).unsqueeze(-3)
    padding = hidden(query.dtype) * (~inside).to(query.dtype).unsqueeze(2)
    bias = torch.addcmul(bias, padding, (distances != 0).to(query.dtype))  # not of the token itself
    if narrow:
        output = _multiplied(query, key, value, bias, band, block, dropout_p, scale)
    else:
        output = _fused(query, key, value, bias, band, block, dropout_p, scale, others)
    if torch.compiler.is_exporting():  # the end of a slice would be compared with the length
        return output.index_select(2, torch.arange(tokens, device=output.device))
    return output[:, :, :tokens]


def _multiplies_well(query: torch.Tensor) -> bool:
    """
    Whether matrix products are as precise as the fused kernel, which adds up in float32, and faster: on a processor,
    and not compiled, which is slower for texts of any length.
    """
    if query.device.type != "cpu" or torch.compiler.is_compiling():
        return False
    return query.dtype in (torch.float32, torch.float64) and not torch.is_autocast_enabled("cpu")


def _fused(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    bias: torch.Tensor,
    band: Band,
    block: int,
    dropout_p: float,
    scale: float,
    others: Others | None,
) -> torch.Tensor:
    """All blocks of all sentences as one batch of a fused attention, `(batch, heads, blocks * block, value_dim)`."""
    batch, blocks = query.shape[0], bias.shape[-3]
    queries = _surroundings(query.transpose(1, 2), 1, blocks, block, Band(0, 0), wide(query)).transpose(1, 2)
    keys, values = (
        _surroundings(states.transpose(1, 2), 1, blocks, block, band, wide(states)).transpose(1, 2)
        for states in (key, value)
    )
    bias = bias.expand(batch, -1, -1, -1).flatten(0, 1).unsqueeze(1)
    if others is not None:
        keys, values = (
            torch.cat([near, _of_blocks(gather_tokens(tensor, others.places), blocks, near.shape[-1])], dim=2)
            for near, tensor in ((keys, key), (values, value))
        )
        bias = torch.cat([bias, _bias_of_others(others, band, blocks, block, query.dtype)], dim=-1)
    output = scaled_dot_product_attention(queries, keys, values, attn_mask=bias, dropout_p=dropout_p, scale=scale)
    output = output[..., : value.shape[-1]]
    return output.transpose(1, 2).unflatten(0, (batch, blocks)).flatten(1, 2).transpose(1, 2)


def _multiplied(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    bias: torch.Tensor,
    band: Band,
    block: int,
    dropout_p: float,
    scale: float,
) -> torch.Tensor:
    """The same by matrix products: they take less time than the fused kernel where its matrices are small."""
    batch, heads, blocks = *query.shape[:2], bias.shape[-3]
    queries = _surroundings(query, 2, blocks, block, Band(0, 0))
    keys, values = (_surroundings(states, 2, blocks, block, band) for states in (key, value))
    scores = (queries @ keys.mT).unflatten(0, (batch, heads, blocks))
    scores = torch.add(bias.unsqueeze(1), scores, alpha=scale)  # one pass for both
    weights = dropout(scores.softmax(dim=-1), dropout_p).flatten(0, 2)
    return (weights @ values).unflatten(0, (batch, heads, blocks)).flatten(2, 3)


def _surroundings(
    states: torch.Tensor, dim: int, blocks: int, block: int, band: Band, width: int | None = None
) -> torch.Tensor:
    """
    The states of each block and of a band on either side: overlapping views, but in exported programs. Dimension
    `dim`, the tokens, becomes those of a block, and all before it one; zeros fill the last up to `width`.
    """
    if torch.compiler.is_exporting():
        return _rows(states, _places(blocks, block, band, states.device))
    return Neighbourhoods.apply(states, dim, blocks, block, band, width or states.shape[-1])


def _rows(states: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
    """
    Copies of the states `(batch, tokens, heads, width)` at `places`, `(blocks, rows)`, or the nearest token. No size
    is compared with another: an exported program takes any length.
    """
    batch, tokens = states.shape[:2]
    firsts = tokens * torch.arange(batch, device=states.device)[:, None, None]
    rows = embedding(places.clamp(0, tokens - 1) + firsts, states.flatten(0, 1).flatten(1))
    return rows.unflatten(-1, states.shape[2:]).flatten(0, 1)


def _inside(real: torch.Tensor, blocks: int, block: int, band: Band) -> torch.Tensor:
    """True at the keys around each block that are real tokens, `(batch or 1, blocks, keys)`."""
    tokens = real.shape[1]
    if not torch.compiler.is_exporting():
        real = pad(real, (band.before, blocks * block - tokens + band.after))
        return real.unfold(1, band.before + block + band.after, block)
    places = _places(blocks, block, band, real.device)
    near = places.clamp(0, tokens - 1)
    return real[:, near] & (places == near)


def _places(blocks: int, block: int, band: Band, device: torch.device) -> torch.Tensor:
    """The positions of the keys around each block, `(blocks, keys)`, also beyond the edges of the text."""
    starts = block * torch.arange(blocks, device=device).unsqueeze(1)
    return starts + torch.arange(-band.before, block + band.after, device=device)


def gather_tokens(states: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
    """The states `(batch, heads, others, width)` of the tokens at `places`, `(batch, others)`."""
    return states.gather(2, places[:, None, :, None].expand(-1, states.shape[1], -1, states.shape[3]))


def _of_blocks(states: torch.Tensor, blocks: int, width: int) -> torch.Tensor:
    """The same for each block of a sentence, filled with zeros up to `width`."""
    states = pad(states, (0, width - states.shape[-1]))
    return states.unsqueeze(1).expand(-1, blocks, -1, -1, -1).flatten(0, 1)


def wide(states: torch.Tensor) -> int:
    """The width that the fused kernel of a CPU takes fastest: a multiple of the numbers that are worked on at once."""
    width = states.shape[-1]
    if states.device.type != "cpu" or torch.compiler.is_exporting():
        return width
    return -(-width // LANES) * LANES


def _bias_of_others(others: Others, band: Band, blocks: int, block: int, dtype: torch.dtype) -> torch.Tensor:
    """The bias of the scores of the other keys, `(batch * blocks, 1, block, others)`."""
    queries = torch.arange(blocks * block, device=others.places.device).view(1, blocks, block, 1)
    distances = others.places[:, None, None, :] - queries
    visible = others.band.holds(distances) & ~band.holds(distances) & others.valid[:, None, None, :]
    return hidden(dtype) * (~visible).to(dtype).flatten(0, 1).unsqueeze(1)


class Neighbourhoods(torch.autograd.Function):
    """
    Blocks of tokens with the tokens of a band on either side, as overlapping views of one tensor. Dimension `dim`, the
    tokens, becomes `before + block + after`, and all before it one; the last becomes `width`. Beyond the edges of a
    text are zeros or another text.
    """

    @staticmethod
    def forward(states: torch.Tensor, dim: int, blocks: int, block: int, band: Band, width: int) -> torch.Tensor:
        texts, tokens, rest = states.shape[:dim], states.shape[dim], (*states.shape[dim + 1 : -1], width)
        length = blocks * block
        stream = states.new_empty(band.before + texts.numel() * length + band.after, *rest)
        stream[: band.before] = 0
        stream[stream.shape[0] - band.after :] = 0
        inner = stream[band.before : band.before + texts.numel() * length].unflatten(0, (*texts, length))
        inner[..., states.shape[-1] :] = 0
        inner.narrow(dim, tokens, length - tokens).zero_()
        inner.narrow(dim, 0, tokens)[..., : states.shape[-1]].copy_(states)
        return stream.unfold(0, band.before + block + band.after, block).movedim(-1, 1)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple, output: torch.Tensor) -> None:
        states, ctx.dim, _, ctx.block, ctx.band, _ = inputs
        ctx.shape = states.shape

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        blocks, size = gradient.shape[:2]
        block, dim = ctx.block, ctx.dim
        if size == block:  # nothing overlaps
            states = gradient.unflatten(0, (*ctx.shape[:dim], -1)).flatten(dim, dim + 1)
            return states.narrow(dim, 0, ctx.shape[dim])[..., : ctx.shape[-1]], None, None, None, None, None
        stream = gradient.new_empty((blocks + -(-size // block) - 1) * block, *gradient.shape[2:])
        stream[: blocks * block].unflatten(0, (blocks, block)).copy_(gradient[:, :block])
        stream[blocks * block :] = 0
        for start in range(block, size, block):
            part = gradient[:, start : start + block]
            shifted = stream[start : start + blocks * block].unflatten(0, (blocks, block))
            shifted[:, : part.shape[1]] += part
        states = stream[ctx.band.before : ctx.band.before + blocks * block].unflatten(0, (*ctx.shape[:dim], -1))
        return states.narrow(dim, 0, ctx.shape[dim])[..., : ctx.shape[-1]], None, None, None, None, None
