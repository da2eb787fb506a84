from __future__ import annotations

import numpy as np
import pytest
import torch

from msattn.modeling import attention_call
from msattn.modeling.attention_statistics import STATISTICS, attention_statistics
from tests.modeling.attention_reference import BANDS, PLACES, queries_and_keys, real_tokens, reference, sets_of

pytestmark = pytest.mark.usefixtures("small_blocks")


@pytest.mark.parametrize("left", [False, True])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(
    ("queries", "key_heads", "last_queries"), [(11, 4, None), (11, 2, 3), (4, 1, None), (1, 4, None)]
)
def test_equals_the_formulas(left, causal, queries, key_heads, last_queries):
    query, key = queries_and_keys(queries, key_heads=key_heads)
    real = real_tokens(left=left)
    options = {"statistics": STATISTICS, "bands": BANDS, "columns": sets_of(), "last_queries": last_queries}
    options["places"] = torch.tensor(PLACES).expand(3, -1)
    found = attention_statistics(query, key, real.long(), 0.3, causal, **options)
    expected = reference(query, key, real.numpy(), causal, last_queries, 0.3)
    assert found.keys() == expected.keys()
    for name, statistic in found.items():
        np.testing.assert_allclose(statistic.detach().numpy(), expected[name], rtol=0, atol=1e-12, err_msg=name)
    for name in STATISTICS:  # alone, too
        alone = attention_statistics(query, key, real, 0.3, causal, (name,), last_queries=last_queries)
        assert list(alone) == [name]
        torch.testing.assert_close(alone[name], found[name])


@pytest.mark.parametrize(("size", "causal"), [(1, True), (6, False), (1000, True)])  # one row, rows, all
def test_gradient(monkeypatch, size, causal):
    monkeypatch.setattr(attention_call, "block_size", lambda device: size)
    query, key = (tensor.detach() for tensor in queries_and_keys(3, 4, 2, 1, batch=2, dim=2))
    real, columns = torch.tensor([[1, 1, 1, 1], [0, 1, 1, 1]]), sets_of(4, 2)
    bias = torch.linspace(-1, 1, 12, dtype=torch.float64).view(1, 1, 3, 4)
    places = torch.tensor([[-1, 0, 1, 2], [3, 2, 1, 0]])
    tensors = [tensor.clone().requires_grad_() for tensor in (query, key, columns, bias, query[0, :, 0, 0])]

    def every(query, key, columns, bias, sinks):
        found = attention_statistics(
            query, key, real, None, causal, STATISTICS, (-1, 2), columns, None, bias, 2.0, sinks, places
        )
        return tuple(found.values())

    assert torch.autograd.gradcheck(every, tensors, fast_mode=size < 1000)


@pytest.mark.parametrize("last_queries", [None, 2])
def test_what_changes_the_softmax(last_queries):
    """Position bias, soft cap and sinks, beside the weights of the formulas."""
    query, key = queries_and_keys()
    bias = torch.linspace(-2, 2, 121, dtype=torch.float64).view(1, 1, 11, 11)
    sinks = torch.linspace(-1, 1, 4, dtype=torch.float64)
    scores = 1.5 * torch.tanh(query @ key.mT * 6**-0.5 / 1.5) + bias
    weights = scores.exp() / (scores.exp().sum(-1, keepdim=True) + sinks.exp().view(1, 4, 1, 1))
    if last_queries:
        weights = weights * (torch.arange(11) >= 11 - last_queries).unsqueeze(-1)
    options = {"position_bias": bias, "softcap": 1.5, "sinks": sinks, "last_queries": last_queries}
    found = attention_statistics(query, key, statistics=STATISTICS, **options)
    torch.testing.assert_close(found["received"], weights.sum(-2))
    torch.testing.assert_close(found["received_max"], weights.amax(-2))
    torch.testing.assert_close(found["entropy"], -torch.xlogy(weights, weights).sum(-1))
    torch.testing.assert_close(found["peak"], weights.amax(-1))
    torch.testing.assert_close(found["square"], weights.square().sum(-1))


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-5), (torch.bfloat16, 1e-5)])
def test_half_precision_is_computed_in_float32(dtype, tolerance):
    query, key = queries_and_keys(dtype=dtype)
    options = {"attention_mask": real_tokens(), "statistics": STATISTICS, "bands": BANDS}
    with torch.autocast("cpu", torch.bfloat16):
        found = attention_statistics(query, key, **options)
    exact = attention_statistics(query.double(), key.double(), **options)
    for name, statistic in found.items():
        assert statistic.dtype == torch.float32
        torch.testing.assert_close(statistic.double(), exact[name], rtol=tolerance, atol=tolerance, msg=name)


def test_backward_under_autocast():
    gradients = []
    for enabled in (False, True):
        # In float64, autocast would change nothing.
        query, key = queries_and_keys(dtype=torch.float32)
        with torch.autocast("cpu", torch.bfloat16, enabled=enabled):
            found = attention_statistics(query, key, statistics=STATISTICS, bands=BANDS)
            sum(statistic.double().square().sum() for statistic in found.values()).backward()
        gradients.append((query.grad, key.grad))
    torch.testing.assert_close(gradients[1], gradients[0])


def test_keeps_no_matrix_for_the_backward_pass():
    query, key = queries_and_keys(dim=2)
    kept: list[int] = []
    with torch.autograd.graph.saved_tensors_hooks(lambda tensor: kept.append(tensor.numel()) or tensor, lambda x: x):
        attention_statistics(query, key, statistics=STATISTICS, bands=BANDS)
    assert max(kept) <= query.numel()


def test_hidden_entropy_has_a_finite_gradient():
    """Weights that underflow to 0."""
    query = torch.tensor([[[[100.0], [0.0]]]], dtype=torch.float64, requires_grad=True)
    key = torch.tensor([[[[100.0], [-100.0]]]], dtype=torch.float64)
    found = attention_statistics(query, key, statistics=STATISTICS)
    assert found["entropy"][0, 0].tolist() == pytest.approx([0, np.log(2)])
    (gradient,) = torch.autograd.grad(sum(statistic.sum() for statistic in found.values()), query)
    assert gradient.isfinite().all()


def test_inference_mode_and_second_derivatives():
    query, key = queries_and_keys()
    expected = attention_statistics(query, key, statistics=STATISTICS)
    with torch.inference_mode():
        found = attention_statistics(query, key, statistics=STATISTICS)
    for name, statistic in found.items():
        torch.testing.assert_close(statistic, expected[name])
    (gradient,) = torch.autograd.grad(expected["entropy"].square().sum(), query, create_graph=True)
    with pytest.raises(RuntimeError, match="first derivative only"):
        gradient.sum().backward()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"statistics": ("mean",)}, r"statistics must be some of received, .*, got \('mean',\)"),
        ({"statistics": ()}, "statistics must be some of"),
        ({"columns": torch.ones(3, 11)}, r"columns must be .*, got \(3, 11\)"),
        ({"columns": torch.ones(2, 1, 11)}, "columns must be"),
        ({"columns": torch.ones(3, 1, 10)}, "columns must be"),
        ({"places": torch.zeros(1, 11, dtype=torch.long)}, r"places must be \(3, 11\), got \(1, 11\)"),
    ],
)
def test_bad_arguments(options, message):
    query, key = queries_and_keys()
    with pytest.raises(ValueError, match=message):
        attention_statistics(query, key, **options)
