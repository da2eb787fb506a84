"""What the configurations of models with pairwise scores share."""

# No `from __future__ import annotations`: `@strict` checks the types and sees only strings with it.

from dataclasses import dataclass
from typing import Literal

from .local_pipelines import LocalPipelines

# The columns of CoNLL-U that a parser can tag.
TAGS = ("upos", "xpos", "feats", "lemma")


@dataclass(kw_only=True, init=False, repr=False, eq=False)
class PairwiseSettings(LocalPipelines):
    r"""
    The fields of the pairwise scores and their checks. A configuration derives from it first, then from its own base.

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
        root (`str`, *optional*, defaults to `"token"`):
            What stands for ROOT in a parser: the leading special token (`"token"`), or a `"learned"` state, for
            tokenizers that add no such token. A learned ROOT has no attention.
        layer_mix (`int`, *optional*, defaults to 1):
            The hidden states are a learned mix of this many last layers, as in SuPar; see [`LayerMix`]. 1 is the last
            layer alone.
        word_tags (`dict[str, list[str]]`, *optional*):
            What a parser tags beside the tree: the labels of `"upos"`, `"xpos"`, `"feats"` and `"lemma"`, or some of
            them, in the order of their numbers. Those of `"lemma"` are edit scripts.
    """

    features: Literal["emb", "att", "emb+att"] = "emb+att"
    objective: Literal["pairs", "head_select"] = "pairs"
    scorer: Literal["linear", "biaffine"] = "linear"
    arc_size: int = 500
    relation_size: int = 100
    freeze_encoder: bool = False
    word_state: Literal["first", "mean"] = "first"
    none_weight: float | int = 1.0
    attention_scale: float | int = 10.0
    root: Literal["token", "learned"] = "token"
    layer_mix: int = 1
    word_tags: dict[str, list[str]] | None = None

    def __post_init__(self, **kwargs):
        # Where two models share an Auto class, Transformers iterates over `architectures`.
        self.architectures: list[str] = self.architectures or []
        super().__post_init__(**kwargs)  # type: ignore[misc]

    def validate_pairs(self):
        """Part of the `@strict` validation, which runs on construction."""
        for name in ("arc_size", "relation_size", "layer_mix"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, got {getattr(self, name)}")
        for name in ("none_weight", "attention_scale"):
            if not 0 < getattr(self, name) < float("inf"):
                raise ValueError(f"{name} must be above 0 and finite, got {getattr(self, name)}")
        if self.scorer == "biaffine" and self.features == "att":
            raise ValueError('scorer "biaffine" reads hidden states: features must be "emb" or "emb+att", got "att"')
        layers = getattr(self, "num_hidden_layers", None)
        if isinstance(layers, int) and self.layer_mix > layers:
            raise ValueError(f"layer_mix must be at most the encoder's {layers} layers, got {self.layer_mix}")
        if self.layer_mix > 1 and self.features == "att":
            raise ValueError('layer_mix mixes hidden states: features must be "emb" or "emb+att", got "att"')
        if self.root == "learned" and self.features == "att":
            raise ValueError('root "learned" is a hidden state: features must be "emb" or "emb+att", got "att"')
        for name, labels in (self.word_tags or {}).items():
            if name not in TAGS or not labels:
                raise ValueError(f"word_tags must name the labels of some of {', '.join(TAGS)}, got {name}: {labels}")


__all__ = ["TAGS", "PairwiseSettings"]
