"""Scale-aware attention: each head sees a window around the token, and costs no more than that."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, partial
from itertools import groupby
from typing import Any

import torch
from torch import nn
from torch.nn.attention.flex_attention import create_block_mask, flex_attention
from torch.nn.functional import pad, scaled_dot_product_attention

# More than any sentence has.
UNBOUNDED = 2**31
# Up to so many tokens, all heads together in one masked matrix are faster than groups of heads, on any window.
SHORT = 128
# A block of queries in a band, at least and at most.
SMALLEST_BLOCK, LARGEST_BLOCK = 32, 256
# A band is slower than a matrix once the keys of a block, and so many more, are this part of the tokens.
DENSE_FROM, BLOCK_OVERHEAD = 0.9, 80


def scale_aware_attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    windows: Sequence[int | None] | torch.Tensor,
    attention_mask: torch.Tensor | None = None,
    dropout_p: float = 0.0,
    method: str | None = None,
) -> torch.Tensor:
    r"""
    Attention of a head with window w at token j to the tokens j-w ... j+w of its sentence:
    softmax(q_j C(K, w)ᵀ / √head_dim) C(V, w) ("Multi-Scale Self-Attention for Text Classification", AAAI 2020).

    A sentence's edges clip the window: outside of it, and at padding, there is no key. Neighbouring heads of one
    window are computed together; where it is small beside the sentence, time and memory follow the window.

    Args:
        query (`torch.Tensor` of shape `(batch, heads, tokens, head_dim)`): Queries.
        key (`torch.Tensor` of shape `(batch, heads, tokens, head_dim)`): Keys.
        value (`torch.Tensor` of shape `(batch, heads, tokens, head_dim)`): Values.
        windows (`Sequence[int | None]` or `torch.LongTensor` of shape `(batch, heads)`):
            Tokens that a head sees on either side, `None` for all; or for each sentence its own.
        attention_mask (`torch.Tensor` of shape `(batch, tokens)`, *optional*): Non-zero for real tokens.
        dropout_p (`float`, *optional*, defaults to 0.0): Rate at which weights of the attention are dropped.
        method (`str`, *optional*):
            `"materialized"` (the whole matrix, under autograd), `"dense"` (fused attention under a mask), `"banded"`
            (blocks of queries, each with the keys around it) or `"flex"` (torch's FlexAttention, for a GPU: it has
            neither gradients on a CPU nor dropout). `None`: for each window the fastest of the first three on a CPU;
            `"dense"` in an exported program, which takes all lengths, and for a tensor in compiled code, which cannot
            look at it.

    Returns:
        `torch.Tensor` of shape `(batch, heads, tokens, head_dim)`: Zero at padding, where there is no key.

    Raises:
        ValueError: Shapes that do not fit, a window below 0, an unknown method, or dropout with `"flex"`.

    Example:

    ```python
    >>> query = key = value = torch.randn(2, 3, 1000, 30)
    >>> scale_aware_attention(query, key, value, windows=[1, 3, None]).shape
    torch.Size([2, 3, 1000, 30])
    ```"""
    _check(query, key, value, windows, attention_mask, method)
    real = None if attention_mask is None else attention_mask.bool()
    if real is not None and not torch.compiler.is_compiling() and real.all():
        real = None
    if real is not None and method is None and not torch.compiler.is_compiling() and query.shape[2] > SHORT:
        lengths = (real * torch.arange(1, real.shape[1] + 1, device=real.device)).amax(dim=1)
        short = lengths <= real.shape[1] // 2
        if short.any() and lengths.any():
            # Apart, for among them a long sentence would make padding of most of the batch.
            output = torch.zeros_like(query)
            for rows, size in ((short, int(lengths[short].max())), (~short, real.shape[1])):
                if size and rows.any():
                    q, k, v = (tensor[rows, :, :size] for tensor in (query, key, value))
                    of_rows = windows[rows] if isinstance(windows, torch.Tensor) else windows
                    part = scale_aware_attention(q, k, v, of_rows, real[rows, :size], dropout_p)
                    output[rows, :, :size] = part.to(output.dtype)  # autocast may have lowered it
            return output
    if method is None and (torch.compiler.is_exporting() or _unreadable(windows)):
        method = "dense"
    groups = _groups(query, windows, method)
    states = [(query, key, value)]
    if len(groups) > 1:
        sizes = [heads for heads, _, _ in groups]
        states = list(zip(*(tensor.split(sizes, dim=1) for tensor in (query, key, value)), strict=True))
    outputs = []
    for (_, reach, limits), group in zip(groups, states, strict=True):
        way = METHODS[method or _fastest(query.shape[2], reach)]
        outputs.append(way(*group, limits, reach, real, dropout_p).transpose(1, 2))
    # The heads of a token side by side, as the projection after them wants them.
    output = outputs[0] if len(outputs) == 1 else torch.cat(outputs, dim=2)
    if real is not None:
        output = output.masked_fill(~real[:, :, None, None], 0)
    return output.transpose(1, 2)


def attention_weights(
    query: torch.Tensor,
    key: torch.Tensor,
    windows: Sequence[int | None] | torch.Tensor,
    attention_mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """
    The weights of [`scale_aware_attention`], `(batch, heads, tokens, tokens)`: zero outside of the windows and in the
    rows and columns of padding. The arguments are the same.
    """
    _check(query, key, key, windows, attention_mask, "materialized")
    real = None if attention_mask is None else attention_mask.bool()
    ((_, _, limits),) = _groups(query, windows, "materialized")
    weights = _weights(query, key, limits, real)
    return weights if real is None else weights.masked_fill(~real[:, None, :, None], 0)


def _check(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    windows: Sequence[int | None] | torch.Tensor,
    attention_mask: torch.Tensor | None,
    method: str | None,
) -> None:
    if method is not None and method not in METHODS:
        raise ValueError(f"method must be one of {', '.join(METHODS)}, got {method!r}")
    if query.dim() != 4 or query.shape != key.shape or query.shape != value.shape:
        raise ValueError(
            "query, key and value must be (batch, heads, tokens, head_dim), got "
            f"{tuple(query.shape)}, {tuple(key.shape)} and {tuple(value.shape)}"
        )
    batch, heads, tokens, _ = query.shape
    if attention_mask is not None and attention_mask.shape != (batch, tokens):
        raise ValueError(f"attention_mask must be {(batch, tokens)}, got {tuple(attention_mask.shape)}")
    if isinstance(windows, torch.Tensor):
        if windows.shape != (batch, heads) or windows.is_floating_point() or windows.dtype == torch.bool:
            raise ValueError(
                f"windows must be whole numbers of shape {(batch, heads)}, got {windows.dtype} {tuple(windows.shape)}"
            )
        if not torch.compiler.is_compiling() and (windows < 0).any():
            raise ValueError(f"windows must be at least 0, got {windows.min()}")
    elif (
        not isinstance(windows, Sequence)
        or len(windows) != heads
        or any(window is not None and (not hasattr(window, "__index__") or window < 0) for window in windows)
    ):
        raise ValueError(f"windows must be {heads} whole numbers of at least 0 or None, one a head, got {windows!r}")


def _groups(
    query: torch.Tensor, windows: Sequence[int | None] | torch.Tensor, method: str | None
) -> list[tuple[int, int, torch.Tensor | None]]:
    """
    Neighbouring heads of one window: how many they are, how far any of them sees in any sentence, and the windows
    `(batch or 1, 1)`. Or all heads, with the windows `(batch or 1, heads)`.
    """
    heads, tokens = query.shape[1:3]
    if isinstance(windows, torch.Tensor):
        limits = windows
    else:
        every = windows if len(set(windows)) > 1 else windows[:1]  # one mask for all heads where it is the same
        limits = torch.tensor([[UNBOUNDED if window is None else window for window in every]], device=query.device)
    if method in ("materialized", "dense", "flex") or (method is None and tokens <= SHORT):
        return [(heads, tokens, limits)]
    columns = limits.T.tolist() if limits is windows else [[UNBOUNDED if w is None else w] for w in windows]
    groups = []
    start = 0
    for column, members in groupby(columns):
        end = start + len(list(members))
        reach = min(max(column), tokens - 1)
        unbounded = min(column) >= tokens - 1
        groups.append((end - start, reach, None if unbounded else limits[:, start : start + 1]))
        start = end
    return groups


def _unreadable(windows: Sequence[int | None] | torch.Tensor) -> bool:
    return isinstance(windows, torch.Tensor) and torch.compiler.is_compiling()


def _fastest(tokens: int, reach: int) -> str:
    if tokens <= SHORT or _block_size(reach) + 2 * reach + BLOCK_OVERHEAD > DENSE_FROM * tokens:
        return "dense"
    return "banded"


def _block_size(reach: int) -> int:
    return min(max(SMALLEST_BLOCK, reach // 2), LARGEST_BLOCK)


def _hidden(dtype: torch.dtype) -> float:
    """
    What hides a key when added to a score. Finite, so that a row without a key, which belongs to padding, does not
    become NaN, and twice so much is, too.
    """
    return torch.finfo(dtype).min / 2


def _bias(query: torch.Tensor, limits: torch.Tensor | None, real: torch.Tensor | None) -> torch.Tensor | None:
    """What hides the keys outside of the windows and at padding, `(batch or 1, heads or 1, tokens or 1, tokens)`."""
    bias = None
    if limits is not None:
        tokens = query.shape[2]
        if torch.compiler.is_compiling():  # a view of diagonals would tie the code to one length
            positions = torch.arange(tokens, device=query.device)
            beyond = (positions[:, None] - positions).abs() > limits[..., None, None]
            bias = _hidden(query.dtype) * beyond.to(query.dtype)
        else:
            distances = torch.arange(1 - tokens, tokens, device=query.device).abs()
            beyond = distances > limits.unsqueeze(-1)
            diagonals = query.new_zeros(beyond.shape).masked_fill_(beyond, _hidden(query.dtype))
            bias = diagonals.unfold(-1, tokens, 1).flip(-2)
    if real is not None:
        padding = _hidden(query.dtype) * (~real[:, None, None]).to(query.dtype)
        bias = padding if bias is None else bias + padding
    return bias


def _weights(
    query: torch.Tensor, key: torch.Tensor, limits: torch.Tensor | None, real: torch.Tensor | None
) -> torch.Tensor:
    scores = query * query.shape[-1] ** -0.5 @ key.mT
    bias = _bias(scores, limits, real)
    return (scores if bias is None else scores + bias).softmax(dim=-1)


def _materialized(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    limits: torch.Tensor | None,
    reach: int,
    real: torch.Tensor | None,
    dropout_p: float,
) -> torch.Tensor:
    return nn.functional.dropout(_weights(query, key, limits, real), dropout_p).to(value.dtype) @ value


def _dense(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    limits: torch.Tensor | None,
    reach: int,
    real: torch.Tensor | None,
    dropout_p: float,
) -> torch.Tensor:
    return scaled_dot_product_attention(query, key, value, attn_mask=_bias(query, limits, real), dropout_p=dropout_p)


def _banded(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    limits: torch.Tensor | None,
    reach: int,
    real: torch.Tensor | None,
    dropout_p: float,
) -> torch.Tensor:
    """
    The queries of a block see the block's keys and `reach` more on either side. All blocks of all sentences are one
    batch of a fused attention.
    """
    batch, heads, tokens, _ = query.shape
    block = _block_size(reach)
    blocks = -(-tokens // block)
    missing = blocks * block - tokens
    queries = pad(query.transpose(1, 2), (0, 0, 0, 0, 0, missing)).reshape(batch * blocks, block, heads, -1)
    keys, values = (_Neighbourhoods.apply(tensor.transpose(1, 2), block, reach) for tensor in (key, value))

    if real is None:
        real = query.new_ones(1, tokens, dtype=torch.bool)
    outside = ~pad(real, (reach, missing + reach)).unfold(1, block + 2 * reach, block).unsqueeze(2)
    distances = torch.arange(-reach, block + reach, device=query.device)
    distances = (distances - torch.arange(block, device=query.device).unsqueeze(1)).abs()
    if limits is None:
        limits = torch.full((1, 1), reach, device=query.device)
    beyond = distances > limits.unsqueeze(-1).unsqueeze(-1)
    hidden = _hidden(query.dtype)
    bias = hidden * outside.to(query.dtype) + hidden * beyond.to(query.dtype)
    bias = bias.expand(batch, -1, -1, -1).reshape(batch * blocks, 1, block, block + 2 * reach)

    output = scaled_dot_product_attention(
        queries.transpose(1, 2), keys.transpose(1, 2), values.transpose(1, 2), attn_mask=bias, dropout_p=dropout_p
    )
    output = output.transpose(1, 2).reshape(batch, blocks * block, heads, -1)
    return output[:, :tokens].transpose(1, 2)


def _flex(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    limits: torch.Tensor,
    reach: int,
    real: torch.Tensor | None,
    dropout_p: float,
) -> torch.Tensor:
    """One kernel for all heads, which leaves out the blocks that lie outside of a head's window."""
    if dropout_p:
        raise ValueError(f'method="flex" has no dropout, got dropout_p={dropout_p}')
    batch, heads, tokens, width = query.shape
    if width < 16:  # the least that a GPU's kernel takes
        query, key, value = (pad(tensor, (0, 16 - width)) for tensor in (query, key, value))
    limits = limits.expand(batch, heads).contiguous()
    real = query.new_ones(batch, tokens, dtype=torch.bool) if real is None else real

    def visible(sentence: torch.Tensor, head: torch.Tensor, row: torch.Tensor, column: torch.Tensor) -> torch.Tensor:
        seen = ((row - column).abs() <= limits[sentence, head]) & real[sentence, column]
        return seen | (row == column)  # a row of padding, too, has a key

    compiled = _compiled if query.is_cuda and not torch.compiler.is_compiling() else lambda function: function
    mask = compiled(create_block_mask)(visible, batch, heads, tokens, tokens, device=query.device)
    return compiled(flex_attention)(query, key, value, block_mask=mask, scale=width**-0.5)[..., :width]


# Batches of many shapes, with padding and without, in training and not, are more cases than the limit that torch has.
_compiled = cache(partial(torch.compile, recompile_limit=64))


class _Neighbourhoods(torch.autograd.Function):
    """
    `(batch, tokens, heads, head_dim)` to `(batch * blocks, block + 2 * reach, heads, head_dim)`: every block of tokens
    with those around it, as overlapping views of one tensor. What lies around a sentence is zero or another sentence.
    """

    @staticmethod
    def forward(states: torch.Tensor, block: int, reach: int) -> torch.Tensor:
        batch, tokens = states.shape[:2]
        length = -(-tokens // block) * block
        stream = states.new_zeros(batch * length + 2 * reach, *states.shape[2:])
        stream[reach : reach + batch * length].unflatten(0, (batch, length))[:, :tokens] = states
        return stream.unfold(0, block + 2 * reach, block).movedim(-1, 1)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple, output: torch.Tensor) -> None:
        states, ctx.block, ctx.reach = inputs
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
        states = stream[ctx.reach : ctx.reach + blocks * block].unflatten(0, (ctx.batch, -1))
        return states[:, : ctx.tokens], None, None


METHODS: dict[str, Callable[..., torch.Tensor]] = {
    "materialized": _materialized,
    "dense": _dense,
    "banded": _banded,
    "flex": _flex,
}
