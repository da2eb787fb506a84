"""Limits how far the attention heads of any model see: stores their windows, and hides the tokens outside of them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from functools import partial, update_wrapper
from operator import index
from typing import Any, TypeVar

import torch
from torch import nn
from transformers import PreTrainedConfig, PreTrainedModel

from .attention_adapters import (
    OURS,
    adapt,
    heads_of,
    inner_models,
    is_attention_layer,
    switch_attention,
    takes_keywords,
)
from .attention_call import MASKED, AttentionRefused, is_causal_layer, is_cross_attention
from .window_attention import limits_of

# Models that add their masks to the scores themselves.
OWN_MASKS = ("bigbird_pegasus",)
# The mark of a layer: its number among the self-attention layers; and that of a model whose layers have theirs.
ROW, NUMBERED = "_msattn_row", "_msattn_numbered"
# The mark of a `forward` that checks the windows.
KEEPS = "_msattn_keeps_windows"

Model = TypeVar("Model", bound=nn.Module)
OfHead = int | None


def set_windows(
    model: Model,
    windows: OfHead | Sequence[OfHead] | Sequence[Sequence[OfHead]],
    special_token_ids: Collection[int] = (),
) -> Model:
    """
    Gives the attention heads of a model windows: with a window w, token i sees the tokens i-w ... i+w of its text.

    The windows are stored in `config.attention_windows`, saved and loaded with the model, and honoured by the
    attention implementations of msattn and by `read_attention`. The model is switched to `"banded"` unless it uses
    one of them. Any other implementation is refused.
    Windows that the model has by itself, and causality, stay: a head sees what both let it see. In an encoder-decoder,
    the encoder's layers get the windows.

    Args:
        model (`torch.nn.Module`): A model of Transformers, or a module with one inside. It is changed in place.
        windows (`int`, `Sequence[int]` or `Sequence[Sequence[int]]`):
            Tokens seen on either side, `None` for all: one for the model, one a layer, or one a head of each layer.
            `None` alone takes the windows away. Layers are the self-attention layers in the order of
            `model.modules()`; one that is used several times, as in ALBERT, counts once.
        special_token_ids (`Collection[int]`, *optional*):
            Tokens that every head sees, and that see everything, such as those of [CLS] and [SEP]. The model must
            then be given `input_ids`.

    Returns:
        `torch.nn.Module`: The model.

    Raises:
        ValueError: A window is below 0, or there are not as many as layers or heads.
        AttentionRefused: A `ValueError`. The model has no self-attention on the attention interface of Transformers
            and no adapter, adds its masks to the scores itself, is one half of an encoder-decoder, or cannot hand the
            places of special tokens to its layers.

    Example:

    ```python
    >>> from msattn import set_windows

    >>> model = set_windows(model, [8, 8, 32, 32, None, None], special_token_ids=tokenizer.all_special_ids)
    >>> model.save_pretrained("outputs/windowed")
    ```
    """
    owner, layers = owner_and_layers(model)
    rows = _windows_by_head(windows, list(layers.values()))
    special = sorted({index(one) for one in special_token_ids})
    config = owner.config
    models = [one for one in model.modules() if isinstance(one, PreTrainedModel)]
    if models == [owner] and config.is_encoder_decoder:
        raise AttentionRefused(
            f"{type(owner).__name__} is one half of an encoder-decoder, and windows are saved with the whole: give "
            "set_windows the whole model, whose encoder gets the windows."
        )
    # Some models, such as T5's encoder, give their layers a copy of their configuration. The first is saved.
    configs = {id(one.config): one.config for one in models if one.config.model_type == config.model_type}.values()
    if special and not takes_keywords(owner):
        raise AttentionRefused(
            f"{type(owner).__name__} hands no keyword arguments on, so its layers cannot know the special tokens: "
            "leave special_token_ids out."
        )
    if all(window is None for row in rows for window in row):
        for one in configs:
            one.attention_windows = None
            for name in ("attn_implementation", "attention_windows_special_token_ids"):
                one.__dict__.pop(name, None)
        return model
    if config._attn_implementation not in OURS:
        switch_attention(owner, "banded")
    if config._attn_implementation not in OURS:
        raise AttentionRefused(_outside(owner))
    for one in configs:
        one.attention_windows, one.attention_windows_special_token_ids = rows, special
        _save_banded(one)
    number_layers(owner)
    keep_windows(owner)
    return model


def number_layers(model: PreTrainedModel) -> None:
    """
    Tells the layers of a model whose configuration has windows which of them are theirs.

    Raises:
        ValueError: The windows of the configuration do not fit the model.
        AttentionRefused: See [`set_windows`].
    """
    setattr(model, NUMBERED, not _is_decoder(model))
    if not getattr(model, NUMBERED):
        return  # the windows are those of the encoder
    _, layers = owner_and_layers(model)
    _windows_by_head(model.config.attention_windows, list(layers.values()))
    for number, layer in enumerate(layers):
        setattr(layer, ROW, number)


def has_windows(config: PreTrainedConfig | None) -> bool:
    """True if `config.attention_windows` is set."""
    return getattr(config, "attention_windows", None) is not None


def windows_of(
    module: nn.Module, special_tokens: torch.Tensor | None = None
) -> tuple[list[OfHead] | None, torch.Tensor | None]:
    """
    The windows of the heads of an attention layer, and the special tokens outside of them; `None` if it has none.

    Args:
        module (`torch.nn.Module`): The layer.
        special_tokens (`torch.BoolTensor` of shape `(batch, tokens)`, *optional*): What it was told of them.

    Raises:
        AttentionRefused: The layer is not one that [`set_windows`] has seen, or is not told where special tokens are.
    """
    config: Any = getattr(module, "config", None)
    name = type(module).__name__
    if not has_windows(config) or is_cross_attention(module) or _is_in_decoder(module):
        return None, None
    row = getattr(module, ROW, None)
    if row is None:
        raise AttentionRefused(f"{name} does not know its number: set windows with msattn.set_windows.")
    windows = config.attention_windows[row]
    if all(window is None for window in windows):
        return None, None
    if special_tokens is None and getattr(config, "attention_windows_special_token_ids", None):
        raise AttentionRefused(
            f"{name} is not told where special tokens are: give the model input_ids or special_tokens (batch, "
            "tokens), or set windows without special_token_ids."
        )
    return windows, special_tokens


def windowed_mask(
    module: nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    attention_mask: torch.Tensor | None,
    is_causal: bool | None = None,
    special_tokens: torch.Tensor | None = None,
) -> torch.Tensor | None:
    """
    The mask of a layer with its windows.

    Args:
        module (`torch.nn.Module`): The attention layer.
        query, key (`torch.Tensor` of shape `(batch, heads, tokens, head_dim)`): Queries and keys.
        attention_mask (`torch.Tensor`, *optional*): A mask in four dimensions: booleans, or floats to add.
        is_causal (`bool`, *optional*): Whether no mask means a causal one; the layer's own attribute if `None`.
        special_tokens (`torch.BoolTensor` of shape `(batch, tokens)`, *optional*): True at special tokens.

    Returns:
        `torch.Tensor`: The same mask if the layer has no windows, else `(batch or 1, heads or 1, queries, keys)`.

    Raises:
        AttentionRefused: The model reads a cache, and has special tokens beside its windows.
    """
    windows, special = windows_of(module, special_tokens)
    if windows is None:
        return attention_mask
    tokens, keys = query.shape[2], key.shape[2]
    if keys != tokens and special is not None:
        raise AttentionRefused(
            f"{type(module).__name__} has windows beside special tokens, which need the whole text: set "
            "use_cache=False, or set windows without special_token_ids."
        )
    places = _query_places(attention_mask, tokens, keys, query.device)
    distances = (places.unsqueeze(-1) - torch.arange(keys, device=query.device)).abs()
    visible = distances <= limits_of(windows, query.device)[..., None, None]
    if special is not None:
        visible = visible | special[:, None, None] | special[:, None, :, None]
    if attention_mask is None:
        past = torch.arange(keys, device=query.device) <= places.unsqueeze(-1)
        return visible & past if is_causal_layer(module, is_causal) else visible
    if attention_mask.dtype == torch.bool:
        return attention_mask & visible
    return torch.where(visible, attention_mask, torch.finfo(attention_mask.dtype).min)


def _query_places(mask: torch.Tensor | None, tokens: int, keys: int, device: torch.device) -> torch.Tensor:
    """Where each query is among the keys, of which a cache may hold more, `(tokens,)` or `(batch, 1, tokens)`."""
    if mask is None or keys == tokens:
        return torch.arange(tokens, device=device) + (keys - 1 if tokens == 1 else 0)
    # The last key that it sees is its own.
    seen = mask if mask.dtype == torch.bool else mask > MASKED
    return keys - 1 - seen[:, :1].flip(-1).int().argmax(dim=-1)


def keep_windows(model: PreTrainedModel) -> None:
    """Checks the windows of a model whenever it runs, and saves them with an implementation that honours them."""
    if not hasattr(model.forward, KEEPS):
        _save_banded(model.config)
        _wrap_forward(model, model.forward)


def _wrap_forward(model: PreTrainedModel, inner: Callable) -> None:
    # No hook: sentence-transformers and PEFT call `forward` past all hooks. A partial function is copied and pickled
    # with its model; `torch.export` and the Trainer read the signature of what it wraps.
    forward: Any = update_wrapper(partial(_windowed_forward, model, inner), inner)
    setattr(forward, KEEPS, True)
    model.forward = forward
    model._replicate_for_data_parallel = partial(_replica, model)


def _replica(model: Any) -> Any:
    """A replica for `torch.nn.DataParallel`, which runs its own layers and not those of the model."""
    replica = type(model)._replicate_for_data_parallel(model)
    _wrap_forward(replica, type(model).forward.__get__(replica))
    return replica


def _windowed_forward(model: PreTrainedModel, inner: Callable, /, *args: Any, **kwargs: Any) -> Any:
    return inner(*args, **{**kwargs, **_special_tokens(model, args, kwargs)})


def _save_banded(config: PreTrainedConfig) -> None:
    """Where msattn is missing, loading fails with this entry. Transformers would ignore the windows."""
    config.attn_implementation = "banded"


def _special_tokens(model: PreTrainedModel, args: tuple, kwargs: dict[str, Any]) -> dict[str, Any]:
    """Refuses implementations that ignore windows, and says where special tokens are."""
    config = model.config
    if not has_windows(config) or any(isinstance(child, PreTrainedModel) for child in model.children()):
        return {}  # a classifier shares its configuration with the model that has the layers
    if config._attn_implementation not in OURS:
        raise AttentionRefused(
            f"{type(model).__name__} has attention windows, which attn_implementation="
            f"{config._attn_implementation!r} would ignore: take one of {', '.join(OURS)}, or "
            "msattn.set_windows(model, None)."
        )
    if not hasattr(model, NUMBERED):
        number_layers(model)
    special = getattr(config, "attention_windows_special_token_ids", None)
    ids = kwargs.get("input_ids", args[0] if args else None)
    if not special or not getattr(model, NUMBERED) or ids is None or kwargs.get("special_tokens") is not None:
        return {}
    # `torch.isin` has no counterpart in ONNX.
    found = (ids.unsqueeze(-1) == torch.tensor(special, device=ids.device)).any(dim=-1)
    return {"special_tokens": found}


def owner_and_layers(model: nn.Module) -> tuple[PreTrainedModel, dict[nn.Module, int]]:
    """The innermost model of Transformers, adapted, and its self-attention layers with their numbers of heads."""
    adapt(model)
    name, inner = type(model).__name__, inner_models(model)
    if len(inner) > 1:
        inner = [one for one in inner if not _is_decoder(one)]
    if len(inner) > 1 and any(one.config.is_encoder_decoder for one in inner):
        raise AttentionRefused(f"{name} does not tell its decoder from its encoder: there are no windows for it.")
    if len(inner) > 1:
        raise AttentionRefused(f"{name} has several models inside: give one of them windows.")
    if not inner:
        raise AttentionRefused(f"{name} has no model of Transformers inside: there are no windows for it.")
    (owner,) = inner
    if getattr(owner.config, "model_type", None) in OWN_MASKS:
        raise AttentionRefused(f"{name} adds its masks to the scores itself: there are no windows for it.")
    layers = [one for one in owner.modules() if is_attention_layer(one) and not is_cross_attention(one)]
    if not layers:
        raise AttentionRefused(_outside(owner))
    if any(getattr(one, "config", None) is not owner.config for one in layers):
        raise AttentionRefused(f"{name} has layers with other configurations: there are no windows for it.")
    return owner, {layer: heads_of(layer) for layer in layers}


def _is_in_decoder(layer: Any) -> bool:
    """True for a layer of a decoder that shares its configuration, and so the windows, with an encoder."""
    return bool(getattr(layer, "is_decoder", False) and layer.config.is_encoder_decoder)


def _is_decoder(model: nn.Module) -> bool:
    return any(is_attention_layer(one) and _is_in_decoder(one) for one in model.modules())


def _outside(model: nn.Module) -> str:
    name = type(model).__name__
    return f"{name} has no self-attention on the attention interface of Transformers: there are no windows for it."


def _windows_by_head(windows: Any, heads: Sequence[int]) -> list[list[OfHead]]:
    """Windows by layer and head, checked."""
    windows = windows.tolist() if hasattr(windows, "tolist") else windows
    if not isinstance(windows, Sequence):
        windows = [windows] * len(heads)
    rows = [row if isinstance(row, Sequence) else [row] * count for row, count in zip(windows, heads, strict=False)]
    if len(windows) != len(heads) or list(map(len, rows)) != list(heads):
        raise ValueError(
            f"windows must be one a layer, {len(heads)} in all, or lists of one a head, {list(heads)}, got {windows}"
        )
    found = [[None if window is None else index(window) for window in row] for row in rows]
    if any(window is not None and window < 0 for row in found for window in row):
        raise ValueError(f"windows must be at least 0 or None, got {windows}")
    return found
