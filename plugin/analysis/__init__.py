"""Analysis of models: attention maps, attention distances, diversity of heads, probing, and figures of studies."""

from __future__ import annotations

from msattn.errors import extra

with extra("analysis"):
    import matplotlib  # noqa: F401
    import scipy  # noqa: F401
    import sklearn  # noqa: F401

from msattn.analysis.arc_diagram import arc_diagram
from msattn.analysis.attention_maps import attention_maps, bertviz_attention, received_maps
from msattn.analysis.comparison import comparison_table, read_seeds
from msattn.analysis.distance_figure import distance_table, plot_distances
from msattn.analysis.distances import AttentionDistances, attention_distances, distance_distribution
from msattn.analysis.diversity import attention_diversity
from msattn.analysis.diversity_figure import diversity_table, plot_diversity
from msattn.analysis.doubt import Doubt, doubts, most_doubtful
from msattn.analysis.effective_scale_figure import plot_effective_scale
from msattn.analysis.error_browser import error_browser
from msattn.analysis.fused_attention import FusedAttention
from msattn.analysis.fused_attention_figure import plot_fused_attention
from msattn.analysis.fused_attention_page import fused_attention_html
from msattn.analysis.heads_figure import head_vectors, plot_heads
from msattn.analysis.importance import HeadImportance, head_importance, removal_order
from msattn.analysis.importance_figure import importance_table, plot_importance
from msattn.analysis.map_figure import average_attention, plot_attention_maps
from msattn.analysis.probing import Probe, best_heads, probe_pairs, probing_tables
from msattn.analysis.probing_figure import plot_importances, top_maps
from msattn.analysis.relation_graph import relation_graph
from msattn.analysis.study_figure import plot_studies, plot_study
from msattn.analysis.windows import WindowCosts, window_costs
from msattn.analysis.windows_figure import plot_windows, windows_table
from msattn.analysis.word_pairs import HeadHits, PairLayout, WordPairs, read_word_pairs, sample_pairs
from msattn.modeling.map_diversity import map_similarity, received_entropy

__all__ = [
    "AttentionDistances",
    "Doubt",
    "FusedAttention",
    "HeadHits",
    "HeadImportance",
    "PairLayout",
    "Probe",
    "WindowCosts",
    "WordPairs",
    "arc_diagram",
    "attention_distances",
    "attention_diversity",
    "attention_maps",
    "average_attention",
    "bertviz_attention",
    "best_heads",
    "comparison_table",
    "distance_distribution",
    "distance_table",
    "diversity_table",
    "doubts",
    "error_browser",
    "fused_attention_html",
    "head_importance",
    "head_vectors",
    "importance_table",
    "map_similarity",
    "most_doubtful",
    "plot_attention_maps",
    "plot_distances",
    "plot_diversity",
    "plot_effective_scale",
    "plot_fused_attention",
    "plot_heads",
    "plot_importance",
    "plot_importances",
    "plot_studies",
    "plot_study",
    "plot_windows",
    "probe_pairs",
    "probing_tables",
    "read_seeds",
    "read_word_pairs",
    "received_entropy",
    "received_maps",
    "relation_graph",
    "removal_order",
    "sample_pairs",
    "top_maps",
    "window_costs",
    "windows_table",
]
