"""Which attention implementations have maps."""

from __future__ import annotations


def gives_attentions(attn_implementation: str | None) -> bool:
    """Whether an attention implementation has weights to return; the fused kernels do not."""
    return not (attn_implementation or "").startswith(("sdpa", "flash", "flex"))


__all__ = ["gives_attentions"]
