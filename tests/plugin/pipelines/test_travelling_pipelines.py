"""Pipelines travel with the checkpoints of parsers and relation models."""

from __future__ import annotations

import ast
import json
import shutil
import sys

import pytest
import torch
from transformers import BertConfig, PreTrainedModel, pipeline

from msattn import (
    BertPairwiseConfig,
    BertPairwiseForRelationClassification,
    DependencyParsingPipeline,
    MultiScaleConfig,
    MultiScaleForRelationExtraction,
    PairwiseConfig,
    PairwiseForRelationClassification,
    RelationExtractionPipeline,
)
from msattn.data.inputs.edit_scripts import edit_script
from tests.light_site import run_code
from tests.tiny_models import LABELS, SIZES, labelled, saved_model, tiny_parser, tiny_relation_extractor

WIDE = {**SIZES, "num_hidden_layers": 2, "initializer_range": 0.5}
# The checkpoint is saved once more, and so is the model alone, from the Hub.
STRANGER = """
import json, sys
import transformers
from transformers import pipeline

task, folder, again, model, *inputs = sys.argv[1:]
inputs, options = map(json.loads, inputs)
first = pipeline(task, model=folder, trust_remote_code=True)
first.save_pretrained(again)
second = pipeline(task, model=again, trust_remote_code=True)
config = transformers.AutoConfig.from_pretrained("tester/model", trust_remote_code=True)
auto_class = getattr(transformers, config.custom_pipelines[task]["pt"][0])
auto_class.from_pretrained("tester/model", trust_remote_code=True).save_pretrained(model)
third = pipeline(task, model=model, tokenizer=folder, trust_remote_code=True)
print(json.dumps([run(inputs, **options) for run in (first, second, third)]))
"""
PARSING, RELATIONS = "dependency-parsing", "relation-extraction"


def parser() -> PreTrainedModel:
    tags = {"upos": ["NOUN", "VERB"], "lemma": [edit_script("Dogs", "dog"), edit_script("a", "a")]}
    return tiny_parser(objective="pairs", word_tags=tags)[0]


def bert_member() -> PreTrainedModel:
    return tiny_relation_extractor(initializer_range=0.5)[0]


def marker_model() -> PreTrainedModel:
    return MultiScaleForRelationExtraction(MultiScaleConfig(encoder=BertConfig(**WIDE), **labelled(*LABELS)))


def bert_pairwise() -> PreTrainedModel:
    return BertPairwiseForRelationClassification(BertPairwiseConfig(**WIDE, **labelled(*LABELS)))


def pairwise_model() -> PreTrainedModel:
    return PairwiseForRelationClassification(PairwiseConfig(encoder=BertConfig(**WIDE), **labelled(*LABELS)))


MODELS = {
    "parser": parser,
    "bert_member": bert_member,
    "marker_model": marker_model,
    "pairwise": pairwise_model,
    "bert_pairwise": bert_pairwise,
}
TASKS = {name: PARSING if name == "parser" else RELATIONS for name in MODELS}
CALLS = {
    PARSING: ("The dog doesn't sleep. A cat wrote a book.", {"lang": "en"}),
    RELATIONS: (
        {"text": "the author of a book in a house", "entities": [{"start": 4, "end": 10}, {"start": 16, "end": 20}]},
        {"negative": "keep", "top_k": None},
    ),
}


@pytest.fixture(scope="module", params=[*MODELS])
def saved(request, tmp_path_factory):
    """The task of a model, and its folder."""
    torch.manual_seed(0)
    folder = tmp_path_factory.mktemp(request.param)
    saved_model(folder, MODELS[request.param]())
    return TASKS[request.param], folder


def test_where_msattn_is_installed_its_own_pipeline_is_used(saved, tmp_path):
    task, folder = saved
    own = {PARSING: DependencyParsingPipeline, RELATIONS: RelationExtractionPipeline}[task]
    pipelines = json.loads((folder / "config.json").read_text())["custom_pipelines"]
    assert pipelines[task]["impl"] == f"pipeline_{task.replace('-', '_')}.{own.__name__}"
    run = pipeline(task, model=str(folder))
    assert type(run) is own and run.model.config.custom_pipelines == {}
    run.model.save_pretrained(tmp_path)
    assert json.loads((tmp_path / "config.json").read_text())["custom_pipelines"] == pipelines
    assert {path.name for path in tmp_path.glob("*.py")} == {path.name for path in folder.glob("*.py")}


def test_what_travels_needs_no_more_than_transformers_does(saved):
    imported = set()
    for file in saved[1].glob("*.py"):
        tree = ast.parse(file.read_text(encoding="utf-8"))
        tried = {id(node) for block in ast.walk(tree) if isinstance(block, ast.Try) for node in ast.walk(block)}
        for node in ast.walk(tree):
            if isinstance(node, ast.Import) and id(node) not in tried:
                imported |= {alias.name.split(".")[0] for alias in node.names}
            if isinstance(node, ast.ImportFrom) and id(node) not in tried and not node.level:
                imported.add(node.module.split(".")[0])
    assert imported - set(sys.stdlib_module_names) <= {"huggingface_hub", "numpy", "regex", "torch", "transformers"}


@pytest.mark.slow
@pytest.mark.heavy
def test_the_pipeline_runs_without_msattn(saved, light_site, tmp_path):
    task, folder = saved
    inputs, options = CALLS[task]
    found = json.dumps(pipeline(task, model=str(folder))(inputs, **options))
    expected = json.loads(found, parse_float=lambda number: pytest.approx(float(number), rel=1e-4))
    arguments = [task, folder, tmp_path / "again", tmp_path / "model", json.dumps(inputs), json.dumps(options)]
    commit, cached = "0" * 40, tmp_path / "home/hub/models--tester--model"
    shutil.copytree(folder, cached / "snapshots" / commit)
    (cached / "refs").mkdir()
    (cached / "refs/main").write_text(commit)
    offline = {"HF_HOME": str(tmp_path / "home"), "HF_HUB_OFFLINE": "1"}
    answers = json.loads(run_code(STRANGER, *arguments, packages=[light_site], **offline))
    assert answers == [expected] * 3 and expected
