"""Models on every family of encoders: they wrap its checkpoints, learn, and are saved and loaded."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from transformers import AutoConfig, AutoModel, PreTrainedModel, pipeline

from msattn import (
    AutoModelForRelationExtraction,
    MultiScaleConfig,
    MultiScaleForSequenceClassification,
    MultiScaleModel,
    UserError,
)
from msattn.modeling.any_encoder import attends_causally, encoder_class
from msattn.training.arguments import ModelArguments
from msattn.training.checkpoints import load_config
from tests.common import assert_fresh
from tests.modeling import test_modeling_multiscale as multiscale
from tests.modeling import test_modeling_pairwise as pairwise
from tests.modeling.test_modeling_pairwise import CASES, FAMILY_PARAMS
from tests.tiny_encoders import COMMON, batch, randomized, save_classifier
from tests.tiny_models import labelled, tiny_relation_extractor

MODELS = pytest.mark.parametrize(
    ("model_class", "options"),
    [*CASES, (MultiScaleForSequenceClassification, {})],
    ids=["pairs", "heads", "relations", "fusion"],
)


@pytest.fixture(params=FAMILY_PARAMS)
def family(request):
    return request.param


def build(family: str, model_class: type[PreTrainedModel], **changes: Any) -> PreTrainedModel:
    tests = multiscale if model_class is MultiScaleForSequenceClassification else pairwise
    return tests.build(family, model_class, **changes)


def inputs_of(family: str, model_class: type[PreTrainedModel]) -> dict[str, torch.Tensor]:
    if model_class in pairwise.INPUTS:
        return pairwise.INPUTS[model_class](family)
    return {**batch(family), "labels": torch.tensor([0, 3, 1])}


@MODELS
def test_wraps_a_foreign_checkpoint(family, model_class, options, tmp_path):
    plain = save_classifier(family, tmp_path)
    sizes = pairwise.SIZES if model_class in pairwise.INPUTS else {"scales": [3, 5], "fusion_heads": 2}
    model, info = model_class.from_pretrained(tmp_path, **sizes, **options, output_loading_info=True)
    assert model.config.encoder.model_type == family
    path = f"{model._encoder_paths[0]}."
    assert info["missing_keys"] == {name for name, _ in model.named_parameters() if not name.startswith(path)}
    assert not info["mismatched_keys"] and not info["error_msgs"]
    for name in info["missing_keys"]:
        assert_fresh(name, model.get_parameter(name), model.config.initializer_range)
    # The foreign head stays out, and nothing else does.
    known = (f"{plain.base_model_prefix}.", "pooler.")
    assert info["unexpected_keys"] == {f"{path}{name}" for name in plain.state_dict() if not name.startswith(known)}
    stock = encoder_class(type(plain.config)).from_pretrained(tmp_path).state_dict()
    for name, weight in model.base_model.encoder.state_dict().items():
        assert torch.equal(weight, stock[name]), name


@MODELS
def test_loss_and_gradients(family, model_class, options):
    other = {"features": "emb" if options else "att"} if model_class in pairwise.INPUTS else {"fusion_layers": 0}
    for changes in ({}, other):
        model = build(family, model_class, **options, **changes).train()
        model(**inputs_of(family, model_class)).loss.backward()
        for name, weight in model.named_parameters():
            assert weight.grad is not None and weight.grad.isfinite().all(), name
        assert model.get_input_embeddings().weight.grad.any()


@pytest.mark.parametrize("family", ["ibert", "mpnet", "mra", "nystromformer", "roberta", "yoso"])
def test_positions_are_those_of_the_family(family):
    pad = 0 if family == "mpnet" else 1  # MPNet counts from 2, whatever its padding is
    encoder = AutoConfig.for_model(family, **{**COMMON, "num_hidden_layers": 1, "pad_token_id": pad})
    model = randomized(MultiScaleModel(MultiScaleConfig(encoder=encoder, fusion_layers=0)))
    inputs = {"input_ids": torch.arange(5, 14)[None]}
    with torch.no_grad():
        plain = model(**inputs).last_hidden_state
        masked = model(**inputs, attention_mask=torch.ones(1, 9, dtype=torch.long)).last_hidden_state
    torch.testing.assert_close(masked, plain)


@pytest.mark.parametrize(
    ("family", "changes", "expected"),
    [("llama", {}, True), ("llama", {"is_causal": False}, False), ("xlnet", {"d_head": 8}, False)],
)
def test_who_attends_causally(family, changes, expected):
    sizes = {name: size for name, size in COMMON.items() if name != "max_position_embeddings"}  # XLNet has no limit
    config = AutoConfig.for_model(family, **sizes, **changes)
    encoder = randomized(AutoModel.from_config(config))
    assert attends_causally(encoder) is expected
    with torch.no_grad():
        one, other = (encoder(torch.tensor([[5, 6, last]]))[0][0, 0] for last in (7, 8))
    assert one.equal(other) is expected


def test_labels_of_a_given_configuration_are_those_of_the_head(tmp_path):
    save_classifier("bert", tmp_path)
    fields = {**labelled("a", "b", "c"), "problem_type": "multi_label_classification"}
    config = AutoConfig.from_pretrained(tmp_path, **fields)
    model = MultiScaleForSequenceClassification.from_pretrained(tmp_path, config=config)
    assert {name: getattr(model.config, name) for name in fields} == fields
    assert model.multiscale_classifier.out_features == 3
    other = MultiScaleForSequenceClassification.from_pretrained(tmp_path, config=config, **labelled("x", "y"))
    assert other.config.id2label == {0: "x", 1: "y"}


def test_a_given_configuration_keeps_its_attention_and_any_precision(tmp_path):
    save_classifier("bert", tmp_path)
    config = AutoConfig.from_pretrained(tmp_path, attn_implementation="eager")
    for dtype, expected in {"auto": torch.float32, torch.bfloat16: torch.bfloat16}.items():
        model = MultiScaleModel.from_pretrained(tmp_path, config=config, dtype=dtype)
        assert (model.dtype, model.encoder.config._attn_implementation) == (expected, "eager")
    model = MultiScaleModel.from_pretrained(tmp_path, config=config, attn_implementation="sdpa")
    assert model.encoder.config._attn_implementation == "sdpa"


def test_a_classifier_of_another_size_is_no_answer(tmp_path):
    model, tokenizer = tiny_relation_extractor()
    model.save_pretrained(tmp_path)
    given = {**labelled("x", "y"), "ignore_mismatched_sizes": True}
    resized = AutoModelForRelationExtraction.from_pretrained(tmp_path, **given)
    assert resized._random_weights == ("classifier.bias", "classifier.weight")
    with pytest.raises(UserError, match="classifier.bias and 1 other weights are missing"):
        pipeline("relation-extraction", model=resized, tokenizer=tokenizer)
    with pytest.raises(ValueError, match="new and random, and none of its weights is trained"):
        resized.requires_grad_(False).train()
    resized.load_state_dict({"classifier.bias": torch.zeros(2)}, strict=False)
    assert resized._random_weights == ("classifier.weight",)


def test_adapters_need_the_model_that_they_were_trained_on(tmp_path):
    peft = pytest.importorskip("peft")
    save_classifier("bert", tmp_path / "encoder")
    model = MultiScaleForSequenceClassification.from_pretrained(tmp_path / "encoder")
    model.save_pretrained(tmp_path / "own")
    lora = peft.LoraConfig(target_modules=["query"], modules_to_save=["fusion.0", "multiscale_classifier"])
    adapted = peft.get_peft_model(model, lora)
    for base in ("encoder", "own"):
        adapted.peft_config["default"].base_model_name_or_path = str(tmp_path / base)
        adapted.save_pretrained(tmp_path / f"on_{base}")
    with pytest.raises(ValueError, match=r"holds adapters \(PEFT\) of a MultiScaleFor.* on .*encoder"):
        MultiScaleForSequenceClassification.from_pretrained(tmp_path / "on_encoder")
    with pytest.raises(UserError, match="it holds adapters .PEFT. without their model"):
        load_config(ModelArguments(str(tmp_path / "on_encoder")))
    with pytest.raises(ValueError, match=r"holds adapters \(PEFT\) of a MultiScaleFor.* on .*encoder"):
        MultiScaleForSequenceClassification.from_pretrained(tmp_path, subfolder="on_encoder")
    own = MultiScaleForSequenceClassification.from_pretrained(tmp_path / "on_own").eval()
    inputs = batch("bert")
    torch.testing.assert_close(own(**inputs).logits, adapted.eval()(**inputs).logits)
