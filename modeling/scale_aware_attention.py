"""Scale-aware attention: each head attends to a window around the token, at a cost that follows the window."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from .real_tokens import ask_once
from .window_attention import window_attention


def scale_aware_attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    windows: Sequence[int | None] | torch.Tensor,
    attention_mask: torch.Tensor | None = None,
    dropout_p: float = 0.0,
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

    Returns:
        `torch.Tensor` of shape `(batch, heads, tokens, head_dim)`: Zero at padding.

    Raises:
        ValueError: `query`, `key` and `value` are not of one shape, or `windows` are not one of at least 0 or `None`
            for each head, nor a tensor `(batch, heads)` of them.

    Example:

    ```python
    >>> query = key = value = torch.randn(2, 3, 1000, 30)
    >>> scale_aware_attention(query, key, value, windows=[1, 3, None]).shape
    torch.Size([2, 3, 1000, 30])
    ```
    """
    if not query.shape == key.shape == value.shape:
        shapes = ", ".join(str(tuple(one.shape)) for one in (query, key, value))
        raise ValueError(f"query, key and value must be of one shape, got {shapes}")
    batch, heads = query.shape[:2]
    if isinstance(windows, torch.Tensor):
        fits = windows.shape == (batch, heads) and (torch.compiler.is_compiling() or bool((windows >= 0).all()))
    else:
        fits = len(windows) == heads and all(window is None or window >= 0 for window in windows)
    if not fits:
        raise ValueError(
            f"windows must be {heads} of at least 0 or None, one a head, or a tensor {(batch, heads)}, got {windows!r}"
        )
    real = None if attention_mask is None else ask_once(attention_mask)
    return window_attention(query, key, value, windows, real=real, dropout=dropout_p).transpose(1, 2)
