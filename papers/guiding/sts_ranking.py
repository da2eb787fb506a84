"""Converts STS-B to re-ranking data, as JSON lines for `run_ranking.py`."""

from __future__ import annotations

import argparse
import json
import random
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from msattn.data.formats.glue import read_glue


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


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output_file", type=Path, required=True, help="JSON lines for run_ranking.py")
    parser.add_argument("--split", choices=["train", "validation"], required=True)
    parser.add_argument("--glue_dir", help="folder with STS-B/train.tsv and STS-B/dev.tsv (default: the Hub)")
    parser.add_argument("--threshold", type=float, default=4.0, help="least similarity of a paraphrase (default: 4)")
    parser.add_argument(
        "--negatives", type=int, help="most other candidates of a query (default: all second sentences)"
    )
    args = parser.parse_args(argv)
    pairs = read_glue("stsb", args.glue_dir, [args.split])[args.split]
    rows = list(sts_ranking(pairs, args.threshold, args.negatives))
    args.output_file.parent.mkdir(parents=True, exist_ok=True)
    args.output_file.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")
    labels = [candidate["label"] for row in rows for candidate in row["candidates"]]
    print(f"{args.output_file}: {len(rows)} queries, {len(labels)} candidates, {sum(labels)} of them relevant")


if __name__ == "__main__":
    main()
