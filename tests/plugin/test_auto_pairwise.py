from __future__ import annotations

import pytest
from transformers import AutoModel, AutoModelForSequenceClassification

from msattn import (
    AutoModelForDependencyParsing,
    AutoModelForRelationExtraction,
    BertPairwiseConfig,
    BertPairwiseForRelationClassification,
    BertPairwiseParser,
)

SIZES = {"vocab_size": 30, "hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 8}
CLASSIFIER_CLASSES = (AutoModel, AutoModelForRelationExtraction, AutoModelForSequenceClassification)


@pytest.mark.parametrize("model_class", [BertPairwiseParser, BertPairwiseForRelationClassification])
def test_auto_classes_load_the_model_that_was_saved(model_class, tmp_path):
    model_class(BertPairwiseConfig(**SIZES)).save_pretrained(tmp_path)
    parser = model_class is BertPairwiseParser
    for auto_class in (AutoModel, AutoModelForDependencyParsing) if parser else CLASSIFIER_CLASSES:
        assert type(auto_class.from_pretrained(tmp_path)) is model_class


def test_auto_classes_build():
    config = BertPairwiseConfig(**SIZES)
    for auto_class in (AutoModel, AutoModelForDependencyParsing):
        assert type(auto_class.from_config(config)) is BertPairwiseParser
    for auto_class in CLASSIFIER_CLASSES[1:]:
        assert type(auto_class.from_config(config)) is BertPairwiseForRelationClassification
