"""Arguments of tagging."""

from __future__ import annotations

from dataclasses import dataclass, field

from msattn.arguments.data_arguments import HubDataArguments


@dataclass
class TaggingDataArguments(HubDataArguments):
    """The data: CoNLL columns, CoNLL-U, or a data set on the Hub."""

    train_file: str | None = field(
        default=None,
        metadata={"help": "CoNLL-U (.conllu, .conllu.gz), or a word a line with its columns behind tabs or spaces."},
    )
    validation_file: str | None = field(default=None, metadata={"help": "Development sentences."})
    test_file: str | None = field(default=None, metadata={"help": "Test sentences, with or without tags."})
    word_column: str | None = field(
        default=None, metadata={"help": "The words: the number of the column (1), or its name on the Hub (tokens)."}
    )
    tag_column: str | None = field(
        default=None,
        metadata={
            "help": "The tags: upos (the default) or xpos of CoNLL-U, the number of the column (the last), or its "
            "name on the Hub (the only one of classes)."
        },
    )
    max_seq_length: int = field(
        default=512,
        metadata={"help": "Most tokens in a row; a longer sentence becomes several, and they are counted."},
    )
