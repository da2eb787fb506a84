"""Arguments for the classification of sentences and sentence pairs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from msattn.argument_values import Count
from msattn.arguments.data_arguments import HubDataArguments
from msattn.data.formats.glue import GLUE_TASKS
from msattn.data.formats.mtl16 import MTL16_DOMAINS

# Configuration fields of multi-scale fusion and its baselines.
HEADS: dict[str, dict[str, Any]] = {
    "multiscale": {},
    "cls": {"fusion_layers": 0, "pooling": "cls"},
    "mean": {"fusion_layers": 0, "pooling": "mean"},
    "plain-attention": {"scales": (), "mask_mode": "none"},
}
# The classifier of Transformers for the encoder's family.
PLAIN = "plain"
# `mean` as in version 0.1, unless --pooling says otherwise.
OLD_MEAN = "bert"
# Default length for models with a limited number of positions.
MAX_SEQ_LENGTH = 128


@dataclass
class SentenceModelArguments:
    """The model on top of the encoder."""

    head: str | None = field(
        default=None,
        metadata={
            "help": "The classifier of Transformers (plain, the default for encoders other than BERT and for "
            "checkpoints that have one); multi-scale fusion (multiscale, the default for BERT); or its baselines cls "
            "and mean (first token and mean of all tokens, no fusion layers) and plain-attention (same size as "
            "multiscale, without phrases). bert is the old name of mean.",
            "choices": [PLAIN, *HEADS, OLD_MEAN],
        },
    )


@dataclass
class SentenceDataArguments(HubDataArguments):
    """Sentence classification data: a GLUE task, the domains of MTL-16, a dataset on the Hub, or local files."""

    task_name: str | None = field(
        default=None, metadata={"help": "GLUE task; for other data, give --train_file.", "choices": list(GLUE_TASKS)}
    )
    glue_dir: str | None = field(
        default=None,
        metadata={"help": "Folder with the official GLUE TSV files (glue_dir/SST-2/train.tsv). Default: the Hub."},
    )
    train_file: str | None = field(
        default=None,
        metadata={
            "help": "Training data: CSV, TSV, JSON (lines) or Parquet with one or two text columns and a label column "
            "(decimal numbers mean regression); or a file of SST-5 (trees), SNLI or MTL-16 as published."
        },
    )
    train_phrases: bool = field(
        default=False, metadata={"help": "Train on all phrases of the SST-5 trees, not only on full sentences."}
    )
    mtl16_dir: str | None = field(
        default=None,
        metadata={
            "help": "Folder with the MTL-16 files DOMAIN.task.train and DOMAIN.task.test. Trains one model per "
            "domain, in a sub-folder named after it, and writes a table of the scores."
        },
    )
    domains: list[str] | None = field(
        default=None, metadata={"help": "MTL-16 domains to use. Default: all.", "choices": list(MTL16_DOMAINS)}
    )
    text_column_names: list[str] | None = field(
        default=None,
        metadata={"help": "One or two text columns of the data. Default: the first columns that hold text."},
    )
    label_column_name: str = field(default="label", metadata={"help": "Label column of the data."})
    max_seq_length: Count | None = field(
        default=None,
        metadata={
            "help": "Maximum number of tokens per example; longer ones are truncated, with a warning. Default: "
            f"{MAX_SEQ_LENGTH}, or no limit for a model without position embeddings."
        },
    )
    pad_to_max_length: bool = field(
        default=False,
        metadata={"help": "Pad every example to --max_seq_length instead of the longest example in the batch."},
    )
