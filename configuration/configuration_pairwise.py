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

    The defaults are those of the paper (pairwise attention for dependency parsing and relation classification), except
    for `attention_scale`. `num_labels` is the number of relations without NONE.

    Args:
        encoder (`PreTrainedConfig` or `dict`, *optional*):
            Configuration of the encoder; a dictionary names its family in `model_type`. BERT by default.
        features (`str`, *optional*, defaults to `"emb+att"`):
            Features of a pair: the last hidden states of both words (`"emb"`), their attention to each other
            (`"att"`), or both.
        objective (`str`, *optional*, defaults to `"pairs"`):
            What a parser is trained on: each ordered pair of words has a relation or NONE (`"pairs"`, the paper), or
            each word selects its head and the arc then its relation (`"head_select"`).
        scorer (`str`, *optional*, defaults to `"linear"`):
            How the hidden states are scored: by a linear layer (`"linear"`, the paper) or a deep biaffine layer
            (`"biaffine"`). The attention is scored by a linear layer with both.
        arc_size (`int`, *optional*, defaults to 500):
            Width of the biaffine layer for arcs; read with `"head_select"` only.
        relation_size (`int`, *optional*, defaults to 100):
            Width of the biaffine layer for relations.
        freeze_encoder (`bool`, *optional*, defaults to `False`):
            Whether to train only the scores: the encoder gets no gradient and stays in evaluation mode.
        word_state (`str`, *optional*, defaults to `"first"`):
            Hidden state of a word: that of its `"first"` piece, or the `"mean"` of its pieces.
        none_weight (`float`, *optional*, defaults to 1.0):
            Weight of pairs without a relation in the loss of the objective `"pairs"`.
        attention_scale (`float`, *optional*, defaults to 10.0):
            Factor of the attention features. They are far smaller than hidden states; scaled up, their weights learn
            as fast as those of the hidden states. 1 is the paper's.
        root (`str`, *optional*, defaults to `"token"`):
            What stands for ROOT in a parser: the leading special token (`"token"`), or a `"learned"` state, for
            tokenizers that add no such token. A learned ROOT has no attention.
        layer_mix (`int`, *optional*, defaults to 1):
            The hidden states are a learned mix of this many last layers, as in SuPar; see [`LayerMix`]. 1 is the last
            layer alone.
        word_tags (`dict[str, list[str]]`, *optional*):
            What a parser tags beside the tree: the labels of `"upos"`, `"xpos"`, `"feats"` and `"lemma"`, or some of
            them, in the order of their numbers. Those of `"lemma"` are edit scripts.
        classifier_dropout (`float`, *optional*):
            Dropout of the hidden states of the words, and inside the biaffine layers. `None` is the dropout of the
            encoder's hidden states.

    Raises:
        `huggingface_hub.errors.StrictDataclassError`: A value has the wrong type or is not among the options,
            `layer_mix` is not from 1 to the number of layers, `none_weight` is not above 0, `features="att"` is
            combined with `"biaffine"`, a learned ROOT or `layer_mix`, or `word_tags` has another column or one without
            labels; the message names the field.
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

    classifier_dropout: float | int | None = None
