"""Adapters and quantized layers replace linear layers. No model reads a weight past its module."""

from __future__ import annotations

import warnings

import pytest
import torch
from torch import nn

from msattn import (
    BertPairwiseConfig,
    BertPairwiseForRelationClassification,
    BertPairwiseParser,
    MultiScaleConfig,
    MultiScaleForRelationExtraction,
)
from tests.common import TOLERANCE
from tests.tiny_encoders import BERT, tiny_encoder

IDS = torch.arange(5, 23).view(2, 9)
WORDS = torch.tensor([[0, 1, 2, 2, 3, 4, 5, 6, -1]] * 2)
SIZES = {**BERT, "num_labels": 3}


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


def parser(**options):
    torch.manual_seed(0)
    return BertPairwiseParser(BertPairwiseConfig(**SIZES, arc_size=6, relation_size=5, **options)).eval()


def tree(model):
    inputs = {"heads": torch.tensor([[2, 0, 2, 3, 4, 5]] * 2), "relations": torch.zeros(2, 6, dtype=torch.long)}
    return model(IDS, word_index=WORDS, **inputs)


def relation(model):
    labels = torch.tensor([0, 2])
    return model(IDS, entity_pieces=torch.tensor([[[1, 2], [5, -1]]] * 2), labels=labels)


def markers(model):
    return model(IDS, entity_starts=torch.tensor([[1, 5]] * 2), labels=torch.tensor([0, 2]))


MODELS = {
    "pairs": (parser, tree),
    "biaffine": (lambda: parser(objective="head_select", scorer="biaffine"), tree),
    "attention alone": (lambda: parser(objective="head_select", features="att"), tree),
    "relation": (lambda: BertPairwiseForRelationClassification(BertPairwiseConfig(**SIZES)).eval(), relation),
    "fusion": (
        lambda: MultiScaleForRelationExtraction(
            MultiScaleConfig(encoder=tiny_encoder("roberta"), mask_mode="sigmoid", num_labels=3)
        ).eval(),
        markers,
    ),
}


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("training", [False, True])
def test_adapters_learn_and_merge(name, training):
    build, run = MODELS[name]
    model = build()
    plain = run(model).to_tuple()
    replace(model, nn.Linear, Adapter)
    model.train(training)
    outputs = run(model)
    outputs.loss.backward()
    # With features="att", no output reads what follows the attention of the last layer.
    last = "bert.encoder.layer.1." if name == "attention alone" else "nothing"
    unread = (f"{last}attention.self.value", f"{last}attention.output", f"{last}intermediate", f"{last}output")
    for parameter, weight in model.named_parameters():
        if weight.requires_grad and not parameter.startswith(unread) and parameter.endswith((".up", ".down")):
            assert weight.grad is not None and weight.grad.any(), parameter
    assert not torch.allclose(outputs[1], plain[1], atol=1e-3)
    replace(model, Adapter, Adapter.merged)
    for merged, adapted in zip(run(model).to_tuple(), outputs.to_tuple(), strict=True):
        torch.testing.assert_close(merged, adapted, **TOLERANCE)


@pytest.mark.parametrize("name", MODELS)
def test_dynamic_int8(name):
    build, run = MODELS[name]
    model = build()
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        exact = run(model)[1]
        quantized = run(torch.ao.quantization.quantize_dynamic(model, {nn.Linear}))[1]
    assert (exact - quantized).abs().mean() < 0.1 * exact.std()
