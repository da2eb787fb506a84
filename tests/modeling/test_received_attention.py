from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from msattn.modeling.attention_blocks import BlockedAttention, Dropout, Scores, Settings
from msattn.modeling.attention_call import AttentionCall
from msattn.modeling.attention_statistics import received_attention
from tests.attention_contract import inputs_of, tiny_model
from tests.modeling.attention_reference import queries_and_keys, real_tokens, reference

pytestmark = pytest.mark.usefixtures("small_blocks")


@pytest.mark.parametrize("left", [False, True])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(
    ("queries", "key_heads", "last_queries"), [(11, 4, None), (11, 2, 3), (4, 1, None), (1, 4, None)]
)
def test_equals_the_equation(left, causal, queries, key_heads, last_queries):
    query, key = queries_and_keys(queries, key_heads=key_heads)
    real = real_tokens(left=left)
    received = received_attention(query, key, real.long(), None, causal, last_queries=last_queries)
    expected = reference(query, key, real.numpy(), causal, last_queries)["received"]
    np.testing.assert_allclose(received.detach().numpy(), expected, rtol=0, atol=1e-10)
    assert received.dtype == torch.float64


def test_masks_of_four_dimensions_mean_the_same():
    query, key = queries_and_keys()
    real = real_tokens()
    expected = received_attention(query, key, real)
    causal = received_attention(query, key, real, is_causal=True)
    for visible in (real[:, None, None], real[:, None, None].expand(-1, 1, 11, -1)):
        added = torch.zeros(visible.shape, dtype=torch.float64).masked_fill(~visible, torch.finfo(torch.float32).min)
        for mask in (visible, added):
            torch.testing.assert_close(received_attention(query, key, mask), expected)
            received = received_attention(query, key, mask, is_causal=True)
            torch.testing.assert_close(received, causal)


def test_queries_that_see_nothing_do_not_count():
    query, key = queries_and_keys()
    visible = real_tokens()[:, None, :, None] & real_tokens()[:, None, None]
    added = torch.zeros(visible.shape).masked_fill(~visible, -torch.inf)
    for mask in (added, added.double(), added.half()):
        received = received_attention(query, key, mask)
        torch.testing.assert_close(received, received_attention(query, key, visible), rtol=0, atol=1e-6)


def test_a_learned_mask_has_a_gradient():
    query, key = (tensor.detach()[:, :2, :5, :3].requires_grad_() for tensor in queries_and_keys())
    learned = torch.randn(1, 2, 5, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(1)).requires_grad_()
    bias = torch.ones(1, 1, 5, 5, dtype=torch.float64)

    def received(query, key, learned):
        return received_attention(query, key, learned, position_bias=bias)

    assert torch.autograd.gradcheck(received, (query, key, learned))


@pytest.mark.parametrize("mask", [None, real_tokens((5, 3, 1)), real_tokens((5, 2, 3), left=True)])
def test_gradient(mask):
    query, key = (tensor.detach()[:, :2, :5, :3].requires_grad_() for tensor in queries_and_keys())
    assert torch.autograd.gradcheck(lambda q, k: received_attention(q, k, mask), (query, key))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_lower_precision(dtype):
    query, key = queries_and_keys(dtype=dtype)
    received = received_attention(query, key, real_tokens())
    exact = received_attention(query.double(), key.double(), real_tokens())
    assert received.dtype == torch.float32
    torch.testing.assert_close(received, exact.float(), rtol=0, atol=1e-5)
    weights = torch.linspace(-1, 1, received.numel()).view_as(received)
    gradients = torch.autograd.grad((received * weights).sum(), (query, key))
    expected = torch.autograd.grad((exact * weights.double()).sum(), (query, key))
    for gradient, wanted in zip(gradients, expected, strict=True):
        torch.testing.assert_close(gradient, wanted)


def test_keeps_no_matrix_for_the_backward_pass():
    query, key = queries_and_keys(dtype=torch.float32)
    kept: list[int] = []
    with torch.autograd.graph.saved_tensors_hooks(lambda tensor: kept.append(tensor.numel()) or tensor, lambda x: x):
        received_attention(query, key, real_tokens()).sum()
    assert max(kept) <= query.numel()


@pytest.mark.parametrize("dropout", [0.0, 0.3])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("size", [1, 50, 300, 1000, 10**6])  # one row, rows, heads, examples, all
def test_attention_in_blocks(dropout, causal, size):
    """Output and received attention in one go, against the matrix with the mask that the seed stands for."""
    query, key = queries_and_keys()
    value = torch.randn_like(key).requires_grad_()
    real = torch.ones(3, 1, 11, dtype=torch.bool) if causal else real_tokens()[:, None]
    hidden = torch.ones(11, 11, dtype=torch.bool).triu(1).expand(3, 1, -1, -1) if causal else ~real[:, None]
    settings = Settings(0.4, offset=0 if causal else None, dropout=dropout, seed=3, block=size)

    def blocked(*tensors):
        return BlockedAttention.apply(*tensors, None, None, None if causal else hidden, real, settings)

    def whole(query, key, value):
        weights = (query @ key.mT * 0.4).masked_fill(hidden, -1e30).softmax(-1)
        received = (weights * real.unsqueeze(-1)).sum(-2)
        kept, draw = weights.clone(), Dropout(settings)
        for block, _ in Scores(query, key, None, None, None, settings).blocks() if dropout else ():
            part = block.of(weights)
            block.of(kept).copy_(part * draw.mask(part) * draw.scale)
        return kept @ value, received

    weights = torch.linspace(-1, 1, value.numel(), dtype=torch.float64).view_as(value)
    results = []
    for way in (blocked, whole):
        output, received = way(query, key, value)
        loss = (output * weights).sum() + (received * weights[..., 0]).square().sum()
        results.append((output, received, *torch.autograd.grad(loss, (query, key, value))))
    for got, expected in zip(*results, strict=True):
        torch.testing.assert_close(got, expected, rtol=0, atol=1e-10)


def test_the_rate_of_dropout():
    draw = Dropout(Settings(1.0, dropout=0.25, seed=3))
    assert draw.mask(torch.ones(1, 1, 256, 256)).double().mean().item() == pytest.approx(0.75, abs=0.01)
    assert draw.scale == pytest.approx(1 / 0.75)


def test_the_layout_of_a_gradient_does_not_matter():
    query, key = queries_and_keys()
    value = torch.randn_like(key).requires_grad_()
    real = torch.ones(3, 1, 11, dtype=torch.bool)
    results = []
    for transposed in (False, True):
        settings = Settings(0.4, block=10**6)
        output, received = BlockedAttention.apply(query, key, value, None, None, None, real, settings)
        of_heads = torch.linspace(-1, 1, 4, dtype=torch.float64)
        weighted = received.transpose(1, 2) @ of_heads[:, None] if transposed else received * of_heads[:, None]
        results.append(torch.autograd.grad(output.square().sum() + weighted.sum(), (query, key, value)))
    for got, expected in zip(*results, strict=True):
        torch.testing.assert_close(got, expected, rtol=0, atol=1e-10)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_maps_beside_an_output_are_exact_under_autocast(dtype):
    query, key = queries_and_keys(dtype=torch.float32)
    visible = real_tokens((11, 4, 0))[:, None, None].expand(-1, 1, 11, -1)
    added = torch.zeros(visible.shape).masked_fill(~visible, torch.finfo(torch.float32).min)
    for mask in (visible, added):
        call = AttentionCall.of(query, key, mask, value=key)
        with torch.autocast("cpu", dtype):
            output, maps = call.output_and_maps()
        torch.testing.assert_close(maps, call.maps(), rtol=0, atol=0)
        assert output.isfinite().all()


def test_maps_beside_an_output_are_those_before_dropout():
    query, key = queries_and_keys()
    value = torch.randn_like(key)
    call = AttentionCall.of(query, key, value=value, dropout=0.5)
    torch.manual_seed(0)
    output, maps = call.output_and_maps()
    torch.testing.assert_close(maps, call.maps())
    torch.manual_seed(0)
    dropped = nn.functional.dropout(maps, 0.5)
    torch.testing.assert_close(output, (dropped @ value).transpose(1, 2))


def test_bad_arguments():
    query, key = queries_and_keys()
    for bad in ({"key": key[:, :3]}, {"query": query[0]}):
        with pytest.raises(ValueError, match="must"):
            received_attention(**{"query": query, "key": key, **bad})
    for shape in ((11,), (3, 10), (4, 11), (3, 1, 11), (3, 3, 11, 11), (3, 1, 11, 1)):
        with pytest.raises(ValueError, match="attention_mask must be"):
            received_attention(query, key, torch.ones(shape))
    with pytest.raises(ValueError, match="attention_mask must be .* got torch.int64"):
        received_attention(query, key, torch.ones(3, 1, 1, 11, dtype=torch.long))
    with pytest.raises(ValueError, match="position_bias must be decimals of .* got torch.float32 .4, 11, 11."):
        received_attention(query, key, position_bias=torch.ones(4, 11, 11))
    with pytest.raises(ValueError, match=r"sinks must be .4,. or .3, 4, 11, 1., got .3,."):
        received_attention(query, key, sinks=torch.ones(3))


def weights_of(query, key, scaling, hidden=None, bias=None, softcap=None, sinks=None) -> torch.Tensor:
    """The softmax as the formulas have it, in float64."""
    scores = torch.einsum("bhqd,bhkd->bhqk", query, key) * scaling
    if softcap is not None:
        scores = softcap * torch.tanh(scores / softcap)
    if bias is not None:
        scores = scores + bias
    weights = scores.exp()
    if hidden is not None:
        weights = weights * ~hidden
    return weights / (weights.sum(-1, keepdim=True) + (0 if sinks is None else sinks.exp()))


SPECIAL = {
    "bias": {"position_bias": (3, 4, 11, 11)},
    "bias of heads": {"position_bias": (1, 4, 11, 11)},
    "bias of keys": {"position_bias": (3, 1, 1, 11)},
    "cap": {"softcap": 1.5},
    "sinks": {"sinks": (4,)},
    "sinks of queries": {"sinks": (3, 4, 11, 1)},
    "all": {"position_bias": (1, 4, 11, 11), "softcap": 2.0, "sinks": (4,)},
}


def special(names: dict) -> dict:
    generator = torch.Generator().manual_seed(2)
    return {
        name: torch.randn(value, dtype=torch.float64, generator=generator).requires_grad_()
        if isinstance(value, tuple)
        else value
        for name, value in names.items()
    }


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("names", SPECIAL.values(), ids=SPECIAL)
def test_what_changes_the_softmax(names, causal):
    query, key = queries_and_keys(key_heads=2)
    value = torch.randn_like(key).requires_grad_()
    real, options = real_tokens(), special(names)
    hidden = ~real[:, None, None] | (torch.ones(11, 11, dtype=torch.bool).triu(1) if causal else False)
    tensors = [query, key, value, *(option for option in options.values() if isinstance(option, torch.Tensor))]
    received = received_attention(query, key, real, 0.4, causal, **options)
    output, sums = AttentionCall.of(query, key, real, 0.4, causal, value=value, **options).output_and_sums()
    bias, sinks = options.get("position_bias"), options.get("sinks")
    sinks = sinks.view(1, -1, 1, 1) if sinks is not None and sinks.dim() == 1 else sinks
    keys, values = (tensor.repeat_interleave(2, dim=1) for tensor in (key, value))
    weights = weights_of(query, keys, 0.4, hidden, bias, options.get("softcap"), sinks)
    expected = (weights * real[:, None, :, None]).sum(-2)
    ways = (received, sums, output), (expected, expected, (weights @ values).transpose(1, 2))
    gradients = []
    for way in ways:
        some = (torch.linspace(-1, 1, one.numel(), dtype=torch.float64).view_as(one) for one in way)
        loss = sum((one * factors).sum() for one, factors in zip(way, some, strict=True))
        gradients.append(torch.autograd.grad(loss, tensors))
    for results in (ways, gradients):
        for got, wanted in zip(*results, strict=True):
            torch.testing.assert_close(got, wanted, rtol=0, atol=1e-10)


class TestMoreKeysThanQueries:
    """Decoding with a cache: the queries are the last tokens."""

    def test_a_mask_of_four_dimensions_means_the_same(self):
        query, key = queries_and_keys(queries=4)
        real = real_tokens(left=True)
        visible = real[:, None, None] & torch.ones(4, 11, dtype=torch.bool).tril(7)
        expected = received_attention(query, key, real, is_causal=True)
        torch.testing.assert_close(received_attention(query, key, visible), expected)

    def test_gradient(self):
        query, key = (tensor.detach()[:, :2, :5, :3].requires_grad_() for tensor in queries_and_keys())
        query = query.detach()[:, :, 3:].requires_grad_()
        real = real_tokens((5, 2, 3), left=True)
        assert torch.autograd.gradcheck(lambda *both: received_attention(*both, real, None, True), (query, key))

    def test_too_many_queries(self):
        query, key = queries_and_keys()
        with pytest.raises(ValueError, match="more queries than keys, got 11 and 5"):
            received_attention(query, key[:, :, :5], is_causal=True)


def test_last_queries_beside_a_cache():
    query, key = queries_and_keys()
    every = torch.ones(3, 1, 1, 11, dtype=torch.bool)
    received = received_attention(query[:, :, 7:], key, every, last_queries=3)
    torch.testing.assert_close(received, received_attention(query[:, :, 8:], key, every))
    with pytest.raises(ValueError, match="last_queries must be a positive number, got 0"):
        received_attention(query, key, last_queries=0)


def test_second_derivatives():
    query, key = (tensor.detach()[:, :1, :4, :2].requires_grad_() for tensor in queries_and_keys())
    for loss in (torch.square, torch.neg):
        received = received_attention(query, key)
        (gradient,) = torch.autograd.grad(loss(received)[..., 0].sum(), query, create_graph=True)
        with pytest.raises(RuntimeError, match="first derivative only"):
            gradient.sum().backward()


def returned(model: nn.Module) -> tuple[torch.Tensor, ...]:
    """The column sums of every layer."""
    return model(**inputs_of(model), output_attentions=True).attentions


@pytest.mark.parametrize("name", ["bert", "albert", "distilbert", "modernbert", "llama", "multiscale_bert"])
def test_gradients_are_those_of_column_sums(name):
    gradients = []
    for implementation in ("eager", "received"):
        model = tiny_model(name).train()
        model.set_attn_implementation(implementation)
        for dropout in (child for child in model.modules() if isinstance(child, nn.Dropout)):
            dropout.p = 0.0
        attentions = returned(model)
        if implementation == "eager":
            real = inputs_of(model)["attention_mask"][:, None, :, None]
            attentions = [(attention * real).sum(-2) for attention in attentions]
        sum(received.square().mean() for received in attentions).backward()
        gradients.append({key: value.grad for key, value in model.named_parameters()})
    for key, expected in gradients[0].items():
        if expected is not None:
            torch.testing.assert_close(gradients[1][key], expected, rtol=1e-3, atol=1e-5, msg=key)


def test_dropout_comes_after_the_sums():
    model = tiny_model("bert").train()
    model.set_attn_implementation("received")
    for name, child in model.named_modules():
        if isinstance(child, nn.Dropout) and not name.endswith("self.dropout"):
            child.p = 0.0
    first, second = (model(**inputs_of(model), output_attentions=True) for _ in range(2))
    assert first.attentions[0].sum(-1).flatten().tolist() == pytest.approx([9] * 4 + [6] * 4)
    torch.testing.assert_close(first.attentions[0], second.attentions[0])
    assert not torch.equal(first.last_hidden_state, second.last_hidden_state)


@pytest.mark.slow
@pytest.mark.heavy
def test_compiles_to_one_graph():
    model = tiny_model("bert")
    model.set_attn_implementation("received")
    compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
    gradients = []
    for call in (model, compiled):
        model.zero_grad()
        attentions = call(**inputs_of(model), output_attentions=True).attentions
        sum(received.square().sum() for received in attentions).backward()
        gradients.append(model.encoder.layer[0].attention.self.query.weight.grad.clone())
    torch.testing.assert_close(*gradients)
