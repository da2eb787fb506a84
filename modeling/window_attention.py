"""Attention in which each head has a window around its token, at the cost of the window."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from operator import index
from typing import Any, NamedTuple

import torch
from torch.nn.functional import pad, scaled_dot_product_attention

from .attention_bands import Others, band_attention, gather_tokens, hidden, is_short_on_gpu, is_worthwhile, wide
from .mask_bands import EVERYTHING, UNBOUNDED, Band

# One masked matrix for all heads is faster than groups of heads, whatever the windows: for up to so many tokens, and
# for so few multiply-adds a group, where the mask and softmax of a score count as 32 dimensions; measured on a CPU.
# A GPU has a limit of its own: see `is_short_on_gpu`.
SHORT, LITTLE = 64, 6_000_000
# Queries, keys and values.
States = tuple[torch.Tensor, torch.Tensor, torch.Tensor]
# Which tokens are chosen, `(batch, tokens)`.
Tokens = torch.Tensor | None


class _Group(NamedTuple):
    """Neighbouring heads that are computed together."""

    heads: int
    #: The distances that any of them sees, in any sentence.
    band: Band
    #: The windows `(batch or 1, heads or 1)` in this band, unless they are the band.
    limits: torch.Tensor | None = None


def window_attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    windows: Sequence[int | None] | torch.Tensor | None = None,
    band: Band = EVERYTHING,
    real: torch.Tensor | None = None,
    special: torch.Tensor | None = None,
    scaling: float | None = None,
    dropout: float = 0.0,
    method: str | None = None,
) -> torch.Tensor:
    """
    Neighbouring heads with the same window are computed together, in bands where these are faster on the device. On a
    GPU, up to 1,024 tokens, all heads are one masked matrix: `(batch, heads, tokens, tokens)` numbers if their windows
    differ and there is padding, or if each sentence has windows of its own.

    Args:
        query, key (`torch.Tensor` of shape `(batch, heads, tokens, head_dim)`): Queries and keys.
        value (`torch.Tensor` of shape `(batch, heads, tokens, value_dim)`): Values.
        windows (`Sequence[int | None]` or `torch.LongTensor` of shape `(batch, heads)`, *optional*):
            Tokens that each head sees on either side, `None` for all. A tensor gives each sentence its own windows.
        band (`Band`): The distances that all heads see. They hold 0.
        real (`torch.BoolTensor` of shape `(batch, tokens)`, *optional*): False at padding, of [`ask_once`].
        special (`torch.BoolTensor` of shape `(batch, tokens)`, *optional*): Tokens that see beyond the windows and are
            seen from there, as far as `band` lets them.
        scaling (`float`, *optional*): Factor of the scores; 1/√head_dim if `None`.
        dropout (`float`, *optional*, defaults to 0.0): Dropout of the attention weights.
        method (`str`, *optional*): `"dense"` or `"banded"`, whichever is faster if `None`.

    Returns:
        `torch.Tensor` of shape `(batch, tokens, heads, value_dim)`: Zero at padding.
    """
    compiling = torch.compiler.is_compiling()
    tokens = UNBOUNDED if torch.compiler.is_exporting() else query.shape[2]  # an exported program takes any length
    if real is not None and not compiling and real.stride(-1) == 0:
        real = None
    others = None
    if special is not None:
        special = special if real is None else special & real
        others = None if compiling else _special_keys(special, band)
    by_sentence = isinstance(windows, torch.Tensor)
    if (compiling and (by_sentence or special is not None)) or (by_sentence and special is not None):
        method = "dense"  # compiled code cannot read them, and a band has not both
    groups = _groups(query, windows, band, tokens, method)
    options: dict[str, Any] = {"dropout_p": dropout, "scale": query.shape[-1] ** -0.5 if scaling is None else scaling}
    # Split and joined where the heads of a token lie side by side, as the projections write and read them.
    sizes = [group.heads for group in groups]
    states = (tensor.transpose(1, 2).split(sizes, dim=2) for tensor in (query, key, value))
    outputs = []
    for group, *of_group in zip(groups, *states, strict=True):
        q, k, v = (tensor.transpose(1, 2) for tensor in of_group)
        narrower = group.limits is not None or group.band != band  # special tokens see more than the others
        far = others if narrower else None
        mixed = group.limits is not None and group.limits.shape[1] > 1
        inside = tokens - (0 if far is None else far.places.shape[1])
        pays = not mixed and tokens > SHORT and is_worthwhile(group.band, inside, query.device)
        if method == "banded" or (method is None and pays):
            output = _banded((q, k, v), group, real, far, options)
        else:
            output = _dense((q, k, v), group, real, special if narrower else None, band, options)
        outputs.append(output.transpose(1, 2))
    joined = outputs[0] if len(outputs) == 1 else torch.cat(outputs, dim=2)
    return joined if real is None else joined.masked_fill(~real[:, :, None, None], 0)


def hiding_bias(
    tokens: int,
    dtype: torch.dtype,
    device: torch.device,
    band: Band = EVERYTHING,
    limits: torch.Tensor | None = None,
    real: torch.Tensor | None = None,
    special: torch.Tensor | None = None,
    outer: Band = EVERYTHING,
) -> torch.Tensor | None:
    """
    What is added to the scores to hide keys, which broadcasts to `(batch, heads, tokens, tokens)`, or `None`. In
    windows, padding sees itself.

    Args:
        tokens, dtype, device: Those of the scores.
        band (`Band`): The visible distances.
        limits (`torch.LongTensor` of shape `(batch or 1, heads or 1)`, *optional*): Windows in this band.
        real (`torch.BoolTensor` of shape `(batch, tokens)`, *optional*): False at hidden keys.
        special (`torch.BoolTensor` of shape `(batch, tokens)`, *optional*): Tokens that see and are seen in `outer`.
        outer (`Band`): The distances that special tokens see.
    """
    bias = None
    if limits is not None or not _covers(band, tokens):
        places = torch.arange(tokens, device=device)
        # The same on each diagonal: a view of one line, but it would tie compiled code to one length.
        whole = special is not None or torch.compiler.is_compiling()
        distances = places - places[:, None] if whole else torch.arange(1 - tokens, tokens, device=device)
        beyond = ~band.holds(distances)
        if limits is not None:
            beyond = beyond | (distances.abs() > limits.view(*limits.shape, *[1] * distances.dim()))
        if special is not None:
            beyond = beyond & ~(special[:, None, None] | special[:, None, :, None]) | ~outer.holds(distances)
        bias = hidden(dtype) * beyond.to(dtype)
        bias = bias if whole else bias.unfold(-1, tokens, 1).flip(-2)
    if real is not None:
        # A row needs a visible key, see `hidden`: padding sees itself, a sentence of padding alone all of it.
        if bias is None:
            real = real | ~real.any(dim=-1, keepdim=True)
        padding = hidden(dtype) * (~real[:, None, None]).to(dtype)
        if bias is None:
            return padding
        others = (places != places[:, None]).to(dtype)
        bias = torch.addcmul(bias, padding, others)
    return bias


def limits_of(windows: Sequence[int | None] | torch.Tensor, device: torch.device) -> torch.Tensor:
    """Windows as numbers, `(batch or 1, heads or 1)`: one for all heads where they have the same."""
    if isinstance(windows, torch.Tensor):
        return windows
    every = [UNBOUNDED if window is None else index(window) for window in windows]
    limits = torch.tensor([every if len(set(every)) > 1 else every[:1]])
    # Apple's GPUs read a source that is gone by then: https://github.com/pytorch/pytorch/issues/189690
    return limits.to(device, non_blocking=device.type == "cuda")


def _covers(band: Band, tokens: int) -> bool:
    """Whether a band hides no key; one without an end in an exported program."""
    most = UNBOUNDED if torch.compiler.is_exporting() else tokens - 1
    return band.before >= most and band.after >= most


def _groups(
    query: torch.Tensor,
    windows: Sequence[int | None] | torch.Tensor | None,
    band: Band,
    tokens: int,
    method: str | None,
) -> list[_Group]:
    """Groups of heads with the same window; one of all heads where a whole matrix is faster."""
    heads = query.shape[1]
    if windows is None:
        return [_Group(heads, band)]
    limits = limits_of(windows, query.device)
    whole = [_Group(heads, band, limits)]
    if method == "dense" or (method is None and (tokens <= SHORT or is_short_on_gpu(tokens, query.device))):
        return whole
    if isinstance(windows, torch.Tensor):
        columns = windows.T.tolist()
    else:  # numbers, which compiled code takes for fixed: bands of any width, for texts of any length, take it minutes
        columns = [[UNBOUNDED if window is None else index(window)] for window in windows]
    groups: list[_Group] = []
    for column, members in groupby(columns):
        start, count = sum(group.heads for group in groups), len(list(members))
        near = band & Band(-max(column), max(column))
        alike = min(column) == max(column) or min(column) >= tokens - 1
        groups.append(_Group(count, near, None if alike else limits[:, start : start + 1]))
    if len(groups) == 1 or method is not None or torch.compiler.is_compiling():
        return groups  # compiled code would be tied to some sizes
    work = query.shape[:3].numel() * tokens * (query.shape[3] + 32)
    return whole if work <= LITTLE * len(groups) else groups


def _dense(states: States, group: _Group, real: Tokens, special: Tokens, outer: Band, options: Any) -> torch.Tensor:
    """One masked matrix, `(batch, heads, tokens, value_dim)`."""
    query, key, value = states
    tokens, width = query.shape[2], value.shape[-1]
    hides_alike = real is None and special is None and group.limits is None
    if hides_alike and not group.band.after and _covers(group.band | Band(0, UNBOUNDED), tokens):
        return scaled_dot_product_attention(query, key, value, is_causal=True, **options)
    bias = hiding_bias(tokens, query.dtype, query.device, group.band, group.limits, real, special, outer)
    if wide(query) > query.shape[-1] or wide(value) > width:
        query, key, value = (pad(one, (0, wide(one) - one.shape[-1])) for one in states)
    return scaled_dot_product_attention(query, key, value, attn_mask=bias, **options)[..., :width]


def _banded(states: States, group: _Group, real: Tokens, others: Others | None, options: Any) -> torch.Tensor:
    """A band, and what special tokens see beyond it, `(batch, heads, tokens, value_dim)`."""
    query, key, value = states
    tokens = query.shape[2]
    band = group.band if is_worthwhile(group.band, tokens, query.device) else group.band.within(tokens)
    output = band_attention(*states, band, real, group.limits, others=others, **options)
    if others is None:
        return output
    # What special tokens see themselves.
    places = others.places
    mask = others.band.holds(torch.arange(tokens, device=query.device) - places.unsqueeze(-1)).unsqueeze(1)
    mask = mask if real is None else mask & real[:, None, None]
    rows = scaled_dot_product_attention(gather_tokens(query, places), key, value, attn_mask=mask, **options)
    rows = torch.where(others.valid[:, None, :, None], rows, gather_tokens(output, places))
    return output.scatter(2, places[:, None, :, None].expand_as(rows), rows.to(output.dtype))


def _special_keys(special: torch.Tensor, band: Band) -> Others | None:
    """The special tokens of each sentence, the first ones first; `None` if there are none."""
    count = int(special.sum(dim=1).max())
    places = special.int().argsort(dim=1, descending=True, stable=True)[:, :count]
    return Others(places, special.gather(1, places), band) if count else None
