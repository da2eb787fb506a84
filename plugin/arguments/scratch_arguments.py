"""Arguments for training from scratch."""

from __future__ import annotations

from dataclasses import dataclass, field

from msattn.argument_values import Count, Positive

# Arguments that only apply when a vocabulary is built.
VOCABULARY = ("vocabulary_size", "min_word_frequency", "cased", "raw_text")


@dataclass
class ScratchArguments:
    """Model family, hyperparameters, vocabulary and word vectors of a model trained from scratch."""

    model_type: str | None = field(
        default=None,
        metadata={
            "help": "Model family to train from scratch, such as ms_transformer; replaces --model_name_or_path."
        },
    )
    config_overrides: list[str] | None = field(
        default=None,
        metadata={
            "help": "Configuration fields that differ from the defaults of the family: NAME=VALUE, with VALUE in JSON "
            "or a plain word, such as hidden_size=100 alpha=-0.5 'scales=[1, 3, \"N/4\"]'."
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
        metadata={
            "help": "Split off punctuation. Without it, words are split at spaces only, for text that is already "
            "tokenized."
        },
    )
