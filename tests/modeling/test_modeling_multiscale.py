"""Multi-scale fusion on every family of encoders, each with a tiny random checkpoint."""

from __future__ import annotations

import json

import pytest
import torch
from torch import nn
from transformers import (
    AutoModelForSequenceClassification,
    BartConfig,
    RobertaConfig,
)

from msattn import (
    BertForMultiScaleRE,
    MultiScaleBertConfig,
    MultiScaleConfig,
    MultiScaleForRelationExtraction,
    MultiScaleForSequenceClassification,
    MultiScaleForTokenClassification,
    MultiScaleFusion,
    MultiScaleModel,
)
from tests.common import TOLERANCE, ClassificationTester, CompiledLikeASibling
from tests.tiny_encoders import CAUSAL_FAMILIES, FAMILIES, LENGTHS, batch, randomized, save_classifier, tiny_encoder

OWN = {"num_labels", *MultiScaleConfig.__dataclass_fields__}
STARTS = torch.tensor([[1, 4], [3, 0], [2, 6]])
# A mask without steps: a rounding error does not move a word from one side of 1/n to the other.
SMOOTH = {"mask_mode": "sigmoid", "scales": (2, 3), "num_labels": 4}


def build(family, model_class=MultiScaleForSequenceClassification, encoder=None, **changes):
    return randomized(
        model_class(MultiScaleConfig(encoder=tiny_encoder(family, **encoder or {}), **{**SMOOTH, **changes}))
    )


@pytest.fixture(params=FAMILIES)
def family(request):
    return request.param


@pytest.mark.parametrize("pooling", ["mean", "max", "last", "cls", "entity_start", "r_bert"])
def test_padding_on_either_side_changes_nothing(family, pooling):
    if pooling in ("cls", "r_bert") and family in CAUSAL_FAMILIES:
        with pytest.raises(
            ValueError, match=f'"{pooling}" .* causal encoder such as {family!r}; use "mean", "max" or "last"'
        ):
            build(family, MultiScaleForRelationExtraction, pooling=pooling)
        return
    model = build(family, MultiScaleForRelationExtraction, pooling=pooling)
    with torch.no_grad():
        alone = [
            model(inputs["input_ids"], entity_starts=starts[None], entity_ends=starts[None] + 2).logits[0]
            for inputs, starts in zip(sentences(family), STARTS, strict=True)
        ]
        for left, right in ((0, 0), (3, 0), (0, 2), (2, 3)):
            places = {"entity_starts": STARTS + left, "entity_ends": STARTS + left + 2}
            logits = model(**batch(family, left, right), **places).logits
            torch.testing.assert_close(logits, torch.stack(alone), **TOLERANCE)


def sentences(family):
    inputs = batch(family)
    return [{"input_ids": row[None, :length]} for row, length in zip(inputs["input_ids"], LENGTHS, strict=True)]


def test_a_wrapped_checkpoint_is_saved_as_ours(family, tmp_path):
    save_classifier(family, tmp_path / "stock")
    model = MultiScaleModel.from_pretrained(tmp_path / "stock", **SMOOTH)
    for options in ({}, {"save_original_format": True}):
        model.save_pretrained(tmp_path, **options)
        again, info = MultiScaleModel.from_pretrained(tmp_path, output_loading_info=True)
        assert not any(info.values()), info
        assert all(torch.equal(weight, again.state_dict()[name]) for name, weight in model.state_dict().items())


def test_knows_causal_encoders(family):
    model, inputs = build(family, MultiScaleModel), batch(family)
    changed = {**inputs, "input_ids": inputs["input_ids"].clone()}
    changed["input_ids"][0, LENGTHS[0] - 1] = 7
    with torch.no_grad():
        one, other = (
            model.encode(rows["input_ids"], rows["attention_mask"], None).last_hidden_state
            for rows in (inputs, changed)
        )
    assert torch.equal(one[0, 0], other[0, 0]) == model.is_causal == (family in CAUSAL_FAMILIES)


class TestMultiScaleForRelationExtraction(CompiledLikeASibling, ClassificationTester):
    """Every check of the other models, with RoBERTa inside."""

    model_class = MultiScaleForRelationExtraction
    continuous = {"mask_mode": "sigmoid"}
    starts = torch.tensor([[1, 4], [3, 0], [2, 2]])

    def config(self, **changes):
        given = {"scales": (3, 5), "fusion_heads": 2, "fusion_layers": 2, "num_labels": 3}
        given |= {name: value for name, value in changes.items() if name in OWN}
        encoder = {name: value for name, value in changes.items() if name not in given}
        return MultiScaleConfig(encoder=tiny_encoder("roberta", **encoder), **given)

    def extra_inputs(self, batch, left):
        return {"entity_starts": self.starts[:batch] + left}

    def check_attentions(self, outputs, config, batch, tokens):
        shape = (batch, config.fusion_heads, tokens, (1 + len(config.scales)) * tokens)
        assert [tuple(attention.shape) for attention in outputs.fusion_attentions] == [shape] * config.fusion_layers

    @pytest.mark.parametrize("pooling", [None, "mean", "cls", "max", "last"])
    def test_poolings(self, pooling):
        model = self.build(pooling=pooling)
        inputs = self.inputs(model.config)
        states = model.multiscale(inputs["input_ids"], inputs["attention_mask"]).last_hidden_state
        pooled = {
            None: [states[i, pair].flatten() for i, pair in enumerate(self.starts)],
            "mean": [states[i, :n].mean(dim=0) for i, n in enumerate(self.lengths)],
            "max": [states[i, :n].amax(dim=0) for i, n in enumerate(self.lengths)],
            "cls": [states[i, 0] for i in range(len(self.lengths))],
            "last": [states[i, n - 1] for i, n in enumerate(self.lengths)],
        }[pooling]
        torch.testing.assert_close(model(**inputs).logits, model.multiscale_classifier(torch.stack(pooled)))

    def test_r_bert(self):
        """Wu and He 2019, Eq. 1 to 4."""
        model = self.build(pooling="r_bert", fusion_layers=0).double()
        inputs = self.inputs(model.config) | {"entity_starts": self.starts, "entity_ends": self.starts + 3}
        states = model.multiscale(inputs["input_ids"], inputs["attention_mask"]).last_hidden_state
        rows = []
        for row, starts in zip(states, self.starts.tolist(), strict=True):
            entities = [(row[start + 1] + row[start + 2]) / 2 for start in starts]
            rows.append(
                torch.cat([model.sentence_layer(row[0].tanh()), *(model.entity_layer(e.tanh()) for e in entities)])
            )
        torch.testing.assert_close(model(**inputs).logits, model.multiscale_classifier(torch.stack(rows)))
        with pytest.raises(ValueError, match=r"needs entity_ends of shape \(batch, 2\), got None"):
            model(**inputs | {"entity_ends": None})

    @pytest.mark.parametrize("starts", [None, torch.tensor([1, 4]), torch.tensor([[1, 4, 5]] * 3)])
    def test_entity_starts_of_another_shape(self, starts):
        model = self.build()
        with pytest.raises(ValueError, match=r"needs entity_starts of shape \(batch, 2\), got (None|\()"):
            model(**self.inputs(model.config) | {"entity_starts": starts})

    @pytest.mark.parametrize("mask_mode", ["hard", "ste", "sigmoid", "entmax", "none"])
    def test_mask_modes(self, mask_mode, tmp_path):
        model = self.build(mask_mode=mask_mode, conv_alignment="same", renormalize=True, fusion_residual=True)
        for layer in model.base_model.fusion:
            assert layer.mask_mode == mask_mode and layer.conv_alignment == "same" and layer.renormalize
            assert layer.mask_query.weight.requires_grad == (mask_mode not in ("hard", "none"))
        self.check_gradients(model)
        model.save_pretrained(tmp_path)
        self.assert_same(model, self.model_class.from_pretrained(tmp_path), self.inputs(model.config))

    def test_each_layer_is_on_the_one_below(self):
        model = self.build(fusion_residual=True).base_model
        inputs = {name: self.inputs(model.config)[name] for name in ("input_ids", "attention_mask")}
        states = model.encoder(**inputs).last_hidden_state
        for layer in model.fusion:
            states = states + layer(states, inputs["attention_mask"])[0]
        real = inputs["attention_mask"].bool()
        outputs = model(**inputs, output_hidden_states=True)
        torch.testing.assert_close(outputs.last_hidden_state[real], states[real])
        assert torch.equal(outputs.last_hidden_state[~real], outputs.hidden_states[-1][~real])

    def test_dropout_before_the_classifier(self):
        assert self.build(hidden_dropout_prob=0.3).dropout.p == 0.3
        assert self.build(hidden_dropout_prob=0.3, classifier_dropout=0.0).dropout.p == 0.0


def test_a_tagger_takes_another_base_model():
    class Base(MultiScaleModel):
        pass

    class Tagger(MultiScaleForTokenClassification):
        _base_class = Base

    assert type(build("electra", Tagger).multiscale) is Base


def test_tagging():
    model, inputs = build("electra", MultiScaleForTokenClassification), batch("electra")
    labels = (inputs["input_ids"] % 4).where(inputs["attention_mask"].bool(), torch.tensor(-100))
    outputs = model(**inputs, labels=labels, output_hidden_states=True)
    assert outputs.logits.shape == (3, 9, 4) and len(outputs.hidden_states) == 3
    torch.testing.assert_close(
        outputs.loss, nn.functional.cross_entropy(outputs.logits.flatten(0, 1), labels.flatten())
    )
    outputs.loss.backward()
    half = model(**inputs, labels=labels, num_items_in_batch=2 * sum(LENGTHS)).loss
    torch.testing.assert_close(half, outputs.loss / 2)


class TestLoadingOptions:
    """What `from_pretrained` takes works for a foreign checkpoint as for a stock model."""

    @pytest.fixture
    def folder(self, tmp_path):
        save_classifier("roberta", tmp_path / "stock")
        return tmp_path / "stock"

    def test_the_precision_of_the_checkpoint(self, folder, tmp_path):
        stock = AutoModelForSequenceClassification.from_pretrained(folder, dtype=torch.bfloat16)
        stock.save_pretrained(tmp_path)
        assert MultiScaleModel.from_pretrained(tmp_path).dtype == torch.bfloat16
        fresh = MultiScaleModel(MultiScaleConfig.from_pretrained(tmp_path))
        assert {weight.dtype for weight in fresh.parameters()} == {torch.float32}

    def test_shards_and_weights_on_disk(self, folder, tmp_path):
        stock = AutoModelForSequenceClassification.from_pretrained(folder)
        stock.save_pretrained(tmp_path, max_shard_size="10KB")
        assert (tmp_path / "model.safetensors.index.json").is_file()
        device_map = {"multiscale.encoder": "cpu", "multiscale.fusion": "cpu", "multiscale_classifier": "cpu"}
        whole = MultiScaleForSequenceClassification.from_pretrained(folder, **SMOOTH)
        whole.save_pretrained(tmp_path / "ours", max_shard_size="10KB")
        device_map["multiscale.encoder"] = "disk"
        model = MultiScaleForSequenceClassification.from_pretrained(
            tmp_path / "ours", device_map=device_map, offload_folder=tmp_path / "disk"
        )
        with torch.no_grad():
            found, expected = (one(**batch("roberta")).logits for one in (model, whole))
        torch.testing.assert_close(found, expected)
        wrapped = MultiScaleForSequenceClassification.from_pretrained(
            tmp_path, device_map=device_map, offload_folder=tmp_path / "foreign", **SMOOTH
        )
        with torch.no_grad():
            assert wrapped(**batch("roberta")).logits.shape == (3, 4)

    def test_configurations(self, folder):
        ours = MultiScaleConfig.from_pretrained(folder, scales=[4])
        stock = AutoModelForSequenceClassification.from_pretrained(folder)
        for config in (ours, stock.config):
            model = MultiScaleModel.from_pretrained(folder, config=config, **{} if config is ours else {"scales": [4]})
            assert model.config.scales == (4,) and model.config.encoder.model_type == "roberta"
            assert torch.equal(model.get_input_embeddings().weight, stock.get_input_embeddings().weight)
        with pytest.raises(TypeError, match="nonsense"):
            MultiScaleModel.from_pretrained(folder, nonsense=1)


class TestRefusals:
    def test_models_of_this_package(self, tmp_path):
        sizes = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 1, "intermediate_size": 8}
        BertForMultiScaleRE(MultiScaleBertConfig(vocab_size=8, **sizes)).save_pretrained(tmp_path)
        with pytest.raises(ValueError, match="'multiscale_bert' has new layers on top of one already"):
            MultiScaleModel.from_pretrained(tmp_path)

    def test_encoder_decoders(self, tmp_path):
        BartConfig().save_pretrained(tmp_path)
        with pytest.raises(ValueError, match="'bart' has no class in Transformers for its encoder alone"):
            MultiScaleModel.from_pretrained(tmp_path)

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            ({"model_type": "nothing"}, "of the family 'nothing', which this version of Transformers does not have"),
            ({"model_type": None}, "config.json names no model_type"),
            ({"quantization_config": {"quant_method": "fp8"}}, "is quantized already; load the full checkpoint"),
        ],
    )
    def test_configurations(self, change, message, tmp_path):
        values = RobertaConfig().to_dict() | change
        (tmp_path / "config.json").write_text(json.dumps({name: v for name, v in values.items() if v is not None}))
        for loader in (MultiScaleConfig, MultiScaleModel):
            with pytest.raises(ValueError, match=message):
                loader.from_pretrained(tmp_path)

    def test_inputs(self):
        model, inputs = build("bert"), batch("bert")
        with pytest.raises(ValueError, match=r"attention_mask must be \(batch, tokens\)"):
            model(inputs["input_ids"], attention_mask=inputs["attention_mask"][:, None, None])
        with pytest.raises(ValueError, match="must be one of mean, cls, max, last, got 'entity_start'"):
            build("bert", pooling="entity_start")


def test_token_types_are_dropped_where_an_encoder_has_none():
    for family in ("distilbert", "t5", "llama", "bert"):
        model, inputs = build(family), batch(family)
        types = torch.zeros_like(inputs["input_ids"])
        torch.testing.assert_close(model(**inputs, token_type_ids=types).logits, model(**inputs).logits)


def test_no_fusion_is_the_encoder():
    model, inputs = build("bert", MultiScaleModel, fusion_layers=0), batch("bert")
    outputs = model(**inputs, output_attentions=True)
    torch.testing.assert_close(outputs.last_hidden_state, model.encoder(**inputs).last_hidden_state)
    assert outputs.fusion_attentions == ()
    assert not [module for module in model.modules() if isinstance(module, MultiScaleFusion)]
