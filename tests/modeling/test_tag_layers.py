"""Parsers that also tag words."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch.nn.functional import cross_entropy

from msattn import BertPairwiseConfig, BertPairwiseParser, PairwiseParser
from msattn.modeling.tag_layers import TagLayers
from tests.common import TOLERANCE
from tests.modeling.test_modeling_pairwise import SELECT, SIZES, WORDS, build, tree
from tests.tiny_encoders import BERT, randomized

LABELS = {"upos": ["DET", "NOUN", "VERB"], "lemma": ["lower\t0\t\t0\t", "lower\tbe"]}
TAGS = {
    "upos": torch.tensor([[0, 1, -100, 2, 1], [2, 0, -100, -100, -100], [1, 1, 1, 0, 2]]),
    "lemma": torch.tensor([[1, 1, 0, -100, 0], [-100, 0, -100, -100, -100], [0, 1, 0, 1, 1]]),
}
OPTIONS = pytest.mark.parametrize("options", [{}, SELECT], ids=["pairs", "heads"])


@pytest.mark.parametrize("mode", ["first", "mean"])
def test_from_the_formula(mode):
    layers = TagLayers({"upos": 3, "xpos": 2}, 4, word_state=mode).double()
    states = torch.randn(3, 9, 4, dtype=torch.float64)
    found = layers(states, WORDS)
    assert list(found) == ["upos", "xpos"]
    for row, numbers in enumerate(WORDS.tolist()):
        for word in range(1, max(numbers) + 1):
            pieces = [states[row, place].numpy() for place, number in enumerate(numbers) if number == word]
            state = pieces[0] if mode == "first" else np.mean(pieces, axis=0)
            for name, layer in layers.columns.items():
                expected = layer.weight.detach().numpy() @ state + layer.bias.detach().numpy()
                np.testing.assert_allclose(found[name][row, word - 1].detach().numpy(), expected, atol=1e-12)
    assert layers(states, WORDS, 7)["xpos"].shape == (3, 7, 2)


@OPTIONS
@pytest.mark.parametrize("layer_mix", [1, 2])
def test_losses_are_added(options, layer_mix):
    model = build("bert", word_tags=LABELS, layer_mix=layer_mix, **options).eval()
    inputs = tree("bert")
    parsed, both = model(**inputs), model(**inputs, **TAGS)
    torch.testing.assert_close(both.arc_scores, parsed.arc_scores, rtol=0, atol=0)
    expected = parsed.loss
    for name, labels in TAGS.items():
        assert both.tag_logits[name].shape == (3, 5, len(LABELS[name]))
        known = labels != -100
        expected = expected + cross_entropy(both.tag_logits[name][known], labels[known])
    torch.testing.assert_close(both.loss, expected)
    # Nothing known is no loss, and no NaN.
    unknown = {name: torch.full_like(labels, -100) for name, labels in TAGS.items()}
    torch.testing.assert_close(model(**inputs, **unknown).loss, parsed.loss, rtol=0, atol=0)
    del inputs["heads"], inputs["relations"]
    torch.testing.assert_close(model(**inputs, **TAGS).loss, expected - parsed.loss)
    assert model(**inputs).loss is None


@OPTIONS
def test_padding_changes_nothing(options):
    model = build("bert", word_tags=LABELS, **options)
    with torch.no_grad():
        expected = model(**tree("bert"), **TAGS)
        for left, right in ((3, 0), (0, 2)):
            found = model(**tree("bert", left, right), **TAGS)
            torch.testing.assert_close(found.loss, expected.loss, **TOLERANCE)
            torch.testing.assert_close(found.tag_logits, expected.tag_logits, **TOLERANCE)


@pytest.mark.parametrize("model_class", [PairwiseParser, BertPairwiseParser])
def test_save_and_load(model_class, tmp_path):
    if model_class is PairwiseParser:
        model = build("bert", word_tags=LABELS)
    else:
        model = randomized(BertPairwiseParser(BertPairwiseConfig(**BERT, **SIZES, word_tags=LABELS)))
    model.save_pretrained(tmp_path)
    (code,) = tmp_path.glob("modeling_*.py")
    assert "# modeling/tag_layers.py\n" in code.read_text(encoding="utf-8")
    loaded, info = model_class.from_pretrained(tmp_path, output_loading_info=True)
    assert not any(info.values()) and loaded.config.word_tags == LABELS
    with torch.no_grad():
        torch.testing.assert_close(loaded(**tree("bert")).tag_logits, model(**tree("bert")).tag_logits)
    # On an encoder, or on a parser without tags, only they are new.
    build("bert").save_pretrained(tmp_path / "plain")
    _, info = PairwiseParser.from_pretrained(tmp_path / "plain", word_tags=LABELS, output_loading_info=True)
    assert info["missing_keys"] == {f"tags.columns.{name}.{kind}" for name in LABELS for kind in ("weight", "bias")}


def test_refused_labels():
    with pytest.raises(ValueError, match="config.word_tags has no labels of xpos, feats"):
        build("bert", word_tags=LABELS)(**tree("bert"), xpos=TAGS["upos"], feats=TAGS["upos"], upos=TAGS["upos"])
