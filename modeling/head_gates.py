"""Gates on attention heads: factors of their outputs, to measure what a head is worth or to switch it off."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn
from transformers import AttentionInterface

from .attention_adapters import adapt, is_attention_layer
from .attention_call import AttentionRefused

# Where attention layers keep their number of heads.
HEADS = ("num_heads", "num_attention_heads", "n_heads", "n_head")


@contextmanager
def head_gates(model: nn.Module) -> Iterator[torch.Tensor]:
    """
    Multiplies the output of each attention head by a gate, in every forward pass inside: 1 changes nothing, 0 removes
    the head, as zeros in its columns of the output projection would. This replaces `head_mask`, which Transformers 5
    dropped.

    It works under every attention implementation, for every model on the attention interface of Transformers, and
    within other modules: wrappers of PEFT, a `SentenceTransformer`. Cross-attention has gates, too. With gradient
    checkpointing call `backward` inside.

    Args:
        model (`torch.nn.Module`): The model.

    Yields:
        `torch.Tensor` of shape `(layers, heads)`: Ones, a leaf that gets a gradient. Rows are the attention layers in
        the order of `model.modules()`; a layer that is used several times, as in ALBERT, has one row. Layers with
        fewer heads than others ignore the rest of their row. To set gates, fill it under `torch.no_grad()`.

    Raises:
        AttentionRefused: The model has no layer on the attention interface, or is compiled, or the number of heads of
            a layer is not the one that it names.

    Example:

    ```python
    >>> from msattn import head_gates

    >>> with head_gates(model) as gates:
    ...     loss = model(**batch).loss
    ...     (importance,) = torch.autograd.grad(loss, gates)
    ...     with torch.no_grad():
    ...         gates[0, 3] = 0
    ...     without = model(**batch).loss
    ```
    """
    layers = gated_layers(model)
    device = next(iter(model.parameters())).device
    gates = torch.ones(len(layers), max(layers.values()), device=device, requires_grad=True)
    with gated(model, gates):
        yield gates


@contextmanager
def gated(model: nn.Module, gates: torch.Tensor) -> Iterator[None]:
    """
    Multiplies the outputs of attention heads by given gates; see [`head_gates`].

    Args:
        model (`torch.nn.Module`): The model.
        gates (`torch.Tensor` of shape `(layers, heads)` or `(batch, layers, heads)`): The gates, for each example of
            the batch apart in the second form.
    """
    rows = {layer: row for row, layer in enumerate(gated_layers(model))}
    get_interface = AttentionInterface.get_interface

    def get_gated(self: AttentionInterface, *args: Any, **kwargs: Any) -> Callable:
        attend = get_interface(self, *args, **kwargs)

        def attend_gated(module: nn.Module, *inputs: Any, **options: Any) -> tuple[torch.Tensor, Any]:
            output, weights = attend(module, *inputs, **options)
            if module not in rows:
                return output, weights
            heads = output.shape[-2]
            if heads > gates.shape[-1]:
                raise AttentionRefused(f"{type(module).__name__} has {heads} heads, and names {gates.shape[-1]}.")
            factors = gates[..., rows[module], :heads].to(output)
            return output * (factors if factors.dim() == 1 else factors[:, None]).unsqueeze(-1), weights

        return attend_gated

    AttentionInterface.get_interface = get_gated
    try:
        yield
    finally:
        AttentionInterface.get_interface = get_interface


def gated_layers(model: nn.Module) -> dict[nn.Module, int]:
    """
    The attention layers of a model that speak the attention interface, and their numbers of heads.

    Raises:
        AttentionRefused: See [`head_gates`].
    """
    name = type(model).__name__
    if any(hasattr(module, "_orig_mod") or getattr(module, "_compiled_call_impl", None) for module in model.modules()):
        raise AttentionRefused(f"{name} is compiled: its heads cannot have gates; compile it without them.")
    adapt(model)
    layers = {module: _heads(module) for module in model.modules() if is_attention_layer(module)}
    if not layers:
        raise AttentionRefused(f"{name} has no layer on the attention interface of Transformers: no gates for it.")
    return layers


def _heads(layer: nn.Module) -> int:
    config = getattr(layer, "config", None)
    for place, names in ((layer, HEADS), (config, ("num_attention_heads",))):
        for name in names:
            if isinstance(heads := getattr(place, name, None), int):
                return heads
    raise AttentionRefused(f"{type(layer).__name__} does not tell how many heads it has: no gates for it.")


__all__ = ["gated", "gated_layers", "head_gates"]
