"""Looking into models: what they attend to, how their heads differ, and how diverse their attention is."""

from __future__ import annotations

from msattn.analysis.attention_figure import plot_fused_attention
from msattn.analysis.attention_maps import attention_maps, bertviz_attention, received_maps
from msattn.analysis.attention_page import fused_attention_html
from msattn.analysis.diversity import attention_diversity, map_similarity, received_entropy
from msattn.analysis.diversity_figure import diversity_table, plot_diversity
from msattn.analysis.fused_attention import FusedAttention
from msattn.analysis.heads_figure import head_vectors, plot_heads
from msattn.analysis.map_figure import average_attention, plot_attention_maps
from msattn.analysis.study_figure import plot_study

__all__ = [
    "FusedAttention",
    "attention_diversity",
    "attention_maps",
    "average_attention",
    "bertviz_attention",
    "diversity_table",
    "fused_attention_html",
    "head_vectors",
    "map_similarity",
    "plot_attention_maps",
    "plot_diversity",
    "plot_fused_attention",
    "plot_heads",
    "plot_study",
    "received_entropy",
    "received_maps",
]
