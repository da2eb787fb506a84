"""Trees from scores beside all trees that there are."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import pytest
import torch

import msattn
from msattn.errors import UserError
from msattn.trees.spanning_trees import best_tree
from msattn.trees.tree_decoding import are_trees
from tests.plugin.trees.every_tree import all_trees, hard_scores, sums


def assert_best(scores: np.ndarray, trees: np.ndarray, decode: Callable[[], np.ndarray]) -> None:
    """What `decode` finds is one of the trees, and none has a higher sum."""
    totals = sums(scores, trees)
    if np.isneginf(totals).all():
        with pytest.raises(UserError, match="each has an arc with the score -inf"):
            decode()
        return
    heads = decode()
    assert (trees == heads).all(axis=1).any()
    largest = np.abs(scores[np.isfinite(scores)]).max()
    assert abs(sums(scores, heads[None])[0] - totals.max()) <= 1e-9 * largest


@pytest.mark.parametrize("words", [1, 2, 3, 4, 5, 6])
@pytest.mark.parametrize("single_root", [True, False])
@pytest.mark.parametrize("projective", [True, False])
def test_the_tree_is_the_best_of_all(words, single_root, projective):
    trees = all_trees(words, single_root, projective)
    for scores in hard_scores(words, 60):
        assert_best(scores, trees, lambda scores=scores: msattn.decode_tree(scores, single_root, projective))


@pytest.mark.parametrize("projective", [True, False])
def test_fixed_heads(projective):
    trees = all_trees(5, True, projective)
    draw = np.random.default_rng(3)
    for scores in hard_scores(5, 60):
        dependent = int(draw.integers(1, 6))
        head = int(draw.choice([number for number in range(6) if number != dependent]))
        kept = trees[trees[:, dependent - 1] == head]
        decode = partial(msattn.decode_tree, scores, projective=projective, fixed={dependent: head})
        assert_best(scores, kept, decode)


@pytest.mark.parametrize("fixed", [{0: 1}, {5: 1}, {1: 5}, {1: -1}, {2: 2}])
def test_fixed_heads_that_are_no_arcs(fixed):
    with pytest.raises(UserError, match="is no arc of sentence 1; its words are 1 to 4"):
        msattn.decode_tree(np.zeros((5, 5)), fixed=fixed)
    with pytest.raises(UserError, match="for 2 sentences; there are 1"):
        msattn.decode_trees(np.zeros((1, 5, 5)), fixed=[None, fixed])


def test_fixed_heads_of_a_batch():
    scores = np.random.default_rng(0).normal(size=(3, 6, 6))
    heads = msattn.decode_trees(scores, [5, 3, 5], fixed=[{2: 4}, None, {1: 0, 5: 1}])
    assert heads[0, 1] == 4 and heads[2, 0] == 0 and heads[2, 4] == 1
    assert np.array_equal(heads[1, :3], msattn.decode_tree(scores[1, :4, :4]))
    with pytest.raises(UserError, match="sentence 1 has no tree with one root"):
        msattn.decode_tree(scores[0], fixed={1: 0, 2: 0})
    with pytest.raises(UserError, match="sentence 1 has no projective tree with one root"):
        msattn.decode_tree(scores[0], projective=True, fixed={1: 3, 2: 4})
    assert not np.isneginf(scores).any()


@pytest.mark.parametrize("words", [30, 80])
def test_long_sentences_score_as_high_as_with_the_library(words):
    chu_liu_edmonds = pytest.importorskip("ufal.chu_liu_edmonds").chu_liu_edmonds
    generator = np.random.default_rng(words)
    for _ in range(20):
        scores = generator.normal(size=(words + 1, words + 1))
        arcs = scores.T.copy()
        arcs[0] = np.nan
        np.fill_diagonal(arcs, np.nan)
        several = chu_liu_edmonds(arcs)[1]
        assert sums(scores, best_tree(scores, single_root=False)[None])[0] == pytest.approx(several)
        arcs[1:, 0] -= 1e4
        single = chu_liu_edmonds(arcs)[1] + 1e4
        assert sums(scores, best_tree(scores)[None])[0] == pytest.approx(single)


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


@pytest.mark.parametrize("single_root", [True, False])
@pytest.mark.parametrize("projective", [True, False])
def test_a_batch_is_each_sentence_by_itself(single_root, projective):
    generator = np.random.default_rng(1)
    lengths = [3, 7, 1, 0, 5]
    scores = generator.normal(size=(5, 8, 8))
    # What stands beyond a sentence, on the diagonal and in column 0 is not read.
    for row, words in enumerate(lengths):
        scores[row, words + 1 :] = scores[row, :, words + 1 :] = np.nan
    scores[:, np.arange(8), np.arange(8)] = -np.inf
    scores[:, :, 0] = np.nan
    options = {"single_root": single_root, "projective": projective}
    heads = msattn.decode_trees(scores, lengths, **options)
    for row, words in enumerate(lengths):
        alone = msattn.decode_tree(scores[row, : words + 1, : words + 1], **options)
        assert heads[row].tolist() == [*alone, *[-1] * (7 - words)]
    assert are_trees(heads, single_root).tolist() == [True, True, True, not single_root, True]
    assert np.array_equal(msattn.decode_trees(torch.tensor(scores), torch.tensor(lengths), **options), heads)
    half = torch.randn(2, 4, 4, generator=torch.Generator().manual_seed(0)).bfloat16().requires_grad_()
    assert np.array_equal(msattn.decode_trees(half), msattn.decode_trees(half.detach().double()))


def test_two_roots_are_a_tree_only_where_they_may_be():
    assert are_trees(np.array([[0, 0], [2, 1], [2, 0]]), single_root=False).tolist() == [True, False, True]
    assert are_trees(np.array([[0, 0], [2, 1], [2, 0]])).tolist() == [False, False, True]


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_scores_that_are_no_numbers_are_refused(value):
    scores = np.zeros((4, 4))
    scores[1, 2] = value
    with pytest.raises(ValueError, match="finite"):
        msattn.decode_tree(scores)


@pytest.mark.parametrize("shape", [(3, 4), (2, 3, 3)])
def test_scores_of_another_shape_are_refused(shape):
    with pytest.raises(ValueError, match="as many heads as dependents"):
        msattn.decode_tree(np.zeros(shape))


@pytest.mark.parametrize("lengths", [[4], [-1], [1, 2]])
def test_lengths_that_do_not_fit_are_refused(lengths):
    with pytest.raises(UserError, match="for 1 sentences from 0 to 3"):
        msattn.decode_trees(np.zeros((1, 4, 4)), lengths)


def test_a_word_without_a_head():
    scores = np.zeros((2, 4, 4))
    scores[1, :, 2] = -np.inf
    with pytest.raises(UserError, match="sentence 2 has no tree with one root"):
        msattn.decode_trees(scores)
    assert are_trees(msattn.decode_trees(scores, [3, 1])).all()


def test_a_sentence_without_words():
    assert msattn.decode_tree(np.zeros((1, 1))).shape == (0,)
