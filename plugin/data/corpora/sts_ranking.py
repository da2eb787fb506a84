"""A retrieval set from STS-B, as a command: `python -m msattn.data.corpora.sts_ranking --help`."""

from __future__ import annotations

import json
import random
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from msattn.command_line import parse_arguments, run_cli
from msattn.data.corpora.glue import read_glue
from msattn.errors import UserError


@dataclass
class StsRankingArguments:
    """Which part of STS-B becomes which file."""

    output_file: str = field(metadata={"help": "The JSON lines to write, for run_ranking.py."})
    split: str = field(metadata={"help": "The part of STS-B.", "choices": ["train", "validation"]})
    glue_dir: str | None = field(
        default=None,
        metadata={"help": "Folder with GLUE's own files (glue_dir/STS-B/train.tsv); without it, the Hub."},
    )
    threshold: float = field(default=4.0, metadata={"help": "The least similarity of a paraphrase, out of 5."})
    negatives: int | None = field(
        default=None,
        metadata={
            "help": "So many candidates of a query at most that are no paraphrases: those that annotators compared "
            "with it, and others by chance. Without it, every second sentence is a candidate of every query."
        },
    )
    seed: int = field(default=42, metadata={"help": "Seed of that choice."})


def sts_ranking(
    pairs: Iterable[Mapping[str, Any]], threshold: float = 4.0, negatives: int | None = None, seed: int = 42
) -> Iterator[dict[str, Any]]:
    """
    Queries with candidates, from sentence pairs with their similarity.

    A query is a first sentence that has a paraphrase. Its candidates are second sentences of all pairs, each once and
    without those that differ from the query in case and punctuation only, unless annotators compared them with it.

    Args:
        pairs (`Iterable`): Rows with `sentence1`, `sentence2`, `label` (0 to 5) and `idx`.
        threshold (`float`, *optional*, defaults to 4.0): The least similarity of a paraphrase.
        negatives (`int`, *optional*): The most candidates of a query that are no paraphrases; all if `None`.
        seed (`int`, *optional*, defaults to 42): Seed of their choice.

    Yields:
        `dict`: A row as [`~msattn.data.corpora.ranking.read_ranking`] takes it. A query is called `q` and the number
        of its first pair, a candidate `s` and that of its own.
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
    (args,) = parse_arguments([StsRankingArguments], argv)
    if args.negatives is not None and args.negatives < 1:
        raise UserError(f"--negatives must be at least 1, not {args.negatives}.")
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
