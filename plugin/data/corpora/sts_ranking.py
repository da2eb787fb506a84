"""Converts STS-B to re-ranking data: `python -m msattn.data.corpora.sts_ranking --help`."""

from __future__ import annotations

import json
import random
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

from msattn.argument_values import Count, Range, Seed
from msattn.command_line import parse_arguments, run_cli
from msattn.data.formats.glue import read_glue
from msattn.errors import UserError


@dataclass
class StsRankingArguments:
    """Input split, output file and sampling of candidates."""

    output_file: str = field(metadata={"help": "Output file: JSON lines for run_ranking.py."})
    split: str = field(metadata={"help": "Split of STS-B.", "choices": ["train", "validation"]})
    glue_dir: str | None = field(
        default=None,
        metadata={"help": "Folder with the official GLUE TSV files (glue_dir/STS-B/train.tsv). Default: the Hub."},
    )
    threshold: Annotated[float, Range(0, 5)] = field(
        default=4.0, metadata={"help": "Minimum similarity of a relevant candidate (paraphrase), from 0 to 5."}
    )
    negatives: Count | None = field(
        default=None,
        metadata={
            "help": "Maximum number of non-relevant candidates (negatives) per query: annotated pairs first, then a "
            "random sample. Default: the second sentences of all pairs."
        },
    )
    seed: Seed = field(default=42, metadata={"help": "Random seed for --negatives."})


def sts_ranking(
    pairs: Iterable[Mapping[str, Any]], threshold: float = 4.0, negatives: int | None = None, seed: int = 42
) -> Iterator[dict[str, Any]]:
    """
    Converts sentence pairs with a similarity to queries with candidates.

    The queries are the first sentences with at least one paraphrase. The candidates are the distinct second sentences
    of all pairs, without unannotated ones that differ from the query only in case and punctuation.

    Args:
        pairs (`Iterable[Mapping[str, Any]]`): Rows with `sentence1`, `sentence2`, `label` (0 to 5) and `idx`.
        threshold (`float`, *optional*, defaults to 4.0): Minimum similarity of a paraphrase.
        negatives (`int`, *optional*): Maximum number of non-relevant candidates per query. Default: no limit.
        seed (`int`, *optional*, defaults to 42): Random seed of the sampled negatives.

    Yields:
        `dict[str, Any]`: A row for [`~msattn.data.ranking.read_ranking`]. The id of a query is `q` and the
        `idx` of its first pair, that of a candidate `s` and the `idx` of its first pair.
    """
    queries: dict[str, int] = {}
    candidates: dict[str, int] = {}
    annotated: dict[str, dict[str, float]] = defaultdict(dict)
    for pair in pairs:
        query, text = pair["sentence1"], pair["sentence2"]
        queries.setdefault(query, pair["idx"])
        candidates.setdefault(text, pair["idx"])
        annotated[query][text] = max(pair["label"], annotated[query].get(text, 0))
    same = defaultdict(set)
    for text in candidates:
        same[_words(text)].add(text)
    draw = random.Random(seed)
    for query, number in queries.items():
        compared = annotated[query]
        relevant = {text for text, score in compared.items() if score >= threshold}
        if not relevant:
            continue
        excluded = same[_words(query)].union(compared)
        others = [text for text in candidates if text not in excluded]
        judged = [text for text in compared if text not in relevant][:negatives]
        room = len(others) if negatives is None else min(negatives - len(judged), len(others))
        chosen = {*relevant, *judged, *draw.sample(others, room)}
        yield {
            "id": f"q{number}",
            "query": query,
            "candidates": [
                {"id": f"s{position}", "text": text, "label": int(text in relevant)}
                for text, position in candidates.items()
                if text in chosen
            ],
        }


def _words(text: str) -> str:
    return " ".join(re.findall(r"\w+", text.casefold()))


def main(argv: Sequence[str] | None = None) -> None:
    """
    Runs the command.

    Args:
        argv (`Sequence[str]`, *optional*): Command-line arguments. Default: those of the process.

    Raises:
        UserError: an argument is wrong, no pair reaches `--threshold`, or STS-B cannot be read.
    """
    (args,) = parse_arguments([StsRankingArguments], argv)
    pairs = read_glue("stsb", args.glue_dir, [args.split])[args.split]
    rows = list(sts_ranking(pairs, args.threshold, args.negatives, args.seed))
    if not rows:
        raise UserError(f"--threshold {args.threshold}: no pair is so similar.")
    Path(args.output_file).parent.mkdir(parents=True, exist_ok=True)
    with open(args.output_file, "w", encoding="utf-8", newline="\n") as file:
        file.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    labels = [candidate["label"] for row in rows for candidate in row["candidates"]]
    print(f"{args.output_file}: {len(rows)} queries, {len(labels)} candidates, {sum(labels)} of them relevant")


if __name__ == "__main__":
    run_cli(main)
