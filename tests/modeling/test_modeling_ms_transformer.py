from __future__ import annotations

import pytest
import torch
from torch import nn
from torch._dynamo.testing import CompileCounter

from msattn import (
    MSTransformerConfig,
    MSTransformerForSequenceClassification,
    MSTransformerForTokenClassification,
    MSTransformerModel,
    scale_aware_attention,
)
from msattn.modeling.attention_call import AttentionRefused
from msattn.modeling.modeling_ms_transformer import layer_windows
from tests.common import SCRATCH, TOLERANCE, ClassificationTester, CompiledLikeASibling, ModelTester, TaggingTester


def padded_batch(size, tokens):
    """Sentences of all lengths from a half to the whole."""
    lengths = torch.linspace(tokens // 2, tokens, size).long()[:, None]
    numbers = torch.arange(size * tokens).view(size, tokens)
    return {"input_ids": numbers % 60, "attention_mask": torch.arange(tokens) < lengths}


class MSTransformerTester(ModelTester):
    def config(self, **changes):
        sizes = {"num_attention_heads": 4, "scales": (1, "N/4", None)}
        return MSTransformerConfig(**{**SCRATCH, **sizes, **changes})

    @pytest.mark.parametrize("cls_global", [False, True])
    def test_eager_is_sdpa(self, cls_global):
        """Both return attentions when asked."""
        eager, sdpa = (self.build(one, cls_global=cls_global) for one in ("eager", "sdpa"))
        inputs = self.inputs(eager.config)
        self.assert_same(eager, sdpa, inputs)
        outputs = [model(**inputs, output_attentions=True) for model in (eager, sdpa)]
        torch.testing.assert_close(outputs[0].attentions, outputs[1].attentions)
        torch.testing.assert_close(outputs[1][self.result], sdpa(**inputs)[self.result], **TOLERANCE)
        gradients = [
            torch.autograd.grad(self.loss(model, inputs), model.get_input_embeddings().weight)[0]
            for model in (eager, sdpa)
        ]
        torch.testing.assert_close(*gradients, **TOLERANCE)

    def test_received(self):
        eager, received = (self.build(one, cls_global=True) for one in ("eager", "received"))
        inputs = self.inputs(eager.config)
        self.assert_same(eager, received, inputs)
        outputs = [model(**inputs, output_attentions=True) for model in (eager, received)]
        sums = [maps.sum(dim=-2) for maps in outputs[0].attentions]
        torch.testing.assert_close(list(outputs[1].attentions), sums, **TOLERANCE)
        with pytest.raises(AttentionRefused, match="hands no keyword arguments on to its layers, such as rows"):
            received(**inputs, rows=inputs["input_ids"][:, :1])

    @pytest.mark.parametrize("implementation", ["eager", "sdpa"])
    def test_dropout_of_attention(self, implementation):
        model = self.build(implementation, attention_probs_dropout_prob=0.1).train()
        inputs = self.inputs(model.config)
        assert not torch.equal(*(model(**inputs)[self.result] for _ in range(2)))

    @pytest.mark.parametrize("positions", [None, "sinusoidal", "learned"])
    def test_left_padding_changes_nothing(self, positions):
        model = self.build(position_embeddings=positions, cls_global=True)
        right = model(**self.inputs(model.config, (6, 6)))[self.result]
        left = model(**self.inputs(model.config, (6, 6), left=4))[self.result]
        torch.testing.assert_close(left[:, 4:] if left.shape[1] == 10 else left, right, **TOLERANCE)

    @pytest.mark.parametrize("implementation", ["eager", "sdpa"])
    @pytest.mark.parametrize("norm", ["post", "pre"])
    def test_every_option_learns(self, norm, implementation):
        model = self.build(
            implementation,
            norm=norm,
            position_embeddings="learned",
            intermediate_size=20,
            cls_global=True,
            window="full",
            attention_probs_dropout_prob=0.1,
        )
        self.check_gradients(model.train())


class TestMSTransformerModel(MSTransformerTester):
    model_class = MSTransformerModel

    def states(self, model: MSTransformerModel, words: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            return model(inputs_embeds=words).last_hidden_state

    def words(self, tokens: int) -> torch.Tensor:
        return torch.randn(2, tokens, 24, generator=torch.Generator().manual_seed(1))

    def test_layers_are_the_formula(self):
        """H <- LayerNorm(H + ReLU(MSMSA(H)))"""
        model = self.build(scales=(1, 3), alpha=1.0, embedding_size=None)
        inputs = self.inputs(model.config)
        states = model.get_input_embeddings()(inputs["input_ids"])
        for layer, windows in zip(model.layers, ([1, 1, 1, 3], [1, 1, 3, 3]), strict=True):
            parts = [
                projection(states).view(3, 11, 4, 8).transpose(1, 2)
                for projection in (layer.attention.query, layer.attention.key, layer.attention.value)
            ]
            heads = scale_aware_attention(*parts, windows, inputs["attention_mask"])
            attended = layer.attention.output(heads.transpose(1, 2).reshape(3, 11, 32))
            states = nn.functional.layer_norm(states + attended.relu(), (32,))
        real = inputs["attention_mask"].bool()
        torch.testing.assert_close(model(**inputs).last_hidden_state[real], states[real], **TOLERANCE)

    @pytest.mark.parametrize("norm", ["post", "pre"])
    def test_plain_transformer_is_torchs(self, norm):
        model = self.build(
            scales=[None], position_embeddings="sinusoidal", intermediate_size=48, embedding_size=None, norm=norm
        )
        torchs = nn.TransformerEncoderLayer(32, 4, 48, dropout=0.0, batch_first=True, norm_first=norm == "pre")
        inputs = self.inputs(model.config)
        states = model.embeddings(inputs["input_ids"], None, inputs["attention_mask"])
        for layer in model.layers:
            names = ("query", "key", "value")
            projections = [getattr(layer.attention, name).state_dict() for name in names]
            torchs.load_state_dict(
                {
                    "self_attn.in_proj_weight": torch.cat([part["weight"] for part in projections]),
                    "self_attn.in_proj_bias": torch.cat([part["bias"] for part in projections]),
                    "self_attn.out_proj.weight": layer.attention.output.weight,
                    "self_attn.out_proj.bias": layer.attention.output.bias,
                    "linear1.weight": layer.feed_forward.dense.weight,
                    "linear1.bias": layer.feed_forward.dense.bias,
                    "linear2.weight": layer.feed_forward.output.weight,
                    "linear2.bias": layer.feed_forward.output.bias,
                    "norm1.weight": layer.attention_norm.weight,
                    "norm1.bias": layer.attention_norm.bias,
                    "norm2.weight": layer.feed_forward_norm.weight,
                    "norm2.bias": layer.feed_forward_norm.bias,
                }
            )
            states = torchs(states, src_key_padding_mask=inputs["attention_mask"] == 0)
        states = model.final_norm(states)
        real = inputs["attention_mask"].bool()
        torch.testing.assert_close(model(**inputs).last_hidden_state[real], states[real], **TOLERANCE)

    @pytest.mark.parametrize(
        ("scales", "window", "reach"),
        [((3,), "half", 3), ((1, 2), "half", 2), ((7,), "full", 3), (("N/16",), "half", 18), ((1,), "full", 0)],
    )
    def test_a_token_is_seen_as_far_as_the_windows_reach(self, scales, window, reach):
        """L layers of half-width w: no further than L * w, and that far."""
        model, words = self.build(scales=scales, window=window), self.words(300)
        changed = words.clone()
        changed[:, 150] += 1
        moved = (self.states(model, changed) != self.states(model, words)).any(dim=-1)
        assert torch.equal(moved[0].nonzero().flatten(), torch.arange(150 - 2 * reach, 150 + 2 * reach + 1))

    def test_first_token_may_see_everything(self):
        words = self.words(40)
        changed = words.clone()
        changed[:, 30] += 1
        for cls_global, implementation in ((False, "sdpa"), (True, "sdpa"), (True, "eager")):
            model = self.build(implementation, scales=(1,), cls_global=cls_global)
            moved = (self.states(model, changed) != self.states(model, words)).any(dim=-1)[0]
            expected = torch.arange(40).sub(30).abs() <= 2
            expected[0] = cls_global
            expected[1] |= cls_global  # of the first token's state after one layer
            assert torch.equal(moved, expected)

    def test_windows_are_those_of_each_sentence(self):
        config = MSTransformerConfig(num_hidden_layers=1, num_attention_heads=5)
        mask = (torch.arange(100) < torch.tensor([[100], [19], [1]])).long()
        assert layer_windows(config, mask)[0].tolist() == [[1, 3, 6, 12, 25], [1, 3, 1, 2, 4], [1, 3, 1, 1, 1]]
        config = MSTransformerConfig(num_hidden_layers=1, num_attention_heads=5, window="full")
        assert layer_windows(config, mask)[0].tolist() == [[0, 1, 2, 5, 12], [0, 1, 0, 0, 1], [0, 1, 0, 0, 0]]
        config = MSTransformerConfig(num_hidden_layers=2, num_attention_heads=3, scales=(3, None, "N/4"), alpha=9.0)
        low, high = layer_windows(config, mask)
        assert low == [3, 3, 3]
        assert high.tolist() == [[3, 100, 25], [3, 100, 4], [3, 100, 1]]

    @pytest.mark.heavy
    @pytest.mark.parametrize("scales", [pytest.param((3,), marks=pytest.mark.slow), (1, "N/4")])
    def test_compiles_for_all_lengths(self, scales):
        model = self.build(scales=scales, num_hidden_layers=1)
        torch.compiler.reset()
        graphs = CompileCounter()
        compiled = torch.compile(model, fullgraph=True, backend=graphs)
        for tokens in (20, 30, 47, 90, 160, 301):
            inputs = padded_batch(2, tokens)
            states = compiled(**inputs).last_hidden_state
            torch.testing.assert_close(states, model(**inputs).last_hidden_state, **TOLERANCE)
        assert graphs.frame_count <= 4


class TestMSTransformerForSequenceClassification(CompiledLikeASibling, MSTransformerTester, ClassificationTester):
    model_class = MSTransformerForSequenceClassification


class TestMSTransformerForTokenClassification(CompiledLikeASibling, TaggingTester, MSTransformerTester):
    model_class = MSTransformerForTokenClassification


class TestTaggerWithCRF(TaggingTester, MSTransformerTester):
    model_class = MSTransformerForTokenClassification
    test_compiles_to_one_graph = None  # the field stays outside of the graph

    def config(self, **changes):
        return super().config(crf=True, **changes)
