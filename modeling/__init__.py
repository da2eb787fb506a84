"""Models, and the attention layers that they share: tensors in, tensors out."""

from .modeling_bert_pairwise import BertPairwiseForRelationClassification, BertPairwiseParser
from .modeling_bilstm import BiLSTMForSequenceClassification, BiLSTMForTokenClassification, BiLSTMModel
from .modeling_ms_transformer import (
    MSTransformerForSequenceClassification,
    MSTransformerForTokenClassification,
    MSTransformerModel,
)
from .modeling_multiscale import (
    MultiScaleForRelationExtraction,
    MultiScaleForSequenceClassification,
    MultiScaleForTokenClassification,
    MultiScaleModel,
)
from .modeling_multiscale_bert import (
    BertForMultiScaleRE,
    BertForMultiScaleSequenceClassification,
    MultiScaleBertModel,
)
from .modeling_pairwise import PairwiseForRelationClassification, PairwiseParser
from .multiscale_fusion import MultiScaleFusion
from .pairwise_scores import PairwiseScores

__all__ = [
    "BertForMultiScaleRE",
    "BertForMultiScaleSequenceClassification",
    "BertPairwiseForRelationClassification",
    "BertPairwiseParser",
    "BiLSTMForSequenceClassification",
    "BiLSTMForTokenClassification",
    "BiLSTMModel",
    "MSTransformerForSequenceClassification",
    "MSTransformerForTokenClassification",
    "MSTransformerModel",
    "MultiScaleBertModel",
    "MultiScaleForRelationExtraction",
    "MultiScaleForSequenceClassification",
    "MultiScaleForTokenClassification",
    "MultiScaleFusion",
    "MultiScaleModel",
    "PairwiseForRelationClassification",
    "PairwiseParser",
    "PairwiseScores",
]
