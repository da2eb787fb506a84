"""Scores of a batch to heads, relations and probabilities, and windows to sentences."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from msattn.modeling.pairwise_parsing import PairwiseParserOutput
from msattn.modeling.pairwise_scores import relations_of_arcs
from msattn.trees import parses as parses_module
from msattn.trees.parses import DECODERS, Parses, parse_batch, sentence_parses
from msattn.trees.tree_decoding import are_trees, decode_tree, joined_tree
from msattn.trees.tree_marginals import tree_marginals


def outputs(lengths: list[int], labels: int = 5) -> tuple[PairwiseParserOutput, torch.Tensor]:
    """Random scores, and word numbers with two pieces a word."""
    generator = torch.Generator().manual_seed(0)
    size = max(lengths) + 1
    arcs = torch.randn(len(lengths), size, size, generator=generator)
    word_index = torch.full((len(lengths), 2 * size), -1)
    for row, words in enumerate(lengths):
        arcs[row, words + 1 :] = arcs[row, :, words + 1 :] = -1e4
        word_index[row, 0] = 0
        word_index[row, 1 : 2 * words + 1] = torch.arange(1, words + 1).repeat_interleave(2)
    arcs[:, :, 0] = -1e4
    arcs.diagonal(dim1=1, dim2=2).fill_(-1e4)
    relations = torch.randn(len(lengths), size, size, labels, generator=generator)
    return PairwiseParserOutput(arc_scores=arcs, relation_logits=relations), word_index


def parses_of(given: PairwiseParserOutput, word_index: torch.Tensor, decoder: str = "mst") -> Parses:
    """Of a model that returns these scores."""

    def model(word_index, choose_heads):
        relations = relations_of_arcs(given.relation_logits, choose_heads(given.arc_scores))
        return PairwiseParserOutput(arc_scores=given.arc_scores, relation_logits=relations)

    return parse_batch(model, {"word_index": word_index}, decoder)[1]


@pytest.mark.parametrize("decoder", DECODERS)
def test_words_have_the_relation_and_the_probability_of_their_arc(decoder):
    given, word_index = outputs([3, 6, 0, 1])
    parses = parses_of(given, word_index, decoder)
    for row, words in enumerate([3, 6, 0, 1]):
        arcs = given.arc_scores[row, : words + 1, : words + 1].double().numpy()
        greedy = arcs[:, 1:].argmax(axis=0)
        heads = {
            "mst": lambda arcs=arcs: decode_tree(arcs),
            "eisner": lambda arcs=arcs: decode_tree(arcs, projective=True),
            "mbr": lambda arcs=arcs: decode_tree(tree_marginals(arcs)),
            "mbr_eisner": lambda arcs=arcs: decode_tree(tree_marginals(arcs), projective=True),
            "greedy": lambda greedy=greedy: greedy,
        }[decoder]()
        assert np.array_equal(parses.heads[row, :words], heads)
        assert np.array_equal(parses.greedy[row, :words], greedy)
        for word, head in enumerate(heads, start=1):
            logits = given.relation_logits[row, head, word].double()
            relation = int(logits.argmax())
            probability = np.exp(arcs[head, word]) / np.exp(arcs[:, word]).sum() * logits.softmax(-1)[relation]
            assert parses.relations[row, word - 1] == relation
            assert parses.scores[row, word - 1] == pytest.approx(float(probability), rel=1e-5)
    assert any(not np.array_equal(parses.heads[row], parses.greedy[row]) for row in (0, 1)) == (decoder != "greedy")


def test_marginals_in_parts(monkeypatch):
    given, word_index = outputs([3, 6, 0, 1])
    expected = parses_of(given, word_index, "mbr")
    monkeypatch.setattr(parses_module, "MARGINAL_NUMBERS", 1)
    assert np.array_equal(parses_of(given, word_index, "mbr").heads, expected.heads)


def windows(*rows: tuple[int, int, int, int]) -> list[dict[str, int]]:
    return [dict(zip(("sentence", "first", "start", "stop"), row, strict=True)) for row in rows]


def answer(heads: list[int], scores: list[float]) -> np.ndarray:
    padded = np.full((len(heads) + 1, 4), -100.0)
    padded[:-1] = np.stack([heads, np.arange(len(heads)), scores, heads], axis=-1)
    return padded


def test_windows_answer_for_their_own_words():
    answers = [answer([0, 1, 2, 9], [0.9] * 4), answer([0, 1, 2, 1], [0.5, 0.5, 0.6, 0.7]), answer([2, 0], [1, 1])]
    places = windows((0, 0, 0, 3), (0, 2, 1, 4), (1, 0, 0, 2))
    long, short = sentence_parses(answers, places, "greedy")
    assert long.heads.tolist() == long.greedy.tolist() == [0, 1, 2, 3, 4, 3]
    assert long.relations.tolist() == [0, 1, 2, 1, 2, 3]
    assert long.scores.tolist() == [0.9] * 3 + [0.5, 0.6, 0.7]
    assert short.heads.tolist() == [2, 0] and isinstance(long, Parses)


def test_windows_become_a_tree_only_where_one_is_wanted():
    answers = [answer([0, 1, 4, 2], [0.6, 0.9, 0.9, 0.9]), answer([0, 0, 1, 1], [0.9, 0.8, 0.9, 0.9])]
    places = windows((0, 0, 0, 2), (0, 2, 0, 4))
    (greedy,) = sentence_parses(answers, places, "greedy")
    assert greedy.heads.tolist() == [0, 1, 0, 0, 3, 3]
    (tree,), (eisner,) = (sentence_parses(answers, places, decoder) for decoder in ("mst", "eisner"))
    assert eisner.heads.tolist() == tree.heads.tolist()
    assert tree.heads.tolist() == [3, 1, 0, 3, 3, 3] and tree.greedy.tolist() == greedy.heads.tolist()
    assert tree.scores.tolist() == [0, 0.9, 0.9, 0, 0.9, 0.9]  # of arcs that no window has chosen


def test_joined_heads_are_always_a_tree():
    generator = np.random.default_rng(0)
    for _ in range(300):
        words = int(generator.integers(1, 12))
        heads = np.array(
            [generator.choice([h for h in range(words + 1) if h != word]) for word in range(1, words + 1)]
        )
        scores = generator.random(words)
        joined = joined_tree(heads, scores)
        assert are_trees(joined[None]).all()
        if are_trees(heads[None]).all():
            assert np.array_equal(joined, heads)
        kept = (heads == 0).any() and scores[heads == 0].max()
        if kept:
            assert joined[(heads == 0) & (scores == kept)] == 0


def test_a_cycle_opens_at_its_weakest_arc():
    assert joined_tree(np.array([2, 3, 1, 0]), np.array([0.9, 0.1, 0.5, 0.2])).tolist() == [2, 4, 1, 0]
    assert joined_tree(np.array([2, 1, 4, 3]), np.array([0.5, 0.4, 0.1, 0.2])).tolist() == [2, 0, 2, 3]
