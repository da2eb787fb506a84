"""Arguments for training from scratch."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from msattn.argument_values import Count, NotNegative, Positive, Share

# Arguments that only apply when a vocabulary is built.
VOCABULARY = ("vocabulary_size", "min_word_frequency", "cased", "raw_text", "pretokenized")
# The family that presets are for.
PRESET_FAMILY = "ms_transformer"
_SMALL = {"hidden_size": 100, "num_attention_heads": 5, "hidden_dropout_prob": 0.2, "word_dropout": 0.1}
# Defaults of its configuration. Fixed windows make the cost linear in the length of the text.
PRESETS: dict[str, dict[str, Any]] = {
    "paper": {},
    "small": {**_SMALL, "scales": (1, 3, 8, 16, 32)},
    "long-document": {**_SMALL, "scales": (1, 3, 8, 32, 128)},
}


@dataclass
class ScratchArguments:
    """Model family, hyperparameters, vocabulary and word vectors of a model trained from scratch."""

    model_type: str | None = field(
        default=None,
        metadata={
            "help": "Model family to train from scratch, such as ms_transformer; replaces --model_name_or_path."
        },
    )
    preset: str | None = field(
        default=None,
        metadata={
            "help": "Defaults of a Multi-Scale Transformer: paper (width 300, windows that grow with the text), small "
            "(width 100, fixed windows: linear cost), or long-document (as small, with wider windows). "
            "--config_overrides and --word_dropout take precedence. Sets --model_type ms_transformer.",
            "choices": list(PRESETS),
        },
    )
    config_overrides: list[str] | None = field(
        default=None,
        metadata={
            "help": "Configuration fields that differ from the defaults of the family or preset: NAME=VALUE, with "
            "VALUE in JSON or a plain word, such as hidden_size=100 alpha=-0.5 'scales=[1, 3, \"N/4\"]'."
        },
    )
    word_vectors: str | None = field(
        default=None,
        metadata={
            "help": "Pre-trained word vectors for the embeddings: a file in the text format of GloVe or word2vec, "
            "optionally gzipped, or an encoder, a local folder or a name on the Hub, whose tokenizer and token "
            "embeddings are taken."
        },
    )
    word_vector_size: Count | None = field(
        default=None,
        metadata={"help": "Reduce --word_vectors to this many principal components. Default: their own size."},
    )
    word_vector_deviation: Positive | None = field(
        default=None,
        metadata={
            "help": "Scale --word_vectors to this standard deviation. Default: 0.4 for the vectors of an encoder, and "
            "those of a file as they are."
        },
    )
    missing_vector_scale: NotNegative = field(
        default=1.0,
        metadata={
            "help": "Standard deviation of the vectors drawn for words that the file of --word_vectors lacks, as a "
            "factor of that of the vectors found."
        },
    )
    word_dropout: Share | None = field(
        default=None,
        metadata={
            "help": "Share of the tokens that training replaces by [UNK], which trains the vector of unknown words. "
            "Default: that of the preset, or 0."
        },
    )
    vocabulary_size: Count = field(
        default=30000,
        metadata={
            "help": "Maximum size of the vocabulary: the words of the training data by frequency, then those of "
            "--word_vectors in file order. Not used with --tokenizer_name."
        },
    )
    min_word_frequency: Count = field(
        default=1, metadata={"help": "Minimum frequency of a word in the training data."}
    )
    cased: bool = field(default=False, metadata={"help": "Keep upper case; without it, text is lower-cased."})
    raw_text: bool = field(
        default=False,
        metadata={"help": "Split off punctuation. The default; accepted for commands of version 0.1."},
    )
    pretokenized: bool = field(
        default=False,
        metadata={"help": "Split words at spaces only, for text that is already tokenized."},
    )
