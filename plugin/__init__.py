"""Multi-scale, pairwise and guided attention for Hugging Face Transformers."""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from msattn import auto
from msattn.auto import AutoModelForDependencyParsing, AutoModelForRelationExtraction
from msattn.configuration import (
    BertPairwiseConfig,
    BiLSTMConfig,
    MSTransformerConfig,
    MultiScaleBertConfig,
    MultiScaleConfig,
    PairwiseConfig,
)
from msattn.configuration.heads_per_scale import heads_per_scale
from msattn.errors import UserError
from msattn.guiding.guiding_loss import guiding_loss
from msattn.modeling import (
    BertForMultiScaleRE,
    BertForMultiScaleSequenceClassification,
    BertPairwiseForRelationClassification,
    BertPairwiseParser,
    BiLSTMForSequenceClassification,
    BiLSTMForTokenClassification,
    BiLSTMModel,
    MSTransformerForSequenceClassification,
    MSTransformerForTokenClassification,
    MSTransformerModel,
    MultiScaleBertModel,
    MultiScaleForRelationExtraction,
    MultiScaleForSequenceClassification,
    MultiScaleForTokenClassification,
    MultiScaleFusion,
    MultiScaleModel,
    PairwiseForRelationClassification,
    PairwiseParser,
    PairwiseScores,
)
from msattn.modeling.attention_patterns import pattern_loss
from msattn.modeling.attention_readings import Reading, read_attention
from msattn.modeling.attention_statistics import attention_statistics
from msattn.modeling.attention_windows import set_windows
from msattn.modeling.guiding_losses import mdg_loss, pdg_loss
from msattn.modeling.head_gates import head_gates
from msattn.modeling.pairwise_scores import relations_of_arcs
from msattn.modeling.received_attention import received_attention
from msattn.modeling.scale_aware_attention import scale_aware_attention
from msattn.modeling.window_fitting import fit_windows
from msattn.pipelines.dependency_parsing import DependencyParsingPipeline
from msattn.pipelines.relation_extraction import RelationExtractionPipeline
from msattn.trees.k_best_trees import k_best_trees
from msattn.trees.tree_decoding import decode_tree, decode_trees
from msattn.trees.tree_marginals import tree_marginals

if TYPE_CHECKING:
    from msattn import analysis, data, metrics, onnx
    from msattn.guiding.guiding_arguments import GuidingArguments
    from msattn.training.guided_trainer import GuidedTrainer
    from msattn.training.guiding_mixin import GuidingMixin

__version__ = version("msattn")
"""The version of the installed package."""

auto.register()

# Modules that need matplotlib, datasets, scikit-learn, ONNX Runtime or the Trainer are imported on first use.
_LAZY = {
    "analysis": "msattn.analysis",
    "data": "msattn.data",
    "metrics": "msattn.metrics",
    "onnx": "msattn.onnx",
    "GuidedTrainer": "msattn.training.guided_trainer",
    "GuidingArguments": "msattn.guiding.guiding_arguments",
    "GuidingMixin": "msattn.training.guiding_mixin",
}


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module 'msattn' has no attribute {name!r}")
    module = import_module(_LAZY[name])
    return getattr(module, name) if name[0].isupper() else module


def __dir__() -> list[str]:
    return sorted({*globals(), *_LAZY} - {"annotations", "import_module", "version", "TYPE_CHECKING", "Any"})


__all__ = [
    "AutoModelForDependencyParsing",
    "AutoModelForRelationExtraction",
    "BertForMultiScaleRE",
    "BertForMultiScaleSequenceClassification",
    "BertPairwiseConfig",
    "BertPairwiseForRelationClassification",
    "BertPairwiseParser",
    "BiLSTMConfig",
    "BiLSTMForSequenceClassification",
    "BiLSTMForTokenClassification",
    "BiLSTMModel",
    "DependencyParsingPipeline",
    "GuidedTrainer",
    "GuidingArguments",
    "GuidingMixin",
    "MSTransformerConfig",
    "MSTransformerForSequenceClassification",
    "MSTransformerForTokenClassification",
    "MSTransformerModel",
    "MultiScaleBertConfig",
    "MultiScaleBertModel",
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
    "Reading",
    "RelationExtractionPipeline",
    "UserError",
    "__version__",
    "analysis",
    "attention_statistics",
    "data",
    "decode_tree",
    "decode_trees",
    "fit_windows",
    "guiding_loss",
    "head_gates",
    "heads_per_scale",
    "k_best_trees",
    "mdg_loss",
    "metrics",
    "onnx",
    "pattern_loss",
    "pdg_loss",
    "read_attention",
    "received_attention",
    "relations_of_arcs",
    "scale_aware_attention",
    "set_windows",
    "tree_marginals",
]
