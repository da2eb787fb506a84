"""Calibration of a parser, and the scores of its decoders, from the scores of arcs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import torch

from msattn.metrics.calibration import best_temperature, calibration_gap
from msattn.trees.parses import DECODERS, decode_heads
from msattn.trees.tree_decoding import greedy_heads
from msattn.trees.tree_marginals import TreeDistribution, batch_marginals

# Numbers that the marginals of a padded batch keep, 16 MiB: a third of the words to the power of three for a sentence.
BATCH_NUMBERS = 2**21
# Probabilities below this count as this, so that the likelihood of a wrong but certain parser is finite.
LEAST = 1e-300


class ScoredSentence(NamedTuple):
    """
    A sentence, or a window of a long one.

    Args:
        scores (`np.ndarray`): `(words + 1, words + 1)`, arc scores; see [`~msattn.decode_tree`].
        heads (`np.ndarray`): `(words,)`, the gold heads, from 1; 0 for the root, below 0 if unknown.
    """

    scores: np.ndarray
    heads: np.ndarray


def fit_tree_temperature(sentences: Sequence[ScoredSentence]) -> float:
    """
    The temperature t for which the arc scores divided by t give the gold heads the least negative log-likelihood under
    the marginals of trees with one root. Words with an unknown head do not count.

    Returns:
        `float`: From 0.05 to 20. 1 if each word's best head is the right one, or none is known.
    """
    batches = [*_batches(sentences)]
    if all((batch.trees("greedy") == batch.heads)[batch.heads >= 0].all() for batch in batches):
        return 1.0

    def loss(temperature: float) -> float:
        marginals = (_marginals(batch.distribution(temperature), batch.heads) for batch in batches)
        return -sum(np.log(np.maximum(each, LEAST)).sum() for each in marginals)

    return best_temperature(loss)


def compare_decoders(sentences: Sequence[ScoredSentence], temperature: float = 1.0) -> dict[str, float]:
    """
    The unlabelled attachment score of each decoder, in percent of the words with a known head.

    Args:
        sentences (`Sequence[ScoredSentence]`): At least one word has a known head.
        temperature (`float`, *optional*, defaults to 1.0): Divides the scores; only marginals depend on it.
    """
    hits, words = dict.fromkeys(DECODERS, 0), 0
    for batch in _batches(sentences):
        known = batch.heads >= 0
        words += int(known.sum())
        for decoder in DECODERS:
            hits[decoder] += int((batch.trees(decoder, temperature) == batch.heads)[known].sum())
    return {decoder: 100 * (found / max(words, 1)) for decoder, found in hits.items()}


def tree_calibration(sentences: Sequence[ScoredSentence], decoder: str, temperature: float = 1.0) -> dict[str, float]:
    """
    The expected calibration errors of a decoder's trees, in percent; see [`calibration_gap`].

    Args:
        sentences (`Sequence[ScoredSentence]`): At least one word has a known head.
        decoder (`str`): See [`~msattn.trees.parses.decode_heads`].
        temperature (`float`, *optional*, defaults to 1.0): Divides the scores.

    Returns:
        `dict[str, float]`: `ece`, how far the marginals of the decoded heads are from the share of right heads, and
        `tree_ece`, how far the probabilities of trees are from the share of sentences without a wrong head. The latter
        needs sentences of which all heads are known, and is left out for `"greedy"`, whose heads may be no tree. With
        a temperature other than 1, also `uncalibrated_ece` and `uncalibrated_tree_ece`, for the same trees.
    """
    parts: dict[str, list[tuple[np.ndarray, np.ndarray]]] = {}
    for batch in _batches(sentences):
        trees = batch.trees(decoder, temperature)
        right, known, whole = trees == batch.heads, batch.heads >= 0, batch.complete
        for name, each in (("", temperature), *([("uncalibrated_", 1.0)] if temperature != 1 else [])):
            distribution = batch.distribution(each)
            confidence = _marginals(distribution, np.where(known, trees, -1))
            parts.setdefault(f"{name}ece", []).append((confidence, right[known]))
            if decoder != "greedy" and whole.any():
                exact = (right | ~batch.real).all(axis=1)[whole]
                confidence = _tree_probabilities(batch.scores / each, trees, batch.real, distribution)[whole]
                parts.setdefault(f"{name}tree_ece", []).append((confidence, exact))
    columns = {name: [np.concatenate(column) for column in zip(*found, strict=True)] for name, found in parts.items()}
    return {name: 100 * calibration_gap(confidence, right) for name, (confidence, right) in columns.items()}


class _Batch(NamedTuple):
    """Padded sentences: `scores`, `(batch, words + 1, words + 1)`, `lengths` and `heads`, `(batch, words)`."""

    scores: np.ndarray
    lengths: np.ndarray
    heads: np.ndarray

    @property
    def real(self) -> np.ndarray:
        """`(batch, words)`: whether there is a word."""
        return np.arange(self.heads.shape[1]) < self.lengths[:, None]

    @property
    def complete(self) -> np.ndarray:
        """`(batch,)`: whether all heads of the sentence are known."""
        return ((self.heads >= 0) | ~self.real).all(axis=1)

    def trees(self, decoder: str, temperature: float = 1.0) -> np.ndarray:
        scores = self.scores / temperature
        return decode_heads(scores, greedy_heads(scores, self.lengths), decoder)

    def distribution(self, temperature: float) -> TreeDistribution:
        return batch_marginals(torch.from_numpy(self.scores / temperature), self.lengths)


def _batches(sentences: Sequence[ScoredSentence]) -> Iterator[_Batch]:
    """Batches of sentences of similar length."""
    ordered = sorted((sentence for sentence in sentences if len(sentence.heads)), key=lambda each: len(each.heads))
    while ordered:
        size = len(ordered[-1].scores)
        part = ordered[-max(1, 3 * BATCH_NUMBERS // size**3) :]
        del ordered[-len(part) :]
        scores, heads = np.zeros((len(part), size, size)), np.full((len(part), size - 1), -1)
        for row, sentence in enumerate(part):
            words = len(sentence.heads)
            scores[row, : words + 1, : words + 1] = sentence.scores
            heads[row, :words] = sentence.heads
        yield _Batch(scores, np.array([len(sentence.heads) for sentence in part]), heads)


def _marginals(distribution: TreeDistribution, heads: np.ndarray) -> np.ndarray:
    """`(known words,)`: the marginals of the heads that are not below 0."""
    row, word = (heads >= 0).nonzero()
    return distribution.marginals.numpy()[row, heads[row, word], word + 1]


def _tree_probabilities(
    scores: np.ndarray, trees: np.ndarray, real: np.ndarray, distribution: TreeDistribution
) -> np.ndarray:
    """`(batch,)`: the probability of each tree."""
    chosen = np.take_along_axis(scores[:, :, 1:], np.maximum(trees, 0)[:, None], axis=1)[:, 0]
    totals = np.where(real, chosen, 0).sum(axis=1)
    return np.exp(np.minimum(0, totals - distribution.log_partition.numpy()))
