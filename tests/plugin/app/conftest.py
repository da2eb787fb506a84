"""Untrained checkpoints of every kind that the page takes."""

from __future__ import annotations

from functools import cache

import pytest
import torch
from transformers import BertConfig, BertForSequenceClassification, BertForTokenClassification, BertModel

from msattn import (
    BiLSTMConfig,
    BiLSTMForSequenceClassification,
    MultiScaleConfig,
    MultiScaleForSequenceClassification,
    MultiScaleForTokenClassification,
    PairwiseConfig,
    PairwiseForRelationClassification,
    PairwiseParser,
)
from msattn.app.checkpoints import load_checkpoints
from tests.tiny_models import LABELS, SIZES, labelled, saved_model, tiny_relation_extractor


def bert(*labels: str) -> BertConfig:
    return BertConfig(**SIZES, **(labelled(*labels) if labels else {}))


def pairs(*labels: str) -> PairwiseConfig:
    return PairwiseConfig(encoder=bert(), id2label=dict(enumerate(labels)))


@pytest.fixture(scope="session")
def checkpoints(tmp_path_factory):
    """Their folder."""
    torch.manual_seed(0)
    models = {
        "relations": tiny_relation_extractor()[0],
        "typed": tiny_relation_extractor(entity_markers="typed-punct")[0],
        "pairs": PairwiseForRelationClassification(pairs(*LABELS)),
        "parser": PairwiseParser(pairs("root", "nsubj", "dep")),
        "entities": BertForTokenClassification(bert("B-animal", "I-animal", "O")),
        "fused": MultiScaleForTokenClassification(MultiScaleConfig(encoder=bert(), **labelled("DET", "NOUN"))),
        "words": BertForTokenClassification(bert("DET", "NOUN", "VERB")),
        "classes": BertForSequenceClassification(bert("bad", "good")),
        "score": BertForSequenceClassification(bert("relevant")),
        "bilstm": BiLSTMForSequenceClassification(BiLSTMConfig(vocab_size=25, hidden_size=8, embedding_size=8)),
        "encoder": BertModel(bert()),
        "compare": MultiScaleForSequenceClassification(
            MultiScaleConfig(encoder=bert(), text_columns=["premise", "hypothesis"], **labelled("no", "yes"))
        ),
    }
    biases = [models[name].classifier.bias for name in ("relations", "typed")]
    for bias in (*biases, models["pairs"].classifier.states.dependent.bias):
        bias.data[1] = 10  # whatever the text, Product-Producer(e2,e1)
    folder = tmp_path_factory.mktemp("checkpoints")
    for name, model in models.items():
        saved_model(folder / name, model)
    return folder


@pytest.fixture(scope="session")
def load(checkpoints):
    """Loads some by their names here."""
    return cache(lambda *names, **options: load_checkpoints([str(checkpoints / name) for name in names], **options))
