from __future__ import annotations

import numpy as np
import pytest
import torch

from msattn import PairwiseForRelationClassification, PairwiseParser
from msattn.modeling.layer_mix import LayerMix
from tests.common import TOLERANCE
from tests.modeling.test_modeling_pairwise import INPUTS, SELECT, SIZES, build
from tests.tiny_encoders import save_classifier


def test_from_the_formula():
    mix = LayerMix(3).double()
    layers = [torch.randn(2, 4, 5, dtype=torch.float64) for _ in range(3)]
    torch.testing.assert_close(mix(layers), sum(layers) / 3)
    torch.nn.init.normal_(mix.weight)
    torch.nn.init.constant_(mix.scale, 0.7)
    shares = np.exp(mix.weight.detach().numpy())
    expected = 0.7 * sum(share * layer.numpy() for share, layer in zip(shares / shares.sum(), layers, strict=True))
    np.testing.assert_allclose(mix(layers).detach().numpy(), expected, atol=1e-12)


@pytest.mark.parametrize("features", ["emb", "emb+att"])
@pytest.mark.parametrize(
    ("model_class", "options"), [(PairwiseParser, SELECT), (PairwiseForRelationClassification, {})]
)
def test_scores_read_the_mix(model_class, options, features, tmp_path):
    save_classifier("modernbert", tmp_path)  # its last hidden state is normalized
    options = {**SIZES, **options, "features": features, "layer_mix": 2, "word_state": "mean"}
    model = model_class.from_pretrained(tmp_path, **options).eval()
    assert not model.mix.weight.any() and model.mix.scale.item() == 1
    inputs = INPUTS[model_class]("modernbert")
    outputs = model(**inputs, output_hidden_states=True)
    assert model(**inputs).hidden_states is None
    torch.testing.assert_close(model(**inputs, output_hidden_states=[0])[1], outputs[1])
    *_, first, _ = outputs.hidden_states
    last = model.encoder(inputs["input_ids"], attention_mask=inputs["attention_mask"]).last_hidden_state
    mixed = []
    model.mix.register_forward_hook(lambda module, given, result: mixed.append(result))
    model(**inputs).loss.backward()
    real = inputs["attention_mask"].bool()
    torch.testing.assert_close(mixed[0][real], ((first + last) / 2)[real], **TOLERANCE)
    assert model.mix.weight.grad.any() and model.mix.scale.grad.any()
    torch.nn.init.normal_(model.mix.weight)
    model.save_pretrained(tmp_path / "again")
    loaded = model_class.from_pretrained(tmp_path / "again").eval()
    torch.testing.assert_close(loaded(**inputs)[1], model(**inputs)[1], **TOLERANCE)


def test_a_mix_of_one_layer_is_none():
    model = build("bert", features="emb")
    assert model.mix is None and not any(name.startswith("mix.") for name in model.state_dict())
