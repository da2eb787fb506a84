"""The pipeline of a parser travels with its checkpoint."""

from __future__ import annotations

import ast
import json
import subprocess
import sys

import pytest
import torch
from transformers import pipeline

from msattn import BertPairwiseConfig, BertPairwiseParser, DependencyParsingPipeline
from tests.tiny_models import tiny_tokenizer

RELATIONS = ("det", "nsubj", "punct", "root")
TEXT = "The dog doesn't sleep. A cat wrote a book."
# The package and what the pipeline has to do without cannot be imported; the checkpoint is saved once more.
STRANGER = """
import json, sys

class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {"msattn", "datasets", "ufal", "spacy"}:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Refuse())
from transformers import pipeline

first = pipeline("dependency-parsing", model=sys.argv[1], trust_remote_code=True)
first.save_pretrained(sys.argv[2])
again = pipeline("dependency-parsing", model=sys.argv[2], trust_remote_code=True)
print(json.dumps([parse.to_conllu(parse(sys.argv[3], lang="en")) for parse in (first, again)]))
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    tokenizer = tiny_tokenizer()
    torch.manual_seed(0)
    config = BertPairwiseConfig(
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=32,
        vocab_size=len(tokenizer),
        max_position_embeddings=64,
        id2label=dict(enumerate(RELATIONS)),
        label2id={name: number for number, name in enumerate(RELATIONS)},
        initializer_range=0.5,
    )
    folder = tmp_path_factory.mktemp("parser")
    BertPairwiseParser(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def test_where_msattn_is_installed_its_own_pipeline_is_used(folder, tmp_path):
    saved = json.loads((folder / "config.json").read_text())["custom_pipelines"]
    assert saved["dependency-parsing"]["impl"] == "dependency_parsing.DependencyParsingPipeline"
    parse = pipeline("dependency-parsing", model=str(folder))
    assert type(parse) is DependencyParsingPipeline and parse.model.config.custom_pipelines == {}
    parse.model.save_pretrained(tmp_path)
    assert json.loads((tmp_path / "config.json").read_text())["custom_pipelines"] == saved
    assert {path.name for path in tmp_path.glob("*.py")} == {path.name for path in folder.glob("*.py")}


def test_what_travels_needs_no_more_than_transformers_does(folder):
    imported = set()
    for file in folder.glob("*.py"):
        tree = ast.parse(file.read_text(encoding="utf-8"))
        tried = {id(node) for block in ast.walk(tree) if isinstance(block, ast.Try) for node in ast.walk(block)}
        for node in ast.walk(tree):
            if isinstance(node, ast.Import) and id(node) not in tried:
                imported |= {alias.name.split(".")[0] for alias in node.names}
            if isinstance(node, ast.ImportFrom) and id(node) not in tried and not node.level:
                imported.add(node.module.split(".")[0])
    assert imported - set(sys.stdlib_module_names) == {"huggingface_hub", "numpy", "regex", "torch", "transformers"}


@pytest.mark.slow
@pytest.mark.heavy
def test_the_pipeline_runs_without_msattn(folder, tmp_path, monkeypatch):
    monkeypatch.setenv("HF_MODULES_CACHE", str(tmp_path / "modules"))
    parse = pipeline("dependency-parsing", model=str(folder))
    expected = parse.to_conllu(parse(TEXT, lang="en"))
    command = [sys.executable, "-c", STRANGER, str(folder), str(tmp_path / "again"), TEXT]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == [expected, expected]
