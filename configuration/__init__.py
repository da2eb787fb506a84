"""Configurations of the models: pure data, validated on construction."""

from .configuration_bert_pairwise import BertPairwiseConfig
from .configuration_bilstm import BiLSTMConfig
from .configuration_ms_transformer import MSTransformerConfig
from .configuration_multiscale import MultiScaleConfig
from .configuration_multiscale_bert import MultiScaleBertConfig
from .configuration_pairwise import PairwiseConfig

__all__ = [
    "BertPairwiseConfig",
    "BiLSTMConfig",
    "MSTransformerConfig",
    "MultiScaleBertConfig",
    "MultiScaleConfig",
    "PairwiseConfig",
]
