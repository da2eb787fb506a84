from __future__ import annotations

import pytest
import torch
from torch import nn
from transformers import PreTrainedModel

from msattn import head_gates
from msattn.modeling.attention_call import AttentionRefused
from tests.attention_contract import Unbuilt, inputs_of, survey, tiny_model

# The output projections of the attention layers, in the order of the rows.
PROJECTIONS = {
    "bert": "attention.output.dense",
    "albert": "attention.dense",
    "distilbert": "attention.out_lin",
    "llama": "self_attn.o_proj",
    "t5": "Attention.o",
}
ROWS = {"albert": 1, "t5": 6}  # shared layers; encoder, decoder, and cross-attention


def states(model: PreTrainedModel) -> torch.Tensor:
    return model(**inputs_of(model)).last_hidden_state


@pytest.mark.parametrize("implementation", ["sdpa", "eager", "received"])
@pytest.mark.parametrize("name", PROJECTIONS)
def test_gates_stand_for_columns_of_the_output_projection(name, implementation):
    model = tiny_model(name)
    model.set_attn_implementation(implementation)
    plain = states(model)
    with head_gates(model) as gates:
        assert gates.shape == (ROWS.get(name, 2), 4) and torch.equal(gates, torch.ones_like(gates))
        assert torch.equal(states(model), plain)
        with torch.no_grad():
            gates[-1, 2] = 0
            gates[0, 1] = 0.5
            found = states(model)
        assert not torch.allclose(found, plain, atol=1e-3)
    assert torch.equal(states(model), plain)
    found_layers = [module for path, module in model.named_modules() if path.endswith(PROJECTIONS[name])]
    assert len(found_layers) == len(gates)
    with torch.no_grad():
        found_layers[-1].weight[:, 16:24] = 0
        found_layers[0].weight[:, 8:16] *= 0.5
    torch.testing.assert_close(found, states(model))


def test_gradient_is_the_slope():
    model = tiny_model("bert").double()
    with head_gates(model) as gates:
        gradient = torch.autograd.grad(states(model).pow(3).sum(), gates)[0]
        with torch.no_grad():
            gates[1, 3] += 2**-12
            above = states(model).pow(3).sum()
            gates[1, 3] -= 2**-11
            slope = (above - states(model).pow(3).sum()) / 2**-11
    assert gradient[1, 3].item() == pytest.approx(slope.item(), rel=1e-4)


def test_refused(monkeypatch):
    with (
        pytest.raises(AttentionRefused, match="Linear has no layer on the attention interface"),
        head_gates(nn.Linear(1, 1)),
    ):
        pass
    with pytest.raises(AttentionRefused, match="DebertaModel has no layer"), head_gates(tiny_model("deberta")):
        pass
    with pytest.raises(AttentionRefused, match="is compiled"), head_gates(torch.compile(tiny_model("bert"))):
        pass
    model = tiny_model("bert")
    monkeypatch.setattr("msattn.modeling.head_gates.heads_of", lambda layer: 3)
    with pytest.raises(AttentionRefused, match="BertSelfAttention has 4 heads, and names 3"), head_gates(model):
        states(model)
    states(model)  # the gates are gone


def check(name: str) -> str:
    """Gates of 1 change nothing and gates of 0 do, or the model is refused."""
    model = tiny_model(name)
    try:
        torch.manual_seed(0)
        plain = model(**inputs_of(model))[0]
    except Exception as error:
        raise Unbuilt(f"{type(error).__name__}: {error}") from error
    try:
        with head_gates(model) as gates, torch.no_grad():
            torch.manual_seed(0)
            rounding = 1e-5 if name in ("deberta-v2", "mpnet") else 0  # an adapter computes in another order
            torch.testing.assert_close(model(**inputs_of(model))[0], plain, rtol=0, atol=rounding)
            gates.zero_()
            assert not torch.equal(model(**inputs_of(model))[0], plain)
    except AttentionRefused as sentence:
        assert "no layer on the attention interface" in str(sentence)
        return "refused"
    return "equal"


@pytest.mark.slow
def test_every_text_model():
    assert len(survey(check)["equal"]) > 50
