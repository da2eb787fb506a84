"""
Makes a model use the attention implementation that its configuration names, or refuses the model.

It does so while the model is built. Without it, models that compute their softmax themselves would ignore the name.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from torch import nn
from transformers import PreTrainedModel

from .attention_adapters import OURS, adapt, adapt_layers, inner_models, is_attention_layer, is_outside
from .attention_call import AttentionRefused
from .attention_windows import has_windows, keep_windows


def watch(module: nn.Module, name: str, submodule: nn.Module | None) -> None:
    """
    A hook that PyTorch calls whenever a module is given a submodule, and so while a model is built.

    Raises:
        AttentionRefused: The implementation is one of ours, and the model computes its softmax itself.
    """
    config = module.__dict__.get("config") if isinstance(module, PreTrainedModel) else None
    if config is None:
        return
    if has_windows(config) and config._attn_implementation not in OURS:
        config._attn_implementation = "banded"
    if config._attn_implementation in OURS:
        if is_outside(type(module)):
            if type(module).__module__.startswith("transformers"):
                raise _ignored(module)
            # What is in the file of a class of one's own does not tell what is in the model.
            vars(module)["post_init"] = partial(_post_init, module)
        adapt(module)
        if submodule is not None:
            adapt_layers(submodule, config)
    if has_windows(config):
        keep_windows(module)


def _post_init(model: Any) -> None:
    """That of a class which may compute its softmax itself; models inside have been judged on their own."""
    del model.post_init
    if inner_models(model) == [model] and not any(map(is_attention_layer, model.modules())):
        raise _ignored(model)
    model.post_init()


def _ignored(model: Any) -> AttentionRefused:
    return AttentionRefused(
        f"{type(model).__name__} computes its softmax itself and would ignore attn_implementation="
        f"{model.config._attn_implementation!r}: leave it out; msattn.read_attention reads any model."
    )
