from __future__ import annotations

import pytest
import torch
from torch import nn
from transformers import (
    AlbertConfig,
    AutoModel,
    BertConfig,
    DebertaConfig,
    DistilBertConfig,
    LlamaConfig,
    PreTrainedModel,
    T5Config,
)

from msattn import head_gates
from msattn.modeling.attention_call import AttentionRefused
from tests.attention_contract import inputs_of, text_models, tiny_model

SIZES = {
    "vocab_size": 60,
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 24,
    "max_position_embeddings": 40,
    "pad_token_id": 0,
}
CONFIGS = {
    "bert": BertConfig(**SIZES),
    "albert": AlbertConfig(**SIZES, embedding_size=8),
    "distilbert": DistilBertConfig(vocab_size=60, dim=16, n_layers=2, n_heads=4, hidden_dim=24),
    "llama": LlamaConfig(**SIZES, num_key_value_heads=2),
    "t5": T5Config(vocab_size=60, d_model=16, d_kv=4, d_ff=24, num_layers=2, num_heads=4, decoder_start_token_id=0),
}
# The output projections of the attention layers, in the order of the rows.
PROJECTIONS = {
    "bert": "attention.output.dense",
    "albert": "attention.dense",
    "distilbert": "attention.out_lin",
    "llama": "self_attn.o_proj",
    "t5": "Attention.o",
}
ROWS = {"albert": 1, "t5": 6}  # shared layers; encoder, decoder, and cross-attention


def build(name: str, implementation: str = "sdpa") -> PreTrainedModel:
    torch.manual_seed(0)
    model = AutoModel.from_config(CONFIGS[name], attn_implementation=implementation)
    for parameter in model.parameters():
        if parameter.dim() == 2:
            nn.init.normal_(parameter, std=0.3)
    return model.eval()


def states(model: PreTrainedModel) -> torch.Tensor:
    return model(**inputs_of(model)).last_hidden_state


@pytest.mark.parametrize("implementation", ["sdpa", "eager", "received"])
@pytest.mark.parametrize("name", CONFIGS)
def test_gates_stand_for_columns_of_the_output_projection(name, implementation):
    model = build(name, implementation)
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
        found_layers[-1].weight[:, 8:12] = 0
        found_layers[0].weight[:, 4:8] *= 0.5
    torch.testing.assert_close(found, states(model))


def test_gradient_is_the_slope():
    model = build("bert").double()
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
    deberta = AutoModel.from_config(DebertaConfig(**SIZES))
    with pytest.raises(AttentionRefused, match="DebertaModel has no layer"), head_gates(deberta):
        pass
    with pytest.raises(AttentionRefused, match="is compiled"), head_gates(torch.compile(build("bert"))):
        pass
    model = build("bert")
    monkeypatch.setattr("msattn.modeling.head_gates.heads_of", lambda layer: 3)
    with pytest.raises(AttentionRefused, match="BertSelfAttention has 4 heads, and names 3"), head_gates(model):
        states(model)
    states(model)  # the gates are gone


@pytest.mark.slow
def test_every_text_model():
    """Gates of 1 change nothing and gates of 0 do, or the model is refused. `pytest -s` lists what is refused."""
    equal, refused, unbuilt = [], [], []
    for name in text_models():
        try:
            model = tiny_model(name)
            torch.manual_seed(0)
            plain = model(**inputs_of(model))[0]
        except Exception:  # as in the contract of received attention
            unbuilt.append(name)
            continue
        try:
            with head_gates(model) as gates, torch.no_grad():
                torch.manual_seed(0)
                rounding = 1e-5 if name in ("deberta-v2", "mpnet") else 0  # an adapter computes in another order
                torch.testing.assert_close(model(**inputs_of(model))[0], plain, rtol=0, atol=rounding, msg=name)
                gates.zero_()
                assert not torch.equal(model(**inputs_of(model))[0], plain), name
            equal.append(name)
        except AttentionRefused as sentence:
            assert "no layer on the attention interface" in str(sentence), name
            refused.append(name)
    for title, names in (("equal", equal), ("refused", refused), ("not built", unbuilt)):
        print(f"{title}: {len(names)}: {', '.join(names)}")
    assert len(equal) > 50
