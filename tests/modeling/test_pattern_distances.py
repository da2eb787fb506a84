"""Distances without maps are those of maps."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from msattn.modeling import attention_call
from msattn.modeling.attention_call import AttentionCall
from msattn.modeling.attention_patterns import pattern_distances, pattern_loss

LENGTHS = (9, 5, 1)
BATCH, HEADS, TOKENS = 3, 4, 9


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    """Blocks of two rows."""
    monkeypatch.setattr(attention_call, "block_size", lambda device: 20)


def inputs(dtype=torch.float64):
    generator = torch.Generator().manual_seed(0)
    query, key = (torch.randn(BATCH, HEADS, TOKENS, 5, dtype=torch.float64, generator=generator) for _ in range(2))
    return query.to(dtype).requires_grad_(), key.to(dtype).requires_grad_()


def real_tokens(left: bool = False) -> torch.Tensor:
    real = torch.arange(TOKENS) < torch.tensor(LENGTHS).unsqueeze(-1)
    return real.flip(-1) if left else real


def targets() -> dict[str, str | torch.Tensor]:
    generator = torch.Generator().manual_seed(1)
    columns = (torch.rand(BATCH, TOKENS, generator=generator) > 0.6).double()
    matrix = torch.rand(BATCH, TOKENS, TOKENS, generator=generator, dtype=torch.float64).clamp_min(0.5) - 0.5
    matrix[0, 3] = 0
    return {"first": "first", "next": "next", "prev": "prev", "columns": columns, "matrix": matrix}


def reference(query, key, target, real, causal) -> np.ndarray:
    """The mean of (A − P)² over rows with a target and real columns, one row after the other."""
    found = np.zeros((BATCH, HEADS))
    for b, h in np.ndindex(BATCH, HEADS):
        tokens, distances = np.flatnonzero(real[b]), []
        for i in tokens:
            seen = [j for j in tokens if j <= i or not causal]
            weights = np.exp([query[b, h, i] @ key[b, h, j] / 5**0.5 for j in seen])
            attention = dict(zip(seen, weights / weights.sum(), strict=True))
            if isinstance(target, str):
                to = {"first": tokens[0], "next": i + 1, "prev": i - 1}[target]
                pattern = {to: 1.0} if to in tokens else {}
            else:
                strengths = target[b] if target.ndim == 2 else target[b, i]
                total = sum(strengths[j] for j in tokens)
                pattern = {j: strengths[j] / total for j in tokens} if total else {}
            if pattern:
                distances += [(attention.get(j, 0) - pattern.get(j, 0)) ** 2 for j in tokens]
        found[b, h] = np.mean(distances) if distances else 0
    return found


@pytest.mark.parametrize("name", ["first", "next", "prev", "columns", "matrix"])
@pytest.mark.parametrize(("left", "causal"), [(False, False), (True, False), (False, True)])
def test_equals_the_formula(name, left, causal):
    query, key = inputs()
    target, real = targets()[name], real_tokens(left)
    found = pattern_distances(AttentionCall.of(query, key, real, is_causal=causal), target)
    arrays = (tensor.detach().numpy() for tensor in (query, key))
    expected = reference(*arrays, target if isinstance(target, str) else target.numpy(), real.numpy(), causal)
    np.testing.assert_allclose(found.detach().numpy(), expected, rtol=0, atol=1e-12)
    if not causal:
        visible = real[:, None, None]
        maps = (query @ key.mT / 5**0.5).masked_fill(~visible, -torch.inf).softmax(-1)
        torch.testing.assert_close(found.mean(), pattern_loss(maps, target, real))


@pytest.mark.parametrize("name", ["next", "columns", "matrix"])
def test_gradient(name):
    query, key = (tensor.detach()[:, :2, :5, :3].requires_grad_() for tensor in inputs())
    target, real = targets()[name], real_tokens()[:, :5]
    if not isinstance(target, str):
        target = target[:, :5] if target.dim() == 2 else target[:, :5, :5]
    bias = torch.randn(1, 2, 5, 5, dtype=torch.float64, requires_grad=True)
    sinks = torch.randn(2, dtype=torch.float64, requires_grad=True)

    def distances(query, key, bias, sinks, softcap=None):
        call = AttentionCall.of(query, key, real, position_bias=bias, sinks=sinks, softcap=softcap)
        return pattern_distances(call, target)

    assert torch.autograd.gradcheck(distances, (query, key, bias, sinks), fast_mode=True)
    assert torch.autograd.gradcheck(
        lambda *tensors: distances(*tensors, 2.0), (query, key, bias, sinks), fast_mode=True
    )


def test_half_precision_is_computed_in_float32():
    query, key = inputs(torch.bfloat16)
    found = pattern_distances(AttentionCall.of(query, key, real_tokens()), "next")
    assert found.dtype == torch.float32
    expected = pattern_distances(AttentionCall.of(query.double(), key.double(), real_tokens()), "next")
    torch.testing.assert_close(found.double(), expected, rtol=1e-5, atol=1e-6)
    found.sum().backward()
    assert query.grad is not None and query.grad.dtype == torch.bfloat16


def test_mistakes():
    query, key = inputs()
    with pytest.raises(ValueError, match="as many queries as keys, got 3 and 9"):
        pattern_distances(AttentionCall.of(query[:, :, :3], key), "next")
    with pytest.raises(ValueError, match="target must be one of first, next, prev or a tensor, got 'last'"):
        pattern_distances(AttentionCall.of(query, key), "last")
    with pytest.raises(ValueError, match=r"target must be \(3, 9\) or \(3, 9, 9\), got \(3, 8\)"):
        pattern_distances(AttentionCall.of(query, key), torch.ones(3, 8))
