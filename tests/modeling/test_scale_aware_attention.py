from __future__ import annotations

from functools import partial
from itertools import product

import numpy as np
import pytest
import torch
from torch.nn.functional import scaled_dot_product_attention
from torch.utils._python_dispatch import TorchDispatchMode
from transformers import AutoModel

from msattn import MSTransformerConfig, MSTransformerModel, scale_aware_attention, set_windows
from msattn.modeling import attention_bands, window_attention
from msattn.modeling.mask_bands import UNBOUNDED, Band
from msattn.modeling.modeling_ms_transformer import layer_windows
from tests.common import SCRATCH
from tests.modeling.attention_reference import real_tokens
from tests.tiny_encoders import tiny_encoder

TOKENS = 23
LENGTHS = (23, 9, 1)
# Windows of the four heads, and of each head in each of the three sentences.
STATIC = [
    [0, 1, 3, None],
    [2, 2, 2, 2],
    [9, 22, 23, 100],
    [None, 1, None, 1],
]
PER_SENTENCE = [
    [[1, 3, 11, 23], [1, 3, 4, 9], [1, 3, 1, 1]],
    [[2, 2, 30, 30], [2, 2, 30, 30], [2, 2, 30, 30]],
]
WINDOWS = [*STATIC, *(torch.tensor(windows) for windows in PER_SENTENCE)]


@pytest.fixture(autouse=True)
def small_bands(monkeypatch):
    """Many blocks, the last of them not full, and windows that reach over several; those of up to 1 by products."""
    for name, size in {"QUERIES": 5, "MOST_QUERIES": 9, "LANES": 4, "NARROW": 2}.items():
        monkeypatch.setattr(attention_bands, name, size)
    monkeypatch.setattr(window_attention, "LITTLE", 0)


def heads(dtype=torch.float64, shape=(3, 4, TOKENS, 6)) -> list[torch.Tensor]:
    """Queries, keys and values."""
    generator = torch.Generator().manual_seed(0)
    return [(torch.randn(shape, dtype=torch.float64, generator=generator) * 2).to(dtype) for _ in range(3)]


def reference(query, key, value, windows, real) -> tuple[np.ndarray, np.ndarray]:
    """softmax(q_j C(K, w)ᵀ / √d) C(V, w), one token after the other: the output and the weights."""
    batch, heads, tokens, dim = query.shape
    query, key, value = (tensor.numpy() for tensor in (query, key, value))
    output, weights = np.zeros(query.shape), np.zeros((batch, heads, tokens, tokens))
    for b, h, j in np.ndindex(batch, heads, tokens):
        if real[b, j]:
            window = windows[b, h] if isinstance(windows, torch.Tensor) else windows[h]
            window = tokens if window is None else int(window)
            context = [c for c in range(j - window, j + window + 1) if 0 <= c < tokens and real[b, c]]
            scores = np.exp([query[b, h, j] @ key[b, h, c] / np.sqrt(dim) for c in context])
            weights[b, h, j, context] = scores / scores.sum()
            output[b, h, j] = weights[b, h, j, context] @ value[b, h, context]
    return output, weights


def attend(*tensors, method, **options) -> torch.Tensor:
    """Scale-aware attention in one of its ways."""
    return window_attention.window_attention(*tensors, method=method, **options).transpose(1, 2)


@pytest.mark.parametrize("method", ["dense", "banded"])
@pytest.mark.parametrize(
    "mask", [None, real_tokens(LENGTHS), real_tokens(LENGTHS, left=True)], ids=["full", "right", "left"]
)
@pytest.mark.parametrize("windows", WINDOWS, ids=str)
def test_equals_the_equation(method, mask, windows, monkeypatch):
    monkeypatch.setattr(window_attention, "SHORT", 0)
    tensors = heads()
    real = torch.ones(3, TOKENS, dtype=torch.bool) if mask is None else mask
    expected, _ = reference(*tensors, windows, real)
    forced = attend(*tensors, windows=windows, real=mask, method=method)
    for output in (forced, scale_aware_attention(*tensors, windows, mask)):
        np.testing.assert_allclose(output.numpy(), expected, rtol=0, atol=1e-12)
        assert output.dtype == torch.float64


@pytest.mark.parametrize("left", [False, True])
def test_weights_of_a_model_equal_the_equation(left):
    config = MSTransformerConfig(**SCRATCH, scales=(1, "N/4", None), num_attention_heads=4)
    model, real = MSTransformerModel(config).eval().double(), real_tokens(LENGTHS, left=left)
    with torch.no_grad():
        ids = torch.arange(3 * TOKENS).view(3, TOKENS) % 50
        outputs = model(ids, real, output_attentions=True, output_hidden_states=True)
        for number, windows in enumerate(layer_windows(config, real)):
            layer, states = model.layers[number].attention, outputs.hidden_states[number]
            projections = (layer.query, layer.key, layer.value)
            parts = [one(states).unflatten(-1, (4, -1)).transpose(1, 2) for one in projections]
            _, expected = reference(*parts, windows, real)
            np.testing.assert_allclose(outputs.attentions[number].numpy(), expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("method", ["dense", "banded"])
@pytest.mark.parametrize("windows", [[1, 4], torch.tensor([[1, 2], [0, 7]])], ids=str)
@pytest.mark.parametrize(
    "mask", [None, real_tokens((7, 4)), real_tokens((7, 4), left=True)], ids=["full", "right", "left"]
)
def test_gradient(method, windows, mask):
    tensors = [tensor.requires_grad_() for tensor in heads(shape=(2, 2, 7, 2))]
    assert torch.autograd.gradcheck(
        lambda query, key, value: attend(query, key, value, windows=windows, real=mask, method=method),
        tensors,
        fast_mode=True,
    )


@pytest.mark.parametrize("method", ["dense", "banded"])
def test_dropout(method):
    """Each weight is zero at the rate that was asked for, and larger by as much otherwise."""
    query, key = torch.zeros(2, 4, 3, 60, 8).unbind()
    value = torch.ones(4, 3, 60, 8)
    outputs = []
    for seed in (0, 0, 1):
        torch.manual_seed(seed)
        outputs.append(attend(query, key, value, windows=[2, 2, None], dropout=0.25, method=method))
    assert torch.equal(outputs[0], outputs[1]) and not torch.equal(outputs[0], outputs[2])
    inner = outputs[0][:, :2, 2:-2, 0] * 5 * 0.75  # how many of the 5 are left
    torch.testing.assert_close(inner, inner.round())
    assert inner.mean().item() == pytest.approx(5 * 0.75, abs=0.3)


@pytest.mark.parametrize("method", ["dense", "banded", None])
@pytest.mark.parametrize("windows", WINDOWS, ids=str)
def test_every_token_sees_a_key(windows, method, monkeypatch):
    """Also padding: a row in which all keys are hidden has a gradient of NaN on a GPU."""
    seen = []
    monkeypatch.setattr(window_attention, "SHORT", 0)

    def noting(*states, attn_mask=None, **options):
        seen.append(attn_mask is None or bool((attn_mask == 0).any(dim=-1).all()))
        return scaled_dot_product_attention(*states, attn_mask=attn_mask, **options)

    for module in (attention_bands, window_attention):
        monkeypatch.setattr(module, "scaled_dot_product_attention", noting)
    for lengths in (LENGTHS, (23, 9, 0)):
        attend(*heads(), windows=windows, real=real_tokens(lengths), method=method)
    assert seen and all(seen)


@pytest.mark.parametrize("padding", [0, 9])
def test_a_model_asks_once_for_padding(padding):
    """On a GPU, each layer that asks waits."""

    class Reads(TorchDispatchMode):
        count = 0

        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            self.count += function is torch.ops.aten._local_scalar_dense.default
            return function(*args, **kwargs or {})

    bert = AutoModel.from_config(tiny_encoder("bert", max_position_embeddings=400, attn_implementation="banded"))
    set_windows(bert, [3, 4])
    scratch = MSTransformerModel(MSTransformerConfig(**SCRATCH, scales=(1, 3), num_attention_heads=2))
    ids = torch.randint(5, 50, (2, 300), generator=torch.Generator().manual_seed(0))
    for model in (bert, scratch):
        with Reads() as reads:
            model(input_ids=ids, attention_mask=torch.arange(300) < torch.tensor([[300], [300 - padding]]))
        assert reads.count == 1


def kept_for_backward(*arguments, **options) -> int:
    """The memory that the forward pass keeps, in bytes."""
    kept: dict[int, int] = {}

    def note(tensor):
        kept[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
        output = attend(*arguments, **options)
    del output
    return sum(kept.values())


def test_memory_follows_the_window():
    """It grows with the tokens, not with their square."""
    sizes = []
    for tokens in (400, 800, 1600):
        tensors = [tensor.requires_grad_() for tensor in heads(torch.float32, (1, 2, tokens, 4))]
        sizes.append(kept_for_backward(*tensors, windows=[3, 1], method="banded"))
    assert sizes[1] < 2.1 * sizes[0] and sizes[2] < 2.1 * sizes[1]


def calls_of(monkeypatch) -> list[tuple[str, int]]:
    """The method of each group of heads, and how many heads are in it."""
    calls = []

    def noting(method, attend, states, *rest):
        calls.append((method, states[0].shape[1]))
        return attend(states, *rest)

    for method in ("dense", "banded"):
        name = f"_{method}"
        monkeypatch.setattr(window_attention, name, partial(noting, method, getattr(window_attention, name)))
    return calls


@pytest.mark.parametrize("per_sentence", [False, True])
def test_heads_of_a_window_are_one_group(per_sentence, monkeypatch):
    monkeypatch.undo()
    calls = calls_of(monkeypatch)
    tensors = heads(torch.float32, (2, 6, 300, 12))
    windows = [1, 1, 3, 3, 3, 290]
    scale_aware_attention(*tensors, torch.tensor([windows] * 2) if per_sentence else windows)
    assert calls == [("banded", 2), ("banded", 3), ("dense", 1)]
    calls.clear()
    scale_aware_attention(*(tensor[:, :, :60] for tensor in tensors), windows)
    scale_aware_attention(*(tensor[:1, :, :200] for tensor in tensors), windows)  # one sentence is little
    assert calls == [("dense", 6)] * 2


def test_a_gpu_takes_one_matrix_for_short_texts(monkeypatch):
    """Without a GPU: a device without numbers is not a CPU, either."""
    monkeypatch.undo()
    calls, windows = calls_of(monkeypatch), [1, 1, 3, 3, 3, None]
    own = torch.ones(2, 6, dtype=torch.long, device="meta")  # nobody reads the windows of a sentence
    groups = [("banded", 2), ("banded", 3), ("dense", 1)]
    for device, tokens, given, expected in (
        ("meta", 300, windows, [("dense", 6)]),
        ("meta", 1024, own, [("dense", 6)]),
        ("meta", 1025, windows, groups),
        ("cpu", 1024, windows, groups),
    ):
        window_attention.window_attention(*torch.empty(3, 2, 6, tokens, 8, device=device), given)
        assert calls == expected
        calls.clear()


@pytest.mark.heavy
def test_an_exported_program_keeps_the_band(monkeypatch):
    """For every length of a named range; a window without an end is dense."""
    monkeypatch.undo()

    class Layer(torch.nn.Module):
        def forward(self, query, key, value, real):
            return scale_aware_attention(query, key, value, [1, 1, 8, None], real)

    def inputs(sentences, tokens):
        lengths = (tokens, 1 + tokens // 2, tokens)[:sentences]
        return (*heads(torch.float32, (sentences, 4, tokens, 6)), real_tokens(lengths))

    calls, sentences, tokens = (
        calls_of(monkeypatch),
        torch.export.Dim("sentences"),
        torch.export.Dim("tokens", max=900),
    )
    for several, first in (({0: sentences}, inputs(2, 300)), ({}, inputs(1, 300))):
        shapes = [{**several, 2: tokens}] * 3 + [{**several, 1: tokens}]
        program = torch.export.export(Layer(), first, dynamic_shapes=shapes, strict=False).module()
        assert calls == [("banded", 2), ("banded", 1), ("dense", 1)]
        for size in ((2, 300), (3, 1), (1, 32), (2, 33), (1, 900)):
            given = inputs(size[0] if several else 1, size[1])
            torch.testing.assert_close(program(*given), Layer()(*given), rtol=0, atol=1e-5)
        calls.clear()


@pytest.mark.parametrize("tokens", [60, 200, 700], ids=["short", "little", "long"])
def test_windows_in_a_band(tokens, monkeypatch):
    """As in a model with windows of its own, for the lengths that are computed in different ways."""
    monkeypatch.undo()
    tensors = heads(shape=(2, 4, tokens, 6))
    places = torch.arange(tokens)
    distances = places - places[:, None]
    special = torch.isin(places, torch.tensor([0, 21])).expand(2, -1)
    by_sentence = torch.tensor([[1, 3, 9, tokens], [3, 0, 9, 9]])
    for windows, limits in ([1, 3, 9, None], by_sentence[:1]), (by_sentence, by_sentence):
        near = distances.abs() <= limits[:, :, None, None]
        far = special[:, None, None] | special[:, None, :, None]
        for band, beyond in product((Band(-20, 5), Band(-UNBOUNDED, 0)), (None, special)):
            mask = band.holds(distances) & (near if beyond is None else near | far)
            expected = torch.nn.functional.scaled_dot_product_attention(*tensors, attn_mask=mask)
            found = window_attention.window_attention(*tensors, windows, band, special=beyond)
            torch.testing.assert_close(found.transpose(1, 2), expected, rtol=0, atol=1e-12)


def test_bad_arguments():
    query, key, value = heads()
    with pytest.raises(ValueError, match=r"must be of one shape, got \(3, 4, 23, 6\), \(3, 4, 22, 6\)"):
        scale_aware_attention(query, key[:, :, 1:], value, [1, 2, 3, None])
    for bad in ([1, 2, 3], [1, 2, 3, -1], torch.ones(4, dtype=torch.long), torch.tensor([[1, 2, 3, -1]] * 3)):
        with pytest.raises(ValueError, match=r"windows must be 4 of at least 0 .* or a tensor \(3, 4\)"):
            scale_aware_attention(query, key, value, bad)
