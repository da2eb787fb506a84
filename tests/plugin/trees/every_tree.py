"""Every tree over a few words, and scores that are hard to decode."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from itertools import product

import numpy as np

from msattn.trees.tree_decoding import has_crossing_arcs


@cache
def all_trees(words: int, single_root: bool, projective: bool = False) -> np.ndarray:
    """`(trees, words)`: every choice of heads of which each word reaches the root, found by walking."""
    if projective:
        trees = all_trees(words, single_root)
        return trees[[not has_crossing_arcs(tree) for tree in trees]]

    def reaches_root(heads: tuple[int, ...], word: int) -> bool:
        for _ in heads:
            word = heads[word - 1]
            if word == 0:
                return True
        return False

    found = [
        heads
        for heads in product(range(words + 1), repeat=words)
        if all(reaches_root(heads, word) for word in range(1, words + 1)) and (heads.count(0) == 1 or not single_root)
    ]
    # Cayley's formula.
    assert len(found) == (words ** (words - 1) if single_root else (words + 1) ** (words - 1))
    return np.array(found)


def sums(scores: np.ndarray, trees: np.ndarray) -> np.ndarray:
    """`(trees,)`: the sum of the scores of the arcs of each tree."""
    return scores[trees, np.arange(1, trees.shape[1] + 1)].sum(axis=1)


def hard_scores(words: int, count: int, extremes: bool = True) -> Iterator[np.ndarray]:
    """
    Random scores: plain ones, many children of the root, ties, small numbers, impossible arcs, and cycles that lead by
    1,000; with `extremes`, +-1e300 among others, too.
    """
    generator = np.random.default_rng(words)
    size = words + 1
    for number in range(count):
        scores = generator.normal(size=(size, size))
        kind = number % (8 if extremes else 6)
        if kind == 1:
            scores[0] += 5
        elif kind == 2:
            scores = scores.round()
        elif kind == 3:
            scores *= 10.0**-number
        elif kind == 4:
            scores = (scores * 2).round() if number % 4 else scores
            scores[generator.random((size, size)) < 0.4] = -np.inf
        elif kind == 5:
            ring = generator.permutation(np.arange(1, size))[: max(2, words - 1)]
            scores[ring, np.roll(ring, 1)] += 1000
        elif kind == 6:
            scores = generator.choice([-1e300, 1e300, 0, 1, -np.inf], size=(size, size), p=[0.3, 0.3, 0.1, 0.2, 0.1])
        elif kind == 7:
            scores = np.where(generator.random((size, size)) < 0.5, 1e300, 1) * scores
        yield scores
