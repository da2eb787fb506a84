"""Distances without maps are those of maps."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from msattn.modeling.attention_call import AttentionCall
from msattn.modeling.attention_patterns import pattern_distances, pattern_loss
from tests.modeling.attention_reference import queries_and_keys, real_tokens
from tests.modeling.test_attention_patterns import NAMES, draw_target

pytestmark = pytest.mark.usefixtures("small_blocks")


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(("left", "causal"), [(False, False), (True, False), (False, True)])
def test_each_is_the_loss_of_a_map(name, left, causal):
    query, key = queries_and_keys()
    real = real_tokens(left=left)
    target = draw_target(name, real)
    found = pattern_distances(AttentionCall.of(query, key, real, is_causal=causal), target)
    visible = real[:, None, None] & (torch.ones(11, 11, dtype=torch.bool).tril() if causal else True)
    maps = (query @ key.mT / 6**0.5).masked_fill(~visible, -torch.inf).softmax(-1)
    for b, h in np.ndindex(3, 4):
        of_text = target if isinstance(target, str) else target[b : b + 1]
        expected = pattern_loss(maps[b : b + 1, h : h + 1], of_text, real[b : b + 1])
        torch.testing.assert_close(found[b, h], expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", ["next", "columns", "matrix"])
def test_gradient(name):
    query, key = queries_and_keys(5, 5, heads=2, key_heads=2, dim=3)
    real = real_tokens((5, 4, 1))
    target = draw_target(name, real)
    bias = torch.randn(1, 2, 5, 5, dtype=torch.float64, requires_grad=True)
    sinks = torch.randn(2, dtype=torch.float64, requires_grad=True)

    def distances(query, key, bias, sinks, softcap=None):
        call = AttentionCall.of(query, key, real, position_bias=bias, sinks=sinks, softcap=softcap)
        return pattern_distances(call, target)

    for softcap in (None, 2.0):
        assert torch.autograd.gradcheck(
            lambda *tensors, cap=softcap: distances(*tensors, cap), (query, key, bias, sinks), fast_mode=True
        )


def test_half_precision_is_computed_in_float32():
    query, key = queries_and_keys(dtype=torch.bfloat16)
    found = pattern_distances(AttentionCall.of(query, key, real_tokens()), "next")
    assert found.dtype == torch.float32
    expected = pattern_distances(AttentionCall.of(query.double(), key.double(), real_tokens()), "next")
    torch.testing.assert_close(found.double(), expected, rtol=1e-5, atol=1e-6)
    found.sum().backward()
    assert query.grad is not None and query.grad.dtype == torch.bfloat16


def test_more_keys_than_queries():
    query, key = queries_and_keys(queries=3)
    with pytest.raises(ValueError, match="as many queries as keys, got 3 and 11"):
        pattern_distances(AttentionCall.of(query, key), "next")
