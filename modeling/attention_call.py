"""The arguments of an attention function, in the form that all readings of the attention use."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import nn
from torch.nn.functional import dropout as drop
from transformers.integrations.sdpa_attention import repeat_kv

from .blocked_attention import HIDDEN, Settings, probabilities
from .received_attention import _scope, is_cross_attention


class AttentionCall(NamedTuple):
    """
    The arguments of an attention function, checked, with a key and a value for every head.

    Args:
        query (`torch.Tensor` of shape `(batch, heads, queries, head_dim)`): Queries, not scaled.
        key, value (`torch.Tensor` of shape `(batch, heads, keys, width)`): Keys and values.
        bias (`torch.Tensor`, *optional*): Added to the scores; broadcasts to `(batch, heads, queries, keys)`.
        sinks (`torch.Tensor`, *optional*): Scores of one more key; broadcasts to `(batch, heads, queries, 1)`.
        mask (`torch.Tensor`, *optional*): True at hidden keys, or floats to add; broadcasts as `bias`.
        seeing (`torch.Tensor`, *optional*): False at queries that see no key; broadcasts to `(..., queries, 1)`.
        settings (`Settings`): What else makes the weights.
    """

    query: torch.Tensor
    key: torch.Tensor
    value: torch.Tensor
    bias: torch.Tensor | None
    sinks: torch.Tensor | None
    mask: torch.Tensor | None
    seeing: torch.Tensor | None
    settings: Settings

    @classmethod
    def of(
        cls,
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
        sinks: torch.Tensor | None = None,
    ) -> AttentionCall:
        """
        The call of the attention layer `module`. See [`received_attention`] for the arguments.

        Raises:
            ValueError: As in [`received_attention`].
        """
        causal = getattr(module, "is_causal", True) if is_causal is None else is_causal
        causal = bool(causal) and attention_mask is None and query.shape[2] > 1
        if causal and key.shape[2] > query.shape[2]:  # a prompt in a cache that has room for more
            key, value = key[:, :, : query.shape[2]], value[:, :, : query.shape[2]]
            position_bias = None if position_bias is None else position_bias[..., : query.shape[2]]
        scope = _scope(query, key, attention_mask, causal, position_bias, sinks, is_cross_attention(module))
        groups = query.shape[1] // key.shape[1]
        settings = Settings(
            query.shape[-1] ** -0.5 if scaling is None else scaling,
            softcap,
            scope.offset,
            dropout,
        )
        mask, visible = scope.mask, scope.visible
        seeing = None
        if visible is not None and visible.dtype == torch.bool:
            if visible.stride(-2) == 0:  # one row for all queries
                mask, visible = ~visible[..., :1, :], visible[..., :1, :]
            seeing = visible.any(dim=-1, keepdim=True)
        return cls(
            query, repeat_kv(key, groups), repeat_kv(value, groups), position_bias, scope.sinks, mask, seeing, settings
        )

    def materialized(self) -> tuple[torch.Tensor, torch.Tensor]:
        """The output and the whole map `(batch, heads, queries, keys)`, before dropout; differentiable."""
        query, key, bias, sinks, mask = self.in_full()
        weights, _ = probabilities(query, key, bias, sinks, mask, self.settings)
        weights = weights.to(self.value.dtype)
        kept = drop(weights, self.settings.dropout) if self.settings.dropout else weights
        return self.as_output(kept @ self.value), weights

    def rows(self, positions: torch.Tensor) -> torch.Tensor:
        """
        The attention of chosen tokens, before dropout; differentiable.

        Args:
            positions (`torch.LongTensor` of shape `(batch, rows)`): Queries; the rows of numbers below 0 are zero.

        Returns:
            `torch.Tensor` of shape `(batch, heads, rows, keys)`
        """
        query, key, bias, sinks, mask = self.in_full()
        chosen = positions.clamp_min(0)
        query = _at(query, chosen)
        bias, sinks, mask = (None if tensor is None else _at(tensor, chosen) for tensor in (bias, sinks, mask))
        if self.settings.offset is not None:
            past = torch.arange(key.shape[2], device=key.device) <= chosen.unsqueeze(-1) + self.settings.offset
            future = ~past.unsqueeze(1)
            if mask is None or mask.dtype == torch.bool:
                mask = future if mask is None else mask | future
            else:
                mask = mask.masked_fill(future, HIDDEN)
        weights, _ = probabilities(query, key, bias, sinks, mask, self.settings._replace(offset=None))
        return (weights * (positions >= 0)[:, None, :, None]).to(self.query.dtype)

    def in_full(self) -> tuple[Any, ...]:
        """Scaled queries, keys, bias, sinks and mask, at least in float32."""
        dtype = torch.promote_types(self.query.dtype, torch.float32)
        query, key = self.query.to(dtype) * self.settings.scaling, self.key.to(dtype)
        mask = self.mask if self.mask is None or self.mask.dtype == torch.bool else self.mask.to(dtype)
        return query, key, self.bias, self.sinks, mask

    def as_output(self, output: torch.Tensor) -> torch.Tensor:
        """The output `(batch, queries, heads, width)`; zero for a query that sees no key, as in SDPA."""
        if self.seeing is not None:
            output = output * self.seeing
        return output.transpose(1, 2).contiguous()


def _at(tensor: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
    """Rows of a tensor that broadcasts to `(batch, heads, queries, ...)`."""
    if tensor.shape[2] == 1:
        return tensor
    tensor = tensor.expand(positions.shape[0], -1, -1, -1)
    return tensor.gather(2, positions[:, None, :, None].expand(-1, tensor.shape[1], -1, tensor.shape[3]))


__all__ = ["AttentionCall"]
