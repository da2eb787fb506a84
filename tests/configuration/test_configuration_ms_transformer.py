from __future__ import annotations

import json
from dataclasses import fields

import pytest
from huggingface_hub.errors import StrictDataclassError
from transformers import AutoConfig, PreTrainedConfig

from msattn import MSTransformerConfig

CHANGED = {
    "vocab_size": 50,
    "embedding_size": 12,
    "hidden_size": 24,
    "num_hidden_layers": 2,
    "num_attention_heads": 6,
    "scales": (3, "N/2", None),
    "window": "full",
    "alpha": -1.0,
    "decay": "linear",
    "cls_global": True,
    "hidden_act": "gelu",
    "norm": "pre",
    "position_embeddings": "learned",
    "max_position_embeddings": 40,
    "intermediate_size": 48,
    "sentence_pairs": True,
    "crf": True,
    "hidden_dropout_prob": 0.2,
    "attention_probs_dropout_prob": 0.3,
    "classifier_dropout": 0.4,
    "word_dropout": 0.1,
    "initializer_range": 0.05,
    "layer_norm_eps": 1e-6,
    "pad_token_id": 1,
    "unk_token_id": 2,
}

# What is wrong, and what the message says is right.
SCALE = 'a scale must be a whole number of at least 1, "N/q" or None, got '
WRONG = [
    ({"scales": ()}, "scales must have at least one entry, got none"),
    ({"scales": (3, 0)}, SCALE + "0"),
    ({"scales": ("N/0",)}, SCALE + "'N/0'"),
    ({"scales": ("n/4",)}, SCALE + "'n/4'"),
    ({"scales": ("N/4 ",)}, SCALE + "'N/4 '"),
    ({"scales": ("3",)}, SCALE + "'3'"),
    ({"scales": (2.5,)}, "'scales' with value (2.5,) doesn't match any type"),
    ({"scales": 3}, "'scales' with value 3 doesn't match any type"),
    ({"scales": "N/4"}, "'scales' with value 'N/4' doesn't match any type"),
    ({"window": "whole"}, "'window' expected one of ('half', 'full'), got whole"),
    ({"alpha": float("inf")}, "alpha must be a finite number, got inf"),
    ({"alpha": "high"}, "'alpha' expected float, got str"),
    ({"decay": "1/n"}, "'decay' expected one of ('1/l', 'linear'), got 1/n"),
    ({"norm": "none"}, "'norm' expected one of ('post', 'pre'), got none"),
    ({"position_embeddings": "rotary"}, "'position_embeddings' expected one of ('sinusoidal', 'learned'), got rotary"),
    ({"attention_probs_dropout_prob": -0.5}, "attention_probs_dropout_prob must be a rate between 0 and 1, got -0.5"),
    ({"num_attention_heads": 7}, "num_attention_heads must divide hidden_size (300) into equal parts, got 7"),
    ({"num_attention_heads": 0}, "num_attention_heads must be at least 1, got 0"),
    ({"num_hidden_layers": 0}, "num_hidden_layers must be at least 1, got 0"),
    ({"intermediate_size": -1}, "intermediate_size must be 0 or more, got -1"),
    ({"max_position_embeddings": 0}, "max_position_embeddings must be at least 1, got 0"),
    ({"cls_global": "yes"}, "'cls_global' expected bool, got str"),
]


def test_defaults_are_the_papers():
    config = MSTransformerConfig()
    assert config.scales == (1, 3, "N/16", "N/8", "N/4")
    assert config.heads_per_scale == [[5, 2, 2, 1, 0], [4, 2, 2, 1, 1], [2, 2, 2, 2, 2]]
    assert (config.window, config.cls_global, config.norm, config.hidden_act) == ("half", False, "post", "relu")
    assert config.position_embeddings is None and not config.intermediate_size


@pytest.mark.parametrize(("wrong", "message"), WRONG)
def test_wrong_values_fail_at_construction_and_beside_a_checkpoint(wrong, message, tmp_path):
    with pytest.raises(StrictDataclassError) as error:
        MSTransformerConfig(**wrong)
    assert message in str(error.value)
    MSTransformerConfig().save_pretrained(tmp_path)
    with pytest.raises(StrictDataclassError) as error:
        AutoConfig.from_pretrained(tmp_path, **wrong)
    assert message in str(error.value)


def test_survives_json(tmp_path):
    config = MSTransformerConfig(**CHANGED, num_labels=5)
    config.save_pretrained(tmp_path)
    assert json.loads((tmp_path / "config.json").read_text())["scales"] == [3, "N/2", None]
    for loaded in (MSTransformerConfig.from_pretrained(tmp_path), AutoConfig.from_pretrained(tmp_path)):
        assert type(loaded) is MSTransformerConfig
        assert {name: getattr(loaded, name) for name in CHANGED} == CHANGED
        assert loaded.num_labels == 5
    # Every option has been changed.
    every, inherited = ({field.name for field in fields(cls)} for cls in (MSTransformerConfig, PreTrainedConfig))
    assert set(CHANGED) == every - inherited
    plain = MSTransformerConfig()
    assert not [name for name, value in CHANGED.items() if getattr(plain, name) == value]


def test_values_beside_a_checkpoint(tmp_path):
    MSTransformerConfig().save_pretrained(tmp_path)
    config, unused = MSTransformerConfig.from_pretrained(tmp_path, return_unused_kwargs=True, other=1, **CHANGED)
    assert unused == {"other": 1}
    assert {name: getattr(config, name) for name in CHANGED} == CHANGED
