from __future__ import annotations

import pytest
import torch
from transformers import (
    AutoModelForSequenceClassification,
    AutoModelForTokenClassification,
    BertConfig,
    BertForSequenceClassification,
    BertForTokenClassification,
)

from msattn import BertForMultiScaleSequenceClassification, BertPairwiseConfig, BertPairwiseParser, UserError
from msattn.arguments.memory import refuse_too_large
from msattn.arguments.multiscale_arguments import MultiScaleArguments
from msattn.arguments.pretrained import ModelArguments, load_config, load_model
from msattn.arguments.scratch_arguments import ScratchArguments
from msattn.modeling.modeling_multiscale_bert import BertForMultiScaleRE
from msattn.tasks.labels import label_fields
from msattn.tasks.model_source import ModelSource
from tests.tiny_models import tiny_relation_extractor

SIZES = {
    "hidden_size": 16,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "intermediate_size": 32,
    "vocab_size": 30,
}
BERT = BertConfig(**SIZES, max_position_embeddings=64, **label_fields(["neg", "pos"]))


def parser():
    labels = label_fields(["det", "root"])
    return BertPairwiseParser(BertPairwiseConfig(**SIZES, max_position_embeddings=64, **labels))


MADE = {
    "relations": lambda: tiny_relation_extractor()[0],
    "sentences": lambda: BertForSequenceClassification(BERT),
    "tags": lambda: BertForTokenClassification(BERT),
    "trees": parser,
}
KINDS = {
    "relations": "BertForMultiScaleRE of the family multiscale_bert, with 3 labels (Other, Product-Producer(e2,",
    "sentences": "BertForSequenceClassification of the family bert, with 2 labels (neg, pos), as run_glue.py or ",
    "tags": "BertForTokenClassification of the family bert, with 2 labels (neg, pos), as run_tagging.py makes",
    "trees": "BertPairwiseParser of the family bert_pairwise, with 2 labels (det, root), as run_parsing.py makes",
}
# What a script loads, and the checkpoint that is not it.
PAIRS = [
    ("relations", AutoModelForSequenceClassification, ModelArguments),
    ("relations", AutoModelForTokenClassification, ModelArguments),
    ("relations", BertForMultiScaleSequenceClassification, MultiScaleArguments),
    ("relations", BertPairwiseParser, ModelArguments),
    ("sentences", BertForMultiScaleRE, MultiScaleArguments),
    ("sentences", AutoModelForTokenClassification, ModelArguments),
    ("tags", AutoModelForSequenceClassification, ModelArguments),
    ("trees", AutoModelForSequenceClassification, ModelArguments),
    ("trees", AutoModelForTokenClassification, ModelArguments),
]


@pytest.mark.parametrize("made, expected, arguments", PAIRS, ids=[f"{made} {cls.__name__}" for made, cls, _ in PAIRS])
def test_a_checkpoint_of_another_kind(made, expected, arguments, tmp_path):
    """What it is, what is expected, which script made it, and what would be right."""
    torch.manual_seed(0)
    MADE[made]().save_pretrained(tmp_path)
    with pytest.raises(UserError) as error:
        load_model(
            expected, arguments(str(tmp_path)), 0, ignore_mismatched_sizes=False, **label_fields(["a", "b", "c", "d"])
        )
    message = str(error.value)
    assert message.startswith(f"{tmp_path}: the checkpoint is {KINDS[made]}")
    assert f"expected is one for {expected.__name__}, with 4 labels (a, b, c, ...)." in message
    assert message.endswith("Give an encoder, or --ignore_mismatched_sizes for a new head.")
    assert len(message.replace(str(tmp_path), "")) <= 500


def test_as_many_labels_of_other_names_are_mentioned(tmp_path, caplog):
    BertForSequenceClassification(BERT).save_pretrained(tmp_path)
    load_model(AutoModelForSequenceClassification, ModelArguments(str(tmp_path)), 0, **label_fields(["neg", "pos"]))
    assert "labels" not in caplog.text
    load_model(AutoModelForSequenceClassification, ModelArguments(str(tmp_path)), 0, **label_fields(["pos", "neg"]))
    assert "the classifier was trained for the labels neg, pos, and goes on with pos, neg" in caplog.text


def test_a_phrase_longer_than_the_model_reads(tmp_path):
    BERT.save_pretrained(tmp_path)
    with pytest.raises(UserError, match=r"--scales 100000: .* the 64 tokens that the model reads; .* take 0.1 GB"):
        load_config(MultiScaleArguments(str(tmp_path), scales=[3, 100_000]))


def test_a_model_that_does_not_fit_into_memory(monkeypatch):
    monkeypatch.setattr("msattn.arguments.memory.physical_memory", lambda: 2 * 10**9)
    refuse_too_large(10**8, "--scales")
    with pytest.raises(
        UserError, match="^--scales: the 1.0 billion weights would take 4 GB, and this computer has 2 GB"
    ):
        refuse_too_large(10**9, "--scales")


@pytest.mark.parametrize(
    "override", ["hidden_size=100000000", "num_hidden_layers=1000000000", "hidden_size=10000000000000"]
)
def test_a_model_from_scratch_that_cannot_be(override):
    """Refused in a moment and without the memory, before data are read."""
    arguments = ScratchArguments(model_type="bert", config_overrides=[override, "num_attention_heads=1"])
    with pytest.raises(UserError, match="weights would take .* GB|at most 1000 layers|no model can be made"):
        ModelSource(ModelArguments(), arguments)
