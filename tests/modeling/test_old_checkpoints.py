"""What an earlier version saved loads for ever: weights bit by bit, outputs to 1e-5."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest
import torch
import transformers
from safetensors.torch import load_file
from transformers import AutoModel, AutoModelForSequenceClassification, AutoModelForTokenClassification

import msattn
from msattn import AutoModelForDependencyParsing, AutoModelForRelationExtraction

TESTS = Path(__file__).parents[1]
AUTO_CLASSES = {
    "0_1/bert_pairwise_head_select": AutoModelForDependencyParsing,
    "0_1/bert_pairwise_pairs": AutoModelForDependencyParsing,
    "0_1/bert_pairwise_relations": AutoModelForRelationExtraction,
    "0_1/bilstm_model": AutoModel,
    "0_1/bilstm_sentences": AutoModelForSequenceClassification,
    "0_1/bilstm_tokens": AutoModelForTokenClassification,
    "0_1/ms_transformer_model": AutoModel,
    "0_1/ms_transformer_sentence_pairs": AutoModelForSequenceClassification,
    "0_1/ms_transformer_sentences": AutoModelForSequenceClassification,
    "0_1/ms_transformer_tokens": AutoModelForTokenClassification,
    "0_1/ms_transformer_tokens_crf": AutoModelForTokenClassification,
    "0_1/multiscale_bert_model": AutoModel,
    "0_1/multiscale_bert_relations": AutoModelForRelationExtraction,
    "0_1/multiscale_bert_sentences": AutoModelForSequenceClassification,
    "0_2/bert_with_windows": AutoModel,
    "0_2/ms_transformer_small": AutoModelForSequenceClassification,
    "0_2/multiscale_distilbert_model": AutoModel,
    "0_2/multiscale_distilbert_tokens": AutoModelForTokenClassification,
    "0_2/multiscale_modernbert_sentences": AutoModelForSequenceClassification,
    "0_2/multiscale_roberta_relations": AutoModelForRelationExtraction,
    "0_2/multiscale_roberta_windows": AutoModelForSequenceClassification,
    "0_2/pairwise_distilbert_many_pairs": AutoModelForRelationExtraction,
    "0_2/pairwise_distilbert_parser": AutoModelForDependencyParsing,
    "0_2/pairwise_roberta_parser": AutoModelForDependencyParsing,
    "0_2/pairwise_roberta_relations": AutoModelForRelationExtraction,
}


def test_every_checkpoint_is_read():
    folders = [path.parent for path in TESTS.glob("checkpoints_*/*/config.json")]
    names = [f"{folder.parent.name.removeprefix('checkpoints_')}/{folder.name}" for folder in folders]
    assert sorted(names) == sorted(AUTO_CLASSES)


def tensors_of(outputs: Mapping) -> dict[str, torch.Tensor]:
    """Tensors by name; those of a dictionary among the outputs have its name before theirs."""
    tensors = {}
    for name, value in outputs.items():
        nested = isinstance(value, Mapping)
        tensors |= {f"{name}.{key}": tensor for key, tensor in value.items()} if nested else {name: value}
    return tensors


@pytest.mark.parametrize("by", ["class", "auto class"])
@pytest.mark.parametrize("name", AUTO_CLASSES)
def test_loads_and_computes_the_same(name, by):
    folder = TESTS / f"checkpoints_{name}"
    (architecture,) = json.loads((folder / "config.json").read_text())["architectures"]
    model_class = getattr(msattn, architecture, None) or getattr(transformers, architecture)
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
        outputs = tensors_of(model(**inputs))
    assert sorted(outputs) == sorted(expected)
    for key, output in expected.items():
        # What an encoder returns for padding means nothing: how windows are computed decides it.
        real = inputs["attention_mask"].bool() if key == "last_hidden_state" and "attention_mask" in inputs else ...
        torch.testing.assert_close(
            outputs[key][real], output[real], rtol=1e-5, atol=1e-5, msg=lambda text, key=key: f"{key}: {text}"
        )
