"""What the configurations of encoders trained from scratch share; each family checks its own fields."""

from __future__ import annotations

import pytest
from huggingface_hub.errors import StrictDataclassError
from transformers import AutoConfig

from msattn import BiLSTMConfig, MSTransformerConfig

CHANGED = {
    "vocab_size": 50,
    "embedding_size": 12,
    "hidden_size": 60,
    "hidden_act": "gelu",
    "sentence_pairs": True,
    "crf": True,
    "hidden_dropout_prob": 0.2,
    "classifier_dropout": 0.4,
    "word_dropout": 0.1,
    "initializer_range": 0.05,
    "pad_token_id": 1,
    "unk_token_id": 3,
}

# What is wrong, and what the message says is right.
WRONG = [
    ({"hidden_size": 0}, "hidden_size must be at least 1, got 0"),
    ({"hidden_size": -300}, "hidden_size must be at least 1, got -300"),
    ({"vocab_size": 0}, "vocab_size must be at least 1, got 0"),
    ({"vocab_size": 1.5}, "'vocab_size' expected int, got float"),
    ({"embedding_size": 0}, "embedding_size must be at least 1 or None, got 0"),
    ({"hidden_dropout_prob": 1.5}, "hidden_dropout_prob must be a rate between 0 and 1, got 1.5"),
    ({"classifier_dropout": -0.1}, "classifier_dropout must be a rate between 0 and 1, got -0.1"),
    ({"word_dropout": 2}, "word_dropout must be a rate between 0 and 1, got 2"),
    ({"word_dropout": 0.1, "unk_token_id": 30000}, "unk_token_id must be one of the 30000 tokens, got 30000"),
    ({"sentence_pairs": 1}, "'sentence_pairs' expected bool, got int"),
    ({"crf": "yes"}, "'crf' expected bool, got str"),
]


@pytest.fixture(params=[MSTransformerConfig, BiLSTMConfig])
def family(request):
    return request.param


@pytest.mark.parametrize(("wrong", "message"), WRONG)
def test_wrong_values_fail_at_construction_and_beside_a_checkpoint(family, wrong, message, tmp_path):
    with pytest.raises(StrictDataclassError) as error:
        family(**wrong)
    assert message in str(error.value)
    family().save_pretrained(tmp_path)
    with pytest.raises(StrictDataclassError) as error:
        AutoConfig.from_pretrained(tmp_path, **wrong)
    assert message in str(error.value)


def test_survives_json(family, tmp_path):
    family(**CHANGED, num_labels=5).save_pretrained(tmp_path)
    loaded = AutoConfig.from_pretrained(tmp_path)
    assert type(loaded) is family and loaded.num_labels == 5
    assert {name: getattr(loaded, name) for name in CHANGED} == CHANGED


def test_values_beside_a_checkpoint(family, tmp_path):
    family().save_pretrained(tmp_path)
    config, unused = family.from_pretrained(tmp_path, return_unused_kwargs=True, other=1, **CHANGED)
    assert unused == {"other": 1}
    assert {name: getattr(config, name) for name in CHANGED} == CHANGED
