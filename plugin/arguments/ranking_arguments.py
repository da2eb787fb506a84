"""Arguments for cross-encoder re-ranking."""

from __future__ import annotations

from dataclasses import dataclass, field

from msattn.argument_values import Count, Seed, Whole
from msattn.arguments.data_arguments import DataArguments


@dataclass
class RankingDataArguments(DataArguments):
    """Re-ranking data: queries with candidates as JSON lines, or TREC runs, queries, collection and qrels."""

    train_file: str | None = field(
        default=None,
        metadata={
            "help": 'Training data: JSON lines {"query": ..., "candidates": [{"text": ..., "label": 0 or 1}, ...]}, '
            "or, with --queries_file, a TREC run file."
        },
    )
    validation_file: str | None = field(
        default=None, metadata={"help": "Validation data, in the format of --train_file."}
    )
    test_file: str | None = field(
        default=None, metadata={"help": "Test data, in the format of --train_file, with or without labels."}
    )
    queries_file: list[str] | None = field(
        default=None, metadata={"help": "Queries of the run files: id TAB text, or BEIR .jsonl. One or more files."}
    )
    collection_file: list[str] | None = field(
        default=None, metadata={"help": "Documents of the run files: id TAB text, or BEIR .jsonl. One or more files."}
    )
    qrels_file: list[str] | None = field(
        default=None,
        metadata={"help": "Relevance judgements: TREC qrels, or BEIR .tsv. One or more files."},
    )
    relevance_level: Whole = field(
        default=1, metadata={"help": "Minimum relevance in --qrels_file of a relevant document."}
    )
    train_negatives: Count | None = field(
        default=None,
        metadata={"help": "Maximum number of non-relevant candidates (negatives) per training query."},
    )
    sampling_seed: Seed = field(
        default=42, metadata={"help": "Random seed for --train_negatives; one sample for all --seeds."}
    )
    max_seq_length: Count = field(
        default=512,
        metadata={
            "help": "Maximum number of tokens per query-candidate pair; longer pairs are truncated, with a warning."
        },
    )
    pad_to_max_length: bool = field(
        default=False,
        metadata={"help": "Pad every pair to --max_seq_length instead of the longest pair in the batch."},
    )
