from __future__ import annotations

import sys
from itertools import product

import numpy as np
import pytest
import torch

from msattn.modeling.crf import best_sequence_scores, crf_layer, crf_loss

TAGS = 3
# Five tokens each: padded on the right, on the left, in the middle, whole, a single token.
MASK = torch.tensor([[1, 1, 1, 1, 0], [0, 0, 1, 1, 1], [1, 0, 1, 1, 0], [1, 1, 1, 1, 1], [0, 1, 0, 0, 0]])
LABELS = torch.tensor(
    [
        [-100, 2, 0, -100, -100],
        [-100, -100, 1, 1, 2],
        [0, -100, -100, -100, -100],
        [-100, 1, -100, 2, 0],
        [-100, 2, -100, -100, -100],
    ]
)


@pytest.fixture
def crf():
    torch.manual_seed(0)
    layer = crf_layer(TAGS).double()
    for weight in layer.parameters():
        torch.nn.init.normal_(weight)
    return layer


@pytest.fixture
def logits():
    return torch.randn(5, 5, TAGS, generator=torch.Generator().manual_seed(1), dtype=torch.double)


def sequences(crf, logits, mask):
    """All sequences of tags of a sentence's real tokens, with their scores, by the formula."""
    start, end, transitions = (
        weight.detach().numpy() for weight in (crf.start_transitions, crf.end_transitions, crf.transitions)
    )
    scores = logits.detach().numpy()[mask.bool().numpy()]
    for tags in product(range(TAGS), repeat=len(scores)):
        single = sum(scores[token, tag] for token, tag in enumerate(tags))
        pairs = sum(transitions[pair] for pair in zip(tags, tags[1:], strict=False))
        yield tags, start[tags[0]] + single + pairs + end[tags[-1]]


def test_loss_is_the_formula(crf, logits):
    losses = crf_loss(crf, logits, LABELS, MASK)
    for row in range(5):
        labels = LABELS[row][MASK[row].bool()].tolist()
        weights = {tags: np.exp(score) for tags, score in sequences(crf, logits[row], MASK[row])}
        agreeing = [
            weight
            for tags, weight in weights.items()
            if all(label in (-100, tag) for label, tag in zip(labels, tags, strict=True))
        ]
        assert losses[row].item() == pytest.approx(-np.log(sum(agreeing) / sum(weights.values())), rel=1e-4)


def test_nothing_labelled_is_nothing_lost(crf, logits):
    assert crf_loss(crf, logits, LABELS.new_full((5, 5), -100), MASK).abs().max() < 1e-5
    empty = crf_loss(crf, logits, LABELS.new_full((5, 5), -100), MASK * 0)
    assert empty.abs().max() < 1e-5


def test_a_label_that_seems_impossible(crf, logits):
    logits[..., 1] -= 1e5
    losses = crf_loss(crf, logits, torch.ones_like(LABELS), MASK)
    torch.testing.assert_close(losses, 1e5 * MASK.sum(1).double(), rtol=1e-4, atol=0)


def test_best_sequences_are_the_formula(crf, logits):
    result = best_sequence_scores(crf, logits, MASK)
    assert (result[MASK == 0] == 0).all()
    for row in range(5):
        scores = dict(sequences(crf, logits[row], MASK[row]))
        real = result[row][MASK[row].bool()]
        for token in range(len(real)):
            for tag in range(TAGS):
                best = max(score for tags, score in scores.items() if tags[token] == tag)
                behind = best - max(scores.values())
                assert real[token, tag].item() == pytest.approx(behind, rel=1e-5, abs=1e-5)
        assert tuple(real.argmax(-1).tolist()) == max(scores, key=scores.get)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_best_sequences_are_those_of_the_library(dtype):
    torch.manual_seed(0)
    crf, logits = crf_layer(9), (10 * torch.randn(40, 30, 9)).to(dtype)
    mask = torch.arange(30) < torch.randint(1, 31, (40, 1))
    best = best_sequence_scores(crf, logits, mask).argmax(-1)
    for row, tags in enumerate(crf.decode(logits.float(), mask)):
        assert best[row, : len(tags)].tolist() == tags


def test_gradient_lets_labels_win(crf, logits):
    logits.requires_grad_()
    crf_loss(crf, logits, LABELS, MASK).sum().backward()
    assert all(weight.grad.abs().max() > 0 for weight in crf.parameters())
    assert (logits.grad[MASK == 0] == 0).all()
    labelled = (MASK == 1) & (LABELS >= 0)
    right = logits.grad[labelled].gather(1, LABELS[labelled].unsqueeze(1))
    assert (right < 0).all()


def test_missing_package(monkeypatch):
    monkeypatch.setitem(sys.modules, "torchcrf", None)
    with pytest.raises(ImportError, match="pip install pytorch-crf"):
        crf_layer(TAGS)
