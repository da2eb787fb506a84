"""What version 0.1 saved loads for ever: weights bit by bit, outputs to 1e-5."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoModel, AutoModelForSequenceClassification, AutoModelForTokenClassification

import msattn
from msattn import AutoModelForDependencyParsing, AutoModelForRelationExtraction

CHECKPOINTS = Path(__file__).parents[1] / "checkpoints_0_1"
AUTO_CLASSES = {
    "bert_pairwise_head_select": AutoModelForDependencyParsing,
    "bert_pairwise_pairs": AutoModelForDependencyParsing,
    "bert_pairwise_relations": AutoModelForRelationExtraction,
    "bilstm_model": AutoModel,
    "bilstm_sentences": AutoModelForSequenceClassification,
    "bilstm_tokens": AutoModelForTokenClassification,
    "ms_transformer_model": AutoModel,
    "ms_transformer_sentence_pairs": AutoModelForSequenceClassification,
    "ms_transformer_sentences": AutoModelForSequenceClassification,
    "ms_transformer_tokens": AutoModelForTokenClassification,
    "ms_transformer_tokens_crf": AutoModelForTokenClassification,
    "multiscale_bert_model": AutoModel,
    "multiscale_bert_relations": AutoModelForRelationExtraction,
    "multiscale_bert_sentences": AutoModelForSequenceClassification,
}


def test_every_checkpoint_is_read():
    assert sorted(path.name for path in CHECKPOINTS.iterdir() if path.is_dir()) == sorted(AUTO_CLASSES)


@pytest.mark.parametrize("by", ["class", "auto class"])
@pytest.mark.parametrize("name", AUTO_CLASSES)
def test_loads_and_computes_the_same(name, by):
    folder = CHECKPOINTS / name
    (architecture,) = json.loads((folder / "config.json").read_text())["architectures"]
    model_class = getattr(msattn, architecture)
    loader = model_class if by == "class" else AUTO_CLASSES[name]
    model, info = loader.from_pretrained(folder, output_loading_info=True)
    assert type(model) is model_class
    assert not any(info.values()), info

    saved, weights = load_file(folder / "model.safetensors"), model.state_dict()
    assert sorted(saved) == sorted(weights)
    for key, weight in saved.items():
        assert weight.dtype == weights[key].dtype and torch.equal(weight, weights[key]), key

    tensors = load_file(folder / "expected.safetensors")
    inputs, expected = (
        {key.removeprefix(prefix): tensor for key, tensor in tensors.items() if key.startswith(prefix)}
        for prefix in ("inputs.", "outputs.")
    )
    with torch.no_grad():
        outputs = model(**inputs)
    assert sorted(outputs) == sorted(expected)
    for key, output in expected.items():
        torch.testing.assert_close(
            outputs[key], output, rtol=1e-5, atol=1e-5, msg=lambda text, key=key: f"{key}: {text}"
        )
