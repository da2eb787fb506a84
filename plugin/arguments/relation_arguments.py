"""Arguments for relation extraction."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from msattn.argument_values import Count
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
# The label of pairs that --negative_pairs draws.
NO_RELATION = "no_relation"


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
    entity_markers: str | None = field(
        default=None,
        metadata={
            "help": "Markers around the entities: plain ([E1]), typed (a special token for each type, [E1:PERSON]) or "
            "typed-punct (punctuation and the type in words, for types that the model has not seen, too). Default: "
            "those of the checkpoint, or else plain. Not for --head pairwise, which reads no markers.",
            "choices": ["plain", "typed", "typed-punct"],
        },
    )
    label_names_file: str | None = field(
        default=None,
        metadata={"help": 'JSON file with new names of labels, {"P177": "crosses"} or {"P177": ["crosses", ...]}.'},
    )
    negative_pairs: int = field(
        default=0,
        metadata={
            "help": "Draw this number of pairs without a relation in each sentence, with the label --negative_label "
            f"or else {NO_RELATION}: of its entities or, in training data that mark one pair a sentence, of its "
            "words. --split_seed is the random seed."
        },
    )
    negative_label: str | None = field(
        default=None,
        metadata={
            "help": "Label that stands for no relation; micro-F1 ignores it, and pipelines leave it out. Give an "
            "empty one if there is none. Default: that of the checkpoint, or the label with such a meaning: Other, "
            "none, no_relation, ..."
        },
    )
