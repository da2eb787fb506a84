from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from msattn import PairwiseScores
from msattn.modeling import blocked_attention
from msattn.modeling.blocked_attention import Settings
from msattn.modeling.pairwise_scores import arc_attention
from msattn.modeling.word_attention import word_attention, word_members
from msattn.modeling.word_maps import LayerScores, WordMaps, Words
from tests.attention_contract import inputs_of, tiny_model
from tests.modeling.test_word_attention import words_of_attention

# [CLS], words of one, three and two pieces, [SEP]; a shorter sentence without ROOT whose word 2 has no piece.
WORD_INDEX = torch.tensor([[0, 1, 2, 2, 2, 3, 3, -1], [-1, 1, 1, 3, -1, -1, -1, -1]])
TREE = torch.tensor([[2, 0, 2], [3, -100, 0]])
BATCH, HEADS, PIECES, WIDTH, COUNT, OUTPUTS = 2, 3, 8, 4, 4, 2


@pytest.fixture(params=[1, 50, 10**6], ids=["rows", "blocks", "one_block"])
def block(request):
    return request.param


@pytest.fixture
def small_blocks(monkeypatch):
    monkeypatch.setattr(blocked_attention, "BLOCK_SCORES", 100)


def random(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def tensors() -> list[torch.Tensor]:
    """Queries, keys, values, a position bias and sinks."""
    sizes = (WIDTH, WIDTH, WIDTH + 1, PIECES)
    four = [random(BATCH, HEADS, PIECES, size, seed=seed) for seed, size in enumerate(sizes)]
    return [*four, random(1, HEADS, 1, 1, seed=9)]


HIDDEN = torch.tensor([[False] * 8, [False] * 4 + [True] * 4])[:, None, None]
CASES = {
    "plain": {},
    "mask": {"mask": HIDDEN},
    "causal": {"offset": 0},
    "bias": {"bias": True, "mask": HIDDEN},
    "softcap": {"softcap": 0.7, "mask": HIDDEN},
    "sinks": {"sinks": True},
}


def reference(case, tensors) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The weights, the output and the log-sum-exps, element by element."""
    query, key, value, bias, sinks = (tensor.detach().numpy() for tensor in tensors)
    weights = np.zeros((BATCH, HEADS, PIECES, PIECES))
    sums = np.zeros((BATCH, HEADS, PIECES))
    for b, h, i in np.ndindex(BATCH, HEADS, PIECES):
        scores = []
        for j in range(PIECES):
            score = float(query[b, h, i] @ key[b, h, j]) / 2
            if "softcap" in case:
                score = case["softcap"] * math.tanh(score / case["softcap"])
            score += bias[b, h, i, j] if "bias" in case else 0
            hidden = ("mask" in case and HIDDEN[b, 0, 0, j]) or ("offset" in case and j > i)
            scores.append(-math.inf if hidden else score)
        total = sum(math.exp(score) for score in scores)
        total += math.exp(sinks[0, h, 0, 0]) if "sinks" in case else 0
        weights[b, h, i] = [math.exp(score) / total for score in scores]
        sums[b, h, i] = math.log(total)
    return weights, weights @ value, sums


def operator(case, block, weight=None, **changes):
    words = Words.of(WORD_INDEX, COUNT - 1)
    settings = Settings(0.5, case.get("softcap"), case.get("offset"), block=block, **changes)

    def call(query, key, value, bias, sinks, *weights):
        return WordMaps.apply(
            query,
            key,
            value,
            bias if "bias" in case else None,
            sinks if "sinks" in case else None,
            case.get("mask"),
            weights[0] if weights else weight,
            words.word,
            words.pieces,
            words.size,
            settings,
        )

    return call


@pytest.mark.parametrize("name", list(CASES))
def test_from_the_definition(name, block):
    case = CASES[name]
    weights, output, sums = reference(case, tensors())
    found = operator(case, block)(*tensors())
    np.testing.assert_allclose(found[0].numpy(), output, atol=1e-12)
    np.testing.assert_allclose(found[2].numpy(), sums, atol=1e-12)
    expected = np.array(
        [
            [words_of_attention(one, index.tolist(), COUNT - 1) for one in heads]
            for heads, index in zip(weights, WORD_INDEX, strict=True)
        ]
    )
    np.testing.assert_allclose(found[1].numpy(), expected, atol=1e-12)
    linear = random(2, OUTPUTS, HEADS)
    scores = operator(case, block, linear)(*tensors())[1].numpy()
    pairs = np.einsum("kh,bhij->bkij", linear[0], expected) + np.einsum("kh,bhji->bkij", linear[1], expected)
    np.testing.assert_allclose(scores, pairs, atol=1e-12)


@pytest.mark.parametrize("name", list(CASES))
def test_gradients(name, block):
    inputs = [tensor.requires_grad_() for tensor in tensors()]
    case = CASES[name]
    used = inputs[:3] + inputs[3:4] * ("bias" in case) + inputs[4:] * ("sinks" in case)

    def call(*used):
        given = [*used[:3], used[3] if "bias" in case else None, used[3] if "sinks" in case else None]
        return operator(case, block)(*given)

    assert torch.autograd.gradcheck(call, used, fast_mode=True)
    weight = random(2, OUTPUTS, HEADS).requires_grad_()

    def scores(*used):
        given = [*used[:3], used[3] if "bias" in case else None, used[3] if "sinks" in case else None]
        return operator(case, block)(*given, used[-1])

    assert torch.autograd.gradcheck(scores, (*used, weight), fast_mode=True)


def test_dropout_changes_the_output_alone(block):
    inputs = [tensor.requires_grad_() for tensor in tensors()]
    plain = operator({}, block)(*inputs)
    call = operator({}, block, dropout=0.5, seed=3)
    dropped = call(*inputs)
    assert torch.equal(dropped[1], plain[1]) and torch.equal(dropped[2], plain[2])
    assert not torch.allclose(dropped[0], plain[0])
    # Given the mask, the output is linear in the values: its gradient for them has the same mask.
    (of_value,) = torch.autograd.grad(dropped[0].sum(), inputs[2])
    change = random(*inputs[2].shape, seed=7)
    moved = call(*inputs[:2], inputs[2] + change, *inputs[3:])[0]
    torch.testing.assert_close((moved - dropped[0]).sum(), (of_value * change).sum())
    assert torch.autograd.gradcheck(call, [tensor.requires_grad_() for tensor in tensors()], fast_mode=True)


LAYERS = 2
INDEX = torch.tensor([[0, 1, 2, 2, 3, 4, 4, 5, -1], [0, 1, 1, 2, 3, 3, -1, -1, -1]])
HEADS_OF = torch.tensor([[2, 0, 4, 5, 3], [3, 1, 0, -100, -100]])


def encoded(model, implementation, **kwargs):
    model.set_attn_implementation(implementation)
    inputs = inputs_of(model)
    if model.config.is_encoder_decoder:
        model, inputs = model.get_encoder(), {name: inputs[name] for name in ("input_ids", "attention_mask")}
    return model(**inputs, output_attentions=True, **kwargs)


@pytest.mark.parametrize("family", ["bert", "t5", "modernbert", "llama", "gemma2"])
def test_families(family, small_blocks):
    """Position bias, windows, grouped and causal heads, soft cap: maps, scores and arcs are those of eager maps."""
    model = tiny_model(family)
    eager = encoded(model, "eager")
    maps = [word_attention(attention, INDEX) for attention in eager.attentions]
    found = encoded(model, "words", words=Words.of(INDEX))
    for one, expected in zip(found.attentions, maps, strict=True):
        torch.testing.assert_close(one, expected, rtol=0, atol=1e-5)
    torch.manual_seed(0)
    layer = PairwiseScores(1, 0, LAYERS, eager.attentions[0].shape[1])
    weight = layer.layer_weight(torch.float32, torch.device("cpu"))
    scored = encoded(model, "words", words=Words.of(INDEX, weight=weight)).attentions
    assert all(isinstance(one, LayerScores) for one in scored)
    gradients = []
    for attentions in (eager.attentions, found.attentions, scored):
        scores = layer(eager[0], attentions, INDEX)
        arcs = arc_attention(attentions, word_members(INDEX), HEADS_OF)
        loss = scores.square().sum() + (arcs * torch.arange(arcs.shape[-1])).square().sum()
        gradients.append(torch.autograd.grad(loss, layer.parameters(), retain_graph=True))
        gradients[-1] += torch.autograd.grad(loss, model.get_input_embeddings().weight)
        torch.testing.assert_close(scores, layer(eager[0], eager.attentions, INDEX), rtol=0, atol=1e-5)
        torch.testing.assert_close(
            arcs, arc_attention(eager.attentions, word_members(INDEX), HEADS_OF), rtol=0, atol=1e-5
        )
    for other in gradients[1:]:
        for one, expected in zip(other, gradients[0], strict=True):
            torch.testing.assert_close(one, expected, rtol=0, atol=1e-4 * float(expected.abs().max()))


def test_without_words_it_returns_whole_maps():
    model = tiny_model("bert")
    for one, expected in zip(encoded(model, "words").attentions, encoded(model, "eager").attentions, strict=True):
        torch.testing.assert_close(one, expected, rtol=0, atol=1e-5)


def test_gradient_checkpointing_and_half_precision(small_blocks):
    gradients = []
    for checkpointing in (False, True):
        model = tiny_model("bert", hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0).train()
        if checkpointing:
            model.gradient_checkpointing_enable({"use_reentrant": False})
        attentions = encoded(model, "words", words=Words.of(INDEX)).attentions
        sum(attention.square().sum() for attention in attentions).backward()
        gradients.append(model.get_input_embeddings().weight.grad)
    torch.testing.assert_close(*gradients)
    half = encoded(model.to(torch.bfloat16).eval(), "words", words=Words.of(INDEX)).attentions[0]
    assert half.dtype == torch.bfloat16
    torch.testing.assert_close(half.float(), attentions[0], rtol=0, atol=0.05)
