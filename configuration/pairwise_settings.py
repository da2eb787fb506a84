"""Fields of all configurations with pairwise scores."""

# No `from __future__ import annotations`: `@strict` checks the types and sees only strings with it.

from dataclasses import dataclass
from typing import Literal

# The columns of CoNLL-U that a parser can tag.
TAGS = ("upos", "xpos", "feats", "lemma")


@dataclass(kw_only=True, init=False, repr=False, eq=False)
class PairwiseSettings:
    """
    The fields of the pairwise scores and their checks. [`PairwiseConfig`] documents them.

    A configuration derives from it first, then from its own base.
    """

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
    root: Literal["token", "learned"] = "token"
    layer_mix: int = 1
    word_tags: dict[str, list[str]] | None = None

    def validate_pairs(self):
        """Part of the `@strict` validation, which runs on construction."""
        layers = getattr(self, "num_hidden_layers", None)
        if self.layer_mix < 1 or (isinstance(layers, int) and self.layer_mix > layers):
            raise ValueError(f"layer_mix must be from 1 to the encoder's {layers} layers, got {self.layer_mix}")
        if not self.none_weight > 0:
            raise ValueError(f"none_weight must be above 0, got {self.none_weight}")
        if self.features == "att" and (self.scorer == "biaffine" or self.layer_mix > 1 or self.root == "learned"):
            raise ValueError('scorer "biaffine", root "learned" and layer_mix need "emb" in features')
        for name, labels in (self.word_tags or {}).items():
            if name not in TAGS or not labels:
                raise ValueError(f"word_tags must name the labels of some of {', '.join(TAGS)}, got {name}: {labels}")
