"""Similarity and entropy against float64 references, and what is made of them."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from msattn import UserError
from msattn.analysis import (
    attention_diversity,
    attention_maps,
    diversity_table,
    map_similarity,
    plot_diversity,
    received_entropy,
)
from msattn.analysis.diversity import Diversity, EncoderDiversity
from tests.plugin.analysis.tiny_encoders import tiny_encoder
from tests.tiny_models import tiny_tokenizer

TEXTS = [("a cat .",), ("the author of the book wrote in a house , a dog .",), ("",), ("the unpayers wrote",)]


def similarity_reference(maps: np.ndarray) -> float:
    """All pairs of different maps of one text without padding, one after the other."""
    cosines = [
        one @ other / np.sqrt((one @ one) * (other @ other))
        for i, one in enumerate(maps)
        for j, other in enumerate(maps)
        if i != j
    ]
    return float(np.mean(cosines))


def entropy_reference(received: np.ndarray) -> float:
    shares = received / received.sum()
    return float(-sum(share * np.log2(share) for share in shares if share > 0))


def draw(maps: int = 5, tokens: int = 7) -> tuple[torch.Tensor, torch.Tensor]:
    """Samples of 7, 2, 5 and 1 tokens, with something else at their padding, and a token that receives nothing."""
    generator = torch.Generator().manual_seed(0)
    real = torch.arange(tokens) < torch.tensor([7, 2, 5, 1]).unsqueeze(-1)
    received = torch.randn(4, maps, tokens, generator=generator, dtype=torch.float64).exp()
    received[0, 0, 3] = 0
    return received.where(real.unsqueeze(1), torch.tensor(3.0, dtype=torch.float64)), real


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-12), (torch.float32, 1e-5)])
@pytest.mark.parametrize("maps", [2, 5])
def test_against_the_references(dtype, tolerance, maps):
    received, real = draw(maps)
    samples = [sample[:, mask].numpy() for sample, mask in zip(received, real, strict=True)]
    similarity = map_similarity(received.to(dtype), real.long())
    bits, share = (received_entropy(received.to(dtype), real, normalized) for normalized in (False, True))
    assert similarity.dtype == bits.dtype == share.dtype == dtype
    expected = np.array([[entropy_reference(row) for row in sample] for sample in samples])
    np.testing.assert_allclose(similarity, [similarity_reference(sample) for sample in samples], atol=tolerance)
    np.testing.assert_allclose(bits, expected, atol=tolerance)
    np.testing.assert_allclose(share[:3], expected[:3] / np.log2([[7], [2], [5]]), atol=tolerance)
    assert not share[3].any()


def test_padding_changes_nothing():
    received, real = draw()
    for measure in (map_similarity, received_entropy, lambda *args: received_entropy(*args, normalized=True)):
        together = measure(received, real)
        for row, count in enumerate(real.sum(dim=-1).tolist()):
            torch.testing.assert_close(measure(received[row, None, :, :count])[0], together[row])


def test_extremes():
    alike, apart = torch.ones(1, 4, 4), torch.eye(4)[None]
    assert map_similarity(alike).item() == pytest.approx(1) and map_similarity(apart).item() == pytest.approx(0)
    assert received_entropy(alike)[0].tolist() == [2.0] * 4
    assert received_entropy(alike, normalized=True)[0].tolist() == [1.0] * 4
    assert not received_entropy(apart).any()
    nothing = torch.zeros(1, 4)
    for values in (map_similarity(alike, nothing), received_entropy(alike, nothing, normalized=True)):
        assert not values.any()


def test_bad_shapes():
    with pytest.raises(ValueError, match="single map"):
        map_similarity(torch.ones(1, 1, 3))
    with pytest.raises(ValueError, match=r"must be \(batch, maps, tokens\)"):
        received_entropy(torch.ones(2, 3))
    with pytest.raises(ValueError, match=r"attention_mask must be \(1, 3\), got \(1, 2\)"):
        received_entropy(torch.ones(1, 2, 3), torch.ones(1, 2))


@pytest.mark.parametrize("batch_size", [1, 3])
def test_of_an_encoder(batch_size):
    model, tokenizer = tiny_encoder(), tiny_tokenizer()
    received = [attention_maps(model, tokenizer, *text).maps.sum(dim=-2).double().numpy() for text in TEXTS]
    found = attention_diversity(model, tokenizer, TEXTS, batch_size)
    assert found.texts == len(TEXTS) and len(found.layers) == 2
    for diversity, rows in zip([found.overall, *found.layers], [slice(None), [0], [1]], strict=True):
        maps = [sample[rows].reshape(-1, sample.shape[-1]) for sample in received]
        entropies = [np.mean([entropy_reference(row) for row in sample]) for sample in maps]
        lengths = [sample.shape[-1] for sample in maps]
        expected = (np.mean([similarity_reference(sample) for sample in maps]), np.mean(entropies))
        assert (diversity.similarity, diversity.entropy) == pytest.approx(expected, rel=1e-4)
        assert diversity.normalized_entropy == pytest.approx(np.mean(entropies / np.log2(lengths)), rel=1e-4)


def test_texts_of_one_token_and_layers_of_one_head():
    tokenizer = tiny_tokenizer()
    tokenizer.backend_tokenizer.post_processor = None  # no special tokens
    model = tiny_encoder(num_attention_heads=1)
    found = attention_diversity(model, tokenizer, [("cat",), ("a cat",)])
    alone = attention_diversity(model, tokenizer, [("a cat",)])
    assert found.texts == alone.texts == 1
    assert found.overall.similarity == pytest.approx(alone.overall.similarity, rel=1e-4)
    assert found.layers[1].entropy == pytest.approx(alone.layers[1].entropy, rel=1e-4)
    assert [layer.similarity for layer in found.layers] == [None, None]
    with pytest.raises(UserError, match="no text of two tokens"):
        attention_diversity(model, tokenizer, [("cat",)])


ENCODERS = [
    EncoderDiversity(Diversity(0.5, 2.0, 0.75), [Diversity(0.25, 1.0, 0.5), Diversity(None, 3.0, 1.0)], 4),
    EncoderDiversity(Diversity(0.125, 2.5, 0.875), [Diversity(0.0625, 2.5, 0.875)], 4),
]


def test_table():
    lines = diversity_table(ENCODERS, ["none", "both"]).splitlines()
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    assert cells[0][:4] == ["layer", "cosine of two maps: none", "cosine of two maps: both", "entropy (bits): none"]
    assert cells[2] == ["0", "0.250", "0.062", "1.000", "2.500", "0.500", "0.875"]
    assert cells[3] == ["1", "–", "–", "3.000", "–", "1.000", "–"]
    assert cells[4] == ["all", "0.500", "0.125", "2.000", "2.500", "0.750", "0.875"]
    assert diversity_table(ENCODERS[1:], ["both"]).splitlines()[0] == (
        "| layer | cosine of two maps | entropy (bits) | entropy / log₂ n |"
    )


def test_figure():
    figure = plot_diversity(ENCODERS, titles=["none", "both"])
    cosine, entropy = figure.axes
    drawn = [list(line.get_ydata()) for line in cosine.lines]
    np.testing.assert_array_equal(drawn[0], [0.25, np.nan])
    assert drawn[1:] == [[0.5, 0.5], [0.0625], [0.125, 0.125]]
    assert [list(line.get_ydata()) for line in entropy.lines] == [[0.5, 1.0], [0.75] * 2, [0.875], [0.875] * 2]
    colors = [line.get_color() for line in cosine.lines]
    assert colors[0] == colors[1] != colors[2] == colors[3]
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["none", "both"]
    assert cosine.get_ylabel() == "cosine of two maps" and entropy.get_ylabel() == "entropy / log₂ n"
    assert not plot_diversity(ENCODERS).legends
    with pytest.raises(UserError, match=r"saved as .png or .svg"):
        plot_diversity(ENCODERS, "diversity.pdf")
