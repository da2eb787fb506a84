"""Trees from scores beside all trees that there are."""

from __future__ import annotations

import sys
from functools import cache
from itertools import product

import numpy as np
import pytest
import torch

import msattn
from msattn.errors import UserError
from msattn.trees.tree_decoding import are_trees, greedy_heads


@cache
def all_trees(words: int, single_root: bool) -> np.ndarray:
    """Every choice of heads of which each word reaches the root, found by walking."""

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
    return np.array(found)


def sums(scores: np.ndarray, trees: np.ndarray) -> np.ndarray:
    return scores[trees, np.arange(1, trees.shape[1] + 1)].sum(axis=1)


@pytest.mark.parametrize("words", [1, 2, 3, 4, 5, 6])
@pytest.mark.parametrize("single_root", [True, False])
def test_the_tree_is_the_best_of_all(words, single_root):
    trees = all_trees(words, single_root)
    assert len(trees) == (words ** (words - 1) if single_root else (words + 1) ** (words - 1))
    generator = np.random.default_rng(words)
    for kind in range(60):
        scores = generator.normal(size=(words + 1, words + 1))
        # Many children of the root, ties, large and small numbers: what a trained parser never gives, too.
        scores = [scores, scores + 5 * (np.arange(words + 1) == 0)[:, None], scores.round(), scores * 10.0**-kind][
            kind % 4
        ]
        heads = msattn.decode_tree(scores, single_root=single_root)
        best = sums(scores, trees).max()
        assert (trees == heads).all(axis=1).any()
        assert sums(scores, heads[None])[0] == pytest.approx(best, rel=1e-12, abs=1e-12 * np.abs(scores).max())


@pytest.mark.parametrize("low", [-1e4, np.finfo(np.float32).min, np.finfo(np.float64).min])
def test_an_arc_that_is_ruled_out_costs_the_others_no_precision(low):
    generator = np.random.default_rng(0)
    trees = all_trees(5, True)
    for _ in range(50):
        scores = generator.normal(size=(6, 6))
        scores[0] += 3
        scores[generator.random((6, 6)) < 0.3] = low
        with np.errstate(over="ignore"):
            expected = sums(scores, trees)
        if expected.max() > -100:
            assert np.array_equal(msattn.decode_tree(scores), trees[expected.argmax()])


def test_a_batch_is_each_sentence_by_itself():
    generator = np.random.default_rng(1)
    lengths = [3, 7, 1, 0, 5]
    scores = generator.normal(size=(5, 8, 8))
    # What stands beyond a sentence, on the diagonal and in column 0 is not read.
    for row, words in enumerate(lengths):
        scores[row, words + 1 :] = scores[row, :, words + 1 :] = np.nan
    scores[:, np.arange(8), np.arange(8)] = -np.inf
    scores[:, :, 0] = np.nan
    heads = msattn.decode_trees(scores, lengths)
    for row, words in enumerate(lengths):
        assert np.array_equal(heads[row, :words], msattn.decode_tree(scores[row, : words + 1, : words + 1]))
        assert (heads[row, words:] == -1).all()
    assert are_trees(heads).tolist() == [True, True, True, False, True]
    assert np.array_equal(msattn.decode_trees(torch.tensor(scores), torch.tensor(lengths)), heads)
    half = torch.randn(2, 4, 4, generator=torch.Generator().manual_seed(0)).bfloat16().requires_grad_()
    assert np.array_equal(msattn.decode_trees(half), msattn.decode_trees(half.detach().double()))


def test_greedy_heads_that_make_a_tree_are_the_result(monkeypatch):
    monkeypatch.setitem(sys.modules, "ufal.chu_liu_edmonds", None)
    heads = np.array([[2, 0, 2, 3], [0, 1, 2, 3], [0, 1, -1, -1]])
    scores = np.full((3, 5, 5), -1.0)
    for row, word in zip(*np.nonzero(heads >= 0), strict=True):
        scores[row, heads[row, word], word + 1] = 1
    assert np.array_equal(msattn.decode_trees(scores, [4, 4, 2]), heads)
    with pytest.raises(UserError, match=r"pip install 'msattn\[parsing\]', or decode greedily"):
        msattn.decode_tree(np.array([[0.0, 0, 0], [0, 0, 1], [0, 1, 0]]))


def test_two_roots_are_a_tree_only_where_they_may_be():
    scores = np.array([[0.0, 5, 5], [0, 0, 1], [0, 2, 0]])
    assert msattn.decode_tree(scores, single_root=False).tolist() == [0, 0]
    assert msattn.decode_tree(scores).tolist() == [2, 0]
    assert are_trees(np.array([[0, 0], [2, 1], [2, 0]]), single_root=False).tolist() == [True, False, True]


def test_equal_scores_give_one_and_the_same_tree():
    trees = {tuple(msattn.decode_tree(np.zeros((9, 9)))) for _ in range(5)}
    assert len(trees) == 1 and are_trees(np.array([*trees])).all()


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_scores_that_are_no_numbers_are_refused(value):
    scores = np.zeros((4, 4))
    scores[1, 2] = value
    with pytest.raises(ValueError, match="finite"):
        msattn.decode_tree(scores)


@pytest.mark.parametrize("shape", [(3, 4), (0, 0), (2, 3, 3)])
def test_scores_of_another_shape_are_refused(shape):
    with pytest.raises(ValueError, match="as many heads as dependents"):
        msattn.decode_tree(np.zeros(shape))


def test_a_sentence_without_words():
    assert msattn.decode_tree(np.zeros((1, 1))).shape == (0,)
    assert greedy_heads(np.zeros((0, 3, 3))).shape == (0, 2)
