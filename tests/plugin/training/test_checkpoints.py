"""What a script loads, and the labels and fields that it gives to the model."""

from __future__ import annotations

import pytest
import torch
from transformers import AutoModel, AutoModelForSequenceClassification, BertConfig
from transformers.tokenization_utils_base import VERY_LARGE_INTEGER

from msattn import (
    BertForMultiScaleRE,
    BertPairwiseParser,
    BiLSTMConfig,
    MultiScaleBertConfig,
    MultiScaleConfig,
    MultiScaleForRelationExtraction,
    PairwiseForRelationClassification,
    UserError,
)
from msattn.data.demo_corpus import write_demo
from msattn.loading import load_trained
from msattn.training.arguments import ModelArguments
from msattn.training.checkpoints import (
    checkpoint_class,
    checkpoint_labels,
    config_fields,
    load_config,
    load_model,
    load_tokenizer,
    max_tokens,
)
from msattn.training.fusion import FUSION_HEADS, head_fields
from tests.tiny_models import SIZES, saved_model, tiny_parser, tiny_tokenizer


@pytest.fixture(scope="module")
def encoder(tmp_path_factory) -> str:
    return str(write_demo(tmp_path_factory.mktemp("demo")).encoder)


def test_overrides_are_json_or_words():
    overrides = ["scales=[3, 5]", "mask_mode=ste", "fusion_residual=True", "fusion_heads=4", "mask_temperature=None"]
    assert config_fields(overrides) == {
        "scales": [3, 5],
        "mask_mode": "ste",
        "fusion_residual": True,
        "fusion_heads": 4,
        "mask_temperature": None,
    }
    assert config_fields(None) == {}


@pytest.mark.parametrize("overrides", [["scales"], ["a=1", "a=2"]])
def test_an_override_has_a_name_of_its_own(overrides):
    with pytest.raises(UserError, match="expected NAME=VALUE, each name once"):
        config_fields(overrides)


def test_a_revision_is_that_of_all_files(tmp_path, monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    saved = {}
    for commit, heads in (("0" * 40, 1), ("1" * 40, 2)):
        model = AutoModel.from_config(BertConfig(**SIZES | {"vocab_size": 26, "num_attention_heads": heads}))
        tokenizer = tiny_tokenizer()
        tokenizer.add_tokens([f"word{heads}"])
        saved_model(tmp_path / "models--tester--model" / "snapshots" / commit, model, tokenizer)
        saved[commit] = model, tokenizer
    for commit, (model, tokenizer) in saved.items():
        args = ModelArguments("tester/model", model_revision=commit)
        config = load_config(args)
        assert config.num_attention_heads == model.config.num_attention_heads
        found = load_tokenizer(args, config)
        assert found.get_vocab() == tokenizer.get_vocab()
        weights = (one.get_input_embeddings().weight for one in (load_model(AutoModel, args, found), model))
        assert torch.equal(*weights)


def test_the_class_follows_the_checkpoint():
    encoder = BertConfig()
    assert checkpoint_class(encoder, MultiScaleForRelationExtraction) is MultiScaleForRelationExtraction
    assert checkpoint_class(MultiScaleBertConfig(), MultiScaleForRelationExtraction) is BertForMultiScaleRE
    with pytest.raises(UserError, match="a PairwiseForRelationClassification starts from one of its own"):
        checkpoint_class(MultiScaleConfig(encoder=encoder), PairwiseForRelationClassification)


def test_a_head_of_ones_own_may_have_fusion_layers(monkeypatch):
    monkeypatch.setitem(FUSION_HEADS, "deep", {"fusion_layers": 2})
    args = ModelArguments(config_overrides=["scales=[3]"])
    assert head_fields("deep", args, BertConfig()) == {"fusion_layers": 2}


def test_labels_are_those_of_a_fine_tuned_checkpoint():
    labels = {0: "b", 1: "a"}
    ours = MultiScaleConfig(encoder=BertConfig(), id2label=labels, architectures=["MultiScaleForRelationExtraction"])
    assert checkpoint_labels(ours) == ["b", "a"]
    stock = BertConfig(id2label=labels, architectures=["BertForSequenceClassification"])
    assert checkpoint_labels(stock) is None and checkpoint_labels(stock, stock=True) == ["b", "a"]
    stock.problem_type = "multi_label_classification"
    assert checkpoint_labels(stock, stock=True) is None
    assert checkpoint_labels(BertConfig(architectures=["BertForMaskedLM"]), stock=True) is None


def test_fields_reach_the_model(encoder):
    args = ModelArguments(encoder, config_overrides=["scales=[2]", "fusion_residual=true"])
    tokenizer = load_tokenizer(args, load_config(args))
    tokenizer.add_tokens(["[E1]"])
    model = load_model(MultiScaleForRelationExtraction, args, tokenizer, fusion_layers=2)
    assert (model.config.scales, model.config.fusion_residual, model.config.fusion_layers) == ((2,), True, 2)
    assert model.get_input_embeddings().num_embeddings == len(tokenizer)
    with pytest.raises(
        UserError, match=r"--config_overrides scales=\[2\]: other arguments, or their defaults, say scales=\(\)"
    ):
        load_model(MultiScaleForRelationExtraction, args, tokenizer, scales=())
    args.config_overrides = ["scalse=[2]"]
    with pytest.raises(TypeError, match="scalse"):
        load_model(MultiScaleForRelationExtraction, args, tokenizer)


def test_weights_are_trained_in_float32(encoder, tmp_path):
    args = ModelArguments(str(tmp_path))
    tokenizer = load_tokenizer(ModelArguments(encoder), load_config(ModelArguments(encoder)))
    model = load_model(AutoModelForSequenceClassification, ModelArguments(encoder), tokenizer)
    model.bfloat16().save_pretrained(tmp_path)
    for applied, dtype in ((False, torch.float32), (True, torch.bfloat16)):
        loaded = load_model(AutoModelForSequenceClassification, args, tokenizer, refuse_new_weights=applied)
        assert {weight.dtype for weight in loaded.parameters()} == {dtype}


def test_a_new_classifier_is_trained_or_refused(encoder, tmp_path):
    args = ModelArguments(encoder)
    tokenizer = load_tokenizer(args, load_config(args))
    load_model(AutoModelForSequenceClassification, args, tokenizer).save_pretrained(tmp_path)
    args = ModelArguments(str(tmp_path))
    with pytest.raises(UserError, match=r"has the shape \[2\] and not \[3\], .* give --ignore_mismatched_sizes"):
        load_model(AutoModelForSequenceClassification, args, tokenizer, num_labels=3)
    args.ignore_mismatched_sizes = True
    assert load_model(AutoModelForSequenceClassification, args, tokenizer, num_labels=3).new_weights
    with pytest.raises(UserError, match="has the shape"):
        load_model(AutoModelForSequenceClassification, args, tokenizer, refuse_new_weights=True, num_labels=3)


class OwnParser(BertPairwiseParser):
    """With another method, say, or another layer."""


def test_a_class_of_ones_own_is_not_applied_as_ours(tmp_path):
    parser, tokenizer = tiny_parser()
    own, deeper = OwnParser(parser.config), OwnParser(parser.config)
    deeper.distance = torch.nn.Linear(2, 2)
    for model in (own, deeper):
        folder = saved_model(tmp_path, model, tokenizer)
        with pytest.raises(UserError, match="of OwnParser"):
            load_trained(folder)
    assert load_model(OwnParser, ModelArguments(folder), tokenizer, refuse_new_weights=True)


def test_length_is_that_of_the_model_at_most(encoder):
    args = ModelArguments(encoder)
    tokenizer = load_tokenizer(args, load_config(args))
    config = load_config(args)
    assert [max_tokens(None, tokenizer, config, usual) for usual in (None, 512, 100)] == [128, 128, 100]
    for asked in (0, 129):
        with pytest.raises(UserError, match=f"--max_seq_length {asked}: the model takes 1 to 128 tokens"):
            max_tokens(asked, tokenizer, config)


def test_the_tokenizer_keeps_the_length(encoder, tmp_path):
    args = ModelArguments(encoder)
    config = load_config(args)
    max_tokens(16, tokenizer := load_tokenizer(args, config), config)
    tokenizer.save_pretrained(tmp_path)
    loaded = load_tokenizer(ModelArguments(encoder, tokenizer_name=str(tmp_path)), config)
    assert [max_tokens(None, loaded, config, 100), max_tokens(64, loaded, config)] == [16, 64]
    recurrent = BiLSTMConfig()
    assert max_tokens(1000, loaded, recurrent) == 1000
    loaded.model_max_length = VERY_LARGE_INTEGER
    assert max_tokens(None, loaded, recurrent, 100) is None


@pytest.mark.parametrize("name, message", [(None, "is missing"), ("./missing", "there is no such folder")])
def test_no_model(name, message):
    with pytest.raises(UserError, match=f"--model_name_or_path.*{message}"):
        load_config(ModelArguments(name))
