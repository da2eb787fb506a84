"""Scale-aware attention: each head attends to a window around the token, at a cost that follows the window."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import nn

from .real_tokens import ask_once
from .window_attention import hiding_bias, limits_of, window_attention

SCALE_METHODS = ("materialized", "dense", "banded")


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

    The window is clipped at the edges of the sentence and skips padding. Neighbouring heads with the same window are
    computed together. If the window is small beside the sentence, time and memory grow with the window.

    Args:
        query (`torch.Tensor` of shape `(batch, heads, tokens, head_dim)`): Queries.
        key (`torch.Tensor` of shape `(batch, heads, tokens, head_dim)`): Keys.
        value (`torch.Tensor` of shape `(batch, heads, tokens, head_dim)`): Values.
        windows (`Sequence[int | None]` or `torch.LongTensor` of shape `(batch, heads)`):
            Tokens that each head sees on either side, `None` for all. A tensor gives each sentence its own windows.
        attention_mask (`torch.Tensor` of shape `(batch, tokens)`, *optional*): Non-zero for real tokens.
        dropout_p (`float`, *optional*, defaults to 0.0): Dropout of the attention weights.
        method (`str`, *optional*):
            - `"materialized"`: the whole matrix, under autograd.
            - `"dense"`: fused attention with a mask.
            - `"banded"`: blocks of queries, each with the keys around it.
            - `None`: the faster of `"dense"` and `"banded"` on a CPU, for each window or, of a small input, for all.
              On a GPU, `"dense"` for up to 1,024 tokens and the same choice for more. An exported program, which takes
              any length, has bands for windows of up to 256. `"dense"` for a tensor of windows in compiled code, which
              cannot read it.

    Returns:
        `torch.Tensor` of shape `(batch, heads, tokens, head_dim)`: Zero at padding.

    Raises:
        ValueError: `query`, `key` and `value` are not of one shape with four dimensions, `attention_mask` is not
            `(batch, tokens)`, `windows` are not one whole number of at least 0 or `None` for each head or not integers
            of shape `(batch, heads)`, or `method` is unknown.

    Example:

    ```python
    >>> query = key = value = torch.randn(2, 3, 1000, 30)
    >>> scale_aware_attention(query, key, value, windows=[1, 3, None]).shape
    torch.Size([2, 3, 1000, 30])
    ```
    """
    _check(query, key, value, windows, attention_mask, method)
    if method == "materialized":
        weights = attention_weights(query, key, windows, attention_mask)
        return nn.functional.dropout(weights, dropout_p).to(value.dtype) @ value
    real = None if attention_mask is None else ask_once(attention_mask)
    return window_attention(query, key, value, windows, real=real, dropout=dropout_p, method=method).transpose(1, 2)


def attention_weights(
    query: torch.Tensor,
    key: torch.Tensor,
    windows: Sequence[int | None] | torch.Tensor,
    attention_mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """
    The weights of [`scale_aware_attention`].

    Args:
        query, key, windows, attention_mask: See [`scale_aware_attention`].

    Returns:
        `torch.Tensor` of shape `(batch, heads, tokens, tokens)`: Zero outside of the windows, and in the rows and
        columns of padding.
    """
    real = None if attention_mask is None else attention_mask.bool()
    scores = query * query.shape[-1] ** -0.5 @ key.mT
    limits = limits_of(windows, query.device)
    bias = hiding_bias(scores.shape[-1], scores.dtype, scores.device, limits=limits, real=real)
    weights = (scores if bias is None else scores + bias).softmax(dim=-1)
    return weights if real is None else weights.masked_fill(~real[:, None, :, None], 0)


def _check(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    windows: Sequence[int | None] | torch.Tensor,
    attention_mask: torch.Tensor | None,
    method: str | None,
) -> None:
    if method is not None and method not in SCALE_METHODS:
        raise ValueError(f"method must be one of {', '.join(SCALE_METHODS)}, got {method!r}")
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
