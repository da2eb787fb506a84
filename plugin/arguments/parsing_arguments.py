"""Arguments of dependency parsing."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from msattn.arguments.data_arguments import DataArguments
from msattn.arguments.pairwise_arguments import PairwiseArguments
from msattn.arguments.pretrained import ModelArguments
from msattn.trees.parses import DECODERS

# The fields of the configuration that are arguments.
PARSER_FIELDS = (
    "features",
    "objective",
    "scorer",
    "arc_size",
    "relation_size",
    "freeze_encoder",
    "word_state",
    "none_weight",
    "attention_scale",
)


@dataclass
class ParserArguments(PairwiseArguments, ModelArguments):
    """The parser: what is left out stays as the checkpoint has it, or as the paper has it for a plain BERT."""

    objective: str | None = field(
        default=None,
        metadata={
            "help": "Learn a relation or none for every pair (pairs, the paper), or the head of every word "
            "(head_select).",
            "choices": ["pairs", "head_select"],
        },
    )
    arc_size: int | None = field(default=None, metadata={"help": "Width of the biaffine layer of arcs."})
    word_state: str | None = field(
        default=None,
        metadata={
            "help": "The hidden state of a word: its first piece's or their mean.",
            "choices": ["first", "mean"],
        },
    )
    none_weight: float | None = field(
        default=None, metadata={"help": "Weight of the pairs without a relation in the loss of pairs."}
    )

    def config_overrides(self) -> dict[str, Any]:
        """The fields of the model's configuration that were given."""
        return self.given(PARSER_FIELDS)


@dataclass
class ParsingDataArguments(DataArguments):
    """The data: CoNLL-U, CoNLL-X or plain sentences."""

    train_file: str | None = field(
        default=None, metadata={"help": "Training trees: CoNLL-U or CoNLL-X, gzipped if the name ends in .gz."}
    )
    validation_file: str | None = field(default=None, metadata={"help": "Development trees."})
    test_file: str | None = field(
        default=None,
        metadata={"help": "Test sentences, with or without trees; in a file .txt one a line, spaces between words."},
    )
    decode: str = field(
        default="mst",
        metadata={
            "help": "The best tree (mst); the best one without crossing arcs (eisner); the one with the most right "
            "heads to be expected, by marginals (mbr); the best head of each word, which may be no tree (greedy).",
            "choices": list(DECODERS),
        },
    )
    max_seq_length: int | None = field(
        default=None, metadata={"help": "Most tokens that the encoder reads at a time; its own limit if not given."}
    )
    long_sentences: str = field(
        default="window",
        metadata={
            "help": "What to do with a longer sentence: windows that overlap by half, or an error.",
            "choices": ["window", "error"],
        },
    )
