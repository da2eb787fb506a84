"""The attention of chosen tokens, beside fused attention."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import torch
from torch import nn

from .attention_call import AttentionCall
from .received_attention import _is_wanted, _refuse_unknown, received_attention_forward


def rows_attention_forward(
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
    rows: torch.Tensor | None = None,
    **kwargs: Any,
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """
    The attention implementation `"rows"`: scaled dot-product attention. With `output_attentions=True` and the keyword
    argument `rows` of its forward pass, a model returns as `attentions` only these rows of its maps. Dropout changes
    only the output.

    ```python
    >>> model.set_attn_implementation("rows")
    >>> outputs = model(**batch, rows=torch.tensor([[3, 7]]), output_attentions=True)
    >>> outputs.attentions[0].shape
    torch.Size([1, 12, 2, 20])
    ```

    Without `rows`, it returns whole maps. So does a model whose layers do not hand keyword arguments on: the shape
    tells.

    Args:
        module (`torch.nn.Module`): The attention layer; its `config` and `is_causal` give defaults.
        query, key, attention_mask, scaling, is_causal, position_bias, softcap, sinks: See [`received_attention`].
        value (`torch.Tensor` of shape `(batch, key_heads, keys, value_dim)`): Values.
        dropout (`float`, *optional*, defaults to 0.0): Dropout of the attention weights.
        s_aux (`torch.Tensor`, *optional*): Another name of `sinks`.
        rows (`torch.LongTensor` of shape `(batch, rows)`, *optional*):
            Positions of the tokens that attend. The row of a number below 0 is zero.
        **kwargs: What else a model gives its attention. See `Raises`.

    Returns:
        The output `(batch, queries, heads, value_dim)`, and the weights `(batch, heads, rows, keys)`; `None` if they
        are not asked for.

    Raises:
        AttentionRefused: The model gives its attention an argument that changes the softmax in an unknown way.
        ValueError: As in [`received_attention`], or `rows` is not `(batch, rows)`.
    """
    _refuse_unknown(module, kwargs, "rows")
    sinks = s_aux if sinks is None else sinks
    softmax: dict[str, Any] = {"scaling": scaling, "is_causal": is_causal, "position_bias": position_bias}
    softmax |= {"softcap": softcap, "sinks": sinks}
    wanted = _is_wanted(module, kwargs)
    if wanted and rows is None:
        return AttentionCall.of(module, query, key, value, attention_mask, dropout=dropout, **softmax).materialized()
    kwargs |= {**softmax, "dropout": dropout, "output_attentions": False}
    output, _ = received_attention_forward(module, query, key, value, attention_mask, **kwargs)
    if not wanted or rows is None:
        return output, None
    if rows.dim() != 2 or rows.shape[0] != query.shape[0]:
        raise ValueError(f"rows must be ({query.shape[0]}, rows), got {tuple(rows.shape)}")
    with torch.autocast(query.device.type, enabled=False):
        return output, AttentionCall.of(module, query, key, value, attention_mask, **softmax).rows(rows)


def with_rows(forward: Callable[..., tuple[torch.Tensor, Any]]) -> Callable[..., tuple[torch.Tensor, Any]]:
    """
    An attention implementation whose result for each key, `(batch, heads, keys)`, is followed by the `rows` that its
    model is given: `(batch, heads, 1 + rows, keys)`, or `(batch, heads, rows, keys)` if it has none for a layer.
    """

    @wraps(forward)
    def both(module, query, key, value, attention_mask, rows=None, **kwargs):
        output, result = forward(module, query, key, value, attention_mask, **kwargs)
        if rows is None or result is None:
            return output, result
        names = ("scaling", "is_causal", "position_bias", "softcap")
        softmax: dict[str, Any] = {name: kwargs.get(name) for name in names} | {
            "sinks": kwargs.get("sinks", kwargs.get("s_aux"))
        }
        with torch.autocast(query.device.type, enabled=False):
            chosen = AttentionCall.of(module, query, key, value, attention_mask, **softmax).rows(rows)
        return output, torch.cat([result.unsqueeze(2).to(chosen.dtype), chosen], dim=2) if result.shape[-1] else chosen

    return both


__all__ = ["rows_attention_forward", "with_rows"]
