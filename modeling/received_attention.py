"""Received attention: the attention that each token gets from all tokens, without the attention matrix."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

import torch
from torch import nn
from torch.nn.functional import pad, scaled_dot_product_attention
from transformers import PreTrainedConfig
from transformers.integrations.sdpa_attention import repeat_kv, sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

from .blocked_attention import BlockedAttention, Settings, block_size, probabilities
from .first_derivative import first_derivative_only

try:
    from transformers.utils.output_capturing import _active_collector
except ImportError:  # in early releases of Transformers 5
    _active_collector = None

# A mask that is added to the scores hides a key by a number below this, in every dtype.
MASKED = -1e4
METHODS = ("materialized", "blocked", "fused")
# Sparse and paged attention: the mask alone does not say which keys are seen.
REFUSED = ("indices", "block_indices", "cache")
# The eager attention of some models names these without reading them.
HARMLESS = ("output_attentions", "sliding_window", "kwargs")
OWN_MASKS = ("bigbird_pegasus",)
# The mark that `select_layers` leaves on a layer.
SILENT = "_msattn_silent"
# Whether the last pass asked the layer for its attention.
COLLECTED = "_msattn_collected"
# The `Reader`s that `read_attention` leaves on a layer.
READERS = "_msattn_readers"


class AttentionRefused(ValueError):
    """The attention of a model is not only what its queries, keys and mask say. The message names the way out."""


def received_attention(
    query: torch.Tensor,
    key: torch.Tensor,
    attention_mask: torch.Tensor | None = None,
    scaling: float | None = None,
    is_causal: bool = False,
    method: str | None = None,
    position_bias: torch.Tensor | None = None,
    softcap: float | None = None,
    sinks: torch.Tensor | None = None,
    last_queries: int | None = None,
) -> torch.Tensor:
    r"""
    The attention that each token receives: the column sums r_j = Σ_i P_ij of each head over the real tokens i (Eq. 8
    of the attention-guiding paper), where P is the softmax before dropout.

    Queries and keys may differ in number, as in decoding with a cache: the queries are the last of the keys.

    Args:
        query (`torch.Tensor` of shape `(batch, heads, queries, head_dim)`): Queries.
        key (`torch.Tensor` of shape `(batch, key_heads, keys, head_dim)`):
            Keys; `heads` is a multiple of `key_heads` (grouped-query attention).
        attention_mask (`torch.Tensor`, *optional*):
            1 or true at real tokens, of shape `(batch, keys)`. Or which query sees which key, of shape
            `(batch, heads, queries, keys)`: booleans, or floats to add to the scores. All sizes but the last may be
            1. With as many queries as keys, a token that does not see itself is padding; else a query that sees no
            key is.
        scaling (`float`, *optional*): Factor of the scores; 1/√head_dim if `None`.
        is_causal (`bool`, *optional*, defaults to `False`): Whether a token sees only itself and those before it.
        method (`str`, *optional*):
            - `"materialized"`: the whole matrix, under autograd. The only method that can be differentiated twice.
            - `"blocked"`: a block of scores at a time, computed again in the backward pass. Memory grows linearly in
              the tokens.
            - `"fused"`: by the backward pass of `scaled_dot_product_attention`. Memory grows linearly, too. Does not
              take `position_bias`, `softcap` and `sinks`.
            - `None`: `"fused"` on a GPU, `"blocked"` elsewhere, in compiled code, and where `"fused"` cannot.
        position_bias (`torch.Tensor`, *optional*):
            Added to the scores, of shape `(batch, heads, queries, keys)`; all sizes may be 1. It gets a gradient.
        softcap (`float`, *optional*): c, if the scores are c·tanh(score / c), as in Gemma 2.
        sinks (`torch.Tensor`, *optional*):
            The score of one more key that takes a share of the softmax and has no value, as in GPT-OSS. Of shape
            `(heads,)`, or `(batch, heads, queries, 1)` where the sizes may be 1. It gets a gradient.
        last_queries (`int`, *optional*): Only the last real queries of this number count (SnapKV's window).

    Returns:
        `torch.Tensor` of shape `(batch, heads, keys)`: In float32, or in float64 if the queries are; half precision
        is computed in float32. Zero at padding. Without sinks, each head sums to the number of queries that count.

    Raises:
        ValueError: `query` and `key` do not have four dimensions, differ in batch or head_dim, or `heads` is not a
            multiple of `key_heads`; `attention_mask`, `position_bias` or `sinks` has none of the shapes and types
            above; there are more queries than keys under a causal mask or one of `(batch, keys)`; `last_queries` is
            not positive; or `method` is unknown or cannot do what is asked.
        RuntimeError: The result of `"blocked"` or `"fused"` is differentiated twice.
    """
    special = [
        name
        for name, value in (("position_bias", position_bias), ("softcap", softcap), ("sinks", sinks))
        if value is not None
    ]
    if method is None:
        fused = query.is_cuda and not torch.compiler.is_compiling() and not special
        method = "fused" if fused else "blocked"
    if method not in METHODS:
        raise ValueError(f"method must be one of {', '.join(METHODS)}, got {method!r}")
    if method == "fused" and special:
        raise ValueError(f'method must be "blocked" or "materialized" with {" and ".join(special)}, got "fused"')
    scope = _scope(query, key, attention_mask, is_causal, position_bias, sinks)
    if last_queries is not None:
        scope = scope._replace(queries=_last_rows(scope.queries, last_queries))
    return _sums(method, query, key, position_bias, scope, scaling, softcap)


def received_attention_forward(
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
    **kwargs: Any,
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """
    The attention implementation `"received"`: scaled dot-product attention. With `output_attentions=True`, a model
    returns as `attentions` the [`received_attention`] of each layer, `(batch, heads, keys)`.

    On a CPU, output and received attention are computed from the same blocks. Dropout changes only the output.
    Cross-attention counts every query: which queries are padding is not known there.

    Args:
        module (`torch.nn.Module`): The attention layer; its `config` and `is_causal` give defaults.
        query, key, attention_mask, scaling, is_causal, position_bias, softcap, sinks: See [`received_attention`].
        value (`torch.Tensor` of shape `(batch, key_heads, keys, value_dim)`): Values.
        dropout (`float`, *optional*, defaults to 0.0): Dropout of the attention weights.
        s_aux (`torch.Tensor`, *optional*): Another name of `sinks`.
        **kwargs: What else a model gives its attention. See `Raises`.

    Returns:
        The output `(batch, queries, heads, value_dim)`, and the received attention `(batch, heads, keys)`; `None` if
        it is not asked for, and of no keys where [`select_layers`] left the layer out.

    Raises:
        AttentionRefused: The model gives its attention an argument that changes the softmax in an unknown way.
        ValueError: As in [`received_attention`].
    """
    _refuse_unknown(module, kwargs)
    wanted = _is_wanted(module, kwargs)
    silent = getattr(module, SILENT, False)
    readers = _readers_of(module)
    summed = (wanted and not silent) or any(reader.needs_sums for reader in readers)
    sinks = s_aux if sinks is None else sinks
    if position_bias is not None:
        kwargs["position_bias"] = position_bias
    stock = softcap is None and sinks is None
    in_blocks = query.device.type == "cpu" and not torch.compiler.is_compiling()
    # A CPU has no fused kernel with dropout: blocks are faster than what it runs instead (docs/benchmarks.md).
    blocked = in_blocks and (summed or bool(readers and dropout))
    output: Any = None
    received: torch.Tensor | None = None
    scope: _Scope | None = None
    whole: _Scope | None = None
    if stock and not blocked:
        output, _ = sdpa_attention_forward(
            module, query, key, value, attention_mask, scaling=scaling, dropout=dropout, is_causal=is_causal, **kwargs
        )
    # As `sdpa_attention_forward`: a prompt in a cache that has room for more sees as many keys as it has tokens.
    causal = getattr(module, "is_causal", True) if is_causal is None else is_causal
    causal = bool(causal) and attention_mask is None and query.shape[2] > 1
    room = key.shape[2] - query.shape[2] if causal else 0
    if room > 0:
        key, value = key[:, :, : query.shape[2]], value[:, :, : query.shape[2]]
        position_bias = None if position_bias is None else position_bias[..., : query.shape[2]]
    if output is None or summed or readers:
        scope = _scope(query, key, attention_mask, causal, position_bias, sinks, is_cross_attention(module))
        whole = scope
        scope = scope.without([left_out for reader in readers if (left_out := reader.left_out(query)) is not None])
    if output is None and scope is not None:
        groups = query.shape[1] // key.shape[1]
        settings = Settings(
            query.shape[-1] ** -0.5 if scaling is None else scaling,
            softcap,
            scope.offset,
            dropout,
            int(torch.empty((), dtype=torch.int64).random_()) if dropout else 0,
            block_size(query.device),
        )
        mask = scope.mask
        if in_blocks and mask is not None and (mask == mask[..., :1, :]).all():
            mask = mask[..., :1, :]
        with torch.autocast(query.device.type, enabled=False):
            output, received = BlockedAttention.apply(
                query,
                repeat_kv(key, groups),
                repeat_kv(value, groups),
                position_bias,
                scope.sinks,
                mask,
                scope.queries,
                settings,
            )
        if scope.visible is not None and scope.visible.dtype == torch.bool:
            seeing = scope.visible.any(dim=-1, keepdim=True)
            # Looking at it would make the CPU wait for a GPU.
            if not in_blocks or not seeing.all():
                output = output * seeing  # as in `scaled_dot_product_attention`: who sees nothing has no output
        output = output.transpose(1, 2).contiguous()
        received = received if scope.keys is None else received * scope.keys
    elif summed and scope is not None:
        method = "blocked" if torch.compiler.is_compiling() or position_bias is not None else "fused"
        received = _sums(method, query, key, position_bias, scope, scaling)
    if readers and scope is not None:
        inputs = (query, key, attention_mask, scaling, causal)
        special = {"position_bias": position_bias, "softcap": softcap, "sinks": sinks}
        for reader in readers:
            reader.add(module, _real_keys(scope, key), received, inputs, special)
    if not wanted:
        return output, None
    if (
        received is not None and whole is not None and scope is not whole
    ):  # readers leave tokens out, the model does not
        received = _sums("blocked", query, key, position_bias, whole, scaling, softcap)
    if silent or received is None:
        return output, query.new_empty(*query.shape[:2], 0)
    return output, pad(received, (0, room)) if room > 0 else received


def read_layer(module: nn.Module, query: torch.Tensor, key: torch.Tensor, mask: Callable[[], torch.Tensor]) -> None:
    """
    Hands the attention of a layer that is not on the attention interface to those who read it.

    Args:
        module (`torch.nn.Module`): The layer.
        query, key (`torch.Tensor` of shape `(batch, heads, tokens, head_dim)`): Queries and keys, not scaled.
        mask (`Callable`): Makes the mask: true at the keys that a query sees.
    """
    readers = _readers_of(module)
    if not readers:
        return
    visible = mask()
    scope = _scope(query, key, visible, False, None, None)
    scope = scope.without([left_out for reader in readers if (left_out := reader.left_out(query)) is not None])
    received = _sums("blocked", query, key, None, scope, None) if any(one.needs_sums for one in readers) else None
    for reader in readers:
        special = {"position_bias": None, "softcap": None, "sinks": None}
        reader.add(module, _real_keys(scope, key), received, (query, key, visible, None, False), special)


def select_layers(model: nn.Module, layers: Collection[int] | None) -> None:
    """
    Chooses the layers whose attention the implementation `"received"` computes. The others return an empty tensor,
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


def received_attention_mask(*args: Any, config: PreTrainedConfig | None = None, **kwargs: Any) -> torch.Tensor | None:
    """
    The masks of the attention implementation `"received"`: those of `"sdpa"`.

    They are left out where causality says it all, but not beside an encoder: some decoders there do not tell their
    layers that they are causal.

    Raises:
        AttentionRefused: The model reads its masks outside of the attention interface.
    """
    if getattr(config, "model_type", None) in OWN_MASKS:
        raise AttentionRefused(
            f"{type(config).__name__}: the encoder adds its mask to the scores itself, past the attention "
            'implementation "received": load the model with attn_implementation="eager", which returns full maps.'
        )
    if getattr(config, "is_encoder_decoder", False):
        kwargs["allow_is_causal_skip"] = False
    return sdpa_mask(*args, config=config, **kwargs)


def _is_wanted(module: nn.Module, kwargs: dict[str, Any]) -> bool:
    """True if the model is asked for attentions. Some, such as GPT-2, do not tell their layers."""
    if "output_attentions" in kwargs:
        return bool(kwargs.pop("output_attentions"))
    if getattr(getattr(module, "config", None), "output_attentions", False):
        return True
    collected = None if _active_collector is None else _active_collector.get()
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
    return [reader for reader in readers if reader.reads(module)]


def _refuse_unknown(module: nn.Module, kwargs: Mapping[str, Any], name: str = "received") -> None:
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
            f'"{name}" does not know: load the model with attn_implementation="eager", which returns full maps.'
        )


@cache
def _parameters(function: Callable) -> frozenset[str]:
    return frozenset(inspect.signature(function).parameters)


class _Scope(NamedTuple):
    """
    Who sees whom, and who counts.

    Args:
        visible (`torch.Tensor`, *optional*): Booleans, or floats to add, for `(batch, heads, queries, keys)`.
        queries (`torch.Tensor`): True at real queries; broadcasts to `(batch, heads, queries)`.
        keys (`torch.Tensor`, *optional*): True at real keys; broadcasts to `(batch, heads, keys)`.
        offset (`int`, *optional*): Query i sees the keys up to i + offset, if attention is causal.
        sinks (`torch.Tensor`, *optional*): As [`received_attention`]'s, in four dimensions.
    """

    visible: torch.Tensor | None
    queries: torch.Tensor
    keys: torch.Tensor | None
    offset: int | None
    sinks: torch.Tensor | None

    def without(self, left_out: Sequence[torch.Tensor]) -> _Scope:
        """The same, but these tokens, `(batch, tokens)`, do not count as queries."""
        queries = self.queries
        for tokens in left_out:
            queries = queries & ~tokens[:, None]
        return self._replace(queries=queries) if left_out else self

    @property
    def mask(self) -> torch.Tensor | None:
        """True at hidden keys, or floats to add."""
        return ~self.visible if self.visible is not None and self.visible.dtype == torch.bool else self.visible


def _scope(
    query: torch.Tensor,
    key: torch.Tensor,
    attention_mask: torch.Tensor | None,
    is_causal: bool,
    position_bias: torch.Tensor | None,
    sinks: torch.Tensor | None,
    cross: bool = False,
) -> _Scope:
    fits = query.dim() == key.dim() == 4 and query.shape[0] == key.shape[0] and query.shape[-1] == key.shape[-1]
    if not fits or query.shape[1] % key.shape[1]:
        raise ValueError(
            "query must be (batch, heads, queries, head_dim) and key (batch, key_heads, keys, head_dim), got "
            f"{tuple(query.shape)} and {tuple(key.shape)}"
        )
    batch, heads, count, _ = query.shape
    shape = (batch, heads, count, key.shape[2])
    offset = shape[3] - count
    visible = attention_mask
    keys: torch.Tensor | None = None
    if is_causal and offset < 0:
        raise ValueError(f"causal attention must not have more queries than keys, got {count} and {shape[3]}")
    if attention_mask is None:
        queries = query.new_ones(1, 1, count, dtype=torch.bool)
    elif attention_mask.shape == (batch, shape[3]) and offset >= 0:
        keys = attention_mask.bool()[:, None]
        queries, visible = keys[..., offset:], keys.unsqueeze(-2)
    elif _broadcasts(attention_mask, shape) and attention_mask.shape[-1] == shape[-1]:
        seen = attention_mask if attention_mask.dtype == torch.bool else attention_mask > MASKED
        if cross or offset:
            queries = seen.any(dim=-1)
        else:
            queries = keys = seen.squeeze(-2) if seen.shape[-2] == 1 else seen.diagonal(dim1=-2, dim2=-1)
    else:
        raise ValueError(
            f"attention_mask must be {(batch, shape[3])}, or booleans or decimals of {shape}, where 1 may stand for "
            f"all but the last; got {attention_mask.dtype} {tuple(attention_mask.shape)}"
        )
    if position_bias is not None and not (_broadcasts(position_bias, shape) and position_bias.is_floating_point()):
        raise ValueError(
            f"position_bias must be decimals of {shape}, where 1 may stand for all; got {position_bias.dtype} "
            f"{tuple(position_bias.shape)}"
        )
    if sinks is not None:
        four = sinks.view(1, -1, 1, 1) if sinks.dim() == 1 else sinks
        if not _broadcasts(four, (*shape[:3], 1)):
            raise ValueError(f"sinks must be {(heads,)} or {(*shape[:3], 1)}, got {tuple(sinks.shape)}")
        sinks = four
    return _Scope(visible, queries, keys, offset if is_causal else None, sinks)


def _broadcasts(tensor: torch.Tensor, shape: tuple[int, ...]) -> bool:
    fits = tensor.dim() == 4 and all(size in (1, whole) for size, whole in zip(tensor.shape, shape, strict=True))
    return fits and (tensor.dtype == torch.bool or tensor.is_floating_point())


def _real_keys(scope: _Scope, key: torch.Tensor) -> torch.Tensor:
    """True at real keys, `(batch, keys)`."""
    if scope.keys is not None:
        real = scope.keys.any(dim=1)
    elif scope.visible is None:
        real = key.new_ones(1, key.shape[2], dtype=torch.bool)
    else:
        seen = scope.visible if scope.visible.dtype == torch.bool else scope.visible > MASKED
        real = seen.any(dim=2).any(dim=1)
    return real.expand(key.shape[0], -1)


def _last_rows(queries: torch.Tensor, count: int) -> torch.Tensor:
    """True at the last real queries."""
    if count < 1:
        raise ValueError(f"last_queries must be a positive number, got {count}")
    return queries & (queries.long().flip(-1).cumsum(-1).flip(-1) <= count)


def is_cross_attention(module: nn.Module) -> bool:
    """Only the layer knows; its mask does not tell."""
    decoding = getattr(module, "is_decoder", False) and not getattr(module, "is_causal", True)
    return bool(decoding or getattr(module, "is_cross_attention", False) or "Cross" in type(module).__name__)


def _sums(
    method: str,
    query: torch.Tensor,
    key: torch.Tensor,
    position_bias: torch.Tensor | None,
    scope: _Scope,
    scaling: float | None,
    softcap: float | None = None,
) -> torch.Tensor:
    """The column sums, by one of `METHODS`."""
    scaling = query.shape[-1] ** -0.5 if scaling is None else scaling
    settings = Settings(scaling, softcap, scope.offset, block=block_size(query.device))
    key = repeat_kv(key, query.shape[1] // key.shape[1])
    with torch.autocast(query.device.type, enabled=False):  # autocast would sum in bfloat16
        if method == "fused":
            received = _Fused.apply(query, key, scope.visible, scope.queries, settings)
        elif method == "blocked":
            inputs = (query, key, None, position_bias, scope.sinks, scope.mask, scope.queries, settings)
            received = BlockedAttention.apply(*inputs)[1]
        else:
            dtype = torch.promote_types(query.dtype, torch.float32)
            tensors = (query.to(dtype) * scaling, key.to(dtype), position_bias, scope.sinks, scope.mask)
            weights, _ = probabilities(*tensors, settings)
            received = (weights * scope.queries.unsqueeze(-1)).sum(dim=-2)
    return received if scope.keys is None else received * scope.keys


class _Fused(torch.autograd.Function):
    """
    Received attention from the backward pass of fused attention.

    For O = PV and the incoming gradient dO = 1, dV is Pᵀ1 = r. With V = g, dQ and dK are the gradients of r for the
    incoming gradient g. One channel of the value is enough; the others are zero.
    """

    @staticmethod
    def forward(
        query: torch.Tensor, key: torch.Tensor, visible: torch.Tensor | None, queries: torch.Tensor, settings: Settings
    ) -> torch.Tensor:
        return _attention_gradient(None, query, key, visible, queries, settings)[2][..., 0].contiguous()

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple, output: torch.Tensor) -> None:
        *tensors, ctx.settings = inputs
        ctx.save_for_backward(*tensors)

    @staticmethod
    @first_derivative_only
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        query, key, visible, queries = ctx.saved_tensors
        gradients = _attention_gradient(gradient, query, key, visible, queries, ctx.settings)
        return gradients[0].to(query.dtype), gradients[1].to(key.dtype), None, None, None


def _attention_gradient(
    of_received: torch.Tensor | None,
    query: torch.Tensor,
    key: torch.Tensor,
    visible: torch.Tensor | None,
    queries: torch.Tensor,
    settings: Settings,
) -> tuple[torch.Tensor, ...]:
    dtype = torch.promote_types(query.dtype, torch.float32)  # the sums would be rounded to the dtype of the values
    with torch.inference_mode(False), torch.enable_grad():
        query, key = (tensor.clone() if tensor.is_inference() else tensor.detach() for tensor in (query, key))
        query, key = query.to(dtype).requires_grad_(), key.to(dtype).requires_grad_()
        value = torch.zeros_like(key)
        if of_received is not None:
            value[..., 0] = of_received
        mask = visible
        if mask is not None and mask.is_inference():
            mask = mask.clone()
        if mask is not None and mask.dtype != torch.bool:
            mask = mask.to(dtype)
        if settings.offset is not None:
            past = torch.ones(query.shape[2], key.shape[2], dtype=torch.bool, device=query.device)
            past = past.tril(settings.offset)
            if mask is None or mask.dtype == torch.bool:
                mask = past if mask is None else mask & past
            else:
                mask = mask.masked_fill(~past, torch.finfo(dtype).min)
        value.requires_grad_()
        output = scaled_dot_product_attention(query, key, value, attn_mask=mask, scale=settings.scaling)
        of_output = torch.zeros_like(output)
        of_output[..., 0] = queries
        return torch.autograd.grad(output, (query, key, value), of_output)


__all__ = [
    "AttentionRefused",
    "METHODS",
    "is_cross_attention",
    "read_layer",
    "received_attention",
    "received_attention_forward",
    "received_attention_mask",
    "select_layers",
]
