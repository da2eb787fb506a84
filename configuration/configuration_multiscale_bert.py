"""Configuration of BERT with multi-scale fusion self-attention (BERT-MS)."""

# No `from __future__ import annotations`: `@strict` checks the types and sees only strings with it.

from typing import Literal

from huggingface_hub.dataclasses import strict

from .bert_family import BertFamilyConfig
from .fusion_settings import FusionSettings


@strict
class MultiScaleBertConfig(FusionSettings, BertFamilyConfig):
    r"""
    Configuration of a [`MultiScaleBertModel`]: a BERT encoder followed by multi-scale fusion self-attention.

    Every argument of [`BertConfig`] is accepted. The defaults of the others are those of the paper
    ("Multi-scale fusion self attention mechanism", 2021).

    Args:
        scales (`tuple[int, ...]`, *optional*, defaults to `(3,)`):
            Phrase lengths k in words, one convolution each (Eq. 3 and 4). Empty for words only.
        mask_mode (`str`, *optional*, defaults to `"hard"`):
            How the word mask of Eq. 13 is computed: `"hard"` (the paper; its query and key get no gradient), `"ste"`
            (the same values with a straight-through gradient), `"sigmoid"`, `"entmax"`, or `"none"` (no mask). See
            [`MultiScaleFusion`].
        mask_temperature (`float`, *optional*, defaults to 0.1):
            Temperature of `"ste"` and `"sigmoid"`, in units of the uniform attention level 1/n.
        conv_alignment (`str`, *optional*, defaults to `"causal"`):
            Whether phrase j ends at word j (`"causal"`, Eq. 3) or is centred on it (`"same"`).
        fusion_heads (`int`, *optional*, defaults to 1):
            Heads of the fusion attention; the paper has one.
        fusion_layers (`int`, *optional*, defaults to 1):
            Fusion layers on top of the encoder; 0 is a plain BERT with the same classifier.
        fusion_residual (`bool`, *optional*, defaults to `False`):
            Whether to add the input of each fusion layer to its output.
        renormalize (`bool`, *optional*, defaults to `False`):
            Whether to scale every row of the masked attention (Eq. 17) back to a sum of 1.
        pooling (`str`, *optional*):
            What the classifier reads: the `"mean"` or `"max"` over real tokens, the first token (`"cls"`), or the two
            start markers, concatenated (`"entity_start"`). `None` is the default of the model class.

    Raises:
        `huggingface_hub.errors.StrictDataclassError`: A value has the wrong type or is not among the options, `scales`
            holds a number below 1 or one number twice, `mask_temperature` is not positive and finite, `fusion_heads`
            does not divide `hidden_size`, `fusion_layers` is negative, or `is_decoder` is set; the message names the
            field.

    Example:

    ```python
    >>> from msattn import BertForMultiScaleRE, MultiScaleBertConfig

    >>> model = BertForMultiScaleRE(MultiScaleBertConfig(scales=[3, 5], mask_mode="ste", num_labels=19))
    ```
    """

    model_type = "multiscale_bert"
    keys_to_ignore_at_inference = ["past_key_values", "fusion_attentions", "hidden_states", "attentions"]

    pooling: Literal["mean", "cls", "max", "entity_start"] | None = None

    def validate_attention(self):
        """Part of the `@strict` validation, which runs on construction."""
        if self.is_decoder:
            raise ValueError("is_decoder must be False: every word attends to words and phrases on both sides")


__all__ = ["MultiScaleBertConfig"]
