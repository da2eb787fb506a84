"""The loss of attention guided to a pattern: what a head should attend to, fixed in advance."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch.nn.functional import pad

POSITIONS = ("first", "next", "prev")
MISSING = ("exclude", "zero")


def pattern_loss(
    attention: torch.Tensor,
    target: str | torch.Tensor,
    attention_mask: torch.Tensor | None = None,
    missing: str = "exclude",
) -> torch.Tensor:
    r"""
    The distance between attention maps A and a pattern P: the mean of (A − P)² over rows with a target and real
    columns (Deshpande and Narasimhan, *Guiding Attention for Self-Supervised Learning with Transformers*).

    It is computed as ΣA² − 2ΣAP + ΣP², so that P is built for targets of three dimensions only.

    Args:
        attention (`torch.Tensor` of shape `(batch, heads, tokens, tokens)`):
            The maps of the guided heads of a layer, queries before keys.
        target (`str` or `torch.Tensor`):
            What each token should attend to:

            - `"first"`, `"next"` or `"prev"`: the first real token, the token after it, or the token before it.
            - A tensor of shape `(batch, tokens)`: these tokens, in these proportions, for every row.
            - A tensor of shape `(batch, tokens, tokens)`: proportions for each row.

            Proportions are not negative. They are scaled to a sum of 1 over the real tokens; all zeros mean no target.
        attention_mask (`torch.Tensor` of shape `(batch, tokens)`, *optional*):
            1 or true at real tokens, which are consecutive. The others are ignored.
        missing (`str`, *optional*, defaults to `"exclude"`):
            Whether to leave out rows without a target (`"exclude"`), such as the last one for `"next"`, or to give
            them the target `"zero"`, as the released code of the paper does. No attention reaches that target.

    Returns:
        `torch.Tensor` of shape `()`: The mean over heads and samples, in float32, or in float64 if `attention` is. A
        sample without a target counts as 0.

    Raises:
        ValueError: `attention` is not `(batch, heads, tokens, tokens)` or empty, `attention_mask` or `target` does not
            fit to it, or the pattern or `missing` is unknown.
    """
    if attention.dim() != 4 or attention.shape[-1] != attention.shape[-2] or 0 in attention.shape:
        raise ValueError(
            f"attention must be (batch, heads, tokens, tokens) and not empty, got {tuple(attention.shape)}"
        )
    batch, _, tokens, _ = attention.shape
    if attention_mask is None:
        attention_mask = torch.ones(batch, tokens, dtype=torch.bool, device=attention.device)
    if attention_mask.shape != (batch, tokens):
        raise ValueError(f"attention_mask must be {(batch, tokens)}, got {tuple(attention_mask.shape)}")
    if missing not in MISSING:
        raise ValueError(f"missing must be one of {', '.join(MISSING)}, got {missing!r}")
    real = attention_mask.to(attention.device).bool()
    with torch.autocast(attention.device.type, enabled=False):
        attention = attention.to(torch.promote_types(attention.dtype, torch.float32))
        aim = target_of(target, real, attention.dtype)
        overlap, squares = _overlap(attention, aim), aim.squares()
        counted = aim.rows if missing == "exclude" else real
        weights = real.to(attention.dtype)
        own = (attention.square() @ weights[:, None, :, None]).squeeze(-1) * counted.unsqueeze(1)
        entries = counted.sum(dim=-1) * real.sum(dim=-1)
        distances = own.sum(dim=-1) - 2 * overlap + squares.unsqueeze(-1)
        return (distances / entries.clamp_min(1).unsqueeze(-1)).mean()


class Target(NamedTuple):
    """
    A pattern P: what each token should attend to.

    Args:
        rows (`torch.BoolTensor` of shape `(batch, tokens)`): The rows that have a target.
        weights (`torch.Tensor`, *optional*):
            Proportions, of shape `(batch, tokens, tokens)`, or `(batch, 1, tokens)` if they are the same for all rows.
        offset (`int`): How far away the one token is that is attended to, if there are no proportions.
    """

    rows: torch.Tensor
    weights: torch.Tensor | None
    offset: int = 0

    def squares(self) -> torch.Tensor:
        """ΣP² over the rows with a target, `(batch,)`."""
        if self.weights is None:
            return self.rows.sum(dim=-1)
        squares = self.weights.square().sum(dim=-1)
        return (squares * self.rows).sum(dim=-1)


def target_of(target: str | torch.Tensor, real: torch.Tensor, dtype: torch.dtype) -> Target:
    """
    A pattern over real tokens, `(batch, tokens)`.

    Raises:
        ValueError: See [`pattern_loss`].
    """
    batch, tokens = real.shape
    if isinstance(target, str):
        if target in ("next", "prev"):
            pairs = real[:, 1:] & real[:, :-1]
            return Target(pad(pairs, (0, 1) if target == "next" else (1, 0)), None, 1 if target == "next" else -1)
        if target != "first":
            raise ValueError(f"target must be one of {', '.join(POSITIONS)} or a tensor, got {target!r}")
        target = real & (real.cumsum(dim=-1) == 1)
    target = target.to(real.device, dtype)
    if target.shape == (batch, tokens):
        weights = _proportions(target * real).unsqueeze(1)
    elif target.shape == (batch, tokens, tokens):
        weights = _proportions(target * real.unsqueeze(1) * real.unsqueeze(2))
    else:
        raise ValueError(f"target must be {(batch, tokens)} or {(batch, tokens, tokens)}, got {tuple(target.shape)}")
    return Target(real & (weights > 0).any(dim=-1), weights)


def _overlap(attention: torch.Tensor, target: Target) -> torch.Tensor:
    """ΣAP over the rows with a target, `(batch, heads)`."""
    if target.weights is None:
        diagonal = attention.diagonal(target.offset, dim1=-2, dim2=-1)
        rows = target.rows[:, :-1] if target.offset > 0 else target.rows[:, 1:]
        return (diagonal * rows.unsqueeze(1)).sum(dim=-1)
    if target.weights.shape[1] == 1:
        looks = (attention @ target.weights.mT.unsqueeze(1)).squeeze(-1)
        return (looks * target.rows.unsqueeze(1)).sum(dim=-1)
    return (attention.flatten(2) @ target.weights.flatten(1).unsqueeze(-1)).squeeze(-1)


def _proportions(target: torch.Tensor) -> torch.Tensor:
    total = target.sum(dim=-1, keepdim=True)
    return target / total.where(total > 0, 1)
