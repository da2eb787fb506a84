"""Multi-scale, pairwise and guided attention for Hugging Face Transformers."""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from transformers import (
    AttentionInterface,
    AttentionMaskInterface,
    AutoConfig,
    AutoModel,
    AutoModelForSequenceClassification,
    AutoModelForTokenClassification,
)
from transformers.masking_utils import sdpa_mask
from transformers.pipelines import PIPELINE_REGISTRY

from msattn.auto import AutoModelForDependencyParsing, AutoModelForRelationExtraction, OneOf
from msattn.configuration.configuration_bert_pairwise import BertPairwiseConfig
from msattn.configuration.configuration_bilstm import BiLSTMConfig
from msattn.configuration.configuration_ms_transformer import MSTransformerConfig
from msattn.configuration.configuration_multiscale_bert import MultiScaleBertConfig
from msattn.configuration.heads_per_scale import heads_per_scale
from msattn.errors import UserError
from msattn.modeling.attention_patterns import pattern_loss
from msattn.modeling.guiding_losses import mdg_loss, pdg_loss
from msattn.modeling.modeling_bert_pairwise import BertPairwiseForRelationClassification, BertPairwiseParser
from msattn.modeling.modeling_bilstm import BiLSTMForSequenceClassification, BiLSTMForTokenClassification, BiLSTMModel
from msattn.modeling.modeling_ms_transformer import (
    MSTransformerForSequenceClassification,
    MSTransformerForTokenClassification,
    MSTransformerModel,
)
from msattn.modeling.modeling_multiscale_bert import (
    BertForMultiScaleRE,
    BertForMultiScaleSequenceClassification,
    MultiScaleBertModel,
)
from msattn.modeling.multiscale_fusion import MultiScaleFusion
from msattn.modeling.pairwise_scores import PairwiseScores, relations_of_arcs
from msattn.modeling.received_attention import received_attention, received_attention_forward
from msattn.modeling.scale_aware_attention import scale_aware_attention
from msattn.pipelines.dependency_parsing import DependencyParsingPipeline
from msattn.pipelines.relation_extraction import RelationExtractionPipeline
from msattn.tree_decoding import decode_tree, decode_trees

if TYPE_CHECKING:
    from msattn.training.guided_trainer import GuidedTrainer
    from msattn.training.guiding_arguments import GuidingArguments

__version__ = version("msattn")

AttentionInterface.register("received", received_attention_forward)
AttentionMaskInterface.register("received", sdpa_mask)
AutoConfig.register(MultiScaleBertConfig.model_type, MultiScaleBertConfig, exist_ok=True)
AutoModel.register(MultiScaleBertConfig, MultiScaleBertModel, exist_ok=True)
AutoModelForRelationExtraction.register(MultiScaleBertConfig, BertForMultiScaleRE, exist_ok=True)
# Of the two, the one that the checkpoint's `architectures` names, as its `auto_map` does without msattn.
AutoModelForSequenceClassification.register(
    MultiScaleBertConfig, OneOf((BertForMultiScaleSequenceClassification, BertForMultiScaleRE)), exist_ok=True
)
AutoConfig.register(MSTransformerConfig.model_type, MSTransformerConfig, exist_ok=True)
AutoModel.register(MSTransformerConfig, MSTransformerModel, exist_ok=True)
AutoModelForSequenceClassification.register(MSTransformerConfig, MSTransformerForSequenceClassification, exist_ok=True)
AutoModelForTokenClassification.register(MSTransformerConfig, MSTransformerForTokenClassification, exist_ok=True)
AutoConfig.register(BiLSTMConfig.model_type, BiLSTMConfig, exist_ok=True)
AutoModel.register(BiLSTMConfig, BiLSTMModel, exist_ok=True)
AutoModelForSequenceClassification.register(BiLSTMConfig, BiLSTMForSequenceClassification, exist_ok=True)
AutoModelForTokenClassification.register(BiLSTMConfig, BiLSTMForTokenClassification, exist_ok=True)
AutoConfig.register(BertPairwiseConfig.model_type, BertPairwiseConfig, exist_ok=True)
AutoModel.register(
    BertPairwiseConfig, OneOf((BertPairwiseParser, BertPairwiseForRelationClassification)), exist_ok=True
)
AutoModelForDependencyParsing.register(BertPairwiseConfig, BertPairwiseParser, exist_ok=True)
AutoModelForRelationExtraction.register(BertPairwiseConfig, BertPairwiseForRelationClassification, exist_ok=True)
AutoModelForSequenceClassification.register(BertPairwiseConfig, BertPairwiseForRelationClassification, exist_ok=True)
if "relation-extraction" not in PIPELINE_REGISTRY.get_supported_tasks():
    PIPELINE_REGISTRY.register_pipeline(
        "relation-extraction", RelationExtractionPipeline, pt_model=AutoModelForRelationExtraction, type="text"
    )
    # With it, a saved pipeline would ask for trust in code that stands on msattn anyway.
    del RelationExtractionPipeline._registered_impl
if "dependency-parsing" not in PIPELINE_REGISTRY.get_supported_tasks():
    PIPELINE_REGISTRY.register_pipeline(
        "dependency-parsing", DependencyParsingPipeline, pt_model=AutoModelForDependencyParsing, type="text"
    )
    del DependencyParsingPipeline._registered_impl


def __getattr__(name: str) -> Any:
    # What stands on matplotlib, datasets, scikit-learn or the Trainer is imported when it is first used.
    if name in ("analysis", "data", "metrics", "training"):
        return import_module(f"msattn.{name}")
    if name == "GuidedTrainer":
        return import_module("msattn.training.guided_trainer").GuidedTrainer
    if name == "GuidingArguments":
        return import_module("msattn.training.guiding_arguments").GuidingArguments
    raise AttributeError(f"module 'msattn' has no attribute {name!r}")


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
    "MSTransformerConfig",
    "MSTransformerForSequenceClassification",
    "MSTransformerForTokenClassification",
    "MSTransformerModel",
    "MultiScaleBertConfig",
    "MultiScaleBertModel",
    "MultiScaleFusion",
    "PairwiseScores",
    "RelationExtractionPipeline",
    "UserError",
    "__version__",
    "decode_tree",
    "decode_trees",
    "heads_per_scale",
    "mdg_loss",
    "pattern_loss",
    "pdg_loss",
    "received_attention",
    "relations_of_arcs",
    "scale_aware_attention",
]
