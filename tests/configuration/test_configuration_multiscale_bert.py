from __future__ import annotations

import json

import pytest
from huggingface_hub.errors import StrictDataclassError
from safetensors import SafetensorError
from transformers import AutoConfig, BertConfig

from msattn import MultiScaleBertConfig, MultiScaleBertModel

CHANGED = {
    "scales": (3, 5),
    "mask_mode": "ste",
    "mask_temperature": 0.25,
    "conv_alignment": "same",
    "fusion_heads": 4,
    "fusion_layers": 2,
    "fusion_residual": True,
    "renormalize": True,
    "pooling": "max",
}

# What is wrong, and what the message says is right.
WRONG = [
    ({"scales": (3, 0)}, "scales must be different whole numbers of at least 1, got [3, 0]"),
    ({"scales": [3, 3]}, "scales must be different whole numbers of at least 1, got [3, 3]"),
    ({"scales": 3}, "'scales' with value 3 doesn't match any type in (tuple[int, ...], list[int])"),
    ({"scales": [2.5]}, "'scales' with value [2.5] doesn't match any type in (tuple[int, ...], list[int])"),
    ({"scales": "35"}, "'scales' with value '35' doesn't match any type in (tuple[int, ...], list[int])"),
    ({"mask_mode": "soft"}, "'mask_mode' expected one of ('hard', 'ste', 'sigmoid', 'entmax', 'none'), got soft"),
    ({"mask_mode": None}, "'mask_mode' expected one of ('hard', 'ste', 'sigmoid', 'entmax', 'none'), got None"),
    ({"mask_temperature": 0.0}, "mask_temperature must be above 0 and finite, got 0.0"),
    ({"mask_temperature": -1}, "mask_temperature must be above 0 and finite, got -1"),
    ({"mask_temperature": float("nan")}, "mask_temperature must be above 0 and finite, got nan"),
    ({"mask_temperature": float("inf")}, "mask_temperature must be above 0 and finite, got inf"),
    ({"mask_temperature": "low"}, "'mask_temperature' expected float, got str"),
    ({"conv_alignment": "left"}, "'conv_alignment' expected one of ('causal', 'same'), got left"),
    ({"fusion_heads": 0}, "fusion_heads must divide hidden_size (768) into equal parts, got 0"),
    ({"fusion_heads": 7}, "fusion_heads must divide hidden_size (768) into equal parts, got 7"),
    ({"fusion_heads": 2.0}, "'fusion_heads' expected int, got float"),
    ({"fusion_layers": -1}, "fusion_layers must be 0 or more, got -1"),
    ({"fusion_layers": "1"}, "'fusion_layers' expected int, got str"),
    ({"fusion_residual": "yes"}, "'fusion_residual' expected bool, got str"),
    ({"renormalize": 1}, "'renormalize' expected bool, got int"),
    ({"pooling": "avg"}, "'pooling' expected one of ('mean', 'cls', 'max', 'entity_start'), got avg"),
    ({"is_decoder": True}, "is_decoder must be False"),
]


def test_defaults_are_the_papers():
    config = MultiScaleBertConfig()
    assert {name: getattr(config, name) for name in CHANGED} == {
        "scales": (3,),
        "mask_mode": "hard",
        "mask_temperature": 0.1,
        "conv_alignment": "causal",
        "fusion_heads": 1,
        "fusion_layers": 1,
        "fusion_residual": False,
        "renormalize": False,
        "pooling": None,
    }


@pytest.mark.parametrize(("wrong", "message"), WRONG)
def test_wrong_values_fail_at_construction(wrong, message):
    with pytest.raises(StrictDataclassError) as error:
        MultiScaleBertConfig(**wrong)
    assert message in str(error.value)


@pytest.mark.parametrize(("wrong", "message"), WRONG)
def test_wrong_values_fail_beside_a_checkpoint(wrong, message, tmp_path):
    BertConfig().save_pretrained(tmp_path)
    if "is_decoder" in wrong:
        (tmp_path / "config.json").write_text(json.dumps(BertConfig(**wrong).to_dict()))
        wrong = {}
    with pytest.raises(StrictDataclassError) as error:
        MultiScaleBertConfig.from_pretrained(tmp_path, **wrong)
    assert message in str(error.value)


def test_wrong_values_fail_at_assignment():
    config = MultiScaleBertConfig()
    with pytest.raises(StrictDataclassError, match="mask_mode"):
        config.mask_mode = "soft"


def test_survives_json(tmp_path):
    config = MultiScaleBertConfig(**CHANGED, num_labels=19, hidden_size=64, num_attention_heads=4)
    config.save_pretrained(tmp_path)
    assert json.loads((tmp_path / "config.json").read_text())["scales"] == [3, 5]
    for loaded in (MultiScaleBertConfig.from_pretrained(tmp_path), AutoConfig.from_pretrained(tmp_path)):
        assert type(loaded) is MultiScaleBertConfig
        assert {name: getattr(loaded, name) for name in CHANGED} == CHANGED
        assert loaded.num_labels == 19 and loaded.hidden_size == 64
        assert loaded.to_dict() | {"_name_or_path": ""} == config.to_dict()


def test_lists_and_tuples_are_the_same():
    assert MultiScaleBertConfig(scales=[3, 5]) == MultiScaleBertConfig(scales=(3, 5))


def test_values_beside_a_checkpoint(tmp_path):
    BertConfig(hidden_size=64, num_attention_heads=4).save_pretrained(tmp_path)
    values = CHANGED | {"scales": [3, 5], "num_labels": 5}
    config, unused = MultiScaleBertConfig.from_pretrained(tmp_path, return_unused_kwargs=True, other=1, **values)
    assert unused == {"other": 1}
    assert {name: getattr(config, name) for name in CHANGED} == CHANGED
    assert (config.hidden_size, config.num_labels, config.model_type) == (64, 5, "multiscale_bert")


@pytest.mark.parametrize("kept", [0, 4, 1000])
def test_truncated_weights(kept, tmp_path):
    sizes = {"vocab_size": 20, "hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2}
    MultiScaleBertModel(MultiScaleBertConfig(**sizes, intermediate_size=8)).save_pretrained(tmp_path)
    weights = tmp_path / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:kept])
    with pytest.raises(SafetensorError, match="Error while deserializing header: .*(too small|invalid|incomplete)"):
        MultiScaleBertModel.from_pretrained(tmp_path)


def test_truncated_configuration(tmp_path):
    (tmp_path / "config.json").write_text('{"model_type": "multi')
    with pytest.raises(OSError, match="config.json' is not a valid JSON file"):
        MultiScaleBertModel.from_pretrained(tmp_path)
