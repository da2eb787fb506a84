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


@pytest.mark.parametrize("mode", ["hard", "none"])
def test_no_gradient_reaches_the_mask(mode):
    layer = build(mask_mode=mode)
    layer(*ragged())[0].sum().backward()
    frozen = {name for name, weight in layer.named_parameters() if weight.grad is None}
    assert frozen == {"mask_query.weight", "mask_key.weight"}
    assert frozen == {name for name, weight in layer.named_parameters() if not weight.requires_grad}


def test_hard_mask_passes_no_gradient_even_when_unfrozen():
    layer = build(mask_mode="hard").requires_grad_(True)
    layer(*ragged())[0].sum().backward()
    assert layer.mask_query.weight.grad is None and layer.mask_key.weight.grad is None


def test_ste_is_hard_going_forward():
    hard, ste = build((3, 5), mask_mode="hard"), build((3, 5), mask_mode="ste")
    for one, other in zip(hard(*ragged(), True), ste(*ragged(), True), strict=True):
        assert torch.equal(one, other)


def test_sigmoid_tends_to_hard():
    target, _ = build()(*ragged())
    # 1 > 1 is false, while a sigmoid of 0 stays half open at any temperature.
    longer = torch.tensor(LENGTHS) > 1
    errors = [
        (build(mask_mode="sigmoid", mask_temperature=temperature)(*ragged())[0] - target)[longer].abs().max().item()
        for temperature in (1, 0.1, 0.01, 1e-4, 1e-6)
    ]
    assert errors == sorted(errors, reverse=True)
    assert errors[0] > 0.1 and errors[-1] < 1e-9


@pytest.mark.parametrize("heads", [1, 4])
@pytest.mark.parametrize("std", [0.02, 0.7, 5.0])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_every_word_keeps_a_word_and_a_phrase(heads, std, dtype):
    lengths = (33, 20, 2)
    layer = build((3, 5), width=16, dtype=dtype, std=std, num_heads=heads)
    hidden_states, attention_mask = ragged(lengths, width=16, dtype=dtype)
    # Exponentially small weights are still open; see the gates by making every weight large.
    nn.init.zeros_(layer.query.weight)
    _, attentions = layer(hidden_states, attention_mask, output_attentions=True)
    words, *phrases = (block > 0 for block in attentions.split(max(lengths), dim=-1))
    for i, n in enumerate(lengths):
        open_words = words[i, :, :n].sum(dim=-1)
        assert open_words.min() >= 1 and open_words.max() <= n - 1
        for gates in phrases:
            assert torch.equal(gates[i, :, :n, :n], ~words[i, :, :n, :n])


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
@pytest.mark.parametrize("alignment", ["causal", "same"])
def test_padding_and_neighbours_change_nothing(mode, alignment):
    layer = build((3, 5), mask_mode=mode, conv_alignment=alignment, num_heads=2)
    hidden_states, attention_mask = ragged()
    batch, maps = layer(hidden_states, attention_mask, output_attentions=True)
    for i, n in enumerate(LENGTHS):
        alone, alone_map = layer(hidden_states[i : i + 1, :n], output_attentions=True)
        torch.testing.assert_close(batch[i : i + 1, :n], alone, rtol=1e-11, atol=1e-12)
        blocks = maps[i : i + 1, :, :n].unflatten(-1, (3, -1))[..., :n].flatten(-2)
        torch.testing.assert_close(blocks, alone_map, rtol=1e-11, atol=1e-12)
        assert not batch[i, n:].any() and not maps[i, :, n:].any()

        padded, padded_mask = torch.randn(2, n + 20, WIDTH, dtype=torch.float64) * 1e3, torch.zeros(2, n + 20)
        for row, start in enumerate((0, 17)):  # padding on the right, then on both sides
            padded[row, start : start + n] = hidden_states[i, :n]
            padded_mask[row, start : start + n] = 1
            found = layer(padded, padded_mask)[0][row, start : start + n]
            torch.testing.assert_close(found, alone[0], rtol=1e-11, atol=1e-12)


def test_padding_changes_no_gradient():
    layer = build((3, 5), mask_mode="ste", conv_alignment="same")
    hidden_states, attention_mask = ragged()
    hidden_states.requires_grad_()
    (layer(hidden_states, attention_mask)[0] ** 2).sum().backward()
    together = [weight.grad.clone() for weight in layer.parameters()]
    assert not hidden_states.grad[attention_mask == 0].any()
    layer.zero_grad()
    for i, n in enumerate(LENGTHS):
        (layer(hidden_states[i : i + 1, :n])[0] ** 2).sum().backward()
    for gradient, weight in zip(together, layer.parameters(), strict=True):
        torch.testing.assert_close(gradient, weight.grad, rtol=1e-10, atol=1e-11)


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


@pytest.mark.parametrize("mode", MASK_MODES)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_is_close(mode, dtype):
    layer = build(width=64, std=0.1, dtype=torch.float32, mask_mode=mode)
    hidden_states, attention_mask = ragged((40, 25), width=64, dtype=torch.float32)
    exact, maps = layer(hidden_states, attention_mask, output_attentions=True)
    with torch.autocast("cpu", dtype=dtype):
        output, found = layer(hidden_states, attention_mask, output_attentions=True)
    assert output.dtype == found.dtype == dtype
    layer = layer.to(dtype)
    whole, _ = layer(hidden_states.to(dtype), attention_mask)
    assert whole.dtype == dtype
    # A gate on the edge may fall to the other side: compare in the mean, not element by element.
    scale = exact.std()
    for result in (output, whole):
        assert (result - exact).abs().mean() < 0.05 * scale
    assert (word_gates(found) == word_gates(maps)).float().mean() > 0.99


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_keeps_gates_of_nearly_uniform_attention(dtype):
    """The state of a fresh layer: n CUT is within a few thousandths of 1 everywhere."""
    layer = build(width=64, std=0.05, dtype=dtype)
    hidden_states = 0.5 * ragged((300,), width=64, dtype=dtype)[0]
    gates = word_gates(layer(hidden_states, output_attentions=True)[1])
    exact = word_gates(layer.float()(hidden_states.float(), output_attentions=True)[1])
    assert 0.3 < exact.float().mean() < 0.7
    assert (gates == exact).float().mean() > 0.99


@pytest.mark.heavy
def test_compiles_to_one_graph():
    layer = build((3, 5), mask_mode="ste", num_heads=2)
    hidden_states, attention_mask = ragged()
    # The default backend needs a C++ compiler, and cannot work in a path with spaces.
    compiled = torch.compile(layer, fullgraph=True, backend="aot_eager")
    gradients = []
    for call in (layer, compiled):
        layer.zero_grad()
        output, attentions = call(hidden_states, attention_mask, output_attentions=True)
        output.square().sum().backward()
        gradients.append([output, attentions, *(weight.grad for weight in layer.parameters())])
    torch.testing.assert_close(*gradients)


@pytest.mark.heavy
def test_compiles_without_convolutions():
    """The default backend would compile their gradients for every length anew."""
    operations = []

    def backend(graph, inputs):
        operations.extend(str(node.target) for node in graph.graph.nodes if node.op == "call_function")
        return graph

    torch.compile(build((3, 5), dtype=torch.float32), backend=backend)(*ragged(dtype=torch.float32))
    assert operations and not any("conv" in operation for operation in operations)


@pytest.mark.parametrize("heads", [1, 2])
def test_control_is_plain_attention(heads):
    layer = build((), mask_mode="none", num_heads=heads)
    hidden_states, attention_mask = ragged()
    query, key, value = (
        linear(hidden_states).unflatten(-1, (heads, -1)).transpose(1, 2)
        for linear in (layer.query, layer.key, layer.value)
    )
    expected = nn.functional.scaled_dot_product_attention(
        query, key, value, attn_mask=attention_mask.bool()[:, None, None]
    )
    expected = expected.transpose(1, 2).flatten(-2) * attention_mask.unsqueeze(-1)
    torch.testing.assert_close(layer(hidden_states, attention_mask)[0], expected, rtol=1e-11, atol=1e-12)


def test_hard_mask_keeps_no_map_of_its_own_for_backward():
    n, scales = 41, (3, 5)
    layer = build(scales, mask_mode="hard")
    kept: dict[int, torch.Tensor] = {}

    def pack(tensor):
        if tensor.numel() >= n * n:
            kept[tensor.untyped_storage().data_ptr()] = tensor
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        output, _ = layer(torch.randn(1, n, WIDTH, dtype=torch.float64, requires_grad=True))
    maps = [(tensor.dtype, tensor.numel()) for tensor in kept.values()]
    size = (1 + len(scales)) * n * n
    assert sorted(maps, key=str) == [(torch.bool, size), (torch.float64, size), (torch.float64, size)]
    output.sum().backward()


@pytest.mark.parametrize("scales", [(), (3,), (3, 5)])
def test_parameters(scales):
    layer = MultiScaleFusion(768, scales)
    names = ["query", "key", "value", "mask_query", "mask_key", *(f"convs.{i}" for i in range(len(scales)))]
    assert list(layer.state_dict()) == [f"{name}.weight" for name in names]
    assert sum(weight.numel() for weight in layer.parameters()) == (5 + sum(scales)) * 768**2


def test_output_alone_is_the_same():
    layer = build((3, 5))
    hidden_states, attention_mask = ragged()
    output, attentions = layer(hidden_states, attention_mask)
    assert attentions is None
    torch.testing.assert_close(output, layer(hidden_states, attention_mask, output_attentions=True)[0])


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


class BiLSTMClassifier(nn.Module):
    """The paper's other encoder, under the same layer."""

    def __init__(self, vocab_size: int, hidden_size: int):
        super().__init__()
        self.embeddings = nn.Embedding(vocab_size, hidden_size)
        self.encoder = nn.LSTM(hidden_size, hidden_size // 2, batch_first=True, bidirectional=True)
        self.fusion = MultiScaleFusion(hidden_size, scales=(2, 3), mask_mode="ste")
        self.classifier = nn.Linear(hidden_size, 2)

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
        packed = nn.utils.rnn.pack_padded_sequence(
            self.embeddings(input_ids), attention_mask.sum(dim=1), batch_first=True, enforce_sorted=False
        )
        hidden_states, _ = nn.utils.rnn.pad_packed_sequence(self.encoder(packed)[0], batch_first=True)
        fused, _ = self.fusion(hidden_states, attention_mask)
        return self.classifier(fused.sum(dim=1) / attention_mask.sum(dim=1, keepdim=True))


def test_learns_on_top_of_a_bilstm():
    """Does the phrase "1 2" occur?"""
    torch.manual_seed(0)
    input_ids = torch.randint(1, 5, (64, 10))
    lengths = torch.randint(4, 11, (64,))
    lengths[0] = 10
    attention_mask = (torch.arange(10) < lengths.unsqueeze(-1)).long()
    input_ids = input_ids * attention_mask
    labels = ((input_ids[:, :-1] == 1) & (input_ids[:, 1:] == 2)).any(dim=1).long()
    assert 16 < labels.sum() < 48
    model = BiLSTMClassifier(vocab_size=5, hidden_size=16)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.03)
    losses = []
    for _ in range(40):
        loss = nn.functional.cross_entropy(model(input_ids, attention_mask), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[0] > 0.6 and losses[-1] < 0.3
