"""Adapters of PEFT on our models: what is trained, what is merged, and what is said."""

from __future__ import annotations

import pytest
import torch
from transformers import AutoModel

from msattn import (
    MultiScaleForRelationExtraction,
    MultiScaleForSequenceClassification,
    MultiScaleForTokenClassification,
    PairwiseForRelationClassification,
    PairwiseParser,
)
from msattn.modeling.new_layers import check_new_layers, new_modules
from tests.common import TOLERANCE
from tests.modeling.test_modeling_pairwise import INPUTS, SIZES
from tests.tiny_encoders import batch, tiny_encoder

FUSION = {"mask_mode": "sigmoid", "scales": (2, 3), "num_labels": 3}
MODELS = {
    MultiScaleForSequenceClassification: (FUSION, "SEQ_CLS", ["fusion.0", "multiscale_classifier"]),
    MultiScaleForRelationExtraction: (FUSION, "SEQ_CLS", ["fusion.0", "multiscale_classifier"]),
    MultiScaleForTokenClassification: (FUSION, "TOKEN_CLS", ["fusion.0", "multiscale_classifier"]),
    PairwiseParser: ({**SIZES, "objective": "head_select"}, None, ["arcs", "relations"]),
    PairwiseForRelationClassification: (SIZES, "SEQ_CLS", ["classifier"]),
}
every_model = pytest.mark.parametrize("model_class", MODELS)


@pytest.fixture(scope="module")
def encoder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("encoder")
    torch.manual_seed(0)
    AutoModel.from_config(tiny_encoder("roberta")).save_pretrained(folder)
    return folder


def load(model_class, encoder):
    return model_class.from_pretrained(encoder, **MODELS[model_class][0])


def inputs_of(model_class):
    if model_class in INPUTS:
        return INPUTS[model_class]("roberta")
    inputs = batch("roberta")
    if model_class is MultiScaleForTokenClassification:
        return {**inputs, "labels": inputs["input_ids"] % 3}
    if model_class is MultiScaleForRelationExtraction:
        inputs["entity_starts"] = torch.tensor([[1, 3]] * 3)
    return {**inputs, "labels": torch.tensor([0, 2, 1])}


@every_model
def test_new_modules_are_those_to_save(model_class, encoder):
    model = load(model_class, encoder)
    assert [name.removeprefix("multiscale.") for name in new_modules(model, *model._encoder_paths)] == (
        MODELS[model_class][2]
    )


@every_model
def test_random_layers_are_not_left_frozen(model_class, encoder, caplog):
    model = load(model_class, encoder).requires_grad_(False)
    with pytest.raises(ValueError, match=r"is new and random, and none of its weights is trained; .* modules_to_save"):
        model.train()
    model = load(model_class, encoder)
    first = next(weight for name, weight in model.named_parameters() if not name.startswith(model._encoder_paths))
    first.requires_grad_(False)
    with caplog.at_level("WARNING"):
        check_new_layers(model, *model._encoder_paths)
    assert "is new and random, and is not trained" in caplog.text
    load(model_class, encoder).train()


def test_loaded_layers_may_be_frozen(encoder, tmp_path):
    load(MultiScaleForSequenceClassification, encoder).save_pretrained(tmp_path)
    model = MultiScaleForSequenceClassification.from_pretrained(tmp_path, num_labels=5, ignore_mismatched_sizes=True)
    model.multiscale.requires_grad_(False)
    assert model.train()._random_weights == ()


@pytest.mark.slow
@every_model
@pytest.mark.parametrize("saved", [False, True])
def test_adapters_on_everything(model_class, encoder, saved):
    peft = pytest.importorskip("peft")
    _, task, modules = MODELS[model_class]
    config = peft.LoraConfig(
        # PEFT cannot put an adapter on a tagger's classifier and save it.
        task_type=None if task == "TOKEN_CLS" and not saved else task,
        target_modules="all-linear",
        modules_to_save=[*modules] if saved else None,
        init_lora_weights=False,
        lora_dropout=0.0,
    )
    model = peft.get_peft_model(load(model_class, encoder), config).train()
    inputs = inputs_of(model_class)
    model(**inputs).loss.backward()
    for name, weight in model.named_parameters():
        assert (weight.grad is not None) == weight.requires_grad, name
    assert any(weight.requires_grad for name, weight in model.named_parameters() if "encoder." not in name)
    with torch.no_grad():
        adapted = model.eval()(**inputs)[1]
        merged = model.merge_and_unload()(**inputs)[1]
    torch.testing.assert_close(merged, adapted, **TOLERANCE)


@pytest.mark.slow
@pytest.mark.parametrize("saved", [False, True])
def test_random_layers_below_an_adapter_give_a_warning(encoder, saved, caplog):
    peft = pytest.importorskip("peft")
    modules = ["arcs", "relations"] if saved else None
    config = peft.LoraConfig(target_modules="all-linear", modules_to_save=modules)
    model = peft.get_peft_model(load(PairwiseParser, encoder), config)
    with caplog.at_level("WARNING"):
        model.train()
    assert ("modules_to_save=['arcs', 'relations']" in caplog.text) != saved


@pytest.mark.slow
def test_adapters_without_new_layers_are_refused(encoder):
    peft = pytest.importorskip("peft")
    config = peft.LoraConfig(target_modules=["query", "value"])
    model = peft.get_peft_model(load(PairwiseParser, encoder), config)
    with pytest.raises(ValueError, match=r"arcs is new and random, .* modules_to_save=\['arcs', 'relations'\]"):
        model.train()
