"""The attention implementation `"banded"`: layers with a window at the cost of their window, for any model."""

from __future__ import annotations

from collections.abc import Callable
from itertools import groupby
from typing import Any

import torch
from torch import nn
from torch.nn.functional import scaled_dot_product_attention
from transformers import AttentionInterface, AttentionMaskInterface, PreTrainedConfig
from transformers.integrations.sdpa_attention import repeat_kv, sdpa_attention_forward
from transformers.masking_utils import causal_mask_function

from .attention_windows import (
    allowed_keys,
    has_windows,
    special_tokens_of,
    windowed_mask,
    windows_of,
)
from .band_kernel import Others, band_attention, gather_tokens, is_worthwhile
from .mask_bands import UNBOUNDED, Band, band_of, decode_band, encode_band, visible_keys
from .received_attention import _refuse_unknown, received_attention_forward, received_attention_mask

# Models that take masks apart before their layers see them.
MASK_READERS = ("deepseek_v4", "doge", "dots3_note")


def banded_attention_forward(
    module: nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    scaling: float | None = None,
    dropout: float = 0.0,
    is_causal: bool | None = None,
    special_tokens: torch.Tensor | None = None,
    **kwargs: Any,
) -> tuple[torch.Tensor, None]:
    """
    The attention implementation `"banded"`: scaled dot-product attention, at the cost of the window in layers that
    have one. The window is that of the model's own mask, which `"sdpa"` builds as a matrix, and that of
    [`set_windows`]. Layers without one are fused.

    Attention with a cache, a position bias, a soft cap, sinks, or a mask that is no band is computed under a mask, as
    elsewhere. There is nothing to return as `attentions`.

    Args:
        module (`torch.nn.Module`): The attention layer; its `config` and `is_causal` give defaults.
        query, key, attention_mask, scaling, is_causal: See [`received_attention`].
        value (`torch.Tensor` of shape `(batch, key_heads, keys, value_dim)`): Values.
        dropout (`float`, *optional*, defaults to 0.0): Dropout of the attention weights.
        special_tokens (`torch.BoolTensor` of shape `(batch, tokens)`, *optional*):
            Tokens outside of the windows of [`set_windows`].
        **kwargs: What else a model gives its attention.

    Returns:
        The output `(batch, queries, heads, value_dim)`, and `None`.

    Raises:
        AttentionRefused: The model gives its attention an argument that changes the softmax in an unknown way, or see
            [`windowed_mask`].
    """
    found = decode_band(attention_mask)
    softmax = {name: kwargs.pop(name, None) for name in ("position_bias", "softcap", "s_aux", "sinks")}
    _refuse_unknown(module, kwargs, "banded")
    stock = all(value is None for value in softmax.values())
    if found is None and stock and not has_windows(getattr(module, "config", None)):
        kwargs |= {"scaling": scaling, "dropout": dropout, "is_causal": is_causal}
        return sdpa_attention_forward(module, query, key, value, attention_mask, **kwargs)[0], None
    if found is None or not stock:
        if found is not None:
            band, real = found
            visible = visible_keys(band, query.shape[2], key.shape[2], query.device)
            attention_mask = visible & real[:, None, None]
        attention_mask = windowed_mask(module, query, key, attention_mask, is_causal, special_tokens)
        kwargs |= {
            "scaling": scaling,
            "dropout": dropout,
            "is_causal": is_causal,
            "output_attentions": False,
            **softmax,
        }
        return received_attention_forward(module, query, key, value, attention_mask, **kwargs)[0], None
    band, real = found
    groups = query.shape[1] // key.shape[1]
    key, value = repeat_kv(key, groups), repeat_kv(value, groups)
    hiding = real if torch.compiler.is_compiling() or not real.all() else None
    windows = windows_of(module)
    if windows is None:
        return _attend(query, key, value, band, hiding, scaling, dropout).transpose(1, 2).contiguous(), None
    special = special_tokens_of(module, special_tokens)
    if special is not None:
        special = special & real
    return _attend_windows(query, key, value, windows, special, band, hiding, scaling, dropout).contiguous(), None


def banded_attention_mask(
    batch_size: int,
    q_length: int,
    kv_length: int,
    q_offset: int = 0,
    kv_offset: int = 0,
    mask_function: Callable = causal_mask_function,
    attention_mask: torch.Tensor | None = None,
    config: PreTrainedConfig | None = None,
    device: torch.device | str = "cpu",
    **kwargs: Any,
) -> torch.Tensor | None:
    """
    The masks of the attention implementation `"banded"`: a band where the mask function is one and pays, else those
    of `"sdpa"`. Blocks, packed texts, caches and masks that a model makes itself are not bands.

    Raises:
        AttentionRefused: The model reads its masks outside of the attention interface.
    """
    windowed = has_windows(config)
    if q_length == kv_length and isinstance(q_offset, int) and not q_offset and not kv_offset:
        band = None if getattr(config, "model_type", None) in MASK_READERS else band_of(mask_function)
        if band is not None and band.first <= 0 <= band.last:
            worthwhile = is_worthwhile(band, kv_length)
            # The sizes of an exported program are not known: a band without an end would be compared with them.
            if worthwhile or (windowed and not torch.compiler.is_exporting()):
                band = band if worthwhile else band.within(kv_length)
                ones = torch.ones(batch_size, kv_length, dtype=torch.bool, device=device)
                return encode_band(band, ones if attention_mask is None else attention_mask[:, :kv_length].bool())
    return received_attention_mask(
        batch_size=batch_size,
        q_length=q_length,
        kv_length=kv_length,
        q_offset=q_offset,
        kv_offset=kv_offset,
        mask_function=mask_function,
        attention_mask=attention_mask,
        config=config,
        device=device,
        **kwargs,
    )


def _attend_windows(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    windows: list[int | None],
    special: torch.Tensor | None,
    band: Band,
    real: torch.Tensor | None,
    scaling: float | None,
    dropout: float,
) -> torch.Tensor:
    """Neighbouring heads with the same window together: `(batch, tokens, heads, value_dim)`."""
    outputs, start = [], 0
    for window, members in groupby(windows):
        end = start + len(list(members))
        q, k, v = (tensor[:, start:end] for tensor in (query, key, value))
        limits = Band(-UNBOUNDED, UNBOUNDED) if window is None else Band(-window, window)
        if special is None or window is None:
            output = _attend(q, k, v, band & limits, real, scaling, dropout)
        else:
            output = _beside_special(q, k, v, band, limits, special, real, scaling, dropout)
        outputs.append(output.transpose(1, 2))
        start = end
    return torch.cat(outputs, dim=2)


def _attend(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    band: Band,
    real: torch.Tensor | None,
    scaling: float | None,
    dropout: float,
) -> torch.Tensor:
    """The attention of a band, `(batch, heads, tokens, value_dim)`, zero where no key is visible."""
    tokens = query.shape[2]
    options: dict[str, Any] = {"dropout_p": dropout, "scale": scaling}
    if is_worthwhile(band, tokens):
        output = band_attention(query, key, value, band, real, **options)
        return output if real is None else output * _seeing(band, real)[:, None, :, None]
    band = band.within(tokens)
    whole = band.before == tokens - 1
    if whole and band.after == tokens - 1:
        mask = None if real is None else real[:, None, None].expand(-1, 1, tokens, -1)
    elif whole and not band.after and real is None:
        return scaled_dot_product_attention(query, key, value, is_causal=True, **options)
    else:
        mask = visible_keys(band, tokens, tokens, query.device)
        mask = mask if real is None else mask & real[:, None, None]
    return scaled_dot_product_attention(query, key, value, attn_mask=mask, **options)


def _seeing(band: Band, real: torch.Tensor) -> torch.Tensor:
    """True for a query with a real key in its band, `(batch, tokens)`."""
    tokens = real.shape[1]
    count = torch.nn.functional.pad(real.long().cumsum(dim=1), (1, 0))
    places = torch.arange(tokens, device=real.device)
    first, last = (places + band.first).clamp_min(0), (places + band.last + 1).clamp_max(tokens)
    return count[:, last] > count[:, first]


def _beside_special(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    band: Band,
    limits: Band,
    special: torch.Tensor,
    real: torch.Tensor | None,
    scaling: float | None,
    dropout: float,
) -> torch.Tensor:
    """[`_attend`] in a window that special tokens look into and out of, as far as `band` lets them."""
    tokens = query.shape[2]
    options: dict[str, Any] = {"dropout_p": dropout, "scale": scaling}
    compiling = torch.compiler.is_compiling()  # it cannot count the special tokens
    count = 0 if compiling else int(special.sum(dim=1).max())
    near = (band & limits).within(tokens)
    if compiling or not is_worthwhile(near, tokens - count):
        mask = allowed_keys([limits.last], tokens, special, query.device)
        mask = mask & visible_keys(band, tokens, tokens, query.device)
        mask = mask if real is None else mask & real[:, None, None]
        return scaled_dot_product_attention(query, key, value, attn_mask=mask, **options)
    places = special.int().argsort(dim=1, descending=True, stable=True)[:, :count]
    valid = special.gather(1, places)
    output = band_attention(query, key, value, near, real, others=Others(places, valid, band), **options)
    # What special tokens see themselves.
    mask = band.holds(torch.arange(tokens, device=query.device) - places.unsqueeze(-1)).unsqueeze(1)
    mask = mask if real is None else mask & real[:, None, None]
    rows = scaled_dot_product_attention(gather_tokens(query, places), key, value, attn_mask=mask, **options)
    rows = torch.where(valid[:, None, :, None], rows, gather_tokens(output, places))
    return output.scatter(2, places[:, None, :, None].expand_as(rows), rows.to(output.dtype))


# Here and not with the table of families: a checkpoint on the Hub brings this file along.
AttentionInterface.register("banded", banded_attention_forward)
AttentionMaskInterface.register("banded", banded_attention_mask)

__all__ = ["banded_attention_forward", "banded_attention_mask"]
