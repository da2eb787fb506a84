"""Configuration of BERT with multi-scale fusion self-attention (BERT-MS)."""

# No `from __future__ import annotations`: `@strict` checks the types and sees only strings with it.

from typing import Literal

from huggingface_hub.dataclasses import strict

from .bert_family import BertFamilyConfig
from .fusion_settings import FusionSettings


@strict
class MultiScaleBertConfig(FusionSettings, BertFamilyConfig):
    r"""
    Configuration of a [`MultiScaleBertModel`]: [`MultiScaleConfig`] and [`BertConfig`] in one, for checkpoints with
    BERT built in. New models take [`MultiScaleConfig`].

    Raises:
        `huggingface_hub.errors.StrictDataclassError`: As for [`MultiScaleConfig`], or `is_decoder` is set.

    Example:

    ```python
    >>> from msattn import BertForMultiScaleRE, MultiScaleBertConfig

    >>> model = BertForMultiScaleRE(MultiScaleBertConfig(scales=[3, 5], mask_mode="ste", num_labels=19))
    ```
    """

    model_type = "multiscale_bert"

    pooling: Literal["mean", "cls", "max", "entity_start", "r_bert"] | None = None
