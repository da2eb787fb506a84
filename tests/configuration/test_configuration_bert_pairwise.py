from __future__ import annotations

import json

import pytest
from huggingface_hub.errors import StrictDataclassError
from transformers import AutoConfig, BertConfig

from msattn import BertPairwiseConfig

CHANGED = {
    "features": "emb",
    "objective": "head_select",
    "scorer": "biaffine",
    "arc_size": 50,
    "relation_size": 20,
    "freeze_encoder": True,
    "word_state": "mean",
    "none_weight": 0.25,
    "attention_scale": 1,
}

# What is wrong, and what the message says is right.
WRONG = [
    ({"features": "att+emb"}, "'features' expected one of ('emb', 'att', 'emb+att'), got att+emb"),
    ({"objective": "tree"}, "'objective' expected one of ('pairs', 'head_select'), got tree"),
    ({"scorer": "mlp"}, "'scorer' expected one of ('linear', 'biaffine'), got mlp"),
    ({"scorer": "biaffine", "features": "att"}, 'features must be "emb" or "emb+att", got "att"'),
    ({"arc_size": 0}, "arc_size must be at least 1, got 0"),
    ({"relation_size": -1}, "relation_size must be at least 1, got -1"),
    ({"relation_size": 1.5}, "'relation_size' expected int, got float"),
    ({"freeze_encoder": "yes"}, "'freeze_encoder' expected bool, got str"),
    ({"word_state": "last"}, "'word_state' expected one of ('first', 'mean'), got last"),
    ({"none_weight": 0}, "none_weight must be above 0 and finite, got 0"),
    ({"attention_scale": float("inf")}, "attention_scale must be above 0 and finite, got inf"),
    ({"attention_scale": float("nan")}, "attention_scale must be above 0 and finite, got nan"),
    ({"is_decoder": True}, "is_decoder must be False"),
]


def test_defaults_are_the_papers_but_for_the_scale_of_attention():
    config = BertPairwiseConfig()
    assert {name: getattr(config, name) for name in CHANGED} == {
        "features": "emb+att",
        "objective": "pairs",
        "scorer": "linear",
        "arc_size": 500,
        "relation_size": 100,
        "freeze_encoder": False,
        "word_state": "first",
        "none_weight": 1.0,
        "attention_scale": 10.0,
    }


@pytest.mark.parametrize(("wrong", "message"), WRONG)
def test_wrong_values_fail(wrong, message, tmp_path):
    with pytest.raises(StrictDataclassError) as error:
        BertPairwiseConfig(**wrong)
    assert message in str(error.value)
    if "is_decoder" not in wrong:
        BertConfig().save_pretrained(tmp_path)
        with pytest.raises(StrictDataclassError) as error:
            BertPairwiseConfig.from_pretrained(tmp_path, **wrong)
        assert message in str(error.value)


def test_survives_json(tmp_path):
    config = BertPairwiseConfig(**CHANGED, num_labels=19, hidden_size=64, num_attention_heads=4)
    config.save_pretrained(tmp_path)
    assert json.loads((tmp_path / "config.json").read_text())["model_type"] == "bert_pairwise"
    for loaded in (BertPairwiseConfig.from_pretrained(tmp_path), AutoConfig.from_pretrained(tmp_path)):
        assert type(loaded) is BertPairwiseConfig
        assert {name: getattr(loaded, name) for name in CHANGED} == CHANGED
        assert loaded.to_dict() | {"_name_or_path": ""} == config.to_dict()


def test_values_beside_a_checkpoint(tmp_path):
    BertConfig(hidden_size=64, num_attention_heads=4).save_pretrained(tmp_path)
    values = CHANGED | {"num_labels": 5}
    config, unused = BertPairwiseConfig.from_pretrained(tmp_path, return_unused_kwargs=True, other=1, **values)
    assert unused == {"other": 1}
    assert {name: getattr(config, name) for name in CHANGED} == CHANGED
    assert (config.hidden_size, config.num_labels, config.model_type) == (64, 5, "bert_pairwise")
