"""Scale-aware attention: each head attends to a window around the token, at a cost that follows the window."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from operator import index
from typing import NamedTuple

import torch
from torch import nn
from torch.nn.functional import pad, scaled_dot_product_attention

from .attention_bands import band_attention, hidden, is_worthwhile, wide
from .mask_bands import UNBOUNDED, Band

SCALE_METHODS = ("materialized", "dense", "banded")
# One masked matrix for all heads is faster than groups of heads, whatever the windows: for up to so many tokens, and
# for so few multiply-adds a group, where the mask and softmax of a score count as 32 dimensions; measured on a CPU.
SHORT, LITTLE = 64, 6_000_000


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
              An exported program, which takes any length, has bands for windows of up to 256. `"dense"` for a tensor
              of windows in compiled code, which cannot read it.

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
    real = None if attention_mask is None else attention_mask.bool()
    if not torch.compiler.is_compiling() and real is not None:
        if real.all():
            real = None
        elif method is None and query.shape[2] > SHORT:
            lengths = (real * torch.arange(1, real.shape[1] + 1, device=real.device)).amax(dim=1)
            short = lengths <= real.shape[1] // 2
            if short.any() and lengths.any():
                return _by_length(query, key, value, windows, real, lengths, short, dropout_p)
    if method is None and isinstance(windows, torch.Tensor) and torch.compiler.is_compiling():
        method = "dense"  # the windows cannot be read
    return _by_window(query, key, value, windows, real, dropout_p, method)


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

    Raises:
        ValueError: As [`scale_aware_attention`] for the same arguments.
    """
    _check(query, key, key, windows, attention_mask, "materialized")
    real = None if attention_mask is None else attention_mask.bool()
    (group,) = _groups(query, windows, "materialized")
    weights = _weights(query, key, group.limits, real)
    return weights if real is None else weights.masked_fill(~real[:, None, :, None], 0)


def visible_in_windows(query: torch.Tensor, windows: Sequence[int | None] | torch.Tensor) -> torch.Tensor:
    """True where a window lets a query see a key, `(batch or 1, heads or 1, tokens, tokens)`."""
    (group,) = _groups(query, windows, "materialized")
    places = torch.arange(query.shape[2], device=query.device)
    limits = torch.full((1, 1), UNBOUNDED, device=query.device) if group.limits is None else group.limits
    return (places[:, None] - places).abs() <= limits[..., None, None]


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
    _check_windows(windows, batch, heads)


def _check_windows(windows: Sequence[int | None] | torch.Tensor, batch: int, heads: int) -> None:
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


def _by_length(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    windows: Sequence[int | None] | torch.Tensor,
    real: torch.Tensor,
    lengths: torch.Tensor,
    short: torch.Tensor,
    dropout_p: float,
) -> torch.Tensor:
    """Short sentences apart from the others, so that one long sentence does not pad the whole batch."""
    output = torch.zeros_like(query)
    for rows, size in ((short, int(lengths[short].max())), (~short, real.shape[1])):
        if size and rows.any():
            q, k, v = (tensor[rows, :, :size] for tensor in (query, key, value))
            of_rows = windows[rows] if isinstance(windows, torch.Tensor) else windows
            part = scale_aware_attention(q, k, v, of_rows, real[rows, :size], dropout_p)
            output[rows, :, :size] = part.to(output.dtype)  # autocast may have lowered it
    return output


def _by_window(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    windows: Sequence[int | None] | torch.Tensor,
    real: torch.Tensor | None,
    dropout_p: float,
    method: str | None,
) -> torch.Tensor:
    """Each group of heads by `method`, or by the fastest one; zero at padding."""
    groups = _groups(query, windows, method)
    # Split and joined where the heads of a token lie side by side, as the projections write and read them.
    sizes = [group.heads for group in groups]
    states = (tensor.transpose(1, 2).split(sizes, dim=2) for tensor in (query, key, value))
    outputs = []
    for group, *of_group in zip(groups, *states, strict=True):
        q, k, v = (tensor.transpose(1, 2) for tensor in of_group)
        tokens = _most_tokens(query)
        fastest = method or ("banded" if tokens > SHORT and is_worthwhile(group.band, tokens) else "dense")
        outputs.append(_attend(q, k, v, group, real, dropout_p, fastest).transpose(1, 2))
    output = outputs[0] if len(outputs) == 1 else torch.cat(outputs, dim=2)
    if real is not None:
        output = output.masked_fill(~real[:, :, None, None], 0)
    return output.transpose(1, 2)


class _Group(NamedTuple):
    """Neighbouring heads that are computed together."""

    heads: int
    #: The most tokens that any of them sees on either side, in any sentence.
    reach: int
    #: The windows, `(batch or 1, 1)` if the heads have the same and `(batch or 1, heads)` otherwise. `None` if they
    #: hide nothing.
    limits: torch.Tensor | None

    @property
    def band(self) -> Band:
        return Band(-self.reach, self.reach)


def _groups(query: torch.Tensor, windows: Sequence[int | None] | torch.Tensor, method: str | None) -> list[_Group]:
    """Groups of heads with the same window; one group of all heads where a whole matrix is computed."""
    heads, tokens = query.shape[1], _most_tokens(query)
    if isinstance(windows, torch.Tensor):
        limits = windows
    else:
        # Numbers that compiled code takes for fixed: bands of any width, for texts of any length, take it minutes.
        windows = [None if window is None else index(window) for window in windows]
        every = windows if len(set(windows)) > 1 else windows[:1]  # one mask for all heads where it is the same
        limits = torch.tensor([[UNBOUNDED if window is None else window for window in every]], device=query.device)
    whole = [_Group(heads, tokens, limits)]
    if method in ("materialized", "dense") or (method is None and tokens <= SHORT):
        return whole
    columns = limits.T.tolist() if limits is windows else [[UNBOUNDED if w is None else w] for w in windows]
    groups = []
    start = 0
    for column, members in groupby(columns):
        end = start + len(list(members))
        reach = max(column) if max(column) < tokens else tokens - 1  # no `min`: compiled code keeps a number
        unbounded = min(column) >= tokens - 1
        groups.append(_Group(end - start, reach, None if unbounded else limits[:, start : start + 1]))
        start = end
    if method is not None or torch.compiler.is_compiling() or all(group.limits is None for group in groups):
        return groups  # compiled code would be tied to some sizes
    work = query.shape[:3].numel() * tokens * (query.shape[3] + 32)
    return whole if work <= LITTLE * len(groups) else groups


def _most_tokens(query: torch.Tensor) -> int:
    """The length of the texts; an exported program takes any."""
    return UNBOUNDED if torch.compiler.is_exporting() else query.shape[2]


def _attend(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    group: _Group,
    real: torch.Tensor | None,
    dropout_p: float,
    method: str,
) -> torch.Tensor:
    """One group of heads by one method, `(batch, heads, tokens, head_dim)`."""
    if method == "materialized":
        weights = _weights(query, key, group.limits, real)
        return nn.functional.dropout(weights, dropout_p).to(value.dtype) @ value
    if method == "dense":
        bias, width = _bias(group.limits, real, query.shape[2], query.dtype, query.device), query.shape[-1]
        if missing := wide(query) - width:
            query, key, value = (pad(states, (0, missing)) for states in (query, key, value))
        options = {"attn_mask": bias, "dropout_p": dropout_p, "scale": width**-0.5}
        return scaled_dot_product_attention(query, key, value, **options)[..., :width]
    limits = group.limits if group.limits is not None and len(group.limits) > 1 else None  # else it is the band
    return band_attention(query, key, value, group.band, real, limits, dropout_p)


def _bias(
    limits: torch.Tensor | None, real: torch.Tensor | None, tokens: int, dtype: torch.dtype, device: torch.device
) -> torch.Tensor | None:
    """
    The bias that hides keys outside of the windows and at padding; `None` if there is nothing to hide.
    Its shape is `(batch or 1, heads or 1, tokens or 1, tokens)`.
    """
    bias = None
    if limits is not None:
        if torch.compiler.is_compiling():  # a view of diagonals would tie the code to one length
            positions = torch.arange(tokens, device=device)
            beyond = (positions[:, None] - positions).abs() > limits[..., None, None]
            bias = hidden(dtype) * beyond.to(dtype)
        else:
            distances = torch.arange(1 - tokens, tokens, device=device).abs()
            beyond = distances > limits.unsqueeze(-1)
            diagonals = torch.zeros(beyond.shape, dtype=dtype, device=device).masked_fill_(beyond, hidden(dtype))
            bias = diagonals.unfold(-1, tokens, 1).flip(-2)
    if real is not None:
        padding = hidden(dtype) * (~real[:, None, None]).to(dtype)
        bias = padding if bias is None else bias + padding
    return bias


def _weights(
    query: torch.Tensor, key: torch.Tensor, limits: torch.Tensor | None, real: torch.Tensor | None
) -> torch.Tensor:
    scores = query * query.shape[-1] ** -0.5 @ key.mT
    bias = _bias(limits, real, scores.shape[-1], scores.dtype, scores.device)
    return (scores if bias is None else scores + bias).softmax(dim=-1)


__all__ = ["SCALE_METHODS", "attention_weights", "scale_aware_attention", "visible_in_windows"]
