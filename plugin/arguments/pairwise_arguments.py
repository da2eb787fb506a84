"""Arguments that choose what pairwise attention reads and how it scores."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from msattn.arguments.pretrained import FLAG

# The fields of the configuration that are arguments of the relation classifier.
PAIRWISE_FIELDS = ("features", "scorer", "relation_size", "freeze_encoder", "attention_scale")


@dataclass
class PairwiseArguments:
    """What is left out stays as the checkpoint has it, or as the paper has it for a plain BERT."""

    features: str | None = field(
        default=None,
        metadata={
            "help": "What is known of two words: their hidden states (emb), their attention (att), or both (emb+att).",
            "choices": ["emb", "att", "emb+att"],
        },
    )
    scorer: str | None = field(
        default=None,
        metadata={
            "help": "How hidden states are scored: linear (the paper) or biaffine.",
            "choices": ["linear", "biaffine"],
        },
    )
    relation_size: int | None = field(default=None, metadata={"help": "Width of the biaffine layer of relations."})
    freeze_encoder: bool | None = field(
        default=None, metadata={"help": "Train only what is above the encoder (feature-based).", **FLAG}
    )
    attention_scale: float | None = field(default=None, metadata={"help": "Factor of the attention features."})

    def given(self, names: Sequence[str]) -> dict[str, Any]:
        """Those of the arguments that were given."""
        return {name: value for name in names if (value := getattr(self, name)) is not None}
