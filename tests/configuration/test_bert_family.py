"""What the configurations of the BERT families share; each family checks its own fields."""

from __future__ import annotations

import json

import pytest
from transformers import BertConfig, RobertaConfig

from msattn import BertPairwiseConfig, BertPairwiseParser, MultiScaleBertConfig, MultiScaleBertModel

# A field of the family with another value than by default.
FAMILIES = {MultiScaleBertConfig: {"scales": (2, 5)}, BertPairwiseConfig: {"attention_scale": 3.0}}


@pytest.fixture(params=FAMILIES)
def family(request):
    return request.param


def test_a_plain_bert_is_read_as_a_member(family, tmp_path):
    plain = BertConfig(hidden_size=64, num_attention_heads=4, num_labels=5)
    plain.save_pretrained(tmp_path)
    config = family.from_pretrained(tmp_path)
    assert type(config) is family and config.model_type == family.model_type
    assert (config.hidden_size, config.num_attention_heads, config.num_labels) == (64, 4, 5)
    assert {name: getattr(config, name) for name in FAMILIES[family]} != FAMILIES[family]


@pytest.mark.parametrize("loaded", [MultiScaleBertConfig, MultiScaleBertModel, BertPairwiseConfig, BertPairwiseParser])
def test_another_family_is_refused(loaded, tmp_path):
    RobertaConfig().save_pretrained(tmp_path)
    family = getattr(loaded, "config_class", loaded)
    message = f"of the family 'roberta'; {family.__name__} loads 'bert' and '{family.model_type}'"
    with pytest.raises(ValueError, match=message):
        loaded.from_pretrained(tmp_path)


def test_a_checkpoint_from_before_model_types(family, tmp_path):
    BertConfig(hidden_size=64, num_attention_heads=4).save_pretrained(tmp_path)
    values = json.loads((tmp_path / "config.json").read_text())
    del values["model_type"]
    (tmp_path / "config.json").write_text(json.dumps(values))
    assert family.from_pretrained(tmp_path).hidden_size == 64
