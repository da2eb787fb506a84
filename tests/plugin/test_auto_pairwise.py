from __future__ import annotations

import subprocess
import sys

import pytest
import torch
from transformers import AutoModel, AutoModelForSequenceClassification

from msattn import (
    AutoModelForDependencyParsing,
    AutoModelForRelationExtraction,
    BertPairwiseConfig,
    BertPairwiseForRelationClassification,
    BertPairwiseParser,
)

SIZES = {"vocab_size": 30, "hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 8}
CLASSIFIER_CLASSES = (AutoModel, AutoModelForRelationExtraction, AutoModelForSequenceClassification)
INPUTS = {
    BertPairwiseParser: {"word_index": torch.tensor([[0, 1, 2, 2, -1]])},
    BertPairwiseForRelationClassification: {"entity_pieces": torch.tensor([[[1, -1], [2, 3]]])},
}
WITHOUT_MSATTN = """
import sys

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "msattn":
            raise ModuleNotFoundError("No module named 'msattn'", name="msattn")

sys.meta_path.insert(0, Blocked())
import torch
import transformers

for folder in sys.argv[1:]:
    inputs, expected = torch.load(folder + "/expected.pt")
    for source in (folder, folder + "-again"):
        model = transformers.AutoModel.from_pretrained(source, trust_remote_code=True).eval()
        assert type(model).__module__.startswith("transformers_modules")
        torch.testing.assert_close(model(**inputs)[0], expected, rtol=1e-4, atol=1e-5)
        model.save_pretrained(folder + "-again")
"""


@pytest.mark.parametrize("model_class", [BertPairwiseParser, BertPairwiseForRelationClassification])
def test_auto_classes_load_the_model_that_was_saved(model_class, tmp_path):
    model_class(BertPairwiseConfig(**SIZES)).save_pretrained(tmp_path)
    parser = model_class is BertPairwiseParser
    for auto_class in (AutoModel, AutoModelForDependencyParsing) if parser else CLASSIFIER_CLASSES:
        assert type(auto_class.from_pretrained(tmp_path)) is model_class


def test_auto_classes_build():
    config = BertPairwiseConfig(**SIZES)
    for auto_class in (AutoModel, AutoModelForDependencyParsing):
        assert type(auto_class.from_config(config)) is BertPairwiseParser
    for auto_class in CLASSIFIER_CLASSES[1:]:
        assert type(auto_class.from_config(config)) is BertPairwiseForRelationClassification


@pytest.mark.heavy
def test_checkpoints_load_without_msattn(tmp_path):
    folders = []
    for model_class, extra in INPUTS.items():
        folders.append(str(tmp_path / model_class.__name__))
        model = model_class(BertPairwiseConfig(**SIZES)).eval()
        model.save_pretrained(folders[-1])
        inputs = {"input_ids": torch.tensor([[2, 7, 8, 9, 3]]), **extra}
        torch.save((inputs, model(**inputs)[0].detach()), folders[-1] + "/expected.pt")
    done = subprocess.run([sys.executable, "-c", WITHOUT_MSATTN, *folders], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
