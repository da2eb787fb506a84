from __future__ import annotations

import json

import pytest
from transformers import AutoConfig, AutoModel, BertConfig, RobertaConfig, T5Config

from msattn import MultiScaleConfig
from tests.tiny_encoders import FAMILIES, tiny_encoder


@pytest.mark.parametrize("family", FAMILIES)
def test_survives_json(family, tmp_path):
    config = MultiScaleConfig(encoder=tiny_encoder(family), scales=[3, 5], num_labels=7, pooling="max")
    config.save_pretrained(tmp_path)
    for loaded in (MultiScaleConfig.from_pretrained(tmp_path), AutoConfig.from_pretrained(tmp_path)):
        assert type(loaded) is MultiScaleConfig and type(loaded.encoder) is type(config.encoder)
        assert loaded.scales == (3, 5) and loaded.num_labels == 7 and loaded.pooling == "max"
        assert loaded.encoder.to_dict() | {"_name_or_path": ""} == config.encoder.to_dict() | {"_name_or_path": ""}
        assert (loaded.hidden_size, loaded.num_hidden_layers, loaded.num_attention_heads) == (32, 2, 4)
        assert loaded.vocab_size == 60


def test_a_value_that_is_another_familys_default_is_kept(tmp_path):
    MultiScaleConfig(encoder=RobertaConfig(pad_token_id=0)).save_pretrained(tmp_path)
    assert MultiScaleConfig.from_pretrained(tmp_path).encoder.pad_token_id == 0 != RobertaConfig().pad_token_id


def test_arguments_go_where_they_belong(tmp_path):
    RobertaConfig(num_labels=5, hidden_dropout_prob=0.1).save_pretrained(tmp_path)
    config, unused = MultiScaleConfig.from_pretrained(
        tmp_path,
        scales=[2],
        num_labels=3,
        hidden_dropout_prob=0.3,
        encoder={"num_hidden_layers": 4},
        other=1,
        return_unused_kwargs=True,
    )
    assert unused == {"other": 1}
    assert config.scales == (2,) and config.num_labels == 3
    assert config.encoder.hidden_dropout_prob == 0.3 and config.encoder.num_hidden_layers == 4
    # Labels belong to a head that is not loaded.
    assert MultiScaleConfig.from_pretrained(tmp_path).num_labels == 2


def test_an_encoder_in_place_of_another(tmp_path):
    MultiScaleConfig(encoder=tiny_encoder("bert"), scales=[7]).save_pretrained(tmp_path)
    config = MultiScaleConfig.from_pretrained(tmp_path, encoder=tiny_encoder("llama"))
    assert config.encoder.model_type == "llama" and config.scales == (7,)


def test_what_the_encoder_does_not_name():
    config = MultiScaleConfig(encoder=T5Config(dropout_rate=0.25))
    assert config.initializer_range == 0.02 and config.hidden_dropout_prob == 0.25
    assert config.max_position_embeddings is None
    assert MultiScaleConfig(encoder=tiny_encoder("llama")).hidden_dropout_prob == 0.0


def test_the_vocabulary_is_the_encoders():
    config = MultiScaleConfig(encoder={"model_type": "electra", "vocab_size": 70})
    config.vocab_size = 80
    assert config.encoder.vocab_size == 80 and "vocab_size" not in json.loads(config.to_json_string())


def test_a_name_alone_is_bert():
    assert type(MultiScaleConfig(encoder={"hidden_size": 24, "num_attention_heads": 2}).encoder) is BertConfig


def test_the_given_encoder_keeps_its_configuration():
    model = AutoModel.from_config(tiny_encoder("bert"))
    before = model.config.to_dict(), model.config._attn_implementation
    MultiScaleConfig(encoder=model.config).hidden_dropout_prob = 0.75
    assert (model.config.to_dict(), model.config._attn_implementation) == before
