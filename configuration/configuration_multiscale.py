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

    The defaults and equations are those of the paper ("Multi-scale fusion self attention mechanism", 2021).

    Args:
        encoder (`PreTrainedConfig` or `dict`, *optional*):
            Configuration of the encoder; a dictionary names its family in `model_type`. BERT by default.
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
            Fusion layers on top of the encoder; 0 is the plain encoder with the same classifier.
        fusion_residual (`bool`, *optional*, defaults to `False`):
            Whether to add the input of each fusion layer to its output.
        renormalize (`bool`, *optional*, defaults to `False`):
            Whether to scale every row of the masked attention (Eq. 17) back to a sum of 1.
        pooling (`str`, *optional*):
            What the classifier reads: the `"mean"` or `"max"` over real tokens, the first real token (`"cls"`), the
            `"last"` real token, the two start markers, concatenated (`"entity_start"`), or the first token and both
            entities (`"r_bert"`; see [`MultiScaleForRelationExtraction`]). `"cls"` and `"r_bert"` are refused for
            causal encoders. `None` is the default of the model class.
        classifier_dropout (`float`, *optional*):
            Dropout before the classifier. `None` is the dropout of the encoder's hidden states.

    Raises:
        `huggingface_hub.errors.StrictDataclassError`: A value has the wrong type or is not among the options,
            `mask_temperature` is not above 0, `fusion_layers` is below 0, or `fusion_heads` does not divide the
            encoder's `hidden_size`; the message names the field.
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

    pooling: Literal["mean", "cls", "max", "last", "entity_start", "r_bert"] | None = None
    classifier_dropout: float | int | None = None
