"""Adapters and quantized layers replace linear layers. No model reads a weight past its module."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from msattn import MultiScaleForSequenceClassification, PairwiseForRelationClassification, PairwiseParser
from tests.common import TOLERANCE
from tests.modeling.test_any_encoder import build, inputs_of

MODELS = {
    "pairs": (PairwiseParser, {}),
    "biaffine": (PairwiseParser, {"objective": "head_select", "scorer": "biaffine"}),
    "attention alone": (PairwiseParser, {"objective": "head_select", "features": "att"}),
    "relation": (PairwiseForRelationClassification, {}),
    "fusion": (MultiScaleForSequenceClassification, {}),
}


class Adapter(nn.Module):
    """A linear layer and a low-rank correction, like LoRA's: it has no `weight`."""

    def __init__(self, base: nn.Linear):
        super().__init__()
        self.base = base.requires_grad_(False)
        self.down = nn.Parameter(torch.randn(2, base.in_features) * 0.2)
        self.up = nn.Parameter(torch.randn(base.out_features, 2) * 0.2)

    def forward(self, inputs):
        return self.base(inputs) + inputs @ self.down.T @ self.up.T

    def merged(self) -> nn.Linear:
        with torch.no_grad():
            self.base.weight += self.up @ self.down
        return self.base


def replace(model: nn.Module, kind: type, new) -> None:
    found = [(name, module) for name, module in model.named_modules() if isinstance(module, kind)]
    for name, module in found:
        parent, _, attribute = name.rpartition(".")
        setattr(model.get_submodule(parent), attribute, new(module))


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("training", [False, True])
def test_adapters_learn_and_merge(name, training):
    model_class, options = MODELS[name]
    model, inputs = build("roberta", model_class, **options), inputs_of("roberta", model_class)
    plain = model(**inputs)
    replace(model, nn.Linear, Adapter)
    model.train(training)
    outputs = model(**inputs)
    outputs.loss.backward()
    # With features="att", no output reads what follows the attention of the last layer.
    last = "encoder.encoder.layer.1." if name == "attention alone" else "nothing"
    unread = (f"{last}attention.self.value", f"{last}attention.output", f"{last}intermediate", f"{last}output")
    for parameter, weight in model.named_parameters():
        if weight.requires_grad and not parameter.startswith(unread) and parameter.endswith((".up", ".down")):
            assert weight.grad is not None and weight.grad.any(), parameter
    assert not torch.allclose(outputs[1], plain[1], atol=1e-3)
    replace(model, Adapter, Adapter.merged)
    for merged, adapted in zip(model(**inputs).to_tuple(), outputs.to_tuple(), strict=True):
        torch.testing.assert_close(merged, adapted, **TOLERANCE)
