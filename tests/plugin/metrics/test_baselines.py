from __future__ import annotations

from itertools import permutations

import pytest

from msattn.metrics.baselines import chance_mrr, most_frequent


def test_most_frequent_label():
    assert most_frequent("aabc") == ("a", 50) and most_frequent("aabbbc", but="b") == ("a", pytest.approx(100 / 3))
    assert most_frequent("aa", but="a") == (None, 0.0) == most_frequent("")


@pytest.mark.parametrize("relevant", [{"a"}, {"a", "c"}, {"a", "b", "c", "d"}, {"a", "missed"}])
def test_chance_is_the_mean_over_all_orders(relevant):
    orders = [*permutations("abcd")]
    ranks = [next(rank for rank, document in enumerate(order, 1) if document in relevant) for order in orders]
    expected = 100 * sum(1 / rank for rank in ranks) / len(ranks)
    assert chance_mrr({"q": relevant, "other": {"x"}}, {"q": {*"abcd"}}) == pytest.approx(expected)


def test_chance_of_missed_documents():
    assert chance_mrr({"q": {"x"}, "r": {"a"}}, {"q": {"a"}, "r": {"a"}}) == 50
