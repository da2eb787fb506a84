"""Every configuration: wrong values fail by name, all values survive, arguments win over a checkpoint."""

from __future__ import annotations

import json
from dataclasses import fields

import pytest
from huggingface_hub.errors import StrictDataclassError
from transformers import AutoConfig, BertConfig, PreTrainedConfig

from msattn import (
    BertPairwiseConfig,
    BiLSTMConfig,
    MSTransformerConfig,
    MultiScaleBertConfig,
    MultiScaleConfig,
    PairwiseConfig,
)

# A value of every field that is not its default.
FUSION = {
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
PAIRS = {
    "features": "emb",
    "objective": "head_select",
    "scorer": "biaffine",
    "arc_size": 50,
    "relation_size": 20,
    "freeze_encoder": True,
    "word_state": "mean",
    "none_weight": 0.25,
    "attention_scale": 1,
    "root": "learned",
    "layer_mix": 2,
    "word_tags": {"upos": ["NOUN", "VERB"]},
}
SCRATCH = {
    "vocab_size": 50,
    "embedding_size": 12,
    "hidden_size": 24,
    "num_hidden_layers": 4,
    "hidden_act": "gelu",
    "sentence_pairs": True,
    "crf": True,
    "hidden_dropout_prob": 0.2,
    "classifier_dropout": 0.4,
    "word_dropout": 0.2,
    "initializer_range": 0.05,
    "pad_token_id": 1,
    "unk_token_id": 2,
}
WINDOWS = {
    "num_attention_heads": 6,
    "scales": (3, "N/2", None),
    "window": "full",
    "alpha": -1.0,
    "decay": "linear",
    "cls_global": True,
    "norm": "pre",
    "position_embeddings": "learned",
    "max_position_embeddings": 40,
    "intermediate_size": 48,
    "attention_probs_dropout_prob": 0.3,
    "layer_norm_eps": 1e-6,
}
CHANGED = {
    MultiScaleConfig: FUSION | {"classifier_dropout": 0.4},
    MultiScaleBertConfig: FUSION,
    PairwiseConfig: PAIRS | {"classifier_dropout": 0.4},
    BertPairwiseConfig: PAIRS,
    MSTransformerConfig: SCRATCH | WINDOWS,
    BiLSTMConfig: SCRATCH,
}
# What is wrong, and what the message says is right.
WRONG_FUSION = [
    ({"mask_mode": "soft"}, "'mask_mode' expected one of ('hard', 'ste', 'sigmoid', 'entmax', 'none'), got soft"),
    ({"mask_temperature": 0.0}, "mask_temperature must be above 0, got 0.0"),
    ({"fusion_heads": 7}, "fusion_heads must divide hidden_size (768) into equal parts, got 7"),
    ({"fusion_layers": -1}, "fusion_layers must be 0 or more, got -1"),
]
WRONG_PAIRS = [
    ({"scorer": "biaffine", "features": "att"}, 'scorer "biaffine", root "learned" and layer_mix need "emb"'),
    ({"root": "learned", "features": "att"}, 'need "emb" in features'),
    ({"layer_mix": 2, "features": "att"}, 'need "emb" in features'),
    ({"layer_mix": 0}, "layer_mix must be from 1 to the encoder's 12 layers, got 0"),
    ({"layer_mix": 13}, "layer_mix must be from 1 to the encoder's 12 layers, got 13"),
    ({"none_weight": 0}, "none_weight must be above 0, got 0"),
    ({"word_tags": {"pos": ["NOUN"]}}, "word_tags must name the labels of some of upos, xpos, feats, lemma, got pos"),
    ({"word_tags": {"upos": []}}, "got upos: []"),
]
WRONG_SCRATCH = [
    ({"word_dropout": 10}, "word_dropout must be a rate between 0 and 1, got 10"),
]
SCALE = 'a scale must be a whole number of at least 1, "N/q" or None, got '
WRONG_WINDOWS = [
    ({"scales": ()}, "scales must have at least one entry, got none"),
    ({"scales": (3, 0)}, SCALE + "0"),
    ({"scales": ("N/0",)}, SCALE + "'N/0'"),
    ({"num_attention_heads": 7}, "num_attention_heads must divide hidden_size (300) into equal parts, got 7"),
]
DECODER = [({"is_decoder": True}, "is_decoder must be False")]
WRONG = {
    MultiScaleConfig: WRONG_FUSION,
    MultiScaleBertConfig: WRONG_FUSION + DECODER,
    PairwiseConfig: WRONG_PAIRS,
    BertPairwiseConfig: WRONG_PAIRS + DECODER,
    MSTransformerConfig: WRONG_SCRATCH + WRONG_WINDOWS,
    BiLSTMConfig: [*WRONG_SCRATCH, ({"hidden_size": 25}, "hidden_size must be even, one half a direction, got 25")],
}
FAMILIES = pytest.mark.parametrize("family", CHANGED)


def values_of(config, names) -> dict:
    return {name: getattr(config, name) for name in names}


@pytest.mark.parametrize(
    ("family", "wrong", "message"), [(family, *case) for family, cases in WRONG.items() for case in cases]
)
def test_wrong_values_fail_at_construction_and_beside_a_checkpoint(family, wrong, message, tmp_path):
    with pytest.raises(StrictDataclassError) as error:
        family(**wrong)
    assert message in str(error.value)
    if "is_decoder" not in wrong:  # a field of BERT's own, which Transformers sets after construction
        family().save_pretrained(tmp_path)
        with pytest.raises(StrictDataclassError) as error:
            AutoConfig.from_pretrained(tmp_path, **wrong)
        assert message in str(error.value)


@FAMILIES
@pytest.mark.parametrize(
    "wrong, message",
    [
        ({"calibration_temperature": -1}, "calibration_temperature must be above 0 and finite, got -1"),
        ({"decision_threshold": float("nan")}, "decision_threshold must be from 0 to 1, got nan"),
        ({"id2label": {"0": "a", "2": "b"}}, "id2label must name the numbers from 0 on, got [0, 2]"),
    ],
)
def test_edited_answers_are_refused(family, wrong, message, tmp_path):
    family().save_pretrained(tmp_path)
    file = tmp_path / "config.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), **wrong}))
    with pytest.raises(StrictDataclassError) as error:
        AutoConfig.from_pretrained(tmp_path)
    assert message in str(error.value)


@FAMILIES
def test_every_value_survives(family, tmp_path):
    changed, default = CHANGED[family], family()
    config = family(**changed, num_labels=5)
    config.save_pretrained(tmp_path)
    for loaded in (family.from_pretrained(tmp_path), AutoConfig.from_pretrained(tmp_path)):
        assert type(loaded) is family and values_of(loaded, changed) == changed and loaded.num_labels == 5
        assert loaded.to_dict() | {"_name_or_path": ""} == config.to_dict() | {"_name_or_path": ""}
    base = BertConfig if issubclass(family, BertConfig) else PreTrainedConfig
    every, inherited = ({field.name for field in fields(cls)} for cls in (family, base))
    assert set(changed) | {"encoder"} >= every - inherited
    assert not [name for name, value in changed.items() if getattr(default, name) == value]


@FAMILIES
def test_arguments_win_over_the_checkpoint(family, tmp_path):
    changed = CHANGED[family]
    family(**changed).save_pretrained(tmp_path)
    default = values_of(family(), changed)
    config, unused = AutoConfig.from_pretrained(tmp_path, return_unused_kwargs=True, other=1, **default)
    assert unused == {"other": 1} and values_of(config, default) == default


def test_other_labels_take_nothing_that_was_fitted(tmp_path, caplog):
    fitted = {"calibration_temperature": 2.0, "decision_threshold": 0.8, "negative_label": "Other"}
    labels = {0: "Other", 1: "made"}
    MultiScaleConfig(id2label=labels, **fitted).save_pretrained(tmp_path)
    for same in ({}, {"id2label": labels}, {"num_labels": 2}):
        assert values_of(MultiScaleConfig.from_pretrained(tmp_path, **same), fitted) == fitted
    assert not caplog.records
    for others in ({"id2label": {0: "no", 1: "yes"}}, {"num_labels": 3}):
        found = values_of(
            AutoConfig.from_pretrained(tmp_path, **others, decision_threshold=0.3, scales=[3, 5]), fitted
        )
        assert found == {**dict.fromkeys(fitted), "decision_threshold": 0.3}
    assert caplog.text.count("which leaves out its negative_label, calibration_temperature;") == 2


def test_wrong_values_fail_at_assignment():
    with pytest.raises(StrictDataclassError, match="mask_mode"):
        MultiScaleConfig().mask_mode = "soft"


def test_lists_and_tuples_are_the_same():
    assert MultiScaleBertConfig(scales=[3, 5]) == MultiScaleBertConfig(scales=(3, 5))
    assert json.loads(MSTransformerConfig(scales=[3, None]).to_json_string())["scales"] == [3, None]
