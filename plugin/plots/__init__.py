"""Pictures of what models attend to and find; only `plot_attention_maps` and `plot_heads` need matplotlib."""

from msattn.plots.arcs import arc_diagram
from msattn.plots.doubt import Doubt, doubts, most_doubtful
from msattn.plots.errors import error_browser
from msattn.plots.examples_page import fused_attention_html
from msattn.plots.fused_attention import FusedAttention
from msattn.plots.graph import relation_graph
from msattn.plots.heads import AttentionDistances, attention_distances, plot_heads
from msattn.plots.maps import attention_maps, plot_attention_maps

__all__ = [
    "FusedAttention",
    "arc_diagram",
    "attention_distances",
    "attention_maps",
    "doubts",
    "error_browser",
    "fused_attention_html",
    "most_doubtful",
    "plot_attention_maps",
    "plot_heads",
    "relation_graph",
]
