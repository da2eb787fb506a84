from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from msattn import (
    BiLSTMConfig,
    BiLSTMForSequenceClassification,
    BiLSTMForTokenClassification,
    BiLSTMModel,
)
from tests.common import (
    SCRATCH,
    TOLERANCE,
    ClassificationTester,
    CompiledLikeASibling,
    ModelTester,
    TaggingTester,
    assert_fresh,
)


class BiLSTMTester(ModelTester):
    def config(self, **changes):
        return BiLSTMConfig(**{**SCRATCH, **changes})

    @pytest.mark.slow
    def test_export(self):
        super().test_export()

    @pytest.mark.heavy
    def test_compiles_to_one_graph(self):
        with torch._dynamo.config.patch(allow_rnn=True):
            super().test_compiles_to_one_graph()

    def test_fresh_weights(self):
        """Those of an LSTM are Xavier's, without biases."""
        model = self.model_class(self.config(initializer_range=0.05))
        for name, weight in model.named_parameters():
            lstm = "wards." in name and weight.dim() > 1
            assert_fresh(name, weight, (2 / sum(weight.shape)) ** 0.5 if lstm else 0.05)

    # There is no attention.

    def test_eager_is_sdpa(self):
        with pytest.raises(ValueError, match="scaled_dot_product_attention"):
            self.build("sdpa")

    def test_hidden_states_and_attentions(self):
        model = self.build()
        inputs = self.inputs(model.config)
        plain = model(**inputs)
        assert "hidden_states" not in plain
        model.config.output_hidden_states = True
        outputs = model(**inputs)
        torch.testing.assert_close(outputs[self.result], plain[self.result])
        assert [tuple(state.shape) for state in outputs.hidden_states] == [(3, 11, 32)] * 3
        assert not outputs.hidden_states[-1][inputs["attention_mask"] == 0].any()

    def test_hidden_states_and_attentions_retain_gradients(self):
        model = self.build()
        outputs = model(**self.inputs(model.config), output_hidden_states=True)
        states = outputs.hidden_states[0]
        states.retain_grad()
        outputs[self.result].square().sum().backward()
        assert states.grad.any()


class TestBiLSTMModel(BiLSTMTester):
    model_class = BiLSTMModel

    def test_is_torchs_over_packed_sequences(self):
        model = self.build(embedding_size=None)
        inputs = self.inputs(model.config)
        torchs = nn.LSTM(32, 16, num_layers=2, bidirectional=True, batch_first=True)
        torchs.load_state_dict(
            {
                name.replace("_l0", f"_l{number}") + suffix: weight
                for number, layer in enumerate(model.layers)
                for direction, suffix in ((layer.forwards, ""), (layer.backwards, "_reverse"))
                for name, weight in direction.state_dict().items()
            }
        )
        words = model.get_input_embeddings()(inputs["input_ids"])
        packed = pack_padded_sequence(words, torch.tensor(self.lengths), batch_first=True, enforce_sorted=False)
        expected, _ = pad_packed_sequence(torchs(packed)[0], batch_first=True)
        torch.testing.assert_close(model(**inputs).last_hidden_state, expected, **TOLERANCE)

    def test_padding_may_be_anywhere(self):
        model = self.build()
        words = torch.randint(5, 60, (1, 6), generator=torch.Generator().manual_seed(1))
        holes = torch.tensor([[0, 1, 1, 0, 0, 1, 1, 0, 1, 1]])
        spread = torch.full((1, 10), 9).masked_scatter(holes.bool(), words)
        states = model(spread, attention_mask=holes).last_hidden_state[holes.bool()]
        torch.testing.assert_close(states, model(words).last_hidden_state[0], **TOLERANCE)


class TestBiLSTMForSequenceClassification(CompiledLikeASibling, BiLSTMTester, ClassificationTester):
    model_class = BiLSTMForSequenceClassification


class TestBiLSTMForTokenClassification(CompiledLikeASibling, TaggingTester, BiLSTMTester):
    model_class = BiLSTMForTokenClassification
