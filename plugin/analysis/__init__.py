"""Looking into models: what fused attention attends to."""

from __future__ import annotations

from msattn.analysis.attention_figure import plot_fused_attention
from msattn.analysis.attention_page import fused_attention_html
from msattn.analysis.fused_attention import FusedAttention

__all__ = ["FusedAttention", "fused_attention_html", "plot_fused_attention"]
