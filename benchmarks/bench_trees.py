"""
How many trees a second the decoders find, beside ufal.chu_liu_edmonds if it is installed.

Each decoder takes the same scores. They run in one process and take turns, so that a slow moment of the machine
touches each of them. Scores are random, so that every sentence has to be searched, or like those of a trained parser,
so that the best heads of most sentences make a tree already.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Callable

import numpy as np
import torch
from bench_multiscale import add_measurement_arguments, describe, markdown, take_turns

import msattn
from msattn.trees.tree_marginals import batch_marginals

try:
    from ufal.chu_liu_edmonds import chu_liu_edmonds
except ImportError:
    chu_liu_edmonds = None

# Scores of the arcs of a trained parser's trees are above all others by this much.
LEAD = 10


def scores_of(words: int, arguments: argparse.Namespace, trained: bool) -> np.ndarray:
    """`(sentences, words + 1, words + 1)`, about as many arcs for each length."""
    generator = np.random.default_rng(words)
    sentences = max(1, arguments.words // words)
    scores = generator.normal(size=(sentences, words + 1, words + 1))
    if trained:
        # A random tree: the head of each word stands before it in a random order.
        for row in range(round(sentences * (1 - arguments.searched))):
            order = np.append(0, generator.permutation(np.arange(1, words + 1)))
            before = np.array([0, *(int(generator.integers(1, place)) for place in range(2, words + 1))])
            scores[row, order[before], order[1:]] += LEAD
    return scores


def decoders(scores: np.ndarray) -> dict[str, Callable[[], object]]:
    """What takes the scores of a whole batch, by name."""
    tensor = torch.tensor(scores)
    arcs = scores.transpose(0, 2, 1).copy()
    arcs[:, 0] = arcs[:, np.arange(arcs.shape[1]), np.arange(arcs.shape[1])] = np.nan

    steps: dict[str, Callable[[], object]] = {"`decode_trees`": lambda: msattn.decode_trees(scores)}
    if chu_liu_edmonds is not None:
        steps["ufal.chu_liu_edmonds alone, several roots"] = lambda: [chu_liu_edmonds(matrix) for matrix in arcs]
    steps["`decode_trees`, projective (Eisner)"] = lambda: msattn.decode_trees(scores, projective=True)
    steps["marginals, one batch"] = lambda: batch_marginals(tensor)
    steps["`k_best_trees`, k = 5"] = lambda: [
        msattn.k_best_trees(matrix, 5) for matrix in scores[: len(scores) // 4 + 1]
    ]
    return steps


def table(arguments: argparse.Namespace, trained: bool) -> str:
    lengths = [int(length) for length in arguments.lengths.split(",")]
    rates: dict[str, list[str]] = {}
    for words in lengths:
        scores = scores_of(words, arguments, trained)
        steps = decoders(scores)
        turns = take_turns([*steps.values()], arguments, f"{words} words")
        for name, seconds in zip(steps, turns, strict=True):
            sentences = len(scores) // 4 + 1 if "k_best" in name else len(scores)
            rate = sentences / statistics.median(seconds)
            rates.setdefault(name, []).append(f"{rate:,.0f}" if rate >= 10 else f"{rate:.1f}")
    columns = " | ".join(["decoder", *(f"{words} words" for words in lengths)])
    return markdown(columns, [[name, *row] for name, row in rates.items()])


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lengths", default="25,100,500", help="words a sentence")
    parser.add_argument(
        "--words", type=int, default=2000, help="words of a batch, whatever the length of its sentences"
    )
    parser.add_argument("--searched", type=float, default=0.1, help="share of a trained parser's sentences to search")
    add_measurement_arguments(parser)
    return parser.parse_args()


def main() -> None:
    arguments = parse_arguments()
    torch.set_num_threads(arguments.threads)
    print(describe(arguments), end="\n\n")
    print("Trees a second, random scores\n")
    print(table(arguments, trained=False), end="\n\n")
    print("Trees a second, scores like those of a trained parser\n")
    print(table(arguments, trained=True))


if __name__ == "__main__":
    main()
