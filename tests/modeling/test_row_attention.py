from __future__ import annotations

import pytest
import torch
from transformers import AutoModel

from msattn.modeling.attention_call import AttentionRefused
from tests.attention_contract import inputs_of, tiny_model

# The numbers below 0 fill up the second sentence, which has six tokens.
ROWS = torch.tensor([[2, 3, 8], [1, 5, -1]])
FAMILIES = ("bert", "t5", "modernbert", "llama", "gemma2", "gpt_oss")


def rows_of(attention: torch.Tensor) -> torch.Tensor:
    found = [attention[sentence][:, row] for sentence, rows in enumerate(ROWS.tolist()) for row in rows if row >= 0]
    found.append(torch.zeros_like(found[0]))
    return torch.stack(found, dim=1).unflatten(1, (2, 3)).transpose(0, 1)


def encoded(model, implementation, **kwargs):
    model.set_attn_implementation(implementation)
    inputs = inputs_of(model)
    if model.config.is_encoder_decoder:
        model, inputs = model.get_encoder(), {name: inputs[name] for name in ("input_ids", "attention_mask")}
    return model(**inputs, output_attentions=True, **kwargs)


@pytest.mark.parametrize("family", FAMILIES)
def test_are_those_of_eager_maps(family):
    """With position bias, windows, grouped and causal heads, a soft cap, sinks."""
    model = tiny_model(family)
    eager, found = encoded(model, "eager"), encoded(model, "rows", rows=ROWS)
    real = inputs_of(model)["attention_mask"].bool()
    torch.testing.assert_close(found[0][real], eager[0][real], rtol=0, atol=1e-5)
    for one, maps in zip(found.attentions, eager.attentions, strict=True):
        torch.testing.assert_close(one, rows_of(maps), rtol=0, atol=1e-5)
    weights = model.get_input_embeddings().weight
    gradients = [
        torch.autograd.grad(sum(part.square().sum() for part in parts), weights)[0]
        for parts in (found.attentions, [rows_of(maps) for maps in eager.attentions])
    ]
    torch.testing.assert_close(*gradients, rtol=0, atol=1e-4 * float(gradients[1].abs().max()))


def test_without_rows_it_returns_whole_maps():
    model = tiny_model("bert")
    for one, expected in zip(encoded(model, "rows").attentions, encoded(model, "eager").attentions, strict=True):
        torch.testing.assert_close(one, expected, rtol=0, atol=1e-5)


def test_half_precision():
    model = tiny_model("bert")
    exact = encoded(model, "rows", rows=ROWS).attentions[0]
    half = encoded(model.to(torch.bfloat16), "rows", rows=ROWS).attentions[0]
    assert half.dtype == torch.bfloat16
    torch.testing.assert_close(half.float(), exact, rtol=0, atol=0.05)


def test_asking_changes_no_draw_of_dropout():
    model = tiny_model("bert", attention_probs_dropout_prob=0.5).train()
    model.set_attn_implementation("rows")
    outputs = []
    for asked in (False, True):
        torch.manual_seed(0)
        outputs.append(model(**inputs_of(model), rows=ROWS, output_attentions=asked)[0])
    assert torch.equal(*outputs)


def test_a_model_that_hands_no_rows_on():
    model = AutoModel.from_config(tiny_model("deberta-v2").config, attn_implementation="msattn")
    assert model(**inputs_of(model), output_attentions=True).attentions[0].dim() == 4
    with pytest.raises(AttentionRefused, match="DebertaV2Model hands no keyword arguments on to its layers"):
        model(**inputs_of(model), rows=ROWS, output_attentions=True)


def test_rows_of_another_shape():
    with pytest.raises(ValueError, match=r"rows must be \(2, rows\), got \(1, 3\)"):
        encoded(tiny_model("bert"), "rows", rows=ROWS[:1])
