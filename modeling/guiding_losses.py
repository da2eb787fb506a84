"""The losses of attention guiding: maps that differ (MDG), and tokens that are not all read by the same maps (PDG)."""

from __future__ import annotations

import math

import torch
from torch.nn.functional import normalize as unit_vectors

NORMALIZATIONS = ("none", "row", "col")
REDUCTIONS = ("mean", "sum")
# Vectors shorter than this are no directions: they are made longer, but not to unit length.
SHORTEST = 1e-6


def mdg_loss(
    received: torch.Tensor,
    attention_mask: torch.Tensor | None = None,
    temperature: float = 1.0,
    normalize: str = "row",
    reduction: str = "mean",
) -> torch.Tensor:
    r"""
    Map discrimination guiding (Eq. 11 of the attention-guiding paper): the maps of a sample are told from each other.

    MDG = − Σ_i log (exp(m_i·m_i / τ) / Σ_j exp(m_j·m_i / τ)).

    With unit rows, the default, a map's term lies between log(1 + (maps − 1) e^(−1/τ)) and log(maps).

    Args:
        received (`torch.Tensor` of shape `(batch, maps, tokens)`):
            What each token receives in each map; see [`received_attention`].
        attention_mask (`torch.Tensor` of shape `(batch, tokens)`, *optional*):
            1 or true at real tokens; the others take no part.
        temperature (`float`, *optional*, defaults to 1.0): τ.
        normalize (`str`, *optional*, defaults to `"row"`):
            What gets unit length first: each map (`"row"`), each token's values over the maps (`"col"`), or `"none"`.
        reduction (`str`, *optional*, defaults to `"mean"`): `"sum"` over the maps, as printed, or their `"mean"`.

    Returns:
        `torch.Tensor`: The mean over the samples, in float32, or in float64 if `received` is. A sample without real
        tokens counts as 0.

    Raises:
        ValueError: Shapes that do not fit, or an argument that is none of the above.
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
    Pattern decorrelation guiding (Eq. 12 of the attention-guiding paper): PDG = ‖MᵀM − I‖²_F.

    The rows of M are the maps of a sample, its columns the real tokens. With fewer maps than tokens it is computed
    from the smaller matrix, as ‖MMᵀ − I‖²_F + tokens − maps.

    Args:
        received (`torch.Tensor` of shape `(batch, maps, tokens)`):
            What each token receives in each map; see [`received_attention`].
        attention_mask (`torch.Tensor` of shape `(batch, tokens)`, *optional*):
            1 or true at real tokens; the others take no part.
        normalize (`str`, *optional*, defaults to `"row"`):
            What gets unit length first: each map (`"row"`), each token's values over the maps (`"col"`), or `"none"`.
        reduction (`str`, *optional*, defaults to `"mean"`):
            `"sum"`, as printed, or `"mean"`: divided by the real tokens of the sample.

    Returns:
        `torch.Tensor`: The mean over the samples, in float32, or in float64 if `received` is. A sample without real
        tokens counts as 0.

    Raises:
        ValueError: Shapes that do not fit, or an argument that is none of the above.
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
    """M, zero at padding, and which tokens are real."""
    if received.dim() != 3 or 0 in received.shape:
        raise ValueError(f"received must be (batch, maps, tokens) and not empty, got {tuple(received.shape)}")
    if normalize not in NORMALIZATIONS:
        raise ValueError(f"normalize must be one of {', '.join(NORMALIZATIONS)}, got {normalize!r}")
    if reduction not in REDUCTIONS:
        raise ValueError(f"reduction must be one of {', '.join(REDUCTIONS)}, got {reduction!r}")
    batch, _, tokens = received.shape
    if attention_mask is None:
        real = torch.ones(batch, tokens, dtype=torch.bool, device=received.device)
    elif attention_mask.shape == (batch, tokens):
        real = attention_mask.to(received.device).bool()
    else:
        raise ValueError(f"attention_mask must be {(batch, tokens)}, got {tuple(attention_mask.shape)}")
    maps = received.to(torch.promote_types(received.dtype, torch.float32)).masked_fill(~real.unsqueeze(1), 0)
    if normalize != "none":
        maps = unit_vectors(maps, dim=-1 if normalize == "row" else 1, eps=SHORTEST)
    return maps, real
