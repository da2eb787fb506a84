"""Tells attention implementations that return maps from fused ones."""

from __future__ import annotations


def gives_attentions(attn_implementation: str | None) -> bool:
    """False for fused kernels, which have no weights to return."""
    return not (attn_implementation or "").startswith(("sdpa", "flash", "flex"))


__all__ = ["gives_attentions"]
