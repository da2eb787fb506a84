"""Arguments of relation extraction."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from msattn.arguments.data_arguments import HubDataArguments
from msattn.arguments.pairwise_arguments import PairwiseArguments

# Rows of Table 1 of the multi-scale fusion paper, as fields of the configuration; and a control of the same size
# without phrases.
HEADS: dict[str, dict[str, Any]] = {
    "multiscale": {},
    "bert": {"fusion_layers": 0, "pooling": "cls"},
    "bert-entity": {"fusion_layers": 0, "pooling": "entity_start"},
    "plain-attention": {"scales": (), "mask_mode": "none"},
}
# The relation classifier of pairwise attention, which is another model.
PAIRWISE = "pairwise"
NEGATIVE_LABELS = ("Other", "no_relation", "NA", "NONE")


@dataclass
class RelationModelArguments(PairwiseArguments):
    """What sits on top of the encoder; all but the head is for --head pairwise."""

    head: str | None = field(
        default=None,
        metadata={
            "help": "multiscale (BERT-MS, the default for a plain BERT checkpoint), or a baseline: bert ([CLS]), "
            "bert-entity (entity markers) or plain-attention (as large as multiscale, but words only); or pairwise, "
            "which reads the attention between the entities, without markers.",
            "choices": [*HEADS, PAIRWISE],
        },
    )


@dataclass
class RelationDataArguments(HubDataArguments):
    """The data: local files, or a data set of the Hub."""

    train_file: str | None = field(
        default=None, metadata={"help": "Training examples: SemEval text, JSON lines, JSON, CSV, TSV or Parquet."}
    )
    file_format: str = field(
        default="auto",
        metadata={"help": "Format of the files: auto, semeval, opennre, jsonl, json, csv, tsv or parquet."},
    )
    label_file: str | None = field(
        default=None,
        metadata={"help": "JSON list of the labels, or object from label to number; else those of the training data."},
    )
    max_seq_length: int | None = field(
        default=None,
        metadata={
            "help": "Most tokens in an example; longer ones are windowed around the entities.",
            "aliases": ["--max_length"],
        },
    )
    on_overflow: str = field(
        default="error",
        metadata={"help": "If the entities are too far apart for that: error, or skip.", "choices": ["error", "skip"]},
    )
    negative_label: str | None = field(
        default=None,
        metadata={"help": f"The label of no relation. Default: {', '.join(NEGATIVE_LABELS)}, if there."},
    )
