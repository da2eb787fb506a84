"""What pictures show of encoders: whole maps, distances against a float64 reference, and the cost of windows."""

from __future__ import annotations

import gzip
import json
import re

import numpy as np
import pytest
import torch
from transformers import AutoModel, AutoModelForSequenceClassification, AutoTokenizer, PreTrainedModel

from msattn import MSTransformerConfig, MSTransformerModel, UserError, set_windows
from msattn.plots import (
    attention_distances,
    attention_maps,
    plot_attention_maps,
    plot_heads,
)
from msattn.plots.encoders import encoder_of, load_encoder, read_texts, short_names
from msattn.plots.heads import distance_table
from tests.tiny_encoders import randomized, saved_tiny_encoder
from tests.tiny_encoders import tiny_encoder as tiny_config
from tests.tiny_models import tiny_relation_extractor, tiny_tokenizer

TEXTS = [("a cat .",), ("the author of the book wrote in a house , a dog .",), ("",), ("cat",)]
FAMILIES = "bert roberta albert electra distilbert modernbert deberta-v2 llama ms_transformer".split()
PAIRS = [("a dog .", "the author wrote a book"), ("", "cat"), ("cat", "a house")]
LABELS = [0, 2, 1, 1]


def encoder(family: str = "bert", seed: int = 0, **changes) -> PreTrainedModel:
    """Far from uniform attention, for the tiny tokenizer."""
    torch.manual_seed(seed)
    if family == "ms_transformer":
        sizes = {"vocab_size": 60, "hidden_size": 32, "num_attention_heads": 4, "num_hidden_layers": 2}
        return randomized(MSTransformerModel(MSTransformerConfig(**sizes, scales=[1, None])))
    return randomized(AutoModel.from_config(tiny_config(family, **{"pad_token_id": 0, **changes})))


def classifier(**changes) -> PreTrainedModel:
    torch.manual_seed(0)
    config = tiny_config("bert", **{"num_labels": 3, "initializer_range": 0.3, **changes})
    return AutoModelForSequenceClassification.from_config(config)


@pytest.mark.parametrize("family", FAMILIES)
def test_maps_are_those_that_the_model_returns(family):
    model, tokenizer = encoder(family), tiny_tokenizer()
    model.train()
    own = getattr(model.config, "_attn_implementation", None)
    maps, tokens = attention_maps(model, tokenizer, "the unpayers wrote", "a cat")
    assert " ".join(tokens) == "[CLS] the un ##payer ##s wrote [SEP] a cat [SEP]"
    assert maps.dtype == torch.float32 and not maps.requires_grad and model.training
    assert getattr(model.config, "_attn_implementation", None) == own
    if family != "ms_transformer":
        model.set_attn_implementation("eager")
    inputs = tokenizer("the unpayers wrote", "a cat", return_tensors="pt")
    expected = model.eval()(**inputs, output_attentions=True).attentions
    torch.testing.assert_close(maps, torch.cat(expected), rtol=1e-4, atol=1e-5)


def test_maps_of_windows_and_of_long_texts():
    model, tokenizer = set_windows(encoder(max_position_embeddings=16), 1), tiny_tokenizer()
    maps, tokens = attention_maps(model, tokenizer, "a cat " * 50)
    places = torch.arange(16)
    assert len(tokens) == 16 and not maps[..., (places[:, None] - places).abs() > 1].any()
    torch.testing.assert_close(maps.sum(dim=-1), torch.ones(2, 4, 16))


def shares(attention: np.ndarray) -> np.ndarray:
    """P(δ) of one head in one text, pair by pair."""
    sums = np.zeros(16)
    for i, j in np.ndindex(attention.shape):
        sums[abs(i - j)] += attention[i, j]
    return sums / sums.sum()


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("texts", [TEXTS, PAIRS], ids=["sentences", "pairs"])
def test_distances_against_the_reference(family, texts):
    model, tokenizer = encoder(family), tiny_tokenizer()
    expected, uniform = [], []
    for text in texts:
        maps, tokens = attention_maps(model, tokenizer, *text)
        kept = [place for place, token in enumerate(tokens) if token not in ("[CLS]", "[SEP]")]
        if len(kept) > 1:
            heads = maps.double().numpy()[:, :, kept][..., kept]
            expected.append([[shares(head) for head in layer] for layer in heads])
            even = np.ones((len(kept), len(kept)))
            even = np.tril(even) if family == "llama" else even
            uniform.append(shares(even / even.sum(axis=1, keepdims=True)))
    expected, uniform = np.mean(expected, axis=0), np.mean(uniform, axis=0)
    for batch_size in (1, 3):
        found = attention_distances(model, tokenizer, texts, batch_size)
        count = len(found.uniform)
        np.testing.assert_allclose(found.distributions, expected[..., :count], atol=1e-5)
        np.testing.assert_allclose(found.uniform, uniform[:count], atol=1e-12)
        np.testing.assert_allclose(found.scales, expected @ np.arange(16), atol=1e-4)
        assert found.uniform_scale == pytest.approx(uniform @ np.arange(16))


def test_texts_are_strings_or_tuples():
    model, tokenizer = encoder(), tiny_tokenizer()
    found = [attention_distances(model, tokenizer, texts) for texts in (["a dog", "cats"], [("a dog",), ("cats",)])]
    np.testing.assert_array_equal(found[0].distributions, found[1].distributions)


def test_texts_without_distances():
    with pytest.raises(UserError, match="no text of two tokens"):
        attention_distances(encoder(), tiny_tokenizer(), [("cat",)])


def test_texts_are_lines_or_a_table(tmp_path):
    (tmp_path / "a.txt").write_text("a cat\n\n  a dog \n")
    (tmp_path / "a.txt.gz").write_bytes(gzip.compress((tmp_path / "a.txt").read_bytes()))
    (tmp_path / "b.txt").write_text("sentence\tlabel\na cat\t1\n")
    (tmp_path / "c.jsonl").write_text(json.dumps({"a": "x", "b": "y", "c": "z"}) + "\n")
    (tmp_path / "d.txt").write_text("\n")
    for name in ("a.txt", "a.txt.gz"):
        assert read_texts(str(tmp_path / name)) == [("a cat",), ("a dog",)]
    assert read_texts(str(tmp_path / "b.txt")) == [("a cat",)]
    assert read_texts(str(tmp_path / "c.jsonl"), ["c", "a"]) == [("z", "x")]
    with pytest.raises(UserError, match=r"d.txt: the file is empty"):
        read_texts(str(tmp_path / "d.txt"))


@pytest.mark.parametrize(
    ("names", "short"),
    [(["x/a/1", "x/b/1"], ["a", "b"]), (["x/a", "x/a"], ["a", "a"]), (["x/a", "x/a/b"], ["a", "b"]), (["m"], ["m"])],
)
def test_short_names(names, short):
    assert short_names(names) == short


def test_the_encoder_of_a_model_with_heads():
    model, _ = tiny_relation_extractor(scales=[3])
    assert encoder_of(model) is model.base_model
    assert encoder_of(classifier()).config.model_type == "bert"


def test_a_decoder_without_a_padding_token(tmp_path):
    folder = str(saved_tiny_encoder("llama", tmp_path))
    AutoTokenizer.from_pretrained(folder, padding_side="left").save_pretrained(folder)
    model, tokenizer = load_encoder(folder)
    assert tokenizer.padding_side == "right"  # absolute positions are counted from the left
    assert attention_maps(model, tokenizer, "a cat")[1][0] == "<s>"
    assert attention_distances(model, tokenizer, ["a cat", "the old house"]).uniform_scale > 0


def texts_of(path) -> list[str]:
    return re.findall(r"<text[^>]*>(.*?)</text>", path.read_text(encoding="utf-8"))


def test_pictures(tmp_path):
    model, tokenizer = encoder(), tiny_tokenizer()
    maps, tokens = attention_maps(model, tokenizer, "a cat .")
    mean = maps.mean(dim=(0, 1))
    marks = [{(1, 2)}, set()]
    plot_attention_maps([mean, mean], [tokens] * 2, tmp_path / "maps.svg", ["one", "$two$"], darkest=0.1, marks=marks)
    found = texts_of(tmp_path / "maps.svg")
    assert found.count("cat") == 4 and {"one", "$two$", "attending token", "attention"} <= set(found)
    distances = attention_distances(model, tokenizer, TEXTS)
    plot_heads([distances] * 2, tmp_path / "heads.svg", ["left", "right"])
    assert {"left", "right", "layer", "head"} <= set(texts_of(tmp_path / "heads.svg"))
    assert "left: uniform attention" in distance_table([distances] * 2, ["left", "right"])
    with pytest.raises(UserError, match=r"a.gif: the file must end in .png or .svg"):
        plot_heads([distances], tmp_path / "a.gif")
