"""Arguments for token classification (tagging)."""

from __future__ import annotations

from dataclasses import dataclass, field

from msattn.argument_values import Count
from msattn.arguments.data_arguments import HubDataArguments


@dataclass
class TaggingDataArguments(HubDataArguments):
    """Tagging data: CoNLL columns, CoNLL-U, or a dataset on the Hub."""

    train_file: str | None = field(
        default=None,
        metadata={
            "help": "Training data: CoNLL-U (.conllu, .conllu.gz), or one word per line with columns separated by "
            "tabs or spaces."
        },
    )
    validation_file: str | None = field(default=None, metadata={"help": "Validation sentences, in the same formats."})
    test_file: str | None = field(default=None, metadata={"help": "Test sentences, with or without tags."})
    word_column: str | None = field(
        default=None,
        metadata={
            "help": "Column of the words: its number (default 1), or its name in a Hub dataset (default tokens)."
        },
    )
    tag_column: str | None = field(
        default=None,
        metadata={
            "help": "Column of the tags: upos (default) or xpos for CoNLL-U, the number of the column (default: the "
            "last), or its name in a Hub dataset (default: the only column of class labels)."
        },
    )
    max_seq_length: Count = field(
        default=512,
        metadata={
            "help": "Maximum number of tokens per input; longer sentences are split between words, with a warning."
        },
    )
