from __future__ import annotations

import itertools
import math
from functools import partial

import numpy as np
import pytest
import torch

from msattn import mdg_loss, pdg_loss

OPTIONS = list(itertools.product(["none", "row", "col"], ["mean", "sum"]))
# More tokens than maps, and more maps than tokens.
SHAPES = [(3, 4, 9), (3, 12, 5)]


def draw(batch: int, maps: int, tokens: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Received attention as it is: non-negative, adding up to the real tokens, and something else at padding."""
    generator = torch.Generator().manual_seed(0)
    real = torch.arange(tokens) < torch.tensor([tokens, 1, tokens - 2]).unsqueeze(-1)
    scores = 2 * torch.randn(batch, maps, tokens, generator=generator, dtype=torch.float64)
    received = scores.masked_fill(~real.unsqueeze(1), -torch.inf).softmax(-1) * real.sum(-1)[:, None, None]
    return received.where(real.unsqueeze(1), torch.tensor(7.0, dtype=torch.float64)), real


def normalized(maps: np.ndarray, normalize: str) -> np.ndarray:
    if normalize == "none":
        return maps
    return maps / np.sqrt((maps**2).sum(axis=1 if normalize == "row" else 0, keepdims=True))


def reference(loss: str, received, real, temperature: float, normalize: str, reduction: str) -> float:
    """Eq. 11 and 12 of the attention-guiding paper, one sample and one map after the other."""
    values = []
    for sample, mask in zip(received.numpy(), real.numpy(), strict=True):
        m = normalized(sample[:, mask], normalize)
        if loss == "pdg":
            value = ((m.T @ m - np.eye(mask.sum())) ** 2).sum()
            values.append(value / mask.sum() if reduction == "mean" else value)
            continue
        value = 0.0
        for own in m:
            value -= np.log(np.exp(own @ own / temperature) / sum(np.exp(other @ own / temperature) for other in m))
        values.append(value / len(m) if reduction == "mean" else value)
    return float(np.mean(values))


LOSSES = {"mdg": partial(mdg_loss, temperature=0.5), "pdg": pdg_loss}


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("normalize, reduction", OPTIONS)
def test_values(name, shape, normalize, reduction):
    received, real = draw(*shape)
    received = received / 4 if normalize == "none" else received  # e^50 is enough for the reference
    expected = reference(name, received, real, 0.5, normalize, reduction)
    options = {"normalize": normalize, "reduction": reduction}
    assert LOSSES[name](received, real, **options).item() == pytest.approx(expected, rel=1e-12, abs=1e-12)
    single = LOSSES[name](received.float(), real.long(), **options)
    assert single.dtype == torch.float32 and single.item() == pytest.approx(expected, rel=1e-5, abs=1e-5)


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("normalize, reduction", OPTIONS)
def test_gradients(name, shape, normalize, reduction):
    received, real = draw(*shape)
    received.requires_grad_()
    loss = partial(LOSSES[name], attention_mask=real, normalize=normalize, reduction=reduction)
    assert torch.autograd.gradcheck(loss, received)


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("normalize, reduction", OPTIONS)
def test_padding_on_either_side_changes_nothing(name, normalize, reduction):
    loss = partial(LOSSES[name], normalize=normalize, reduction=reduction)
    received, real = draw(3, 4, 9)
    noise = received.masked_fill(~real.unsqueeze(1), torch.nan)
    torch.testing.assert_close(loss(noise, real), loss(received, real), rtol=0, atol=0)
    left = torch.cat([torch.full((3, 4, 5), 9.0), received], dim=-1)
    mask = torch.cat([torch.zeros(3, 5, dtype=torch.bool), real], dim=-1)
    torch.testing.assert_close(loss(left, mask), loss(received, real))


def test_range_of_a_map():
    """SEMANTICS of unit rows: equal maps are the worst, orthogonal maps the best."""
    same = mdg_loss(torch.rand(1, 1, 300).expand(-1, 144, -1))
    apart = mdg_loss(torch.eye(144, 300).unsqueeze(0))
    assert same.item() == pytest.approx(math.log(144), rel=1e-6)
    assert apart.item() == pytest.approx(math.log(1 + 143 / math.e), rel=1e-6)
    assert pdg_loss(torch.eye(300).unsqueeze(0)).item() == 0
    assert pdg_loss(torch.eye(144, 300).unsqueeze(0), reduction="sum").item() == 156


def test_large_values_do_not_cancel():
    """Equal maps as they are, Eq. 12 as printed: 144² · 256² and a little."""
    received = torch.ones(1, 144, 256)
    assert pdg_loss(received, normalize="none", reduction="sum").item() == pytest.approx(
        (144.0**2) * 256**2 - 2 * 144 * 256 + 256, rel=1e-6
    )


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("normalize, reduction", OPTIONS)
def test_nothing_is_nan(name, normalize, reduction):
    loss = partial(LOSSES[name], normalize=normalize, reduction=reduction)
    received = torch.rand(2, 4, 6, requires_grad=True)
    real = torch.tensor([[1, 1, 1, 0, 0, 0], [0, 0, 0, 0, 0, 0]])
    value = loss(received, real)
    assert value.item() == pytest.approx(loss(received[:1], real[:1]).item() / 2, rel=1e-6)
    value.backward()
    assert received.grad.isfinite().all() and received.grad[0, :, :3].any() and not received.grad[1].any()
    assert loss(received, torch.zeros(2, 6)).item() == 0

    zeros = torch.zeros(1, 4, 6, requires_grad=True)
    loss(zeros).backward()
    assert zeros.grad.isfinite().all()
    for one in (torch.ones(1, 4, 1), torch.ones(1, 1, 4), torch.ones(1, 1, 1)):
        one.requires_grad_()
        loss(one).backward()
        assert one.grad.isfinite().all()
    assert mdg_loss(torch.ones(1, 4, 1)).item() == pytest.approx(math.log(4))


@pytest.mark.parametrize("loss", [mdg_loss, pdg_loss])
def test_half_precision_is_computed_in_float32(loss):
    received, real = draw(3, 4, 9)
    expected = loss(received.bfloat16().float(), real)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        for dtype in (torch.bfloat16, torch.float32):
            found = loss(received.bfloat16().to(dtype), real)
            assert found.dtype == torch.float32
            torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("loss", [mdg_loss, pdg_loss])
def test_mistakes(loss):
    received = torch.ones(2, 3, 4)
    for wrong in (torch.ones(2, 3), torch.ones(2, 3, 4, 4), torch.ones(0, 3, 4)):
        with pytest.raises(ValueError, match="received must be"):
            loss(wrong)
    with pytest.raises(ValueError, match=r"attention_mask must be \(2, 4\), got \(2, 3\)"):
        loss(received, torch.ones(2, 3))
    with pytest.raises(ValueError, match="normalize must be one of none, row, col, got 'rows'"):
        loss(received, normalize="rows")
    with pytest.raises(ValueError, match="reduction must be one of mean, sum, got None"):
        loss(received, reduction=None)


@pytest.mark.parametrize("temperature", [0, -1.0, math.nan, math.inf])
def test_temperature(temperature):
    with pytest.raises(ValueError, match="temperature must be a positive number"):
        mdg_loss(torch.ones(2, 3, 4), temperature=temperature)
