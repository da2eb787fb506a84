"""Configurations: pure data, validated on construction."""

from .configuration_bilstm import BiLSTMConfig
from .configuration_ms_transformer import MSTransformerConfig
from .configuration_multiscale_bert import MultiScaleBertConfig

__all__ = ["BiLSTMConfig", "MSTransformerConfig", "MultiScaleBertConfig"]
