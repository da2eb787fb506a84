"""Probabilities of arcs beside those by counting all trees."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
import torch
from scipy.special import logsumexp

import msattn
from msattn.errors import UserError
from msattn.trees.tree_marginals import batch_marginals
from tests.plugin.trees.every_tree import all_trees, hard_scores, sums


def counted(scores: np.ndarray, trees: np.ndarray) -> np.ndarray:
    """The marginals by adding up the probability of every tree."""
    totals = sums(scores, trees)
    weights = np.exp(totals - logsumexp(totals))
    marginals = np.zeros_like(scores)
    for word in range(1, len(scores)):
        marginals[:, word] = np.bincount(trees[:, word - 1], weights, minlength=len(scores))
    return marginals


@pytest.mark.parametrize("words", [1, 2, 3, 4, 5, 6])
@pytest.mark.parametrize("single_root", [True, False])
def test_marginals_are_those_of_all_trees(words, single_root):
    trees = all_trees(words, single_root)
    for scores in hard_scores(words, 48, extremes=False):
        totals = sums(scores, trees)
        if np.isneginf(totals).all():
            with pytest.raises(UserError, match="each has an arc with the score -inf"):
                msattn.tree_marginals(scores, single_root)
            continue
        marginals = msattn.tree_marginals(scores, single_root)
        np.testing.assert_allclose(marginals, counted(scores, trees), rtol=0, atol=1e-9)
        (log_partition,) = batch_marginals(torch.tensor(scores)[None], single_root=single_root).log_partition
        assert float(log_partition) == pytest.approx(logsumexp(totals), abs=1e-9)


@pytest.mark.parametrize("single_root", [True, False])
@pytest.mark.parametrize("lead", [30, 100, 1000, 1e6, 1e300])
def test_a_cycle_that_leads_by_far(lead, single_root):
    generator = np.random.default_rng(0)
    scores = generator.normal(size=(6, 6)).round(2)
    # 1 -> 2 -> 3 -> 1, of which any arc has to go.
    scores[1, 2] = scores[2, 3] = scores[3, 1] = 0
    outside = scores.copy()
    scores[1, 2] = scores[2, 3] = scores[3, 1] = lead
    trees = all_trees(5, single_root)
    # From 100 on, only trees with two arcs of the cycle count; what all have in common goes.
    arcs = (trees[:, 1] == 1).astype(int) + (trees[:, 2] == 2) + (trees[:, 0] == 3)
    expected = counted(scores, trees) if lead < 100 else counted(outside, trees[arcs == 2])
    marginals = msattn.tree_marginals(scores, single_root)
    np.testing.assert_allclose(marginals.sum(axis=0)[1:], 1, atol=1e-9)
    if lead < 1e300:
        np.testing.assert_allclose(marginals, expected, rtol=0, atol=1e-9 if lead < 1e6 else 1e-8)


@pytest.mark.parametrize("single_root", [True, False])
def test_extreme_scores_give_probabilities(single_root):
    trees = all_trees(5, single_root)
    for scores in hard_scores(5, 96):
        if np.isfinite(sums(scores, trees)).any():
            marginals = msattn.tree_marginals(scores, single_root)
            assert (marginals >= 0).all()
            np.testing.assert_allclose(marginals.sum(axis=0)[1:], 1, atol=1e-9)


@pytest.mark.parametrize("single_root", [True, False])
def test_gradients(single_root):
    torch.manual_seed(0)
    scores = torch.randn(5, 5, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda given: msattn.tree_marginals(given, single_root), scores)
    assert torch.autograd.gradgradcheck(lambda given: msattn.tree_marginals(given, single_root), scores)
    # The marginals are the gradient of the logarithm of the sum over all trees.
    distribution = batch_marginals(scores[None], single_root=single_root)
    (gradient,) = torch.autograd.grad(distribution.log_partition.sum(), scores)
    torch.testing.assert_close(gradient, distribution.marginals[0])


def test_gradients_beside_impossible_arcs():
    torch.manual_seed(0)
    scores = torch.randn(6, 6)
    scores[0, 1:5] = scores[2, 3] = scores[5, 1] = -torch.inf
    scores.requires_grad_()
    msattn.tree_marginals(scores).square().sum().backward()
    assert scores.grad.isfinite().all() and scores.grad.any()


@pytest.mark.parametrize("single_root", [True, False])
def test_a_batch_is_each_sentence_by_itself(single_root):
    generator = np.random.default_rng(1)
    lengths = [3, 7, 1, 0, 5]
    scores = generator.normal(size=(5, 8, 8))
    scores[4, 0, 1:5] = -np.inf
    for row, words in enumerate(lengths):
        scores[row, words + 1 :] = scores[row, :, words + 1 :] = np.nan
    distribution = batch_marginals(torch.tensor(scores), lengths, single_root)
    for row, words in enumerate(lengths):
        alone = scores[row, : words + 1, : words + 1]
        found = distribution.marginals[row].numpy()
        np.testing.assert_allclose(
            found[: words + 1, : words + 1], msattn.tree_marginals(alone, single_root), atol=1e-12
        )
        assert not found[words + 1 :].any() and not found[:, words + 1 :].any()


def test_scores_that_do_not_fit_are_refused():
    for wrong in (np.full((3, 3), np.nan), np.zeros((2, 3, 3)), np.zeros((2, 3))):
        with pytest.raises(ValueError, match="scores"):
            msattn.tree_marginals(wrong)


def sum_over_trees(weights: np.ndarray) -> Fraction:
    """By the matrix-tree theorem with fractions, the root row in place of the last (Koo et al. 2007)."""
    words = weights[1:, 1:] * (1 - np.eye(len(weights) - 1, dtype=int))
    matrix = np.diag(words.sum(axis=0)) - words
    matrix[-1] = weights[0, 1:]
    determinant = Fraction(1)
    for k, row in enumerate(matrix):
        determinant *= row[k]
        matrix[k + 1 :] -= np.outer(matrix[k + 1 :, k] / row[k], row)
    return determinant


def test_a_long_sentence_beside_exact_fractions():
    draw = np.random.default_rng(1)
    size = 13
    powers = draw.integers(0, 60, size=(size, size))
    weights = np.array([[Fraction(2**power) for power in row] for row in powers.tolist()])
    marginals = msattn.tree_marginals(powers * np.log(2))
    for head, dependent in draw.integers(0, size, size=(12, 2)).tolist():
        if dependent and head != dependent:
            without = weights.copy()
            without[head, dependent] = Fraction(0)
            expected = float(1 - sum_over_trees(without) / sum_over_trees(weights))
            assert marginals[head, dependent] == pytest.approx(expected, abs=1e-10)
