"""Arguments for pairwise attention: its features and its scorer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from msattn.argument_values import Positive, Size
from msattn.arguments.pretrained import FLAG

# Configuration fields that the relation classifier exposes as arguments.
PAIRWISE_FIELDS = ("features", "scorer", "relation_size", "freeze_encoder", "attention_scale", "layer_mix")


@dataclass
class PairwiseArguments:
    """
    Hyperparameters of pairwise attention.

    Omitted hyperparameters come from the checkpoint; for an encoder, from the pairwise attention paper.
    """

    features: str | None = field(
        default=None,
        metadata={
            "help": "Features of a word pair: hidden states (emb), attention weights (att) or both (emb+att).",
            "choices": ["emb", "att", "emb+att"],
        },
    )
    scorer: str | None = field(
        default=None,
        metadata={
            "help": "Scorer of the hidden states: linear (as in the paper) or biaffine.",
            "choices": ["linear", "biaffine"],
        },
    )
    relation_size: Size | None = field(default=None, metadata={"help": "Hidden size of the biaffine relation scorer."})
    freeze_encoder: bool | None = field(
        default=None, metadata={"help": "Freeze the encoder and train only the layers above it.", **FLAG}
    )
    attention_scale: Positive | None = field(
        default=None, metadata={"help": "Factor that the attention features are multiplied by."}
    )
    layer_mix: int | None = field(
        default=None,
        metadata={
            "help": "Mix the hidden states of this many last layers, with learned weights (SuPar mixes 4); 1 for the "
            "last layer alone."
        },
    )

    def given(self, names: Sequence[str]) -> dict[str, Any]:
        """The arguments in `names` that were set, as overrides for the model's configuration."""
        return {name: value for name in names if (value := getattr(self, name)) is not None}
