from __future__ import annotations

import numpy as np
import pytest
import torch

from msattn.modeling.attention_patterns import pattern_loss
from tests.modeling.attention_reference import real_tokens

# The last but one is a sentence of one token, the last all padding.
LENGTHS = (7, 5, 1, 0)
HEADS = 3
NAMES = ("first", "next", "prev", "columns", "matrix")


def draw_attention(real: torch.Tensor) -> torch.Tensor:
    """Softmax over the real columns, and something else at padding, which must not matter."""
    generator = torch.Generator().manual_seed(0)
    batch, tokens = real.shape
    scores = 2 * torch.randn(batch, HEADS, tokens, tokens, dtype=torch.float64, generator=generator)
    hidden = ~(real[:, None, :, None] & real[:, None, None])
    return scores.masked_fill(hidden, -1e4).softmax(-1).masked_fill(hidden, 0.7)


def draw_target(name: str, real: torch.Tensor) -> str | torch.Tensor:
    """Proportions that are not scaled yet, among them rows without a target; not zero at padding."""
    generator = torch.Generator().manual_seed(1)
    batch, tokens = real.shape
    if name == "columns":
        target = torch.rand(batch, tokens, generator=generator, dtype=torch.float64)
        target[1] = 0
        return target
    if name == "matrix":
        target = torch.rand(batch, tokens, tokens, generator=generator, dtype=torch.float64)
        target[0, 0] = 0
        return target * (target > 0.3)
    return name


def explicit_target(target: str | torch.Tensor, sample: int, real: np.ndarray) -> np.ndarray:
    """P over the real tokens, an all-zero row where there is no target."""
    length = real.sum()
    if isinstance(target, str):
        wanted = {
            "first": np.eye(length)[np.zeros(length, int)] if length else np.zeros((0, 0)),
            "next": np.eye(length, k=1),
            "prev": np.eye(length, k=-1),
        }[target]
    else:
        wanted = target[sample].numpy()
        wanted = wanted[real] if wanted.ndim == 1 else wanted[np.ix_(real, real)]
        wanted = np.broadcast_to(wanted, (length, length))
    total = wanted.sum(axis=-1, keepdims=True)
    return np.divide(wanted, total, out=np.zeros((length, length)), where=total > 0)


def reference(attention: torch.Tensor, target: str | torch.Tensor, real: torch.Tensor) -> float:
    """Mean of (A − P)² over the rows that count and the real columns, then over heads and samples."""
    losses = []
    for sample, mask in enumerate(real.numpy()):
        wanted = explicit_target(target, sample, mask)
        for head in range(HEADS):
            found = attention[sample, head].detach().numpy()[np.ix_(mask, mask)]
            differences = (found - wanted)[wanted.any(axis=-1)]
            losses.append((differences**2).mean() if differences.size else 0.0)
    return float(np.mean(losses))


@pytest.mark.parametrize("left", [False, True])
@pytest.mark.parametrize("name", NAMES)
def test_is_the_squared_distance_to_the_explicit_target(name, left):
    real = real_tokens(LENGTHS, left)
    attention, target = draw_attention(real), draw_target(name, real)
    loss = pattern_loss(attention, target, real.long())
    assert loss.item() == pytest.approx(reference(attention, target, real), rel=1e-12)


@pytest.mark.parametrize("name", NAMES)
def test_gradient(name):
    real = real_tokens(LENGTHS)
    attention, target = draw_attention(real).requires_grad_(), draw_target(name, real)
    assert torch.autograd.gradcheck(lambda maps: pattern_loss(maps, target, real), attention)


@pytest.mark.parametrize("name", NAMES)
def test_nothing_to_look_at(name):
    """A sentence of one token and one of none."""
    real = torch.tensor([[True, False], [False, False]])
    attention = torch.full((2, 1, 2, 2), 0.5, requires_grad=True)
    loss = pattern_loss(attention, draw_target(name, real), real)
    loss.backward()
    assert loss.isfinite() and attention.grad.isfinite().all()
    assert loss.item() == (0.0 if name in ("next", "prev", "matrix") else pytest.approx(0.125))


@pytest.mark.parametrize("name", NAMES)
def test_is_float32_under_autocast(name):
    real = real_tokens(LENGTHS)
    attention, target = draw_attention(real), draw_target(name, real)
    exact = pattern_loss(attention, target, real)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        single = pattern_loss(attention.float(), target, real)
        half = pattern_loss(attention.bfloat16(), target, real)
        double = pattern_loss(attention, target, real)
    assert (single.dtype, half.dtype, double.dtype) == (torch.float32, torch.float32, torch.float64)
    torch.testing.assert_close(single.double(), exact, rtol=1e-5, atol=0)
    torch.testing.assert_close(half.double(), exact, rtol=2e-2, atol=0)
    assert double == exact


@pytest.mark.parametrize(
    ("attention", "arguments", "message"),
    [
        ((2, 3, 4), {"target": "next"}, "attention must be"),
        ((2, 3, 4, 5), {"target": "next"}, "attention must be"),
        ((0, 3, 4, 4), {"target": "next"}, "not empty"),
        ((2, 3, 4, 4), {"target": "last"}, "first, next, prev"),
        ((2, 3, 4, 4), {"target": torch.ones(2, 5)}, "target must be"),
        ((2, 3, 4, 4), {"target": torch.ones(2, 3, 4, 4)}, "target must be"),
        ((2, 3, 4, 4), {"target": "next", "attention_mask": torch.ones(2, 5)}, "attention_mask must be"),
    ],
)
def test_bad_input(attention, arguments, message):
    with pytest.raises(ValueError, match=message):
        pattern_loss(torch.ones(attention), **arguments)
