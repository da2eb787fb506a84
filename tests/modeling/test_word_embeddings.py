from __future__ import annotations

import pytest
import torch

from msattn import MSTransformerConfig
from msattn.modeling.word_embeddings import WordEmbeddings, sinusoids

INPUT_IDS = torch.tensor([[5, 9, 7, 6, 0], [8, 4, 0, 0, 0]])
MASK = torch.tensor([[1, 1, 1, 1, 0], [1, 1, 0, 0, 0]])


def embeddings(positions=None, **changes) -> WordEmbeddings:
    config = MSTransformerConfig(**{"vocab_size": 20, "hidden_size": 30, **changes})
    torch.manual_seed(0)
    return WordEmbeddings(config, positions).eval()


def test_vectors_are_projected_to_the_width_of_the_layers():
    layer = embeddings(embedding_size=12)
    vectors = layer.word_embeddings(INPUT_IDS)
    assert vectors.shape == (2, 5, 12)
    expected = vectors @ layer.projection.weight.T + layer.projection.bias
    torch.testing.assert_close(layer(INPUT_IDS, None, MASK), expected)
    torch.testing.assert_close(layer(None, vectors, MASK), expected)
    assert torch.equal(embeddings()(None, vectors[..., :1].expand(-1, -1, 30), MASK)[..., 0], vectors[..., 0])


def test_words_and_waves_are_of_like_size():
    layer = embeddings("sinusoidal")
    words = layer.word_embeddings(INPUT_IDS)
    positions = torch.tensor([[0, 1, 2, 3, 3], [0, 1, 1, 1, 1]])
    torch.testing.assert_close(layer(INPUT_IDS, None, MASK), words * 30**0.5 + sinusoids(positions, 30))


def test_too_many_tokens_for_learned_positions():
    layer = embeddings("learned", max_position_embeddings=4)
    assert layer(INPUT_IDS[:, :4], None, MASK[:, :4]).shape == (2, 4, 30)
    with pytest.raises(ValueError, match="5 tokens are more than the 4 learned positions"):
        layer(INPUT_IDS, None, MASK)


class TestWordDropout:
    def test_replaces_words_in_training_only(self):
        layer = embeddings(word_dropout=1.0, unk_token_id=3, hidden_dropout_prob=0.0)
        assert torch.equal(layer(INPUT_IDS, None, MASK), embeddings()(INPUT_IDS, None, MASK))
        unknown = torch.tensor([[5, 3, 3, 3, 0], [8, 3, 0, 0, 0]])  # not [CLS], not padding
        assert torch.equal(layer.train()(INPUT_IDS, None, MASK), layer.word_embeddings(unknown))
        layer(INPUT_IDS, None, MASK).sum().backward()
        trained = layer.word_embeddings.weight.grad.abs().sum(-1).nonzero().flatten().tolist()
        assert trained == [3, 5, 8]

    def test_replaces_a_share(self):
        layer = embeddings(word_dropout=0.25, hidden_dropout_prob=0.0).train()
        ids = torch.full((100, 101), 7)
        states = layer(ids, None, torch.ones_like(ids))
        replaced = (states == layer.word_embeddings.weight[1]).all(-1)
        assert not replaced[:, 0].any() and 0.23 < replaced[:, 1:].float().mean() < 0.27

    def test_left_padding(self):
        layer = embeddings(word_dropout=1.0, hidden_dropout_prob=0.0).train()
        found = layer(INPUT_IDS.roll(1, 1), None, MASK.roll(1, 1)).roll(-1, 1)
        assert torch.equal(found, layer(INPUT_IDS, None, MASK))


@pytest.mark.parametrize("width", [6, 7])
def test_sinusoids(width):
    found = sinusoids(torch.tensor([[0, 3]]), width)
    assert found.shape == (1, 2, width)
    half = (width + 1) // 2
    for i in range(half):
        angle = torch.tensor(3 / 10000 ** (2 * i / width))
        torch.testing.assert_close(found[0, 1, i], angle.sin())
        if half + i < width:
            torch.testing.assert_close(found[0, :, half + i], torch.stack([torch.tensor(1.0), angle.cos()]))
