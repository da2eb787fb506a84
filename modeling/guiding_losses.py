"""The losses of attention guiding: map discrimination (MDG) and pattern decorrelation (PDG)."""

from __future__ import annotations

import math

import torch
from torch.nn.functional import normalize as unit_vectors

from .real_tokens import real_of

NORMALIZATIONS = ("none", "row", "col")
REDUCTIONS = ("mean", "sum")
# Vectors shorter than this have no reliable direction: they are scaled up, but not to unit length.
SHORTEST = 1e-6


def mdg_loss(
    received: torch.Tensor,
    attention_mask: torch.Tensor | None = None,
    temperature: float = 1.0,
    normalize: str = "row",
    reduction: str = "mean",
) -> torch.Tensor:
    r"""
    Map discrimination guiding (Eq. 11 of the attention-guiding paper): the attention maps of a sample should differ.

    MDG = − Σ_i log (exp(m_i·m_i / τ) / Σ_j exp(m_j·m_i / τ)).

    With `normalize="row"`, the term of a map lies between log(1 + (maps − 1) e^(−1/τ)) and log(maps).

    Args:
        received (`torch.Tensor` of shape `(batch, maps, tokens)`):
            The attention that each token receives in each map; see [`received_attention`].
        attention_mask (`torch.Tensor` of shape `(batch, tokens)`, *optional*):
            1 or true at real tokens. The others are ignored.
        temperature (`float`, *optional*, defaults to 1.0): τ.
        normalize (`str`, *optional*, defaults to `"row"`):
            Scales to unit length first: each map (`"row"`), the values of each token over the maps (`"col"`),
            or `"none"`.
        reduction (`str`, *optional*, defaults to `"mean"`):
            The `"sum"` over the maps, as in the paper, or their `"mean"`.

    Returns:
        `torch.Tensor` of shape `()`: The mean over the samples, in float32, or in float64 if `received` is. A sample
        without real tokens counts as 0.

    Raises:
        ValueError: `received` does not have three dimensions or is empty, `attention_mask` is not `(batch, tokens)`,
            `temperature` is not positive and finite, or `normalize` or `reduction` is unknown.
    """
    if not (math.isfinite(temperature) and temperature > 0):
        raise ValueError(f"temperature must be a positive number, got {temperature}")
    with torch.autocast(received.device.type, enabled=False):
        maps, real = _prepare(received, attention_mask, normalize, reduction)
        similarities = maps @ maps.mT / temperature
        losses = similarities.logsumexp(dim=-1) - similarities.diagonal(dim1=-2, dim2=-1)
        losses = losses.sum(dim=-1) * real.any(dim=-1)
        return (losses / maps.shape[1] if reduction == "mean" else losses).mean()


def pdg_loss(
    received: torch.Tensor,
    attention_mask: torch.Tensor | None = None,
    normalize: str = "row",
    reduction: str = "mean",
) -> torch.Tensor:
    r"""
    Pattern decorrelation guiding (Eq. 12 of the attention-guiding paper): tokens should be read by different maps.

    PDG = ‖MᵀM − I‖²_F, where the rows of M are the maps of a sample and the columns its real tokens. With fewer maps
    than tokens it is computed from the smaller matrix, as ‖MMᵀ − I‖²_F + tokens − maps.

    Args:
        received (`torch.Tensor` of shape `(batch, maps, tokens)`):
            The attention that each token receives in each map; see [`received_attention`].
        attention_mask (`torch.Tensor` of shape `(batch, tokens)`, *optional*):
            1 or true at real tokens. The others are ignored.
        normalize (`str`, *optional*, defaults to `"row"`):
            Scales to unit length first: each map (`"row"`), the values of each token over the maps (`"col"`),
            or `"none"`.
        reduction (`str`, *optional*, defaults to `"mean"`):
            The `"sum"`, as in the paper, or the `"mean"`: the sum divided by the number of real tokens.

    Returns:
        `torch.Tensor` of shape `()`: The mean over the samples, in float32, or in float64 if `received` is. A sample
        without real tokens counts as 0.

    Raises:
        ValueError: `received` does not have three dimensions or is empty, `attention_mask` is not `(batch, tokens)`,
            or `normalize` or `reduction` is unknown.
    """
    with torch.autocast(received.device.type, enabled=False):
        maps, real = _prepare(received, attention_mask, normalize, reduction)
        tokens = real.sum(dim=-1)
        fewer = maps.shape[1] < maps.shape[2]
        sides = maps if fewer else maps.mT
        ones = torch.ones_like(maps[..., 0]) if fewer else real.to(maps.dtype)
        losses = (sides @ sides.mT - ones.diag_embed()).square().sum(dim=(-2, -1)) + (tokens - ones.sum(dim=-1))
        return (losses / tokens.clamp_min(1) if reduction == "mean" else losses).mean()


def _prepare(
    received: torch.Tensor, attention_mask: torch.Tensor | None, normalize: str, reduction: str
) -> tuple[torch.Tensor, torch.Tensor]:
    """M `(batch, maps, tokens)`, zero at padding, and which tokens are real, `(batch, tokens)`."""
    if received.dim() != 3 or 0 in received.shape:
        raise ValueError(f"received must be (batch, maps, tokens) and not empty, got {tuple(received.shape)}")
    if normalize not in NORMALIZATIONS:
        raise ValueError(f"normalize must be one of {', '.join(NORMALIZATIONS)}, got {normalize!r}")
    if reduction not in REDUCTIONS:
        raise ValueError(f"reduction must be one of {', '.join(REDUCTIONS)}, got {reduction!r}")
    real = real_of(attention_mask, (received.shape[0], received.shape[2]), received.device)
    maps = received.to(torch.promote_types(received.dtype, torch.float32)).masked_fill(~real.unsqueeze(1), 0)
    if normalize != "none":
        maps = unit_vectors(maps, dim=-1 if normalize == "row" else 1, eps=SHORTEST)
    return maps, real
