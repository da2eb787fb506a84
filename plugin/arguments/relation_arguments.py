"""Arguments for relation extraction."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from msattn.arguments.data_arguments import HubDataArguments
from msattn.arguments.pairwise_arguments import PairwiseArguments

# Configuration fields of the models in Table 1 of the multi-scale fusion paper, and of a control without phrases.
HEADS: dict[str, dict[str, Any]] = {
    "multiscale": {},
    "cls": {"fusion_layers": 0, "pooling": "cls"},
    "entity-start": {"fusion_layers": 0, "pooling": "entity_start"},
    "plain-attention": {"scales": (), "mask_mode": "none"},
}
# Their names in version 0.1.
OLD_HEADS = {"bert": "cls", "bert-entity": "entity-start"}
# Selects the pairwise-attention relation classifier, a different model class.
PAIRWISE = "pairwise"
NEGATIVE_LABELS = ("Other", "no_relation", "NA", "NONE")


@dataclass
class RelationModelArguments(PairwiseArguments):
    """The classification head. All arguments but `head` are for `--head pairwise`."""

    head: str | None = field(
        default=None,
        metadata={
            "help": "Model on top of the encoder: multiscale (multi-scale fusion, the default for an encoder); the "
            "baselines cls (first token), entity-start (entity markers) and plain-attention (same size as multiscale, "
            "without phrases); or pairwise (attention between the entities, without markers). bert and bert-entity "
            "are the old names of cls and entity-start.",
            "choices": [*HEADS, PAIRWISE, *OLD_HEADS],
        },
    )

    def __post_init__(self):
        if self.head in OLD_HEADS:
            self.head = OLD_HEADS[self.head]


@dataclass
class RelationDataArguments(HubDataArguments):
    """Relation extraction data: local files or a dataset on the Hub."""

    train_file: str | None = field(
        default=None, metadata={"help": "Training data: SemEval text, JSON lines, JSON, CSV, TSV or Parquet."}
    )
    file_format: str = field(
        default="auto",
        metadata={"help": "Format of the data files: auto, semeval, opennre, jsonl, json, csv, tsv or parquet."},
    )
    label_file: str | None = field(
        default=None,
        metadata={
            "help": "JSON file with a list of labels, or an object from label to id. Default: the labels of the "
            "training data."
        },
    )
    max_seq_length: int | None = field(
        default=None,
        metadata={
            "help": "Maximum number of tokens per example; longer ones are cut to a window around the entities.",
            "aliases": ["--max_length"],
        },
    )
    on_overflow: str = field(
        default="error",
        metadata={
            "help": "Treatment of examples whose entities do not fit into --max_seq_length: error or skip.",
            "choices": ["error", "skip"],
        },
    )
    negative_label: str | None = field(
        default=None,
        metadata={
            "help": "Label that stands for no relation; micro-F1 ignores it. Default: the first of "
            f"{', '.join(NEGATIVE_LABELS)} among the labels."
        },
    )
