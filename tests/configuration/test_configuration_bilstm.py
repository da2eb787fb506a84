from __future__ import annotations

import json

import pytest
from huggingface_hub.errors import StrictDataclassError
from transformers import AutoConfig

from msattn import BiLSTMConfig

CHANGED = {
    "vocab_size": 50,
    "embedding_size": 12,
    "hidden_size": 24,
    "num_hidden_layers": 3,
    "hidden_act": "gelu",
    "sentence_pairs": True,
    "crf": True,
    "hidden_dropout_prob": 0.2,
    "classifier_dropout": 0.4,
    "initializer_range": 0.05,
    "pad_token_id": 1,
}

# What is wrong, and what the message says is right.
WRONG = [
    ({"hidden_size": 25}, "hidden_size must be even, one half a direction, got 25"),
    ({"hidden_size": 0}, "hidden_size must be at least 1, got 0"),
    ({"num_hidden_layers": 0}, "num_hidden_layers must be at least 1, got 0"),
    ({"vocab_size": 0}, "vocab_size must be at least 1, got 0"),
    ({"embedding_size": 0}, "embedding_size must be at least 1 or None, got 0"),
    ({"hidden_act": "rule"}, "hidden_act must be one of"),
    ({"hidden_dropout_prob": 1.5}, "hidden_dropout_prob must be a rate between 0 and 1, got 1.5"),
    ({"sentence_pairs": 1}, "'sentence_pairs' expected bool, got int"),
]


@pytest.mark.parametrize(("wrong", "message"), WRONG)
def test_wrong_values_fail_at_construction_and_beside_a_checkpoint(wrong, message, tmp_path):
    with pytest.raises(StrictDataclassError) as error:
        BiLSTMConfig(**wrong)
    assert message in str(error.value)
    BiLSTMConfig().save_pretrained(tmp_path)
    with pytest.raises(StrictDataclassError) as error:
        AutoConfig.from_pretrained(tmp_path, **wrong)
    assert message in str(error.value)


def test_survives_json(tmp_path):
    config = BiLSTMConfig(**CHANGED, num_labels=5)
    config.save_pretrained(tmp_path)
    assert "position_embeddings" not in json.loads((tmp_path / "config.json").read_text())
    for loaded in (BiLSTMConfig.from_pretrained(tmp_path), AutoConfig.from_pretrained(tmp_path)):
        assert type(loaded) is BiLSTMConfig
        assert {name: getattr(loaded, name) for name in CHANGED} == CHANGED
        assert loaded.num_labels == 5
    # Every option has been changed.
    assert not set(CHANGED) ^ set(BiLSTMConfig.__annotations__)
    plain = BiLSTMConfig()
    assert not [name for name, value in CHANGED.items() if getattr(plain, name) == value]


def test_values_beside_a_checkpoint(tmp_path):
    BiLSTMConfig().save_pretrained(tmp_path)
    config, unused = BiLSTMConfig.from_pretrained(tmp_path, return_unused_kwargs=True, other=1, **CHANGED)
    assert unused == {"other": 1}
    assert {name: getattr(config, name) for name in CHANGED} == CHANGED
