from __future__ import annotations

import json
from dataclasses import fields

import pytest
from huggingface_hub.errors import StrictDataclassError
from transformers import AutoConfig, PreTrainedConfig

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
    "word_dropout": 0.1,
    "initializer_range": 0.05,
    "pad_token_id": 1,
    "unk_token_id": 2,
}

# What is wrong, and what the message says is right.
WRONG = [
    ({"hidden_size": 25}, "hidden_size must be even, one half a direction, got 25"),
    ({"num_hidden_layers": 0}, "num_hidden_layers must be at least 1, got 0"),
    ({"num_hidden_layers": 1.5}, "'num_hidden_layers' expected int, got float"),
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
    every, inherited = ({field.name for field in fields(cls)} for cls in (BiLSTMConfig, PreTrainedConfig))
    assert set(CHANGED) == every - inherited
    plain = BiLSTMConfig()
    assert not [name for name, value in CHANGED.items() if getattr(plain, name) == value]


def test_values_beside_a_checkpoint(tmp_path):
    BiLSTMConfig().save_pretrained(tmp_path)
    config, unused = BiLSTMConfig.from_pretrained(tmp_path, return_unused_kwargs=True, other=1, **CHANGED)
    assert unused == {"other": 1}
    assert {name: getattr(config, name) for name in CHANGED} == CHANGED
