"""Arguments for relation extraction."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from msattn.argument_values import Count
from msattn.arguments.data_arguments import HubDataArguments
from msattn.arguments.pairwise_arguments import PairwiseArguments

# Configuration fields of the models in Table 1 of the multi-scale fusion paper, and of a control without phrases.
HEADS: dict[str, dict[str, Any]] = {
    "multiscale": {},
    "bert": {"fusion_layers": 0, "pooling": "cls"},
    "bert-entity": {"fusion_layers": 0, "pooling": "entity_start"},
    "plain-attention": {"scales": (), "mask_mode": "none"},
}
# Selects the pairwise-attention relation classifier, a different model class.
PAIRWISE = "pairwise"
NEGATIVE_LABELS = ("Other", "no_relation", "NA", "NONE")


def find_negative_label(labels: Sequence[str]) -> str | None:
    """The label for no relation: one of `NEGATIVE_LABELS`, whatever its case and punctuation, or `None`."""
    plain = {re.sub(r"[\W_]+", "", label).lower(): label for label in reversed(labels)}
    names = (re.sub(r"[\W_]+", "", name).lower() for name in NEGATIVE_LABELS)
    return next((plain[name] for name in names if name in plain), None)


@dataclass
class RelationModelArguments(PairwiseArguments):
    """The classification head. All arguments but `head` are for `--head pairwise`."""

    head: str | None = field(
        default=None,
        metadata={
            "help": "Model on top of the encoder: multiscale (BERT-MS, the default for a plain BERT); the baselines "
            "bert ([CLS]), bert-entity (entity markers) and plain-attention (same size as multiscale, without "
            "phrases); or pairwise (attention between the entities, without markers).",
            "choices": [*HEADS, PAIRWISE],
        },
    )


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
    max_seq_length: Count | None = field(
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
            f"{', '.join(NEGATIVE_LABELS)} among the labels, in any case and punctuation."
        },
    )
