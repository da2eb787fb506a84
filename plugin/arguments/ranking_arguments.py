"""Arguments of re-ranking."""

from __future__ import annotations

from dataclasses import dataclass, field

from msattn.arguments.data_arguments import DataArguments


@dataclass
class RankingDataArguments(DataArguments):
    """The data: queries with their candidates in JSON, or runs, queries, documents and judgements as TREC has them."""

    train_file: str | None = field(
        default=None,
        metadata={
            "help": 'JSON lines {"query": ..., "candidates": [{"text": ..., "label": 0 or 1}, ...]}, or with '
            "--queries_file a run file of TREC."
        },
    )
    validation_file: str | None = field(default=None, metadata={"help": "The same for development."})
    test_file: str | None = field(default=None, metadata={"help": "The same for the test, with or without labels."})
    queries_file: list[str] | None = field(
        default=None, metadata={"help": "Queries of the run files: id TAB text, or BEIR's .jsonl. May be several."}
    )
    collection_file: list[str] | None = field(
        default=None, metadata={"help": "Documents of the run files: id TAB text, or BEIR's .jsonl. May be several."}
    )
    qrels_file: list[str] | None = field(
        default=None, metadata={"help": "Judgements for the run files: TREC's qrels, or BEIR's .tsv. May be several."}
    )
    relevance_level: int = field(default=1, metadata={"help": "Least relevance in --qrels_file that counts."})
    train_negatives: int | None = field(
        default=None,
        metadata={"help": "Train with so many of the candidates of a query at most that are not relevant."},
    )
    sampling_seed: int = field(default=42, metadata={"help": "Seed of that choice, the same for every --seeds."})
    max_seq_length: int = field(
        default=512,
        metadata={"help": "Most tokens in a query and a candidate; longer ones are truncated, and counted."},
    )
    pad_to_max_length: bool = field(
        default=False, metadata={"help": "Pad every pair to --max_seq_length, and not to the longest of its batch."}
    )
