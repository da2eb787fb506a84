from __future__ import annotations

import pytest

from msattn import heads_per_scale

NUMBERS = {"alpha": 0.5, "num_scales": 5, "num_heads": 10, "num_layers": 3}


def test_the_papers_example():
    assert heads_per_scale(**NUMBERS) == [[5, 2, 2, 1, 0], [4, 2, 2, 1, 1], [2, 2, 2, 2, 2]]


@pytest.mark.parametrize(
    ("changes", "layers"),
    [
        ({"alpha": 0}, [[2, 2, 2, 2, 2]] * 3),
        ({"num_heads": 5}, [[3, 1, 1, 0, 0], [2, 1, 1, 1, 0], [1, 1, 1, 1, 1]]),
        ({"num_layers": 1}, [[2, 2, 2, 2, 2]]),
        ({"num_scales": 1}, [[10]] * 3),
        ({"num_scales": 3, "num_heads": 2, "alpha": 0}, [[1, 1, 0]] * 3),
        ({"alpha": -1e308}, [[0, 0, 0, 0, 10]] * 2 + [[2, 2, 2, 2, 2]]),
        ({"alpha": 1e308}, [[10, 0, 0, 0, 0]] * 2 + [[2, 2, 2, 2, 2]]),
    ],
)
def test_other_numbers(changes, layers):
    assert heads_per_scale(**NUMBERS | changes) == layers


@pytest.mark.parametrize("alpha", [1, 0.5, 0.1, 0, -0.3, -1])
@pytest.mark.parametrize("num_heads", [1, 3, 7, 10, 12])
def test_every_head_has_a_scale(alpha, num_heads):
    for layer in heads_per_scale(alpha, 5, num_heads, 4):
        assert sum(layer) == num_heads and min(layer) >= 0 and layer[0] >= 1


def test_a_running_sum_that_is_whole_is_not_rounded_up():
    for num_scales in range(1, 30):
        for heads in (1, 2, 7):
            assert heads_per_scale(0, num_scales, heads * num_scales, 1) == [[heads] * num_scales]


def test_decays():
    """Equal up to three layers, and both even at the top."""
    for num_layers in (1, 2, 3):
        numbers = NUMBERS | {"num_layers": num_layers}
        assert heads_per_scale(**numbers, decay="linear") == heads_per_scale(**numbers)
    slow, fast = (heads_per_scale(1.0, 5, 100, 6, decay) for decay in ("linear", "1/l"))
    assert slow[0] == fast[0] and slow[-1] == fast[-1] == [20] * 5
    assert all(one[0] > other[0] for one, other in zip(slow[1:-2], fast[1:-2], strict=True))
