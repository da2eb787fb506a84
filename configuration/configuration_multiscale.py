"""Configuration of multi-scale fusion self-attention on any encoder."""

# No `from __future__ import annotations`: `@strict` checks the types and sees only strings with it.

from typing import Literal

from huggingface_hub.dataclasses import strict

from .any_encoder_config import AnyEncoderConfig
from .fusion_settings import FusionSettings


@strict
class MultiScaleConfig(FusionSettings, AnyEncoderConfig):
    r"""
    Configuration of a [`MultiScaleModel`]: an encoder of any family followed by multi-scale fusion self-attention.

    The fields of the fusion layers are those of [`MultiScaleBertConfig`]: `scales`, `mask_mode`, `mask_temperature`,
    `conv_alignment`, `fusion_heads`, `fusion_layers`, `fusion_residual` and `renormalize`.

    Args:
        encoder (`PreTrainedConfig` or `dict`, *optional*):
            Configuration of the encoder; a dictionary names its family in `model_type`. BERT by default.
        pooling (`str`, *optional*):
            What the classifier reads: the `"mean"` or `"max"` over real tokens, the first real token (`"cls"`, not for
            causal encoders), the `"last"` real token, or the two start markers, concatenated (`"entity_start"`).
            `None` is the default of the model class.
        classifier_dropout (`float`, *optional*):
            Dropout before the classifier. `None` is the dropout of the encoder's hidden states.

    Raises:
        `huggingface_hub.errors.StrictDataclassError`: A value has the wrong type or is not among the options, `scales`
            holds a number below 1 or one number twice, `mask_temperature` is not positive and finite, `fusion_heads`
            does not divide the encoder's `hidden_size`, or `fusion_layers` is negative; the message names the field.
        ValueError: Transformers does not know the family of `encoder`, or it has layers of this package on top itself.

    Example:

    ```python
    >>> from msattn import MultiScaleConfig, MultiScaleForRelationExtraction
    >>> from transformers import RobertaConfig

    >>> config = MultiScaleConfig(encoder=RobertaConfig(), scales=[3, 5], num_labels=19)
    >>> model = MultiScaleForRelationExtraction(config)
    ```
    """

    model_type = "multiscale"
    keys_to_ignore_at_inference = ["past_key_values", "fusion_attentions", "hidden_states", "attentions"]

    pooling: Literal["mean", "cls", "max", "last", "entity_start"] | None = None
    classifier_dropout: float | int | None = None


__all__ = ["MultiScaleConfig"]
