"""Attention distances against a float64 reference, and what is made of them."""

from __future__ import annotations

import csv
import json
import sys

import numpy as np
import pytest
import torch
from transformers import LlamaConfig, LlamaModel, PreTrainedModel

from msattn import MSTransformerConfig, MSTransformerModel, UserError
from msattn.analysis import (
    AttentionDistances,
    attention_distances,
    attention_maps,
    distance_distribution,
    distance_table,
    head_vectors,
    plot_distances,
    received_maps,
)
from msattn.analysis.__main__ import main
from tests.plugin.analysis.tiny_encoders import CONFIGS, SIZES, tiny_encoder
from tests.tiny_models import tiny_tokenizer

TEXTS = [("a cat .",), ("the author of the book wrote in a house , a dog .",), ("",), ("cat",)]
PAIRS = [("a dog .", "the author wrote a book"), ("", "cat"), ("cat", "a house")]


def reference(attention: np.ndarray, per_pair: bool = False) -> np.ndarray:
    """P(δ) of one head in one text, pair by pair."""
    n = len(attention)
    sums, counts = np.zeros(n), np.zeros(n)
    for i in range(n):
        for j in range(n):
            sums[abs(i - j)] += attention[i, j]
            counts[abs(i - j)] += 1
    shares = sums / counts if per_pair else sums
    return shares / shares.sum()


def encoder(family: str) -> PreTrainedModel:
    if family != "ms_transformer":
        return tiny_encoder(family)
    torch.manual_seed(0)
    sizes = {"vocab_size": SIZES["vocab_size"], "hidden_size": 32, "num_attention_heads": 4, "num_hidden_layers": 2}
    return MSTransformerModel(MSTransformerConfig(**sizes, scales=[1, None], initializer_range=0.3)).eval()


@pytest.mark.parametrize("per_pair", [False, True])
def test_against_the_reference(per_pair):
    generator = np.random.default_rng(0)
    attention = generator.exponential(size=(3, 2, 7, 7))
    keep = np.array([[1, 1, 1, 1, 1, 1, 1], [0, 1, 1, 0, 1, 1, 0], [0, 0, 0, 1, 0, 0, 0]], dtype=bool)
    shares, uniform = distance_distribution(torch.tensor(attention), torch.tensor(keep), per_pair)
    for row, mask in enumerate(keep):
        n = mask.sum()
        for head in range(2):
            expected = reference(attention[row, head][np.ix_(mask, mask)], per_pair)
            np.testing.assert_allclose(shares[row, head, :n], expected, atol=1e-12)
        np.testing.assert_allclose(uniform[row, :n], reference(np.ones((n, n)), per_pair), atol=1e-12)
        assert not shares[row, :, n:].any() and not uniform[row, n:].any()


def test_the_uniform_curve_is_that_of_the_formula():
    n = 9
    shares, uniform = distance_distribution(torch.full((1, 1, n, n), 1 / n))
    deltas = torch.arange(n, dtype=torch.float64)
    torch.testing.assert_close(shares[0, 0], uniform[0])
    torch.testing.assert_close(uniform[0, 1:], 2 * (n - deltas[1:]) / n**2)
    assert (uniform[0] @ deltas).item() == pytest.approx((n**2 - 1) / (3 * n))
    torch.testing.assert_close(distance_distribution(torch.ones(1, 1, n, n), per_pair=True)[1][0], deltas * 0 + 1 / n)


def test_what_is_not_kept_changes_nothing():
    attention = torch.rand(1, 2, 6, 6)
    padded = torch.full((1, 2, 9, 9), torch.nan)
    padded[:, :, 1:7, 1:7] = attention
    keep = torch.tensor([[0, 1, 1, 1, 1, 1, 1, 0, 0]])
    for one, other in zip(distance_distribution(attention), distance_distribution(padded, keep), strict=True):
        torch.testing.assert_close(one, other[..., :6])
    nothing, _ = distance_distribution(attention, torch.zeros(1, 6))
    assert not nothing.any()


def test_bad_shapes():
    with pytest.raises(ValueError, match="attention must be"):
        distance_distribution(torch.ones(1, 2, 3, 4))
    with pytest.raises(ValueError, match=r"keep must be \(1, 3\), got \(1, 4\)"):
        distance_distribution(torch.ones(1, 2, 3, 3), torch.ones(1, 4))


def expected_distances(model: PreTrainedModel, texts: list[tuple[str, ...]]) -> tuple[np.ndarray, np.ndarray]:
    shares, uniform = np.zeros((2, 4, 16)), np.zeros(16)
    for text in texts:
        attention, tokens, _ = attention_maps(model, tiny_tokenizer(), *text)
        kept = [place for place, token in enumerate(tokens) if token not in ("[CLS]", "[SEP]")]
        n = len(kept)
        for layer, head in np.ndindex(2, 4):
            weights = attention[layer, head].double().numpy()[np.ix_(kept, kept)]
            shares[layer, head, :n] += reference(weights) / len(texts)
        uniform[:n] += reference(np.ones((n, n))) / len(texts)
    return shares, uniform


@pytest.mark.parametrize("family", [*CONFIGS, "ms_transformer"])
@pytest.mark.parametrize("texts", [TEXTS, PAIRS], ids=["sentences", "pairs"])
def test_of_an_encoder(family, texts):
    model, tokenizer = encoder(family), tiny_tokenizer()
    before = model.config._attn_implementation
    long = [text for text in texts if sum(len(part.split()) for part in text) > 1]
    shares, uniform = expected_distances(model, long)
    for batch_size in (1, 2, 32):
        found = attention_distances(model, tokenizer, texts, batch_size=batch_size)
        assert found.texts == len(long) and model.config._attn_implementation == before
        count = len(found.uniform)
        np.testing.assert_allclose(found.distributions, shares[..., :count], atol=1e-5)
        np.testing.assert_allclose(found.uniform, uniform[:count], atol=1e-12)
        np.testing.assert_allclose(found.scales, shares @ np.arange(16), atol=1e-4)
        assert found.uniform_scale == pytest.approx(uniform @ np.arange(16))


def test_of_a_decoder():
    """As from its eager maps, without them; the statistics of received attention, too."""
    torch.manual_seed(0)
    sizes = {name: size for name, size in SIZES.items() if name != "initializer_range"}
    model = LlamaModel(LlamaConfig(**sizes, num_key_value_heads=2, initializer_range=0.3)).eval()
    tokenizer, texts = tiny_tokenizer(), TEXTS[:2]
    shares, _ = expected_distances(model, texts)
    for implementation in ("sdpa", "eager"):
        model.set_attn_implementation(implementation)
        found = attention_distances(model, tokenizer, texts)
        np.testing.assert_allclose(found.distributions, shares[..., : len(found.uniform)], atol=1e-5)
        ((received, real),) = received_maps(model, tokenizer, texts)
        maps = attention_maps(model, tokenizer, *texts[1]).maps
        torch.testing.assert_close(received[0, :, :, real[0]], maps.sum(dim=-2))
        assert model.config._attn_implementation == implementation


def test_a_long_text_keeps_no_map(monkeypatch):
    model = tiny_encoder(max_position_embeddings=600)
    tokenizer = tiny_tokenizer()
    tokenizer.model_max_length = 600
    monkeypatch.setattr("msattn.analysis.distances.eager_maps", None)
    text = [("the dog " * 280,)]
    assert attention_distances(model, tokenizer, text).texts == 1
    assert head_vectors(model, tokenizer, text).shape == (2, 4, 562)


def test_a_window_is_the_farthest_that_a_head_looks():
    found = attention_distances(encoder("ms_transformer"), tiny_tokenizer(), TEXTS)
    assert not found.distributions[0, 0, 2:].any() and found.scales[0, 0] < 1


def test_long_texts_come_in_small_batches(monkeypatch):
    model, tokenizer = tiny_encoder(), tiny_tokenizer()
    sizes = []
    maps_module = sys.modules["msattn.analysis.attention_maps"]  # a function has the same name
    original = maps_module._read
    monkeypatch.setattr(
        maps_module,
        "_read",
        lambda model, batch, options: sizes.append(len(batch["input_ids"])) or original(model, batch, options),
    )
    whole = attention_distances(model, tokenizer, TEXTS)
    monkeypatch.setattr(maps_module, "LARGEST_READ", 50)
    parts = attention_distances(model, tokenizer, TEXTS)
    assert sizes == [1, 4, 1, 1, 2, 1]  # each time a trial first
    np.testing.assert_allclose(whole.distributions, parts.distributions, atol=1e-6)


def test_no_text_that_is_long_enough():
    with pytest.raises(UserError, match="no text of two tokens or more"):
        attention_distances(tiny_encoder(), tiny_tokenizer(), [("cat",), ("",)])


SHARES = np.array([[[0.5, 0.5, 0.0], [0.0, 0.5, 0.5]], [[1.0, 0.0, 0.0], [0.0, 0.0, 1.0]]])
ENCODER = AttentionDistances(SHARES, np.array([0.5, 0.25, 0.25]), 4)


def test_table():
    table = distance_table([ENCODER], ["bert"])
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()]
    assert cells[0] == ["layer", "mean distance", "nearest head", "farthest head"]
    assert cells[2:] == [
        ["0", "1.00", "0.50 (0)", "1.50 (1)"],
        ["1", "1.00", "0.00 (0)", "2.00 (1)"],
        ["all", "1.00", "0.00", "2.00"],
        ["uniform attention", "0.75", "", ""],
    ]
    rows = distance_table([ENCODER, ENCODER], ["bert", "other"]).splitlines()
    assert len(rows) == 10 and rows[2].startswith("| bert: 0 |") and rows[9].startswith("| other: uniform attention |")


def test_figure():
    figure = plot_distances([ENCODER, ENCODER], titles=["bert", "other"])
    assert [part.get_suptitle() for part in figure.subfigs] == ["bert", "other"]
    heads, layers, scales, bar = figure.subfigs[0].axes
    assert heads.get_title() == "heads of layer 1"  # 0 and 2 differ more than 0.5 and 1.5
    assert [list(line.get_ydata()) for line in heads.lines] == [[1, 0, 0], [0, 0, 1], [0.5, 0.25, 0.25]]
    labels = [text.get_text() for text in heads.get_legend().get_texts()]
    assert labels == ["head 0: 0.0", "head 1: 2.0", "uniform: 0.8"]
    assert [list(line.get_ydata()) for line in layers.lines[:2]] == [[0.25, 0.5, 0.25], [0.5, 0, 0.5]]
    (image,) = scales.images
    np.testing.assert_array_equal(image.get_array(), ENCODER.scales)
    assert image.get_clim() == (0, 2) and "uniform" in bar.get_ylabel()

    (part,) = plot_distances([ENCODER], layer=0, heads=[1], layers=[1]).subfigs
    heads, layers, *_ = part.axes
    assert heads.get_title() == "heads of layer 0"
    assert [list(line.get_ydata()) for line in heads.lines] == [[0, 0.5, 0.5], [0.5, 0.25, 0.25]]
    assert [line.get_label() for line in layers.lines] == ["layer 1: 1.0", "uniform: 0.8"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"layer": 2}, "no layer 2; the model has 0 to 1"),
        ({"layers": [0, -1]}, "no layer -1"),
        ({"heads": [5]}, "no head 5; the model has 0 to 1"),
        ({"path": "distances.pdf"}, "saved as .png or .svg"),
    ],
)
def test_figures_that_cannot_be_drawn(options, message):
    with pytest.raises(UserError, match=message):
        plot_distances([ENCODER], **options)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    for part in (tiny_encoder(), tiny_tokenizer()):
        part.save_pretrained(tmp_path / "model")
    (tmp_path / "lines.txt").write_text("\n".join(" ".join(text) for text in TEXTS), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_command(folder, capsys):
    output = ["a.json", "a.csv", "a.png", "a.svg"]
    options = ["--per_pair", "--layer", "1", "--heads", "0", "2", "--layers", "1"]
    main(["distances", "--model", "model", "--file", "lines.txt", "--output", *output, *options])
    expected = attention_distances(tiny_encoder(), tiny_tokenizer(), TEXTS, per_pair=True)
    assert capsys.readouterr().out == distance_table([expected], ["model"]) + "\n"
    (results,) = json.loads((folder / "a.json").read_text(encoding="utf-8"))
    assert (results["model"], results["texts"], results["per_pair"]) == ("model", 2, True)
    np.testing.assert_allclose(results["mean_distance"], expected.scales, atol=1e-12)
    np.testing.assert_allclose(results["distribution"], expected.distributions, atol=1e-12)
    with open(folder / "a.csv", encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 8 and (rows[5]["layer"], rows[5]["head"]) == ("1", "1")
    assert float(rows[5]["mean_distance"]) == pytest.approx(expected.scales[1, 1])
    assert (folder / "a.png").read_bytes().startswith(b"\x89PNG")
    drawn = (folder / "a.svg").read_text(encoding="utf-8")
    assert "heads of layer 1" in drawn and "head 2: " in drawn and "layer 1: " in drawn and "layer 0: " not in drawn


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"--output": "a.pdf"}, "must end in .png, .svg, .json or .csv"),
        ({"--batch_size": "0"}, "--batch_size must be at least 1"),
        ({"--file": "nowhere.txt"}, "cannot be read"),
        ({"--layer": "7"}, "no layer 7"),
    ],
)
def test_wrong_arguments(folder, changes, message):
    arguments = {"--model": "model", "--file": "lines.txt", "--output": "a.png", **changes}
    with pytest.raises(UserError, match=message):
        main(["distances", *(part for pair in arguments.items() for part in pair)])
    assert not (folder / "a.png").exists()
