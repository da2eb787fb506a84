"""The best trees beside all trees, sorted."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import msattn
from msattn.errors import UserError
from msattn.trees.tree_decoding import are_trees
from tests.plugin.trees.every_tree import all_trees, hard_scores, sums


@pytest.mark.parametrize("words", [1, 2, 3, 4, 5, 6])
@pytest.mark.parametrize("single_root", [True, False])
def test_the_best_of_all_trees(words, single_root):
    trees = all_trees(words, single_root)
    for k, scores in zip([1, 7, 20, 200] * 12, hard_scores(words, 48), strict=True):
        totals = sums(scores, trees)
        expected = np.sort(totals[~np.isneginf(totals)])[::-1][:k]
        if not len(expected):
            with pytest.raises(UserError, match="the sentence has no tree"):
                msattn.k_best_trees(scores, k, single_root)
            continue
        heads, found = msattn.k_best_trees(scores, k, single_root)
        assert heads.shape == (len(expected), words)
        largest = np.abs(scores[np.isfinite(scores)]).max()
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-9 * largest)
        np.testing.assert_array_equal(found, sums(scores, heads))
        # All differ, and all are trees.
        assert len({tuple(tree) for tree in heads.tolist()}) == len(heads)
        assert (trees[:, None] == heads).all(axis=2).any(axis=0).all()


def test_a_long_sentence():
    generator = np.random.default_rng(0)
    scores = generator.normal(size=(41, 41))
    heads, totals = msattn.k_best_trees(torch.tensor(scores), 30)
    assert are_trees(heads).all() and (np.diff(totals) <= 0).all()
    assert len({tuple(tree) for tree in heads.tolist()}) == 30
    assert np.array_equal(heads[0], msattn.decode_tree(scores))


def test_what_cannot_be_ranked():
    with pytest.raises(UserError, match="k=0 trees cannot be found"):
        msattn.k_best_trees(np.zeros((3, 3)), 0)
    with pytest.raises(ValueError, match="finite"):
        msattn.k_best_trees(np.full((3, 3), np.nan), 1)
    heads, totals = msattn.k_best_trees(np.zeros((1, 1)), 3)
    assert heads.shape == (1, 0) and totals.tolist() == [0]
