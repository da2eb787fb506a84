"""Temperature, decoders and calibration errors of a parser, beside sums over every tree."""

from __future__ import annotations

import numpy as np
import pytest

from msattn.metrics import tree_confidence
from msattn.metrics.tree_confidence import ScoredSentence, compare_decoders, fit_tree_temperature, tree_calibration
from msattn.trees.parses import DECODERS, decode_heads
from msattn.trees.tree_decoding import greedy_heads
from tests.plugin.metrics.test_calibration import gap_in_bins
from tests.plugin.trees.every_tree import all_trees, sums

LENGTHS = (2, 3, 4, 1)


def weights(scores: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Every tree with one root, and its probability."""
    trees = all_trees(len(scores) - 1, single_root=True)
    totals = sums(scores, trees)
    found = np.exp(totals - totals.max())
    return trees, found / found.sum()


def sample(count: int, factor: float = 1.0) -> list[ScoredSentence]:
    """Gold trees are drawn from the distribution of the scores, which are then multiplied."""
    draw = np.random.default_rng(0)
    sentences = []
    for number in range(count):
        words = LENGTHS[number % len(LENGTHS)]
        scores = 1.5 * draw.normal(size=(words + 1, words + 1))
        trees, probabilities = weights(scores)
        sentences.append(ScoredSentence(factor * scores, trees[draw.choice(len(trees), p=probabilities)]))
    return sentences


@pytest.mark.parametrize("factor", [0.5, 3])
def test_the_temperature_undoes_a_factor(factor):
    assert fit_tree_temperature(sample(400, factor)) == pytest.approx(factor, rel=0.1)


def test_the_temperature_has_the_least_loss():
    sentences = sample(40, 2)

    def loss(temperature: float) -> float:
        total = 0.0
        for scores, heads in sentences:
            trees, probabilities = weights(scores / temperature)
            total -= np.log([probabilities[trees[:, word] == head].sum() for word, head in enumerate(heads)]).sum()
        return total

    fitted = fit_tree_temperature(sentences)
    assert loss(fitted) < min(loss(0.98 * fitted), loss(1.02 * fitted))


def test_unknown_heads_have_no_part():
    known = sample(40, 2)
    hidden = [ScoredSentence(scores, np.where(np.arange(len(heads)) % 2, -100, heads)) for scores, heads in known]
    wrong = [ScoredSentence(-scores, np.full(len(heads), -100)) for scores, heads in known]
    nothing = ScoredSentence(np.zeros((1, 1)), np.zeros(0, dtype=int))
    assert fit_tree_temperature([*known, *wrong, nothing]) == fit_tree_temperature(known)
    assert fit_tree_temperature(hidden) != fit_tree_temperature(known)
    assert compare_decoders([*known, *wrong]) == compare_decoders(known)
    assert tree_calibration([*known, *wrong], "mst", 2) == tree_calibration(known, "mst", 2)
    # No sentence is known as a whole, but that of one word.
    assert (
        tree_calibration(hidden, "mst")["tree_ece"]
        == tree_calibration([each for each in known if len(each.heads) == 1], "mst")["tree_ece"]
    )


@pytest.mark.parametrize("numbers", [1, 2**20])
def test_decoders_are_scored_on_the_same_words(numbers, monkeypatch):
    monkeypatch.setattr(tree_confidence, "BATCH_NUMBERS", numbers)
    sentences = sample(80)
    right = dict.fromkeys(DECODERS, 0)
    for scores, heads in sentences:
        for decoder in DECODERS:
            batch = scores[None] / 3
            right[decoder] += (decode_heads(batch, greedy_heads(batch), decoder)[0] == heads).sum()
    words = sum(len(heads) for _, heads in sentences)
    assert compare_decoders(sentences, 3) == {name: pytest.approx(100 * hits / words) for name, hits in right.items()}
    assert len(set(right.values())) > 2


@pytest.mark.parametrize("decoder", ["mst", "mbr", "greedy"])
def test_calibration_errors(decoder):
    sentences, columns = sample(120, 3), {}
    for scores, heads in sentences:
        batch = scores[None] / 2
        tree = decode_heads(batch, greedy_heads(batch), decoder)[0]
        for name, temperature in (("", 2), ("uncalibrated_", 1)):
            trees, probabilities = weights(scores / temperature)
            for word, head in enumerate(tree):
                marginal = probabilities[trees[:, word] == head].sum()
                columns.setdefault(f"{name}ece", []).append((marginal, head == heads[word]))
            if decoder != "greedy":
                probability = probabilities[(trees == tree).all(axis=1)].sum()
                columns.setdefault(f"{name}tree_ece", []).append((probability, (tree == heads).all()))
    expected = {name: 100 * gap_in_bins(*np.array(found).T) for name, found in columns.items()}
    assert tree_calibration(sentences, decoder, 2) == pytest.approx(expected)
    assert tree_calibration(sentences, decoder).keys() == {name for name in expected if "un" not in name}
