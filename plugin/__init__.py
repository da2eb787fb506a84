"""Multi-scale, pairwise and guided attention for Hugging Face Transformers."""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from msattn import auto

if TYPE_CHECKING:
    from msattn import data, metrics, onnx, plots
    from msattn.auto import AutoModelForDependencyParsing, AutoModelForRelationExtraction
    from msattn.configuration.configuration_bert_pairwise import BertPairwiseConfig as BertPairwiseConfig
    from msattn.configuration.configuration_bilstm import BiLSTMConfig as BiLSTMConfig
    from msattn.configuration.configuration_ms_transformer import MSTransformerConfig
    from msattn.configuration.configuration_multiscale import MultiScaleConfig
    from msattn.configuration.configuration_multiscale_bert import MultiScaleBertConfig as MultiScaleBertConfig
    from msattn.configuration.configuration_pairwise import PairwiseConfig
    from msattn.configuration.heads_per_scale import heads_per_scale as heads_per_scale
    from msattn.errors import UserError
    from msattn.guiding.guiding_arguments import GuidingArguments
    from msattn.guiding.guiding_loss import guiding_loss
    from msattn.modeling.attention_patterns import pattern_loss
    from msattn.modeling.attention_readings import Reading as Reading
    from msattn.modeling.attention_readings import read_attention
    from msattn.modeling.attention_statistics import attention_statistics, received_attention
    from msattn.modeling.attention_windows import set_windows
    from msattn.modeling.guiding_losses import mdg_loss, pdg_loss
    from msattn.modeling.head_gates import head_gates
    from msattn.modeling.modeling_bert_pairwise import (
        BertPairwiseForRelationClassification as BertPairwiseForRelationClassification,
    )
    from msattn.modeling.modeling_bert_pairwise import BertPairwiseParser as BertPairwiseParser
    from msattn.modeling.modeling_bilstm import BiLSTMForSequenceClassification as BiLSTMForSequenceClassification
    from msattn.modeling.modeling_bilstm import BiLSTMForTokenClassification as BiLSTMForTokenClassification
    from msattn.modeling.modeling_bilstm import BiLSTMModel as BiLSTMModel
    from msattn.modeling.modeling_ms_transformer import (
        MSTransformerForSequenceClassification,
        MSTransformerForTokenClassification,
        MSTransformerModel,
    )
    from msattn.modeling.modeling_multiscale import (
        MultiScaleForRelationExtraction,
        MultiScaleForSequenceClassification,
        MultiScaleForTokenClassification,
        MultiScaleModel,
    )
    from msattn.modeling.modeling_multiscale_bert import BertForMultiScaleRE as BertForMultiScaleRE
    from msattn.modeling.modeling_multiscale_bert import (
        BertForMultiScaleSequenceClassification as BertForMultiScaleSequenceClassification,
    )
    from msattn.modeling.modeling_multiscale_bert import MultiScaleBertModel as MultiScaleBertModel
    from msattn.modeling.modeling_pairwise import PairwiseForRelationClassification, PairwiseParser
    from msattn.modeling.multiscale_fusion import MultiScaleFusion
    from msattn.modeling.pairwise_scores import PairwiseScores
    from msattn.modeling.pairwise_scores import relations_of_arcs as relations_of_arcs
    from msattn.modeling.scale_aware_attention import scale_aware_attention
    from msattn.modeling.window_fitting import fit_windows
    from msattn.pipelines.dependency_parsing import DependencyParsingPipeline
    from msattn.pipelines.relation_extraction import RelationExtractionPipeline
    from msattn.training.guided_trainer import GuidedTrainer
    from msattn.training.guiding_mixin import GuidingMixin
    from msattn.trees.k_best_trees import k_best_trees
    from msattn.trees.tree_decoding import decode_tree
    from msattn.trees.tree_decoding import decode_trees as decode_trees
    from msattn.trees.tree_marginals import tree_marginals

__version__ = version("msattn")
"""The version of the installed package."""

# The names of each module, imported on first use. Those that are not in `__all__` have other names to be called by.
_NAMES = {
    "auto": "AutoModelForDependencyParsing AutoModelForRelationExtraction",
    "configuration.configuration_bert_pairwise": "BertPairwiseConfig",
    "configuration.configuration_bilstm": "BiLSTMConfig",
    "configuration.configuration_ms_transformer": "MSTransformerConfig",
    "configuration.configuration_multiscale": "MultiScaleConfig",
    "configuration.configuration_multiscale_bert": "MultiScaleBertConfig",
    "configuration.configuration_pairwise": "PairwiseConfig",
    "configuration.heads_per_scale": "heads_per_scale",
    "errors": "UserError",
    "guiding.guiding_arguments": "GuidingArguments",
    "guiding.guiding_loss": "guiding_loss",
    "modeling.attention_patterns": "pattern_loss",
    "modeling.attention_readings": "Reading read_attention",
    "modeling.attention_statistics": "attention_statistics received_attention",
    "modeling.attention_windows": "set_windows",
    "modeling.guiding_losses": "mdg_loss pdg_loss",
    "modeling.head_gates": "head_gates",
    "modeling.modeling_bert_pairwise": "BertPairwiseForRelationClassification BertPairwiseParser",
    "modeling.modeling_bilstm": "BiLSTMForSequenceClassification BiLSTMForTokenClassification BiLSTMModel",
    "modeling.modeling_ms_transformer": (
        "MSTransformerForSequenceClassification MSTransformerForTokenClassification MSTransformerModel"
    ),
    "modeling.modeling_multiscale": (
        "MultiScaleForRelationExtraction MultiScaleForSequenceClassification MultiScaleForTokenClassification "
        "MultiScaleModel"
    ),
    "modeling.modeling_multiscale_bert": (
        "BertForMultiScaleRE BertForMultiScaleSequenceClassification MultiScaleBertModel"
    ),
    "modeling.modeling_pairwise": "PairwiseForRelationClassification PairwiseParser",
    "modeling.multiscale_fusion": "MultiScaleFusion",
    "modeling.pairwise_scores": "PairwiseScores relations_of_arcs",
    "modeling.scale_aware_attention": "scale_aware_attention",
    "modeling.window_fitting": "fit_windows",
    "pipelines.dependency_parsing": "DependencyParsingPipeline",
    "pipelines.relation_extraction": "RelationExtractionPipeline",
    "training.guided_trainer": "GuidedTrainer",
    "training.guiding_mixin": "GuidingMixin",
    "trees.k_best_trees": "k_best_trees",
    "trees.tree_decoding": "decode_tree decode_trees",
    "trees.tree_marginals": "tree_marginals",
}
_ROOMS = ("data", "metrics", "onnx", "plots")
_MODULE_OF = {name: module for module, names in _NAMES.items() for name in names.split()}

auto.register()


def __getattr__(name: str) -> Any:
    if name in _ROOMS:
        return import_module(f"msattn.{name}")
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'msattn' has no attribute {name!r}")
    return getattr(import_module(f"msattn.{_MODULE_OF[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)


__all__ = [
    "AutoModelForDependencyParsing",
    "AutoModelForRelationExtraction",
    "DependencyParsingPipeline",
    "GuidedTrainer",
    "GuidingArguments",
    "GuidingMixin",
    "MSTransformerConfig",
    "MSTransformerForSequenceClassification",
    "MSTransformerForTokenClassification",
    "MSTransformerModel",
    "MultiScaleConfig",
    "MultiScaleForRelationExtraction",
    "MultiScaleForSequenceClassification",
    "MultiScaleForTokenClassification",
    "MultiScaleFusion",
    "MultiScaleModel",
    "PairwiseConfig",
    "PairwiseForRelationClassification",
    "PairwiseParser",
    "PairwiseScores",
    "RelationExtractionPipeline",
    "UserError",
    "__version__",
    "attention_statistics",
    "data",
    "decode_tree",
    "fit_windows",
    "guiding_loss",
    "head_gates",
    "k_best_trees",
    "mdg_loss",
    "metrics",
    "onnx",
    "pattern_loss",
    "pdg_loss",
    "plots",
    "read_attention",
    "received_attention",
    "scale_aware_attention",
    "set_windows",
    "tree_marginals",
]
