from __future__ import annotations

from typing import Any, ClassVar

import pytest
import torch
from torch import nn
from transformers import BertModel

from msattn import (
    BertForMultiScaleRE,
    BertForMultiScaleSequenceClassification,
    MultiScaleBertConfig,
    MultiScaleBertModel,
    MultiScaleFusion,
)
from msattn.modeling.fusion_classifiers import pool
from tests.common import TOLERANCE, BertCheckpointTester, ClassificationTester, CompiledLikeASibling
from tests.flash_attention_double import IMPLEMENTATION, install_flash_attention


class MultiScaleBertTester(BertCheckpointTester):
    new_weights: tuple[str, ...] = ("bert.fusion.", "classifier.")
    encoder_prefix = "bert."
    continuous: ClassVar[dict[str, Any]] = {"mask_mode": "sigmoid"}

    def config(self, **changes):
        sizes = {
            "vocab_size": 60,
            "hidden_size": 32,
            "num_hidden_layers": 2,
            "num_attention_heads": 4,
            "intermediate_size": 48,
            "max_position_embeddings": 40,
            "hidden_dropout_prob": 0.0,
            "attention_probs_dropout_prob": 0.0,
            "scales": (3, 5),
            "fusion_heads": 2,
            "fusion_layers": 2,
            "num_labels": 3,
        }
        return MultiScaleBertConfig(**{**sizes, **changes})

    def test_flash_attention_is_eager(self, monkeypatch):
        calls = install_flash_attention(monkeypatch)
        eager, flash = self.build("eager"), self.build(IMPLEMENTATION)
        inputs = self.inputs(eager.config)
        real = inputs["attention_mask"].bool()
        with torch.no_grad():
            results = [model(**inputs)[self.result] for model in (eager, flash)]
        assert calls and all(lengths == list(self.lengths) for lengths in calls)
        if results[0].shape[:2] == real.shape:
            results = [result[real] for result in results]
        torch.testing.assert_close(*results, **TOLERANCE)
        losses = [self.loss(model, inputs) for model in (eager, flash)]
        for loss in losses:
            loss.backward()
        torch.testing.assert_close(*losses, **TOLERANCE)
        for (name, one), other in zip(eager.named_parameters(), flash.parameters(), strict=True):
            if one.requires_grad:
                torch.testing.assert_close(one.grad, other.grad, msg=lambda text, name=name: f"{name}: {text}")

    def check_attentions(self, outputs, config, batch, tokens):
        shape = (batch, config.fusion_heads, tokens, (1 + len(config.scales)) * tokens)
        assert [tuple(attention.shape) for attention in outputs.fusion_attentions] == [shape] * config.fusion_layers

    def test_left_padding_changes_nothing(self):
        model = self.build()
        right = model(**self.inputs(model.config, (6, 6)))[self.result]
        inputs = self.inputs(model.config, (6, 6), left=4)
        position_ids = (torch.arange(10) - 4).clamp_min(0).unsqueeze(0)
        left = model(**inputs, position_ids=position_ids)[self.result]
        if left.shape[1] == 10:
            assert not left[:, :4].any()
            left = left[:, 4:]
        torch.testing.assert_close(left, right, **TOLERANCE)

    @pytest.mark.parametrize("mask_mode", ["hard", "ste", "sigmoid", "entmax", "none"])
    def test_mask_modes(self, mask_mode, tmp_path):
        model = self.build(mask_mode=mask_mode, conv_alignment="same", renormalize=True, fusion_residual=True)
        layers = model.base_model.fusion
        for layer in layers:
            assert layer.mask_mode == mask_mode and layer.conv_alignment == "same" and layer.renormalize
            assert layer.mask_query.weight.requires_grad == (mask_mode not in ("hard", "none"))
        self.check_gradients(model)
        model.save_pretrained(tmp_path)
        self.assert_same(model, self.model_class.from_pretrained(tmp_path), self.inputs(model.config))

    def test_gradient_checkpointing_runs_fusion_again(self):
        model = self.build().train()
        model.gradient_checkpointing_enable()
        calls = []
        model.base_model.fusion[0].query.register_forward_hook(lambda *_: calls.append(1))
        self.loss(model, self.inputs(model.config)).backward()
        assert len(calls) == 2

    def test_no_fusion_layer_is_plain_bert(self, tmp_path):
        plain = BertModel(self.plain_config(), add_pooling_layer=False).eval()
        plain.save_pretrained(tmp_path)
        model = self.model_class.from_pretrained(tmp_path, fusion_layers=0)
        inputs = self.inputs(model.config)
        expected = plain(inputs["input_ids"], attention_mask=inputs["attention_mask"], output_hidden_states=True)
        found = model.base_model(
            inputs["input_ids"],
            attention_mask=inputs["attention_mask"],
            output_hidden_states=True,
            output_attentions=True,
        )
        torch.testing.assert_close(found.last_hidden_state, expected.last_hidden_state, **TOLERANCE)
        torch.testing.assert_close(found.hidden_states, expected.hidden_states, **TOLERANCE)
        assert found.fusion_attentions == ()

    def test_attention_mask_of_another_shape(self):
        model = self.build()
        inputs = self.inputs(model.config)
        inputs["attention_mask"] = inputs["attention_mask"][:, None, None]
        with pytest.raises(ValueError, match=r"must be \(batch, tokens\), got the shape \(3, 1, 1, 11\)"):
            model(**inputs)


class TestMultiScaleBertModel(CompiledLikeASibling, MultiScaleBertTester):
    model_class = MultiScaleBertModel
    new_weights = ("fusion.",)
    encoder_prefix = ""

    def test_is_bert_then_fusion(self):
        """Eq. 2, then each layer on the output of the one below."""
        model = self.build()
        inputs = self.inputs(model.config)
        plain = BertModel(self.plain_config(), add_pooling_layer=False).eval()
        plain.load_state_dict(model.state_dict(), strict=False)
        states = plain(**inputs).last_hidden_state
        for layer in model.fusion:
            states, _ = layer(states, inputs["attention_mask"])
        torch.testing.assert_close(model(**inputs).last_hidden_state, states)
        assert not states[inputs["attention_mask"] == 0].any()

    def test_residual(self):
        model = self.build(fusion_layers=1, fusion_residual=True)
        inputs = self.inputs(model.config)
        with_residual = model(**inputs).last_hidden_state
        model.config.fusion_residual = False
        difference = with_residual - model(**inputs).last_hidden_state
        states = model(**inputs, output_hidden_states=True).hidden_states[-1]
        torch.testing.assert_close(difference, states, **TOLERANCE)

    def test_parameters_beside_the_encoder(self):
        model = self.build(fusion_layers=1)
        plain = BertModel(self.plain_config(), add_pooling_layer=False)
        assert model.num_parameters() - plain.num_parameters() == (5 + 3 + 5) * 32**2


class MultiScaleClassifierTester(MultiScaleBertTester, ClassificationTester):
    def test_dropout_before_the_classifier(self):
        assert self.build(hidden_dropout_prob=0.3).dropout.p == 0.3
        assert self.build(hidden_dropout_prob=0.3, classifier_dropout=0.0).dropout.p == 0.0


class TestBertForMultiScaleRE(MultiScaleClassifierTester):
    model_class = BertForMultiScaleRE
    starts = torch.tensor([[1, 4], [3, 0], [2, 2]])

    def extra_inputs(self, batch, left):
        return {"entity_starts": self.starts[:batch] + left}

    def test_reads_the_entity_starts(self):
        model = self.build()
        inputs = self.inputs(model.config)
        starts = inputs.pop("entity_starts")
        states = model.bert(**inputs).last_hidden_state
        pairs = [torch.cat([states[i, head], states[i, tail]]) for i, (head, tail) in enumerate(starts.tolist())]
        expected = model.classifier(torch.stack(pairs))
        torch.testing.assert_close(model(**inputs, entity_starts=starts).logits, expected)

    @pytest.mark.parametrize("starts", [None, torch.tensor([1, 4]), torch.tensor([[1, 4, 5]] * 3)])
    def test_entity_starts_of_another_shape(self, starts):
        model = self.build()
        inputs = self.inputs(model.config) | {"entity_starts": starts}
        with pytest.raises(ValueError, match=r"needs entity_starts of shape \(batch, 2\), got (None|\()"):
            model(**inputs)

    @pytest.mark.parametrize("pooling", ["mean", "cls", "max"])
    def test_other_poolings_need_no_entity(self, pooling):
        model = self.build(pooling=pooling)
        inputs = self.inputs(model.config)
        with_starts = model(**inputs).logits
        del inputs["entity_starts"]
        assert torch.equal(model(**inputs).logits, with_starts)


class TestBertForMultiScaleSequenceClassification(CompiledLikeASibling, MultiScaleClassifierTester):
    model_class = BertForMultiScaleSequenceClassification

    @pytest.mark.parametrize("pooling", [None, "mean", "cls", "max"])
    def test_poolings(self, pooling):
        model = self.build(pooling=pooling)
        inputs = self.inputs(model.config)
        states = model.bert(**inputs).last_hidden_state
        pooled = {
            "mean": [states[i, :n].mean(dim=0) for i, n in enumerate(self.lengths)],
            "max": [states[i, :n].amax(dim=0) for i, n in enumerate(self.lengths)],
            "cls": [states[i, 0] for i in range(len(self.lengths))],
        }[pooling or "mean"]
        torch.testing.assert_close(model(**inputs).logits, model.classifier(torch.stack(pooled)))

    def test_pooling_of_another_task(self):
        with pytest.raises(ValueError, match="must be one of mean, cls, max, got 'entity_start'"):
            self.model_class(self.config(pooling="entity_start"))


def test_pooling_reads_real_tokens_only():
    states = torch.arange(12.0).view(1, 6, 2) - 20
    mask = torch.tensor([[0, 0, 1, 1, 1, 0]])
    starts = torch.tensor([[3, 2]])
    found = {
        name: pool(states, mask, name, starts)[0].tolist() for name in ("cls", "last", "mean", "max", "entity_start")
    }
    assert found == {
        "cls": [-16, -15],
        "last": [-12, -11],
        "mean": [-14, -13],
        "max": [-12, -11],
        "entity_start": [-14, -13, -16, -15],
    }


def test_loading_keeps_the_frozen_mask_frozen(tmp_path):
    """Loading makes new parameters, and `DistributedDataParallel` waits for a gradient of each that asks for one."""
    tester = TestMultiScaleBertModel()
    tester.build(mask_mode="hard").save_pretrained(tmp_path)
    for mode in ("hard", "ste"):
        model = MultiScaleBertModel.from_pretrained(tmp_path, mask_mode=mode)
        layers = [layer for layer in model.modules() if isinstance(layer, MultiScaleFusion)]
        assert [layer.mask_key.weight.requires_grad for layer in layers] == [mode == "ste"] * 2


def test_one_sentence_learned_by_heart():
    tester = TestBertForMultiScaleRE()
    model = tester.build(mask_mode="ste", fusion_layers=1).train()
    inputs = tester.inputs(model.config)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    losses = []
    for _ in range(30):
        loss = tester.loss(model, inputs)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.05 < losses[0]
