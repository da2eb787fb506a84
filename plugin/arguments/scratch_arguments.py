"""Arguments of a model that is trained from scratch."""

from __future__ import annotations

from dataclasses import dataclass, field

# Those that build a vocabulary.
VOCABULARY = ("vocabulary_size", "min_word_frequency", "cased", "raw_text")


@dataclass
class ScratchArguments:
    """A model that is trained from scratch, and its words."""

    model_type: str | None = field(
        default=None,
        metadata={"help": "In place of --model_name_or_path: fresh weights of this family, such as ms_transformer."},
    )
    config_overrides: list[str] | None = field(
        default=None,
        metadata={
            "help": "Its configuration, where it is not the family's default: NAME=VALUE with a value in JSON or a "
            "word, such as hidden_size=100 alpha=-0.5 'scales=[1, 3, \"N/4\"]'."
        },
    )
    word_vectors: str | None = field(
        default=None,
        metadata={"help": "Its word vectors to begin with: a text file of GloVe or word2vec, which may be gzipped."},
    )
    vocabulary_size: int = field(
        default=30000,
        metadata={
            "help": "The most tokens that it knows: words of the training data, the most frequent first, then those "
            "of --word_vectors from its top. With --tokenizer_name no vocabulary is built."
        },
    )
    min_word_frequency: int = field(
        default=1, metadata={"help": "Of the training data only words that occur so often."}
    )
    cased: bool = field(default=False, metadata={"help": "Tell upper case from lower case."})
    raw_text: bool = field(
        default=False,
        metadata={
            "help": "Make punctuation words of their own. Without it words end at spaces, as in text that is "
            "tokenised already."
        },
    )
