"""Received attention: the attention that each token gets from all tokens, without the attention matrix."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn.functional import scaled_dot_product_attention
from transformers.integrations.sdpa_attention import repeat_kv, sdpa_attention_forward

# Scores in a block of query rows, over batch and heads: 8 MiB in float32.
BLOCK_SCORES = 2**21
# A mask that is added to the scores hides a key by a number below this, in every dtype.
MASKED = -1e4


def received_attention(
    query: torch.Tensor,
    key: torch.Tensor,
    attention_mask: torch.Tensor | None = None,
    scaling: float | None = None,
    is_causal: bool = False,
    method: str | None = None,
) -> torch.Tensor:
    r"""
    The attention that each token receives: the column sums r_j = Σ_i P_ij of each head over the real tokens i (Eq. 8
    of the attention-guiding paper), where P is the softmax before dropout.

    Args:
        query (`torch.Tensor` of shape `(batch, heads, tokens, head_dim)`): Queries.
        key (`torch.Tensor` of shape `(batch, key_heads, tokens, head_dim)`):
            Keys; `heads` is a multiple of `key_heads` (grouped-query attention).
        attention_mask (`torch.Tensor`, *optional*):
            1 or true at real tokens, of shape `(batch, tokens)`. Or which query sees which key, of shape
            `(batch, heads, tokens, tokens)`: booleans, or floats to add to the scores. All sizes but the last may be
            1, and a token that does not see itself is padding.
        scaling (`float`, *optional*): Factor of the scores; 1/√head_dim if `None`.
        is_causal (`bool`, *optional*, defaults to `False`): Whether a token sees only itself and those before it.
        method (`str`, *optional*):
            - `"materialized"`: the whole matrix, under autograd.
            - `"blocked"`: a block of rows at a time, computed again in the backward pass. Memory grows linearly in the
              tokens.
            - `"fused"`: by the backward pass of `scaled_dot_product_attention`. Memory grows linearly, too.
            - `None`: `"fused"` on a GPU, `"blocked"` elsewhere and in compiled code.

    Returns:
        `torch.Tensor` of shape `(batch, heads, tokens)`: In float32, or in float64 if the queries are. Zero at
        padding; each head sums to the number of real tokens. The scores of bfloat16 queries are rounded to bfloat16
        before the softmax, which changes an entry by a few per cent.

    Raises:
        ValueError: `query` and `key` do not have four dimensions, differ in tokens or head_dim, or `heads` is not a
            multiple of `key_heads`; `attention_mask` has none of the shapes and types above; or `method` is unknown.
    """
    if method is None:
        method = "fused" if query.is_cuda and not torch.compiler.is_compiling() else "blocked"
    if method not in METHODS:
        raise ValueError(f"method must be one of {', '.join(METHODS)}, got {method!r}")
    if query.dim() != 4 or key.dim() != 4 or query.shape[-2:] != key.shape[-2:] or query.shape[1] % key.shape[1]:
        raise ValueError(
            "query must be (batch, heads, tokens, head_dim) and key (batch, key_heads, tokens, head_dim), got "
            f"{tuple(query.shape)} and {tuple(key.shape)}"
        )
    visible, real = _visible_and_real(query, attention_mask, is_causal)
    key = repeat_kv(key, query.shape[1] // key.shape[1])
    scaling = query.shape[-1] ** -0.5 if scaling is None else scaling
    with torch.autocast(query.device.type, enabled=False):  # autocast would sum in bfloat16
        return METHODS[method](query, key, visible, real, scaling)


def received_attention_forward(
    module: nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    scaling: float | None = None,
    dropout: float = 0.0,
    is_causal: bool | None = None,
    **kwargs: Any,
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """
    The attention implementation `"received"`: scaled dot-product attention. With `output_attentions=True`, a model
    returns as `attentions` the [`received_attention`] of each layer, `(batch, heads, tokens)`.

    On a CPU, output and received attention are computed from the same blocks. Dropout changes only the output.

    Args:
        module (`torch.nn.Module`): The attention layer; its `config` and `is_causal` give defaults.
        query, key, attention_mask, scaling, is_causal: See [`received_attention`].
        value (`torch.Tensor` of shape `(batch, key_heads, tokens, head_dim)`): Values.
        dropout (`float`, *optional*, defaults to 0.0): Dropout of the attention weights.

    Returns:
        The output `(batch, tokens, heads, head_dim)`, and the received attention `(batch, heads, tokens)` or `None`.

    Raises:
        ValueError: As [`received_attention`], if the received attention is asked for.
    """
    wanted = kwargs.pop("output_attentions", getattr(module.config, "output_attentions", False))
    causal = getattr(module, "is_causal", True) if is_causal is None else is_causal
    causal = causal and attention_mask is None
    if wanted and query.device.type == "cpu" and not torch.compiler.is_compiling():
        visible, real = _visible_and_real(query, attention_mask, causal)
        groups = query.shape[1] // key.shape[1]
        scaling = query.shape[-1] ** -0.5 if scaling is None else scaling
        seed = int(torch.empty((), dtype=torch.int64).random_()) if dropout else 0
        with torch.autocast("cpu", enabled=False):
            output, received = _Blocked.apply(
                query, repeat_kv(key, groups), repeat_kv(value, groups), visible, real, scaling, dropout, seed
            )
        return output.transpose(1, 2).contiguous(), received
    output, _ = sdpa_attention_forward(
        module, query, key, value, attention_mask, scaling=scaling, dropout=dropout, is_causal=is_causal, **kwargs
    )
    if not wanted:
        return output, None
    return output, received_attention(query, key, attention_mask, scaling, is_causal=causal)


def _visible_and_real(
    query: torch.Tensor, attention_mask: torch.Tensor | None, is_causal: bool
) -> tuple[torch.Tensor | None, torch.Tensor]:
    """
    Which keys each query sees, and which tokens are real.

    Returns:
        Booleans, floats to add to the scores, or `None`, and booleans. They broadcast to
        `(batch, heads, tokens, tokens)` and `(batch, heads, tokens)`.
    """
    batch, heads, tokens, _ = query.shape
    visible = attention_mask
    if attention_mask is None:
        real = query.new_ones(1, 1, tokens, dtype=torch.bool)
    elif attention_mask.shape == (batch, tokens):
        real = attention_mask.bool()[:, None]
        visible = real.unsqueeze(-2)
    elif _is_matrix(attention_mask, (batch, heads, tokens, tokens)):
        rows = attention_mask.shape[-2]
        real = attention_mask.squeeze(-2) if rows == 1 else attention_mask.diagonal(dim1=-2, dim2=-1)
        real = real if real.dtype == torch.bool else real > MASKED
    else:
        raise ValueError(
            f"attention_mask must be {(batch, tokens)}, or booleans or decimals of {(batch, heads, tokens, tokens)}, "
            f"where 1 may stand for all but the last; got {attention_mask.dtype} {tuple(attention_mask.shape)}"
        )
    if is_causal:
        before = torch.ones(tokens, tokens, dtype=torch.bool, device=query.device).tril()
        if visible is None or visible.dtype == torch.bool:
            visible = before if visible is None else visible & before
        else:
            visible = visible.masked_fill(~before, torch.finfo(visible.dtype).min)
    return visible, real


def _is_matrix(mask: torch.Tensor, shape: tuple[int, ...]) -> bool:
    fits = mask.dim() == 4 and all(size in (1, whole) for size, whole in zip(mask.shape, shape, strict=True))
    return fits and mask.shape[-1] == shape[-1] and (mask.dtype == torch.bool or mask.is_floating_point())


def _probabilities(
    query: torch.Tensor, key: torch.Tensor, visible: torch.Tensor | None, scaling: float
) -> torch.Tensor:
    scores = (query * scaling) @ key.mT
    scores = scores.to(torch.promote_types(scores.dtype, torch.float32))
    if visible is not None and visible.dtype == torch.bool:
        # Not minus infinity: a row without a visible key, which belongs to padding, must not become NaN.
        scores = scores.masked_fill(~visible, torch.finfo(scores.dtype).min)
    elif visible is not None:
        scores = scores + visible
    return scores.softmax(dim=-1)


def _materialized(
    query: torch.Tensor, key: torch.Tensor, visible: torch.Tensor | None, real: torch.Tensor, scaling: float
) -> torch.Tensor:
    probabilities = _probabilities(query, key, visible, scaling)
    return (probabilities * real.unsqueeze(-1)).sum(dim=-2) * real


class _Blocked(torch.autograd.Function):
    """
    Received attention and, given values, the output of attention, a block of query rows at a time.

    The backward pass computes the probabilities of a block again and draws the same dropout from the seed.
    """

    @staticmethod
    def forward(
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor | None,
        visible: torch.Tensor | None,
        real: torch.Tensor,
        scaling: float,
        dropout: float,
        seed: int,
    ) -> tuple[torch.Tensor | None, torch.Tensor]:
        output = None if value is None else torch.empty_like(value)
        received: Any = 0
        draw = _Dropout(dropout, seed)
        for rows in _blocks(query):
            probabilities = _probabilities(query[..., rows, :], key, _rows_of(visible, rows), scaling)
            weights = real[..., rows].to(probabilities.dtype).expand(*query.shape[:2], -1)
            received = received + (weights.unsqueeze(-2) @ probabilities).squeeze(-2)
            if output is not None and value is not None:
                output[..., rows, :] = draw.kept(probabilities).to(value.dtype) @ value
        return None if output is None else output.mul_(draw.scale), received * real

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple, output: tuple) -> None:
        *tensors, ctx.scaling, ctx.dropout, ctx.seed = inputs
        ctx.save_for_backward(*tensors)

    @staticmethod
    def backward(ctx: Any, output_gradient: Any, received_gradient: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        query, key, value, visible, real = ctx.saved_tensors
        received_gradient = (received_gradient * real).unsqueeze(-2)
        query_gradient = torch.empty_like(query)
        key_gradient = torch.zeros_like(key, dtype=received_gradient.dtype)
        value_gradient = torch.zeros_like(key_gradient if value is None else value, dtype=key_gradient.dtype)
        draw = _Dropout(ctx.dropout, ctx.seed)
        for rows in _blocks(query):
            probabilities = _probabilities(query[..., rows, :], key, _rows_of(visible, rows), ctx.scaling)
            gradient = received_gradient * real[..., rows, None]
            if value is not None:
                mask = draw.mask(probabilities)
                kept = probabilities if mask is None else probabilities * mask
                value_gradient += kept.to(value.dtype).mT @ output_gradient[..., rows, :]
                of_kept = (output_gradient[..., rows, :] @ value.mT).to(gradient.dtype).mul_(draw.scale)
                gradient = gradient.add_(of_kept if mask is None else of_kept.mul_(mask))
            scores_gradient = torch.ops.aten._softmax_backward_data(gradient, probabilities, -1, gradient.dtype)
            scores_gradient = scores_gradient.mul_(ctx.scaling).to(query.dtype)
            query_gradient[..., rows, :] = scores_gradient @ key
            key_gradient += scores_gradient.mT @ query[..., rows, :]
        of_value = None if value is None else value_gradient.mul_(draw.scale).to(value.dtype)
        return query_gradient, key_gradient.to(key.dtype), of_value, None, None, None, None, None


class _Dropout:
    """
    Dropout masks from a seed. Each element takes 16 random bits, which a CPU draws several times as fast as Bernoulli
    numbers. The rate is rounded to 16 bits.
    """

    def __init__(self, rate: float, seed: int):
        self.threshold = round(rate * 2**16)
        self.scale = 2**16 / (2**16 - self.threshold)
        self.generator = torch.Generator().manual_seed(seed) if self.threshold else None

    def mask(self, probabilities: torch.Tensor) -> torch.Tensor | None:
        if self.generator is None:
            return None
        size = probabilities.numel()
        bits = torch.empty(-(-size // 4), dtype=torch.int64).random_(-(2**63), None, generator=self.generator)
        return (bits.view(torch.int16)[:size] >= self.threshold - 2**15).view_as(probabilities)

    def kept(self, probabilities: torch.Tensor) -> torch.Tensor:
        mask = self.mask(probabilities)
        return probabilities if mask is None else probabilities.mul_(mask)


class _Fused(torch.autograd.Function):
    """
    Received attention from the backward pass of fused attention.

    For O = PV and the incoming gradient dO = 1, dV is Pᵀ1 = r. With V = g, dQ and dK are the gradients of r for the
    incoming gradient g. One channel of the value is enough; the others are zero.
    """

    @staticmethod
    def forward(
        query: torch.Tensor, key: torch.Tensor, visible: torch.Tensor | None, real: torch.Tensor, scaling: float
    ) -> torch.Tensor:
        received = _attention_gradient(torch.zeros_like(key), query, key, visible, real, scaling)[2][..., 0]
        return received.to(torch.promote_types(received.dtype, torch.float32)) * real

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple, output: torch.Tensor) -> None:
        query, key, visible, real, ctx.scaling = inputs
        ctx.save_for_backward(query, key, visible, real)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        query, key, visible, real = ctx.saved_tensors
        value = torch.zeros_like(key)
        value[..., 0] = gradient * real
        gradients = _attention_gradient(value, query, key, visible, real, ctx.scaling)
        return gradients[0], gradients[1], None, None, None


def _attention_gradient(
    value: torch.Tensor,
    query: torch.Tensor,
    key: torch.Tensor,
    visible: torch.Tensor | None,
    real: torch.Tensor,
    scaling: float,
) -> tuple[torch.Tensor, ...]:
    with torch.enable_grad():
        query, key, value = (tensor.detach().requires_grad_() for tensor in (query, key, value))
        if visible is not None and visible.dtype != torch.bool:
            visible = visible.to(query.dtype)
        output = scaled_dot_product_attention(query, key, value, attn_mask=visible, scale=scaling)
        output_gradient = torch.zeros_like(output)
        output_gradient[..., 0] = real
        return torch.autograd.grad(output, (query, key, value), output_gradient)


def _blocks(query: torch.Tensor) -> list[slice]:
    batch, heads, tokens, _ = query.shape
    size = max(1, BLOCK_SCORES // (batch * heads * tokens))
    return [slice(start, start + size) for start in range(0, tokens, size)]


def _rows_of(visible: torch.Tensor | None, rows: slice) -> torch.Tensor | None:
    return visible if visible is None or visible.shape[-2] == 1 else visible[..., rows, :]


def _blocked(
    query: torch.Tensor, key: torch.Tensor, visible: torch.Tensor | None, real: torch.Tensor, scaling: float
) -> torch.Tensor:
    return _Blocked.apply(query, key, None, visible, real, scaling, 0.0, 0)[1]


METHODS = {"materialized": _materialized, "blocked": _blocked, "fused": _Fused.apply}
