"""Static export for any number of sentences and tokens, to ONNX as well."""

from __future__ import annotations

import pytest
import torch
from torch.export import Dim

from msattn import (
    MSTransformerForSequenceClassification,
    MSTransformerModel,
    MultiScaleForRelationExtraction,
    PairwiseForRelationClassification,
    PairwiseParser,
)
from tests.common import TOLERANCE
from tests.modeling.test_encoder_classifiers import PAIRS, Classifier, encoded
from tests.modeling.test_modeling_bilstm import TestBiLSTMForTokenClassification as BiLSTM
from tests.modeling.test_modeling_ms_transformer import MSTransformerTester, padded_batch
from tests.modeling.test_modeling_multiscale import build as build_fusion
from tests.modeling.test_modeling_pairwise import SELECT, build, relation, tree
from tests.tiny_encoders import batch as sentences

BATCH, LENGTH, PIECES = Dim("batch", max=64), Dim("length", min=4, max=400), Dim("pieces", max=8)
pytestmark = [pytest.mark.slow, pytest.mark.heavy]


def assert_exports(model, inputs, others, **shapes):
    """`torch.export` and ONNX Runtime give what the model gives, for the inputs and for others of other sizes."""
    onnxruntime = pytest.importorskip("onnxruntime")
    pytest.importorskip("onnxscript")
    shapes = {name: {0: BATCH, 1: LENGTH} for name in inputs} | shapes
    program = torch.export.export(model, (), inputs, dynamic_shapes=shapes, strict=False)
    exported = torch.onnx.export(program, dynamo=True, verbose=False)
    session = onnxruntime.InferenceSession(exported.model_proto.SerializeToString())
    for given in (inputs, *others):
        with torch.no_grad():
            expected = model(**given).to_tuple()
            torch.testing.assert_close(program.module()(**given).to_tuple(), expected, **TOLERANCE)
        found = tuple(map(torch.from_numpy, session.run(None, {name: value.numpy() for name, value in given.items()})))
        torch.testing.assert_close(found, expected, rtol=0, atol=1e-5)


def fewer(inputs, sentences, tokens):
    return {name: value[:sentences, :tokens] for name, value in inputs.items()}


def test_relation_classifiers():
    model, inputs = build("bert", PairwiseForRelationClassification), relation("bert")
    del inputs["labels"]
    other = fewer(inputs, 2, 8) | {"entity_pieces": torch.tensor([[[1], [4]]] * 2)}
    assert_exports(model, inputs, [other], entity_pieces={0: BATCH, 2: PIECES})


def test_fusion_classifiers():
    inputs = sentences("bert")
    assert_exports(build_fusion("bert"), inputs, [fewer(inputs, 2, 8)])


def test_fusion_for_relations():
    model, inputs = build_fusion("bert", MultiScaleForRelationExtraction), sentences("bert")
    inputs["entity_starts"] = torch.tensor([[1, 4], [3, 0], [2, 2]])
    other = fewer(inputs, 2, 8)
    assert_exports(model, inputs, [other], entity_starts={0: BATCH})


@pytest.mark.parametrize("options", [{}, SELECT], ids=["pairs", "heads"])
def test_parsers(options):
    model, inputs = build("bert", PairwiseParser, **options), tree("bert")
    del inputs["heads"], inputs["relations"]
    assert_exports(model, inputs, [fewer(inputs, 2, 8), fewer(inputs, 1, 9)])


@pytest.mark.parametrize("model_class", [MSTransformerModel, MSTransformerForSequenceClassification])
@pytest.mark.parametrize("scales", [(3,), (1, "N/4", None)])
def test_multi_scale_transformers(model_class, scales):
    tester = MSTransformerTester()
    tester.model_class = model_class
    assert_exports(tester.build(scales=scales), padded_batch(2, 40), [padded_batch(3, tokens) for tokens in (7, 300)])


def test_sentence_pairs():
    model = Classifier(MSTransformerForSequenceClassification).build(sentence_pairs=True)
    assert_exports(model, encoded(PAIRS[:2]), [encoded(PAIRS), encoded(PAIRS[:1])])


def test_bilstms():
    """Wherever the padding is."""
    model = BiLSTM().build()
    others = [padded_batch(2, 5), padded_batch(3, 60)]
    others += [{name: value.flip(1) for name, value in given.items()} for given in others]
    assert_exports(model, padded_batch(2, 40), others)
