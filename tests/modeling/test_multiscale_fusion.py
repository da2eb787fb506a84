from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from msattn.modeling import multiscale_fusion
from msattn.modeling.multiscale_fusion import MASK_MODES, MultiScaleFusion
from tests.modeling.multiscale_reference import attention, convolution, fuse_batch

WIDTH = 8
LENGTHS = (9, 6, 1, 4)


def build(scales=(3,), width=WIDTH, dtype=torch.float64, std=0.7, **options) -> MultiScaleFusion:
    """A layer whose attention is far from uniform, so that no gate hangs on a rounding error."""
    torch.manual_seed(0)
    layer = MultiScaleFusion(width, scales, **options).to(dtype)
    for weight in layer.parameters():
        nn.init.normal_(weight, std=std)
    return layer


def ragged(lengths=LENGTHS, width=WIDTH, dtype=torch.float64, left=False) -> tuple[torch.Tensor, torch.Tensor]:
    """Sentences of these lengths between noise, and their mask."""
    hidden_states = torch.randn(len(lengths), max(lengths), width, dtype=dtype, generator=torch.manual_seed(1))
    real = torch.arange(max(lengths)) < torch.tensor(lengths).unsqueeze(-1)
    return hidden_states, (real.flip(-1) if left else real).long()


def transposed_weights(layer: MultiScaleFusion) -> dict[str, np.ndarray]:
    names = ("query", "key", "value", "mask_query", "mask_key")
    return {name: getattr(layer, name).weight.detach().numpy().T for name in names}


def filters(layer: MultiScaleFusion) -> list[np.ndarray]:
    return [conv.weight.detach().numpy().transpose(0, 2, 1) for conv in layer.convs]


def word_gates(attentions: torch.Tensor) -> torch.Tensor:
    return attentions[..., : attentions.shape[-2]] > 0


@pytest.mark.parametrize("mode", MASK_MODES)
@pytest.mark.parametrize(
    ("scales", "options"),
    [
        ((3,), {}),
        ((3,), {"conv_alignment": "same"}),
        ((3, 5), {"num_heads": 2}),
        ((5, 2), {"conv_alignment": "same", "num_heads": 4, "renormalize": True}),
        ((1, 3, 12), {"renormalize": True, "mask_temperature": 0.5}),
        ((), {}),
        ((), {"num_heads": 2, "renormalize": True}),
    ],
)
@pytest.mark.parametrize("left", [False, True])
def test_equals_the_equations(mode, scales, options, left):
    layer = build(scales, mask_mode=mode, **options)
    hidden_states, attention_mask = ragged(left=left)
    # A sentence of one word is the tie that is decided by `>`; it has a test of its own.
    keep = [i for i, length in enumerate(LENGTHS) if length > 1]
    hidden_states, attention_mask = hidden_states[keep], attention_mask[keep]
    output, attentions = layer(hidden_states, attention_mask, output_attentions=True)
    expected, maps, margin = fuse_batch(
        hidden_states.numpy(),
        attention_mask.numpy(),
        transposed_weights(layer),
        filters(layer),
        num_heads=layer.num_heads,
        mode=mode,
        alignment=layer.conv_alignment,
        temperature=layer.mask_temperature,
        renormalize=layer.renormalize,
    )
    assert margin > 1e-9
    torch.testing.assert_close(output, torch.from_numpy(expected), rtol=1e-11, atol=1e-11)
    torch.testing.assert_close(attentions, torch.from_numpy(maps), rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("mode", ["hard", "sigmoid", "entmax", "none"])
@pytest.mark.parametrize("options", [{}, {"num_heads": 2, "conv_alignment": "same", "renormalize": True}])
def test_gradients_equal_finite_differences(mode, options):
    layer = build((3, 2), width=4, mask_mode=mode, **options)
    hidden_states, attention_mask = ragged((4, 2), width=4)
    weights = {name: weight for name, weight in layer.named_parameters() if weight.requires_grad}
    assert ("mask_query.weight" in weights) == (mode in ("sigmoid", "entmax"))

    def run(hidden_states, *values):
        replaced = dict(zip(weights, values, strict=True))
        return torch.func.functional_call(layer, replaced, (hidden_states, attention_mask))[0]

    assert torch.autograd.gradcheck(run, (hidden_states.requires_grad_(), *weights.values()), fast_mode=True)


@pytest.mark.parametrize("mode", ["ste", "sigmoid"])
def test_mask_gradient_equals_its_formula(mode):
    """dL/dMask = P_word ATT - sum_k P_k ATTc_k with P = dL/dS V^T, then through the sigmoid and Eq. 12."""
    n, temperature = 7, 0.4
    layer = build((3, 5), mask_mode=mode, mask_temperature=temperature)
    hidden_states, _ = ragged((n,))
    upstream = torch.randn(1, n, WIDTH, dtype=torch.float64, generator=torch.manual_seed(2))
    layer(hidden_states)[0].backward(upstream)

    words, weights = hidden_states[0].numpy(), transposed_weights(layer)
    stack = [words] + [convolution(words, scale) for scale in filters(layer)]
    mask_gradient = np.zeros((n, n))
    for scale, states in enumerate(stack):
        p = upstream[0].numpy() @ (states @ weights["value"]).T
        sign = -1 if scale else 1
        mask_gradient += sign * p * attention(words @ weights["query"], states @ weights["key"])

    query, key = words @ weights["mask_query"], words @ weights["mask_key"]
    cut = attention(query, key)
    soft = 1 / (1 + np.exp(-(n * cut - 1) / temperature))
    cut_gradient = mask_gradient * soft * (1 - soft) * n / temperature
    score_gradient = cut * (cut_gradient - (cut_gradient * cut).sum(axis=-1, keepdims=True)) / np.sqrt(WIDTH)
    expected = {"mask_query": words.T @ score_gradient @ key, "mask_key": words.T @ score_gradient.T @ query}
    for name, gradient in expected.items():
        found = getattr(layer, name).weight.grad.T
        assert found.abs().max() > 1e-3
        torch.testing.assert_close(found, torch.from_numpy(gradient), rtol=1e-9, atol=1e-11)


def test_ste_is_hard_going_forward():
    hard, ste = build((3, 5), mask_mode="hard"), build((3, 5), mask_mode="ste")
    for one, other in zip(hard(*ragged(), True), ste(*ragged(), True), strict=True):
        assert torch.equal(one, other)


@pytest.mark.parametrize("scales", [(3,), (3, 5)])
def test_sentence_of_one_word_sees_only_phrases(scales):
    layer = build(scales)
    hidden_states, _ = ragged((1,))
    output, attentions = layer(hidden_states, output_attentions=True)
    assert attentions.flatten().tolist() == [0] + [1] * len(scales)
    # Of a causal filter only the last tap meets the word.
    expected = sum(layer.value(hidden_states @ conv.weight[..., -1].T) for conv in layer.convs)
    torch.testing.assert_close(output, expected)


def test_sentence_of_one_word_without_phrases_sees_nothing():
    for renormalize in (False, True):
        layer = build((), renormalize=renormalize)
        hidden_states = ragged((1,))[0].requires_grad_()
        output, _ = layer(hidden_states)
        assert not output.any()
        output.sum().backward()
        assert hidden_states.grad.isfinite().all()


@pytest.mark.parametrize("mode", MASK_MODES)
@pytest.mark.parametrize("renormalize", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_nothing_but_padding_gives_zeros(mode, renormalize, dtype):
    layer = build(mask_mode=mode, renormalize=renormalize, dtype=dtype, std=0.2)
    hidden_states, attention_mask = ragged(dtype=dtype)
    hidden_states.requires_grad_()
    attention_mask[1] = 0
    output, attentions = layer(hidden_states, attention_mask, output_attentions=True)
    assert output.isfinite().all() and not output[1].any() and not attentions[1].any()
    output.sum().backward()
    assert hidden_states.grad.isfinite().all() and not hidden_states.grad[1].any()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_keeps_gates_of_nearly_uniform_attention(dtype):
    """The state of a fresh layer: n CUT is within a few thousandths of 1 everywhere."""
    layer = build(width=64, std=0.05, dtype=dtype)
    hidden_states = 0.5 * ragged((300,), width=64, dtype=dtype)[0]
    gates = word_gates(layer(hidden_states, output_attentions=True)[1])
    exact = word_gates(layer.float()(hidden_states.float(), output_attentions=True)[1])
    assert 0.3 < exact.float().mean() < 0.7
    assert (gates == exact).float().mean() > 0.99


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"mask_mode": "soft"}, "got 'soft' and 'causal'"),
        ({"conv_alignment": "left"}, "got 'hard' and 'left'"),
    ],
)
def test_wrong_arguments(wrong, message):
    with pytest.raises(ValueError, match=message):
        MultiScaleFusion(**{"hidden_size": 8, "scales": (3,)} | wrong)


def test_entmax_is_needed_by_its_mode_only(monkeypatch):
    monkeypatch.setattr(multiscale_fusion, "entmax15", None)
    MultiScaleFusion(8, (3,))
    with pytest.raises(ImportError, match="pip install entmax"):
        MultiScaleFusion(8, (3,), mask_mode="entmax")
