"""Puts models that compute their softmax themselves on the attention interface of Transformers."""

from __future__ import annotations

import inspect
from typing import Any

from torch import nn
from transformers import PreTrainedConfig, PreTrainedModel

from .attention_call import AttentionRefused

#: The names of our attention implementation.
OURS = ("msattn", "received", "banded", "rows", "words")
# Where attention layers keep their number of heads.
HEADS = ("num_heads", "num_attention_heads", "n_heads", "n_head")


def adapt(model: nn.Module) -> None:
    """
    Puts the attention layers of a model on the attention interface, if they are not there and there are classes
    for them: those of MPNet, DeBERTa-v2 and v3.

    The model is changed in place. Its parameters and their names stay, and its outputs up to rounding.

    Args:
        model (`torch.nn.Module`): A model, or a module with models inside.
    """
    adapted = _adapted()
    for owner in [one for one in model.modules() if type(one) in adapted and isinstance(one, PreTrainedModel)]:
        owner.__class__ = adapted[type(owner)]
        adapt_layers(owner, owner.config)


def adapt_layers(part: nn.Module, config: PreTrainedConfig) -> None:
    """[`adapt`] of the layers in a part of a model, whose attention implementation `config` names."""
    adapted = _adapted()
    for module in part.modules():
        if type(module) in adapted and not isinstance(module, PreTrainedModel):
            module.__class__ = adapted[type(module)]
    layers: list[Any] = [one for one in part.modules() if _is_adapted(one)]
    for number, layer in enumerate(layers):
        layer.config, layer.layer_idx = config, number


def inner_models(model: nn.Module) -> list[PreTrainedModel]:
    """The models of Transformers in a module, itself included, that have no further ones inside."""
    models = [module for module in model.modules() if isinstance(module, PreTrainedModel)]
    return [one for one in models if sum(isinstance(part, PreTrainedModel) for part in one.modules()) == 1]


def is_attention_layer(module: nn.Module) -> bool:
    """True for a layer that leaves its softmax to the attention interface."""
    code = getattr(inspect.unwrap(type(module).forward), "__code__", None)
    return _is_adapted(module) or (code is not None and "get_interface" in code.co_names)


def heads_of(layer: Any) -> int:
    """
    The number of heads of an attention layer.

    Raises:
        AttentionRefused: The layer does not tell.
    """
    named = [getattr(layer, name, None) for name in HEADS]
    for heads in (*named, getattr(getattr(layer, "config", None), "num_attention_heads", None)):
        if isinstance(heads, int):
            return heads
    raise AttentionRefused(f"{type(layer).__name__} does not tell how many heads it has: neither gates nor windows.")


def is_compiled(model: nn.Module) -> bool:
    """True for a model with a part that `torch.compile` has compiled."""
    parts = model.modules()
    return any(hasattr(part, "_orig_mod") or getattr(part, "_compiled_call_impl", None) for part in parts)


def is_outside(model_class: type[PreTrainedModel]) -> bool:
    """True for models that compute their softmax themselves, and have no adapter."""
    adapted = {stock.__module__ for stock in _adapted()}
    return not model_class._can_set_attn_implementation() and model_class.__module__ not in adapted


def switch_attention(model: PreTrainedModel, implementation: str) -> None:
    """
    Switches a model to an attention implementation.

    Transformers refuses classes in a notebook, or in a file with another attention. Here their layers decide.
    """
    if type(model)._can_set_attn_implementation():
        model.set_attn_implementation(implementation)
    elif inner_models(model) == [model] and any(map(is_attention_layer, model.modules())):
        model.config._attn_implementation_internal = implementation


def takes_keywords(model: nn.Module) -> bool:
    """True for a model that hands further keyword arguments on to its attention, as far as it says."""
    parameters = inspect.signature(model.forward).parameters.values()
    takes_any = any(parameter.kind is inspect.Parameter.VAR_KEYWORD for parameter in parameters)
    return takes_any and not getattr(model, "drops_keywords", False)


def _is_adapted(module: nn.Module) -> bool:
    return getattr(module, "on_the_interface", False)


def _adapted() -> dict[type, type]:
    """Our classes by those of Transformers. Their file imports models, whose own import needs the present file."""
    from .adapted_models import ADAPTED

    return ADAPTED
