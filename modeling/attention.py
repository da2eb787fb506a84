"""
The attention implementation of msattn: reads the mask, computes the output, adds what was asked for.

It is registered under several names, which differ in what a model returns as `attentions` when it is asked for them:
`"msattn"` whole maps, or the rows that the model is given; `"received"` column sums. `"banded"`, `"rows"` and
`"words"` are older names of `"msattn"`.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Collection, Mapping
from functools import cache, partial
from typing import Any

import torch
from torch import nn
from torch.nn.functional import pad
from torch.nn.modules.module import register_module_module_registration_hook
from transformers import AttentionInterface, AttentionMaskInterface, PreTrainedConfig
from transformers.integrations.sdpa_attention import repeat_kv, sdpa_attention_forward
from transformers.masking_utils import causal_mask_function, sdpa_mask
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS
from transformers.utils.output_capturing import _active_collector

from .attention_adapters import OURS
from .attention_bands import is_worthwhile
from .attention_call import AttentionCall, AttentionRefused, is_cross_attention
from .attention_windows import OWN_MASKS, has_windows, windowed_mask, windows_of
from .mask_bands import Band, band_of, decode_band, encode_band, visible_keys
from .model_watch import watch
from .real_tokens import all_real, ask_once
from .window_attention import window_attention

# Sparse and paged attention: the mask alone does not say which keys are seen.
REFUSED = ("indices", "block_indices", "cache")
# The eager attention of some models names these without reading them.
HARMLESS = ("output_attentions", "sliding_window", "kwargs")
# Models that take masks apart before their layers see them.
MASK_READERS = ("deepseek_v4", "doge", "dots3_note")
# What a layer remembers: that it computes no sums, and whether the last pass asked for its attention.
SILENT, COLLECTED = "_msattn_silent", "_msattn_collected"
# The `Reader`s that `read_attention` leaves on a layer.
READERS = "_msattn_readers"


def attention_forward(
    module: nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    scaling: float | None = None,
    dropout: float = 0.0,
    is_causal: bool | None = None,
    position_bias: torch.Tensor | None = None,
    softcap: float | None = None,
    s_aux: torch.Tensor | None = None,
    sinks: torch.Tensor | None = None,
    special_tokens: torch.Tensor | None = None,
    rows: torch.Tensor | None = None,
    returns_sums: bool = False,
    **kwargs: Any,
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """
    Scaled dot-product attention, at the cost of the window in layers that have one: that of the model's own mask, and
    that of [`set_windows`]. With `output_attentions=True`, a model returns as `attentions`

    - by default whole maps, before dropout; with the keyword argument `rows` of its forward pass, only these rows;
    - under `"received"` the [`received_attention`] of each layer, `(batch, heads, keys)`.

    ```python
    >>> model.set_attn_implementation("msattn")
    >>> outputs = model(**batch, rows=torch.tensor([[3, 7]]), output_attentions=True)
    >>> outputs.attentions[0].shape
    torch.Size([1, 12, 2, 20])
    ```

    Dropout changes only the output. Cross-attention counts every query in the sums: which are padding is not known.

    Args:
        module (`torch.nn.Module`): The attention layer; its `config` and `is_causal` give defaults.
        query, key, scaling, is_causal, position_bias, softcap, sinks: See [`received_attention`].
        value (`torch.Tensor` of shape `(batch, key_heads, keys, value_dim)`): Values.
        attention_mask (`torch.Tensor`, *optional*): As there, or a band of [`encode_band`].
        dropout (`float`, *optional*, defaults to 0.0): Dropout of the attention weights.
        s_aux (`torch.Tensor`, *optional*): Another name of `sinks`.
        special_tokens (`torch.BoolTensor` of shape `(batch, tokens)`, *optional*):
            Tokens outside of the windows of [`set_windows`].
        rows (`torch.LongTensor` of shape `(batch, rows)`, *optional*):
            Positions of the tokens that attend. The row of a number below 0 is zero.
        returns_sums (`bool`, *optional*, defaults to `False`): Return column sums.
        **kwargs: What else a model gives its attention. See `Raises`.

    Returns:
        The output `(batch, queries, heads, value_dim)`, and what was asked for or `None`: maps
        `(batch, heads, queries, keys)`, rows `(batch, heads, rows, keys)`, or sums `(batch, heads, keys)`, of no keys
        where [`select_layers`] left the layer out.

    Raises:
        AttentionRefused: The model gives its attention an argument that changes the softmax in an unknown way, or see
            [`windowed_mask`].
        ValueError: As in [`received_attention`], or `rows` is not `(batch, rows)`.
    """
    wanted = _is_wanted(module, kwargs)
    _refuse_unknown(module, kwargs)
    readers = _readers_of(module)
    sinks = s_aux if sinks is None else sinks
    stock = softcap is None and sinks is None  # what fused kernels compute

    # 1. The mask. Windows of the model may have come as a band; those of `set_windows` are added by the layer.
    if (found := decode_band(attention_mask)) is not None:
        band, real = found
        # The padding of a band is that of its queries, too, so cross-attention takes it as an ordinary mask.
        if stock and position_bias is None and not (wanted or readers or is_cross_attention(module)):
            windows, special = windows_of(module, special_tokens)
            key, value = (repeat_kv(states, query.shape[1] // states.shape[1]) for states in (key, value))
            output = window_attention(query, key, value, windows, band, real, special, scaling, dropout)
            return output.contiguous(), None
        attention_mask = visible_keys(band, query.shape[2], key.shape[2], query.device) & real[:, None, None]
    attention_mask = windowed_mask(module, query, key, attention_mask, is_causal, special_tokens)

    # 2. The output: of the fused kernel, unless maps or column sums are wanted that come with it at less cost.
    softmax: dict[str, Any] = dict(scaling=scaling, is_causal=is_causal, dropout=dropout, position_bias=position_bias)
    fused = partial(sdpa_attention_forward, module, query, key, value, attention_mask, **softmax, **kwargs)
    if stock and not wanted and not readers:
        return fused()[0], None
    call = AttentionCall.of_layer(module, query, key, value, attention_mask, softcap=softcap, sinks=sinks, **softmax)
    counted = [reader.counted(call) for reader in readers]
    first = counted[0] if counted else call
    returns_sums = returns_sums and wanted
    silent = getattr(module, SILENT, False)
    needs_sums = (returns_sums and not silent) or any(reader.needs_sums for reader in readers)
    in_blocks = query.device.type == "cpu" and not torch.compiler.is_compiling()
    sums: torch.Tensor | None = None
    result: torch.Tensor | None = None
    if wanted and not returns_sums and rows is None:
        output, result = call.output_and_maps()
    # A CPU has no fused kernel with dropout: blocks are faster than what it runs instead (docs/benchmarks.md).
    elif not stock or (in_blocks and (needs_sums or (readers and dropout))):
        output, sums = first.output_and_sums()
    else:
        output = fused()[0]

    # 3. What was asked for: by `read_attention`, then by `output_attentions=True`.
    def sums_of(one: AttentionCall) -> torch.Tensor:
        return sums if sums is not None and one.queries is first.queries else one.sums()

    for reader, one in zip(readers, counted, strict=True):
        reader.add(module, one, sums_of(one) if reader.needs_sums else None)
    if returns_sums:
        # Zero for the room that a cache has behind a prompt.
        room = key.shape[2] - call.scores.key.shape[2]
        result = query.new_empty(*query.shape[:2], 0) if silent else pad(sums_of(call), (0, room))
    elif wanted and rows is not None:
        result = call.rows(rows)
    return output, result


def attention_mask(
    *,
    mask_function: Callable = causal_mask_function,
    attention_mask: torch.Tensor | None = None,
    config: PreTrainedConfig | None = None,
    device: torch.device | str = "cpu",
    **sizes: Any,
) -> torch.Tensor | None:
    """
    The masks of the implementation: a band where the mask function is one and pays, else those of `"sdpa"`. Blocks,
    packed texts, caches and masks that a model makes itself are not bands.

    A mask is left out where causality says it all, but not beside an encoder: some decoders there do not tell their
    layers that they are causal.

    Raises:
        AttentionRefused: The model reads its masks outside of the attention interface.
    """
    if getattr(config, "model_type", None) in OWN_MASKS:
        raise AttentionRefused(
            f"{type(config).__name__}: the encoder adds its mask to the scores itself, past the attention "
            'implementation of msattn: load the model with attn_implementation="eager", which returns full maps.'
        )
    if attention_mask is not None and attention_mask.dim() == 5:
        return attention_mask  # a band that `generate` has prepared
    if (band := _band(mask_function, config, sizes, device)) is not None:
        batch, tokens = sizes["batch_size"], sizes["kv_length"]
        if attention_mask is None:
            return encode_band(band, all_real((batch, tokens), device))
        return encode_band(band, ask_once(attention_mask[:, :tokens]))
    if getattr(config, "is_encoder_decoder", False):
        sizes["allow_is_causal_skip"] = False
    return sdpa_mask(mask_function=mask_function, attention_mask=attention_mask, config=config, device=device, **sizes)


def _band(
    mask_function: Callable, config: PreTrainedConfig | None, sizes: Mapping[str, Any], device: torch.device | str
) -> Band | None:
    """The band of a mask function, if it is worth while, or if the layers have windows of their own."""
    tokens, offset = sizes["kv_length"], sizes.get("q_offset", 0)
    whole = sizes["q_length"] == tokens and isinstance(offset, int) and not offset and not sizes.get("kv_offset")
    if not whole or getattr(config, "model_type", None) in MASK_READERS:
        return None
    band = band_of(mask_function)
    if band is None or not band.first <= 0 <= band.last:
        return None
    if is_worthwhile(band, tokens, device):
        return band
    # The sizes of an exported program are not known: a band without an end would be compared with them.
    return band.within(tokens) if has_windows(config) and not torch.compiler.is_exporting() else None


def read_layer(module: nn.Module, query: torch.Tensor, key: torch.Tensor, mask: Callable[[], torch.Tensor]) -> None:
    """
    Hands the attention of a layer that is not on the attention interface to those who read it.

    Args:
        module (`torch.nn.Module`): The layer.
        query, key (`torch.Tensor` of shape `(batch, heads, tokens, head_dim)`): Queries and keys, not scaled.
        mask (`Callable`): Makes the mask: true at the keys that a query sees.
    """
    if readers := _readers_of(module):
        call = AttentionCall.of(query, key, mask())
        for reader in readers:
            one = reader.counted(call)
            reader.add(module, one, one.sums() if reader.needs_sums else None)


def select_layers(model: nn.Module, layers: Collection[int] | None) -> None:
    """
    Chooses the layers whose sums the implementation `"received"` computes. The others return an empty tensor,
    `(batch, heads, 0)`, and cost nothing.

    It has an effect on attention layers that know their number (`layer_idx`), as those of most models do; the others
    go on computing theirs.

    Args:
        model (`torch.nn.Module`): A model.
        layers (`Collection[int]`, *optional*): Numbers of layers, from 0; all layers if `None`.
    """
    for module in model.modules():
        if (number := getattr(module, "layer_idx", None)) is not None:
            setattr(module, SILENT, layers is not None and number not in layers)


def gives_attentions(implementation: str | None) -> bool:
    """False for fused kernels, which have no weights to return."""
    return not (implementation or "").startswith(("sdpa", "flash", "flex"))


def _is_wanted(module: nn.Module, kwargs: dict[str, Any]) -> bool:
    """
    True if the model is asked for attentions. Some, such as GPT-2, do not tell their layers, and those that collect
    attentions by hooks tell nobody but their collector.
    """
    if "output_attentions" in kwargs:
        return bool(kwargs.pop("output_attentions"))
    if getattr(getattr(module, "config", None), "output_attentions", False):
        return True
    # Private: GPT-2, OPT, Nemotron and others keep `output_attentions` from their layers, and nothing public has it.
    collected = _active_collector.get()
    if collected is None:  # gradient checkpointing computes the layer again, outside of the model
        return getattr(module, COLLECTED, False)
    wanted = any(name.endswith("attentions") for name in collected)
    setattr(module, COLLECTED, wanted)
    return wanted


def _readers_of(module: nn.Module) -> list[Any]:
    """The `Reader`s that read this layer."""
    readers = getattr(module, READERS, ())
    if not readers or is_cross_attention(module):
        return []
    if torch.compiler.is_compiling():
        raise AttentionRefused(
            f"{type(module).__name__} is compiled: its attention cannot be read; ask for output_attentions=True."
        )
    return [reader for reader in readers if reader.reads(getattr(module, "layer_idx", None))]


def _refuse_unknown(module: nn.Module, kwargs: Mapping[str, Any]) -> None:
    """An argument is harmless if the eager attention of the model's own file does not read it, either."""
    given = [name for name, value in kwargs.items() if value is not None]
    if not given:
        return
    eager = getattr(sys.modules.get(type(module).__module__), "eager_attention_forward", None)
    read = () if eager is None else _parameters(eager)
    unknown = [name for name in given if name in REFUSED or (name in read and name not in HARMLESS)]
    if unknown:
        raise AttentionRefused(
            f"{type(module).__name__} gives its attention {' and '.join(unknown)}, which the attention implementation "
            'of msattn does not know: load the model with attn_implementation="eager", which returns full maps.'
        )


@cache
def _parameters(function: Callable) -> frozenset[str]:
    return frozenset(inspect.signature(function).parameters)


def register() -> None:
    """Registers the implementation in Transformers, under all its names."""
    for name in OURS:
        forward = partial(attention_forward, returns_sums=True) if name == "received" else attention_forward
        AttentionInterface.register(name, forward)
        AttentionMaskInterface.register(name, attention_mask)


# A checkpoint on the Hub brings this file along; where msattn is installed, its own stays.
if OURS[0] not in ALL_ATTENTION_FUNCTIONS:
    register()

# Any model may name the implementation now. Some need an adapter for it, and others would ignore it, so `watch` adapts
# or refuses each while it is built. A configuration cannot do that, and Transformers calls nobody then. PyTorch does.
# This is not in `register`, which may run twice: each call would add a hook.
register_module_module_registration_hook(watch)
