"""A model card lists the fields that the model uses."""

from __future__ import annotations

import pytest

from msattn import BertPairwiseConfig, MultiScaleBertConfig
from msattn.training.dependency_parsing import PARSER_FIELDS
from msattn.training.relation_extraction import FUSION_FIELDS
from msattn.training.used_fields import used_fields


@pytest.mark.parametrize(
    ("fields", "unused"),
    [
        ({}, {"arc_size", "relation_size"}),
        ({"scorer": "biaffine"}, {"arc_size"}),
        ({"objective": "head_select"}, {"arc_size", "relation_size", "none_weight"}),
        ({"objective": "head_select", "scorer": "biaffine"}, {"none_weight"}),
        ({"features": "emb"}, {"arc_size", "relation_size", "attention_scale"}),
        (
            {"features": "att"},
            {"arc_size", "relation_size", "scorer", "word_state", "layer_mix"},
        ),
        ({"features": "att", "word_tags": {"upos": ["X"]}}, {"arc_size", "relation_size", "scorer", "layer_mix"}),
    ],
)
def test_fields_of_parsers(fields, unused):
    config = BertPairwiseConfig(**fields)
    assert used_fields(config, PARSER_FIELDS) == {
        name: getattr(config, name) for name in PARSER_FIELDS if name not in unused
    }


@pytest.mark.parametrize(
    ("fields", "unused"),
    [
        ({}, {"mask_temperature"}),
        ({"mask_mode": "ste"}, set()),
        ({"scales": ()}, {"mask_temperature", "conv_alignment"}),
        ({"fusion_layers": 0}, {*FUSION_FIELDS} - {"fusion_layers", "pooling"}),
    ],
)
def test_fields_of_multi_scale_models(fields, unused):
    config = MultiScaleBertConfig(pooling="cls", **fields)
    assert used_fields(config, FUSION_FIELDS).keys() == {*FUSION_FIELDS} - unused


def test_none_is_not_used():
    config = MultiScaleBertConfig()
    config.decision_threshold = None
    config.negative_label = ""
    assert used_fields(config, ["decision_threshold", "fusion_layers", "negative_label"]) == {"fusion_layers": 1}
