"""Configuration of BERT with pairwise scores, whose features include the attention maps."""

# No `from __future__ import annotations`: `@strict` checks the types and sees only strings with it.

from typing import Literal

from huggingface_hub.dataclasses import strict

from .bert_family import BertFamilyConfig


@strict
class BertPairwiseConfig(BertFamilyConfig):
    r"""
    Configuration of a [`BertPairwiseParser`] or a [`BertPairwiseForRelationClassification`]: a BERT encoder whose
    hidden states and attention maps, of all layers and heads, are the features of a pair of words.

    Every argument of [`BertConfig`] is accepted. The defaults of the others are those of the paper (pairwise attention
    for dependency parsing and relation classification), except for `attention_scale`. `num_labels` is the number of
    relations without NONE.

    Args:
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

    `classifier_dropout`, or `hidden_dropout_prob` if it is `None`, applies to the hidden states of the words and
    inside the biaffine layers.

    Raises:
        `huggingface_hub.errors.StrictDataclassError`: A value has the wrong type or is not among the options, a size
            is below 1, `none_weight` or `attention_scale` is not positive and finite, `"biaffine"` is combined with
            `features="att"`, or `is_decoder` is set; the message names the field.

    Example:

    ```python
    >>> from msattn import BertPairwiseConfig, BertPairwiseParser

    >>> config = BertPairwiseConfig(objective="head_select", scorer="biaffine", num_labels=40)
    >>> parser = BertPairwiseParser(config)
    ```
    """

    model_type = "bert_pairwise"
    keys_to_ignore_at_inference = ["past_key_values", "hidden_states", "attentions"]

    features: Literal["emb", "att", "emb+att"] = "emb+att"
    objective: Literal["pairs", "head_select"] = "pairs"
    scorer: Literal["linear", "biaffine"] = "linear"
    arc_size: int = 500
    relation_size: int = 100
    freeze_encoder: bool = False
    word_state: Literal["first", "mean"] = "first"
    none_weight: float | int = 1.0
    attention_scale: float | int = 10.0

    def __post_init__(self, **kwargs):
        # Where two models share an Auto class, Transformers iterates over `architectures`.
        self.architectures: list[str] = self.architectures or []
        super().__post_init__(**kwargs)

    def validate_pairs(self):
        """Part of the `@strict` validation, which runs on construction."""
        for name in ("arc_size", "relation_size"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, got {getattr(self, name)}")
        for name in ("none_weight", "attention_scale"):
            if not 0 < getattr(self, name) < float("inf"):
                raise ValueError(f"{name} must be above 0 and finite, got {getattr(self, name)}")
        if self.scorer == "biaffine" and self.features == "att":
            raise ValueError('scorer "biaffine" reads hidden states: features must be "emb" or "emb+att", got "att"')
        if self.is_decoder:
            raise ValueError("is_decoder must be False: attention goes both ways")


__all__ = ["BertPairwiseConfig"]
