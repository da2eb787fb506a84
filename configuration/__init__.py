"""Configurations: pure data, validated on construction."""

from .configuration_multiscale_bert import MultiScaleBertConfig

__all__ = ["MultiScaleBertConfig"]
