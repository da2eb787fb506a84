"""How diverse attention is: similarity of attention maps, and entropy of received attention."""

from __future__ import annotations

import math

import torch
from torch.nn.functional import normalize as unit_vectors


def map_similarity(received: torch.Tensor, attention_mask: torch.Tensor | None = None) -> torch.Tensor:
    r"""
    The mean cosine similarity of pairs of attention maps: Σ_{i≠j} cos(m_i, m_j) / (maps · (maps − 1)).

    It lies between 0 (no two maps attend to the same token) and 1 (all maps are equal up to scale).

    Args:
        received (`torch.Tensor` of shape `(batch, maps, tokens)`):
            The attention that each token receives in each map; see [`received_attention`].
        attention_mask (`torch.Tensor` of shape `(batch, tokens)`, *optional*):
            1 or true at real tokens. The others are ignored.

    Returns:
        `torch.Tensor` of shape `(batch,)`: The similarity, in float32, or in float64 if `received` is.

    Raises:
        ValueError: `received` is not `(batch, maps, tokens)`, is empty or has a single map, or `attention_mask` is not
            `(batch, tokens)`.
    """
    maps = _real_maps(received, attention_mask)
    count = maps.shape[1]
    if count < 2:
        raise ValueError("a single map has no pair to compare")
    maps = unit_vectors(maps, dim=-1)
    # The square of the sum contains all pairs; subtract those of a map with itself.
    pairs = maps.sum(dim=1).square().sum(dim=-1) - maps.square().sum(dim=(1, 2))
    return pairs / (count * (count - 1))


def received_entropy(
    received: torch.Tensor, attention_mask: torch.Tensor | None = None, normalized: bool = False
) -> torch.Tensor:
    r"""
    The entropy of received attention over the tokens, − Σ_t p_t log₂ p_t with p = m / Σ_t m_t, in bits.

    Args:
        received (`torch.Tensor` of shape `(batch, maps, tokens)`):
            The attention that each token receives in each map; see [`received_attention`].
        attention_mask (`torch.Tensor` of shape `(batch, tokens)`, *optional*):
            1 or true at real tokens. The others are ignored.
        normalized (`bool`, *optional*, defaults to `False`):
            Whether to divide by log₂ of the number of real tokens. It is then 1 if all tokens receive the same.

    Returns:
        `torch.Tensor` of shape `(batch, maps)`: The entropy, in float32, or in float64 if `received` is. It is 0 for a
        sample with fewer than two tokens.

    Raises:
        ValueError: `received` is not `(batch, maps, tokens)` or is empty, or `attention_mask` is not
            `(batch, tokens)`.
    """
    maps = _real_maps(received, attention_mask)
    shares = maps / maps.sum(dim=-1, keepdim=True).clamp_min(torch.finfo(maps.dtype).tiny)
    entropy = -torch.xlogy(shares, shares).sum(dim=-1) / math.log(2)
    if not normalized:
        return entropy
    if attention_mask is None:
        tokens = entropy.new_full((maps.shape[0], 1), maps.shape[-1])
    else:
        tokens = attention_mask.to(maps.device).bool().sum(dim=-1, keepdim=True).to(maps)
    return entropy / tokens.clamp_min(2).log2()


def _real_maps(received: torch.Tensor, attention_mask: torch.Tensor | None) -> torch.Tensor:
    """Validates the maps and sets padding to 0."""
    if received.dim() != 3 or 0 in received.shape[1:]:
        raise ValueError(f"received must be (batch, maps, tokens) and not empty, got {tuple(received.shape)}")
    maps = received.to(torch.promote_types(received.dtype, torch.float32))
    if attention_mask is None:
        return maps
    if attention_mask.shape != (maps.shape[0], maps.shape[2]):
        raise ValueError(f"attention_mask must be {(maps.shape[0], maps.shape[2])}, got {tuple(attention_mask.shape)}")
    return maps.masked_fill(~attention_mask.to(maps.device).bool().unsqueeze(1), 0)


__all__ = ["map_similarity", "received_entropy"]
