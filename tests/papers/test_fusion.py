"""The picture of fused attention, and other fusion layers."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
import variants
from attention_picture import main

from msattn.errors import UserError
from tests.tiny_models import tiny_relation_extractor


def test_a_sentence_of_a_model(tmp_path):
    model, tokenizer = tiny_relation_extractor(scales=[3, 5])
    for part in (model, tokenizer):
        part.save_pretrained(tmp_path / "model")
    text = "the <e1>author</e1> wrote a <e2>book</e2> ."
    main(["--model", str(tmp_path / "model"), "--text", text, "--output", str(tmp_path / "a.png")])
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")


def test_the_phrase_of_a_word_is_its_part_around_the_entities():
    torch.manual_seed(0)
    fusion = variants.SegmentFusion(8, [1])
    fusion.entity_starts = torch.tensor([[5, 2], [1, 3]])
    words = torch.randn(2, 9, 8)
    words[1, 6:] = 0
    expected = torch.zeros(2, 9, 8)
    for row, bounds in enumerate(([0, 2, 5, 9], [0, 1, 3, 6])):
        for first, end in zip(bounds, bounds[1:], strict=False):
            expected[row, first:end] = words[row, first:end].mean(dim=0) @ fusion.convs[0].weight[:, :, 0].T
    found = fusion._convolve(fusion.convs[0], 1, words)
    real = words.any(dim=-1)
    torch.testing.assert_close(found[real], expected[real])


def test_queries_and_keys_read_normed_states():
    torch.manual_seed(0)
    fusion, states = variants.NormedFusion(8, [], mask_mode="none"), torch.randn(2, 5, 8)
    normed = torch.nn.functional.layer_norm(states, (8,))
    scores = fusion.query(normed) @ fusion.key(normed).transpose(1, 2) / 8**0.5
    torch.testing.assert_close(fusion(states)[0], scores.softmax(dim=-1) @ fusion.value(states))


@pytest.fixture
def load(monkeypatch):
    monkeypatch.setattr(variants, "load_model", lambda *args, **kwargs: tiny_relation_extractor()[0])
    return lambda name: variants.load_variant(
        None, SimpleNamespace(variant=name, head="multiscale"), refuse_new_weights=False
    )


@pytest.mark.parametrize("name", [name for name in variants.VARIANTS if name.endswith("zero")])
def test_a_variant_with_zeros_starts_as_the_identity(name, load):
    found = load(name)
    assert type(found.base_model.fusion[0]) is variants.VARIANTS[name]
    found.config.fusion_residual = True
    inputs = {"input_ids": torch.tensor([[5, 6, 7, 8]]), "entity_starts": torch.tensor([[1, 2]])}
    outputs = found(**inputs, output_hidden_states=True)
    starts = outputs.hidden_states[-1][:, [1, 2]].flatten(1)
    torch.testing.assert_close(outputs.logits, getattr(found, found._classifier_name)(starts))


def test_a_layer_norm_alone_keeps_its_values(load):
    (layer,) = load("norm").base_model.fusion
    assert type(layer) is variants.NormedFusion and layer.value.weight.any()


def test_without_a_variant_the_layer_is_that_of_the_package(load):
    (layer,) = load(None).base_model.fusion
    assert type(layer) is variants.MultiScaleFusion and layer.value.weight.any()


def test_a_variant_is_not_scored_without_training():
    arguments = SimpleNamespace(variant="zero", head="multiscale")
    with pytest.raises(UserError, match="--variant needs --do_train and --head multiscale"):
        variants.load_variant(None, arguments, refuse_new_weights=True)
