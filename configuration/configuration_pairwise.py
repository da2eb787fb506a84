"""Configuration of pairwise scores on any encoder, whose features include the attention maps."""

# No `from __future__ import annotations`: `@strict` checks the types and sees only strings with it.

from huggingface_hub.dataclasses import strict

from .any_encoder_config import AnyEncoderConfig
from .pairwise_settings import PairwiseSettings


@strict
class PairwiseConfig(PairwiseSettings, AnyEncoderConfig):
    r"""
    Configuration of a [`PairwiseParser`] or a [`PairwiseForRelationClassification`]: an encoder of any family whose
    hidden states and attention maps, of all layers and heads, are the features of a pair of words.

    The fields of the scores are those of [`BertPairwiseConfig`]: `features`, `objective`, `scorer`, `arc_size`,
    `relation_size`, `freeze_encoder`, `word_state`, `none_weight`, `attention_scale`, `root`, `layer_mix` and
    `word_tags`. `num_labels` is the number of relations without NONE.

    Args:
        encoder (`PreTrainedConfig` or `dict`, *optional*):
            Configuration of the encoder; a dictionary names its family in `model_type`. BERT by default.
        classifier_dropout (`float`, *optional*):
            Dropout of the hidden states of the words, and inside the biaffine layers. `None` is the dropout of the
            encoder's hidden states.

    Raises:
        `huggingface_hub.errors.StrictDataclassError`: A value has the wrong type or is not among the options, a size
            is below 1, `layer_mix` is above the number of layers, `none_weight` or `attention_scale` is not positive
            and finite, `features="att"` is combined with `"biaffine"`, a learned ROOT or `layer_mix`, or `word_tags`
            has another column or one without labels; the message names the field.
        ValueError: Transformers does not know the family of `encoder`, or it has layers of this package on top itself.

    Example:

    ```python
    >>> from msattn import PairwiseConfig, PairwiseParser
    >>> from transformers import RobertaConfig

    >>> config = PairwiseConfig(encoder=RobertaConfig(), objective="head_select", num_labels=40)
    >>> parser = PairwiseParser(config)
    ```
    """

    model_type = "pairwise"
    keys_to_ignore_at_inference = ["past_key_values", "hidden_states", "attentions"]

    classifier_dropout: float | int | None = None


__all__ = ["PairwiseConfig"]
