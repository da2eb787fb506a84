"""What a model reaches that has learned nothing, beside which its scores are read."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Mapping


def most_frequent(labels: Iterable[Hashable], but: Hashable = None) -> tuple[Hashable, float]:
    """The most frequent label other than `but`, and its share of all labels in percent; `(None, 0.0)` without any."""
    counts = Counter(labels)
    total = sum(counts.values())
    counts.pop(but, None)
    if not counts:
        return None, 0.0
    label, count = counts.most_common(1)[0]
    return label, 100 * count / total


def chance_mrr(relevant: Mapping[str, Collection[str]], candidates: Mapping[str, Collection[str]]) -> float:
    """
    The mean reciprocal rank to be expected of a random order of the candidates, in percent.

    Of n candidates with r relevant ones, the first relevant one has rank k with probability C(n - k, r - 1) / C(n, r).

    Args:
        relevant (`Mapping[str, Collection[str]]`): The relevant documents by query; other queries are skipped.
        candidates (`Mapping[str, Collection[str]]`): The candidates by query.
    """
    found = []
    for query in candidates.keys() & relevant.keys():
        n, r = len(candidates[query]), len({*candidates[query]} & {*relevant[query]})
        ways = (math.comb(n - k, r - 1) / math.comb(n, r) / k for k in range(1, n - r + 2)) if r else ()
        found.append(sum(ways))
    return 100 * sum(found) / max(1, len(found))
