"""Arguments of the classification of sentences and sentence pairs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from msattn.arguments.data_arguments import DataArguments
from msattn.data.corpora.glue import GLUE_TASKS
from msattn.data.corpora.mtl16 import MTL16_DOMAINS

# Baselines beside BERT-MS, as fields of the configuration.
HEADS: dict[str, dict[str, Any]] = {
    "multiscale": {},
    "bert": {"fusion_layers": 0},
    "plain-attention": {"scales": (), "mask_mode": "none"},
}
# Tokens of an example for a model that has no room for any number of them.
MAX_SEQ_LENGTH = 128


@dataclass
class SentenceModelArguments:
    """What sits on top of the encoder."""

    head: str | None = field(
        default=None,
        metadata={
            "help": "For BERT: multiscale (BERT-MS, the default for a plain checkpoint), or a baseline: bert (the "
            "encoder alone, under the same classifier) or plain-attention (as large as multiscale, but words only). "
            "An encoder of another family has the classifier that Transformers has for it.",
            "choices": list(HEADS),
        },
    )


@dataclass
class SentenceDataArguments(DataArguments):
    """The data: a task of GLUE, from the Hub or a folder, the domains of MTL-16, or files of one's own."""

    task_name: str | None = field(
        default=None, metadata={"help": "The task of GLUE; without it, give files.", "choices": list(GLUE_TASKS)}
    )
    glue_dir: str | None = field(
        default=None,
        metadata={"help": "Folder with GLUE's own TSV files (glue_dir/SST-2/train.tsv); without it, the Hub."},
    )
    train_file: str | None = field(
        default=None,
        metadata={
            "help": "CSV, TSV, JSON (lines) or Parquet: one or two columns of text, and label (decimals: regression); "
            "or a file of SST-5 (trees), SNLI or MTL-16 as published."
        },
    )
    train_phrases: bool = field(
        default=False, metadata={"help": "Of the trees of SST-5, train with every phrase and not the sentences alone."}
    )
    mtl16_dir: str | None = field(
        default=None,
        metadata={
            "help": "Folder of MTL-16 with its files DOMAIN.task.train and DOMAIN.task.test: a model a domain, in "
            "folders of their names, and a table."
        },
    )
    domains: list[str] | None = field(
        default=None, metadata={"help": "Of MTL-16 these domains only.", "choices": list(MTL16_DOMAINS)}
    )
    text_column_names: list[str] | None = field(
        default=None,
        metadata={"help": "The one or two columns of text of these files; without it, the first that hold text."},
    )
    label_column_name: str = field(default="label", metadata={"help": "Their column of labels."})
    max_seq_length: int | None = field(
        default=None,
        metadata={
            "help": f"Most tokens in an example; longer ones are truncated, and counted. {MAX_SEQ_LENGTH} if left "
            "out, or any number for a model without positions."
        },
    )
    pad_to_max_length: bool = field(
        default=False, metadata={"help": "Pad every example to --max_seq_length, and not to the longest of its batch."}
    )
