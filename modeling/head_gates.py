"""Gates on attention heads: factors of their outputs, to measure what a head is worth or to switch it off."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn
from transformers import AttentionInterface

from .attention_adapters import adapt, heads_of, is_attention_layer, is_compiled
from .attention_call import AttentionRefused


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
        AttentionRefused: A `ValueError`. The model has no layer on the attention interface, or is compiled, or the
            number of heads of a layer is not the one that it names.

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
    name = type(model).__name__
    if is_compiled(model):
        raise AttentionRefused(f"{name} is compiled: its heads cannot have gates; compile it without them.")
    adapt(model)
    layers = [module for module in model.modules() if is_attention_layer(module)]
    if not layers:
        raise AttentionRefused(f"{name} has no layer on the attention interface of Transformers: no gates for it.")
    rows = {layer: row for row, layer in enumerate(layers)}
    device = next(iter(model.parameters())).device
    gates = torch.ones(len(layers), max(map(heads_of, layers)), device=device, requires_grad=True)
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
            return output * gates[rows[module], :heads].to(output).unsqueeze(-1), weights

        return attend_gated

    AttentionInterface.get_interface = get_gated
    try:
        yield gates
    finally:
        AttentionInterface.get_interface = get_interface
