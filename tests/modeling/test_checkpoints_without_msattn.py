"""Checkpoints of all families load by the code that they carry, and give the same outputs."""

from __future__ import annotations

import pytest
import torch
from transformers import AutoModel, PreTrainedModel

from msattn import (
    BertPairwiseConfig,
    BertPairwiseParser,
    MultiScaleForSequenceClassification,
    MultiScaleForTokenClassification,
    PairwiseForRelationClassification,
    PairwiseParser,
)
from tests.light_site import link_packages, run_code
from tests.modeling import test_modeling_bilstm as bilstm
from tests.modeling import test_modeling_ms_transformer as ms_transformer
from tests.modeling import test_modeling_multiscale as multiscale
from tests.modeling import test_modeling_pairwise as pairwise

# Each folder has a name of its own: only by it does Transformers tell the code of local checkpoints apart.
STRANGER = """
import pickle, sys
from importlib.util import find_spec
from pathlib import Path
import torch
import transformers
from safetensors.torch import load_file

assert find_spec("msattn") is None and find_spec("datasets") is None
for folder in sys.argv[1:]:
    weights = load_file(folder + "/model.safetensors")
    inputs, expected, whole_or_encoder = torch.load(folder + "/expected.pt")
    for source in (folder, folder + "-again"):
        config = transformers.AutoConfig.from_pretrained(source, trust_remote_code=True)
        kinds = [name for name in config.auto_map if name.startswith("AutoModel") and hasattr(transformers, name)]
        models = {
            kind: getattr(transformers, kind).from_pretrained(source, trust_remote_code=True).eval()
            for kind in kinds
        }
        architecture, = config.architectures
        for kind, model in models.items():
            assert type(model).__module__.startswith("transformers_modules")
            assert type(model).__name__ == (whole_or_encoder if kind == "AutoModel" else architecture)
        model = next(model for model in models.values() if type(model).__name__ == architecture)
        loaded = model.state_dict()
        assert all(torch.equal(weight, loaded[name]) for name, weight in weights.items())
        with torch.no_grad():
            outputs = model(**inputs)
        for name, values in expected.items():
            torch.testing.assert_close(outputs[name], values, rtol=1e-4, atol=1e-5)
        assert pickle.loads(pickle.dumps((type(model), model.config)))[0] is type(model)
        model.save_pretrained(folder + "-again")
    first, second = ({path.name: path.read_bytes() for path in Path(f).glob("*.py")} for f in (folder, source))
    assert len(first) <= 3 and {name: first.get(name) for name in second} == second
"""
TOKENS = {"input_ids": torch.arange(1, 31).view(2, 15)}
SIZES = {"vocab_size": 30, "hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 8}
WORDS = {"input_ids": torch.tensor([[2, 7, 8, 9, 3]]), "word_index": torch.tensor([[0, 1, 2, 2, -1]])}


def cases() -> list[tuple[PreTrainedModel, dict[str, torch.Tensor]]]:
    """Models and their inputs; `benchmarks/families.py` tries the other families."""
    sentences = ms_transformer.TestMSTransformerForSequenceClassification()
    return [
        (bilstm.TestBiLSTMForSequenceClassification().build(), TOKENS),
        (ms_transformer.TestTaggerWithCRF().build(), TOKENS),
        (sentences.build(norm="pre", intermediate_size=8), TOKENS),
        (multiscale.build("bert", MultiScaleForTokenClassification), TOKENS),
        (multiscale.build("t5", MultiScaleForSequenceClassification), TOKENS),
        (BertPairwiseParser(BertPairwiseConfig(**SIZES)).eval(), WORDS),
        (pairwise.build("t5", PairwiseParser), pairwise.tree("t5")),
        (pairwise.build("qwen3", PairwiseForRelationClassification), pairwise.relation("qwen3")),
    ]


@pytest.mark.heavy
def test_checkpoints_load_without_msattn(light_site, tmp_path):
    folders = []
    for i, (model, inputs) in enumerate(cases()):
        folders.append(str(tmp_path / f"{i}-{type(model).__name__}"))
        model.save_pretrained(folders[-1])
        with torch.no_grad():
            outputs = model(**inputs)
        expected = {name: values for name, values in outputs.items() if isinstance(values, torch.Tensor)}
        whole_or_encoder = type(AutoModel.from_pretrained(folders[-1])).__name__
        torch.save((inputs, expected, whole_or_encoder), folders[-1] + "/expected.pt")
    packages = [light_site, link_packages(tmp_path / "crf", "pytorch-crf")]
    run_code(STRANGER, *folders, packages=packages, HF_HOME=str(tmp_path / "home"))
