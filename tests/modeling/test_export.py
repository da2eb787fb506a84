"""Static export for any number of sentences and tokens, to ONNX as well."""

from __future__ import annotations

import pytest
import torch
from torch.export import Dim

from msattn import PairwiseForRelationClassification
from tests.common import TOLERANCE
from tests.modeling.test_modeling_pairwise import build, relation

BATCH, LENGTH, PIECES = Dim("batch", max=64), Dim("length", min=2, max=40), Dim("pieces", max=8)


@pytest.mark.slow
@pytest.mark.heavy
def test_relation_classifiers_to_onnx():
    onnxruntime = pytest.importorskip("onnxruntime")
    pytest.importorskip("onnxscript")
    model, inputs = build("bert", PairwiseForRelationClassification), relation("bert")
    del inputs["labels"]
    shapes = {name: {0: BATCH, 1: LENGTH} for name in inputs} | {"entity_pieces": {0: BATCH, 2: PIECES}}
    program = torch.export.export(model, (), inputs, dynamic_shapes=shapes, strict=False)
    exported = torch.onnx.export(program, dynamo=True, verbose=False)
    session = onnxruntime.InferenceSession(exported.model_proto.SerializeToString())
    fewer = {name: value[:2, :8] for name, value in inputs.items()} | {"entity_pieces": torch.tensor([[[1], [4]]] * 2)}
    for given in (inputs, fewer):
        with torch.no_grad():
            expected = model(**given).logits
        torch.testing.assert_close(program.module()(**given).logits, expected, **TOLERANCE)
        (found,) = session.run(None, {name: value.numpy() for name, value in given.items()})
        torch.testing.assert_close(torch.from_numpy(found), expected, rtol=0, atol=1e-5)
