from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from msattn import PairwiseScores, relations_of_arcs
from msattn.modeling import pairwise_scores as module
from msattn.modeling.pairwise_scores import arc_attention
from msattn.modeling.word_attention import word_attention, word_members
from tests.modeling.test_word_attention import words_of_attention

BATCH, PIECES, WIDTH, LAYERS, HEADS, WORDS, OUTPUTS = 2, 8, 6, 3, 2, 4, 5
WORD_INDEX = torch.tensor([[0, 1, 2, 2, 3, 4, 4, -1], [0, 1, 1, 2, 3, -1, -1, -1]])
TREE = torch.tensor([[2, 0, 4, 2], [3, 1, 0, -100]])
PARTS = {"emb": (WIDTH, 0), "att": (0, LAYERS), "emb+att": (WIDTH, LAYERS)}


def scores(features="emb+att", dtype=torch.float64, num_outputs=OUTPUTS, **options) -> PairwiseScores:
    torch.manual_seed(0)
    hidden_size, layers = PARTS[features]
    layer = PairwiseScores(num_outputs, hidden_size, layers, HEADS, size=7, attention_scale=2.5, **options).to(dtype)
    for weight in layer.parameters():
        nn.init.normal_(weight)
    return layer


def encoded(dtype=torch.float64) -> tuple[torch.Tensor, tuple[torch.Tensor, ...]]:
    generator = torch.Generator().manual_seed(1)
    states = torch.randn(BATCH, PIECES, WIDTH, generator=generator, dtype=torch.float64)
    maps = torch.randn(LAYERS, BATCH, HEADS, PIECES, PIECES, generator=generator, dtype=torch.float64).softmax(-1)
    return states.to(dtype), tuple(maps.to(dtype))


def naive(layer: PairwiseScores, states: np.ndarray, maps: list[np.ndarray], word_state: str = "first") -> np.ndarray:
    """W C_ij + b of a sentence with C_ij = [T_i; T_j; a_ij; a_ji], each pair's features side by side; 0 is ROOT."""
    parts, bias = [], 0
    if layer.states is not None:
        parts = [layer.states.head.weight, layer.states.dependent.weight]
        bias = layer.states.dependent.bias.detach().numpy()
    if layer.attention is not None:
        parts += [2.5 * half for half in layer.attention.weight.chunk(2, dim=1)]
        bias = bias if layer.attention.bias is None else layer.attention.bias.detach().numpy()
    weight = torch.cat(parts, dim=1).detach().numpy()
    found = np.zeros((len(weight), WORDS + 1, WORDS + 1))
    word_index = WORD_INDEX[0].tolist()
    words = []
    for word in range(WORDS + 1):
        pieces = [states[piece] for piece, owner in enumerate(word_index) if owner == word]
        words.append(pieces[0] if word_state == "first" else sum(pieces) / len(pieces))
    attention = [words_of_attention(head, word_index, WORDS) for layer_map in maps for head in layer_map]
    for i in range(WORDS + 1):
        for j in range(WORDS + 1):
            features = []
            if layer.states is not None:
                features += [*words[i], *words[j]]
            if layer.attention is not None:
                features += [a[i, j] for a in attention] + [a[j, i] for a in attention]
            found[:, i, j] = weight @ np.array(features) + bias
    return found


@pytest.fixture(params=[2**22, 300, 1], ids=["one_block", "some_blocks", "smallest_blocks"])
def blocks(request, monkeypatch):
    monkeypatch.setitem(module.PAIR_SCORES, "cpu", request.param)


@pytest.mark.parametrize("word_state", ["first", "mean"])
@pytest.mark.parametrize("features", list(PARTS))
def test_is_the_naive_concatenation(features, word_state, blocks):
    layer = scores(features, word_state=word_state)
    states, maps = encoded()
    found = layer(states, maps, WORD_INDEX).detach().numpy()
    assert found.shape == (BATCH, OUTPUTS, WORDS + 1, WORDS + 1)
    expected = naive(layer, states[0].numpy(), [layer_map[0].numpy() for layer_map in maps], word_state)
    np.testing.assert_allclose(found[0], expected, rtol=1e-12, atol=1e-12)


def test_biaffine_from_the_formula():
    layer = scores("emb+att", scorer="biaffine")
    states, maps = encoded()
    found = layer(states, maps, WORD_INDEX)
    only_attention = scores("att")
    with torch.no_grad():
        only_attention.attention.weight.copy_(layer.attention.weight)
        only_attention.attention.bias.zero_()
    part = found - only_attention(states, maps, WORD_INDEX)
    words = states[0, [0, 1, 2, 4, 5]]
    bilinear = layer.states.bilinear.weight.view(OUTPUTS, 7, 7)  # output, dependent, head
    for i in range(WORDS + 1):
        for j in range(WORDS + 1):
            h, d = layer.states.head_layer(words[i]), layer.states.dependent_layer(words[j])
            for k in range(OUTPUTS):
                expected = d @ bilinear[k] @ h + layer.states.head(h)[k] + layer.states.dependent(d)[k]
                torch.testing.assert_close(part[0, k, i, j], expected)


@pytest.mark.parametrize(("features", "scorer"), [*((name, "linear") for name in PARTS), ("emb+att", "biaffine")])
def test_arcs_are_those_of_all_pairs(features, scorer):
    layer = scores(features, scorer=scorer)
    states, maps = encoded()
    every = layer(states, maps, WORD_INDEX).permute(0, 2, 3, 1)
    trees = [TREE, TREE.roll(1, dims=1)]
    found = layer.arcs(states, maps, WORD_INDEX, torch.stack(trees, dim=-1)).unbind(2)
    for tree, of_tree in zip(trees, found, strict=True):
        torch.testing.assert_close(of_tree, relations_of_arcs(every, tree))
    taken = relations_of_arcs(every, TREE)
    assert torch.equal(taken[0, 2], every[0, 4, 3]) and torch.equal(taken[1, 3], every[1, 0, 4])


def test_attention_of_arcs_from_the_definition():
    _, maps = encoded()
    found = arc_attention(maps, word_members(WORD_INDEX, WORDS), TREE)
    words = torch.cat([word_attention(layer_map, WORD_INDEX, WORDS) for layer_map in maps], dim=1)
    for sentence in range(BATCH):
        for word, head in enumerate(TREE[sentence].clamp_min(0).tolist(), start=1):
            expected = [words[sentence, :, head, word], words[sentence, :, word, head]]
            torch.testing.assert_close(found[sentence, word - 1], torch.cat(expected))


def test_gradients(blocks):
    layer = scores(num_outputs=2)
    states, maps = encoded()
    inputs = [tensor.detach().requires_grad_() for tensor in (states, *maps)]
    weights = list(layer.parameters())

    def every(states, *rest):
        return layer(states, rest[:LAYERS], WORD_INDEX)

    def arcs(states, *rest):
        return layer.arcs(states, rest[:LAYERS], WORD_INDEX, TREE[..., None])

    assert torch.autograd.gradcheck(every, (*inputs, *weights), fast_mode=True)
    assert torch.autograd.gradcheck(arcs, (*inputs, *weights), fast_mode=True)


def test_nothing_is_kept_but_the_maps():
    """(words + 1)² * (2M + 2LH) numbers would be 1,100 at the least."""
    layer = scores(num_outputs=1)
    states, maps = encoded()
    maps = tuple(layer_map.requires_grad_() for layer_map in maps)
    known = {tensor.data_ptr() for tensor in (states, *maps, WORD_INDEX, *layer.parameters())}
    kept = []

    def keep(tensor):
        if tensor.data_ptr() not in known:
            kept.append(tensor.numel())
        return tensor

    tree = TREE[..., None]
    for call in (lambda: layer(states, maps, WORD_INDEX), lambda: layer.arcs(states, maps, WORD_INDEX, tree)):
        kept.clear()
        with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
            call()
        # The units that the weight of the attention is read with do not grow with the sentence.
        units = (layer.attention.in_features + 1) * layer.attention.in_features
        assert kept and max(kept) <= max(BATCH * PIECES**2, units)


def test_in_bfloat16_and_under_autocast():
    states, maps = encoded(torch.float32)
    layer = scores(dtype=torch.float32)
    expected = layer(states, maps, WORD_INDEX)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        mixed = layer(states, maps, WORD_INDEX)
        mixed.sum().backward()
    assert mixed.dtype == torch.float32
    half = layer.to(torch.bfloat16)(*encoded(torch.bfloat16), WORD_INDEX)
    half.sum().backward()
    assert half.dtype == torch.bfloat16
    for found in (mixed, half):
        assert (found - expected).abs().mean() < 0.02 * expected.std()


def test_a_large_bias_in_bfloat16():
    layer, (states, maps) = scores("att", torch.float32), encoded(torch.float32)
    nn.init.normal_(layer.attention.weight, std=0.05)
    nn.init.constant_(layer.attention.bias, 6)
    expected = layer(states, maps, WORD_INDEX)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        torch.testing.assert_close(layer(states, maps, WORD_INDEX), expected, rtol=0, atol=0.005)


@pytest.mark.parametrize("options", [{"scorer": "bilinear"}, {"word_state": "last"}])
def test_what_no_layer_knows_is_refused(options):
    with pytest.raises(ValueError, match='scorer must be "linear" or "biaffine", word_state "first" or "mean"'):
        scores(**options)


def test_maps_that_are_not_there():
    with pytest.raises(ValueError, match="maps of 3 layers, got 0; an encoder returns them with output_att"):
        scores()(encoded()[0], (), WORD_INDEX)
