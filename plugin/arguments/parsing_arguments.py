"""Arguments for dependency parsing."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from msattn.argument_values import Count, NotNegative, Size
from msattn.arguments.data_arguments import DataArguments
from msattn.arguments.pairwise_arguments import PairwiseArguments
from msattn.arguments.pretrained import ModelArguments
from msattn.configuration.pairwise_settings import TAGS
from msattn.trees.parses import DECODERS

# Configuration fields that the parser exposes as arguments.
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
    "layer_mix",
)


@dataclass
class ParserArguments(PairwiseArguments, ModelArguments):
    """
    Checkpoint and hyperparameters of the parser.

    Omitted hyperparameters come from the checkpoint; for an encoder, from the pairwise attention paper.
    """

    objective: str | None = field(
        default=None,
        metadata={
            "help": "Training objective: classify every word pair as a relation or none (pairs, as in the paper), or "
            "select the head of every word (head_select).",
            "choices": ["pairs", "head_select"],
        },
    )
    arc_size: Size | None = field(default=None, metadata={"help": "Hidden size of the biaffine arc scorer."})
    word_state: str | None = field(
        default=None,
        metadata={
            "help": "Hidden state of a word: that of its first sub-word, or the mean over its sub-words.",
            "choices": ["first", "mean"],
        },
    )
    none_weight: NotNegative | None = field(
        default=None, metadata={"help": "Loss weight of the word pairs without a relation (--objective pairs)."}
    )

    tag: list[str] | None = field(
        default=None,
        metadata={
            "help": "Also tag words: parts of speech (upos, xpos), features (feats), lemmas (lemma), or some of them. "
            "Default: what the checkpoint tags; an encoder tags nothing.",
            "choices": list(TAGS),
            "nargs": "+",
        },
    )

    def config_overrides(self) -> dict[str, Any]:
        """The configuration fields that were set on the command line."""
        return self.given(PARSER_FIELDS)


@dataclass
class ParsingDataArguments(DataArguments):
    """Treebanks in CoNLL-U or CoNLL-X, and plain sentences for prediction."""

    train_file: list[str] | None = field(  # type: ignore[assignment]
        default=None,
        metadata={
            "help": "One or more training treebanks: CoNLL-U or CoNLL-X, gzipped if the name ends in .gz. Words with "
            "the head _ have no loss."
        },
    )
    validation_file: list[str] | None = field(  # type: ignore[assignment]
        default=None,
        metadata={
            "help": "One or more validation treebanks, in the same formats. They are scored together and each apart."
        },
    )
    test_file: str | None = field(
        default=None,
        metadata={
            "help": "Test sentences, with or without trees. A .txt file has one sentence per line, with spaces "
            "between words."
        },
    )
    decode: str = field(
        default="auto",
        metadata={
            "help": "The best tree (mst); the best one without crossing arcs (eisner); the one with the most right "
            "heads to be expected, by marginals (mbr), also without crossing arcs (mbr_eisner); the best head of each "
            "word, which may be no tree (greedy); the one of mst, eisner, mbr and mbr_eisner with the best UAS on the "
            "validation data after training, or that of the checkpoint (auto).",
            "choices": ["auto", *DECODERS],
        },
    )
    max_seq_length: Count | None = field(
        default=None,
        metadata={"help": "Maximum number of tokens per encoder input. Default: the limit of the encoder."},
    )
    long_sentences: str = field(
        default="window",
        metadata={
            "help": "Treatment of sentences longer than --max_seq_length: windows that overlap by half, or an error.",
            "choices": ["window", "error"],
        },
    )
