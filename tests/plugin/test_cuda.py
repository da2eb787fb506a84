"""Training, decoding, pipelines and `msattn predict` on a GPU give what they give on the CPU."""

from __future__ import annotations

import json
from typing import Any

import pytest
import torch
from transformers import pipeline

from msattn import GuidingArguments, decode_tree, decode_trees, k_best_trees, tree_marginals
from msattn.trees.parses import DECODERS, parse_batch
from tests.modeling.test_cuda import CUDA, DEVICE, assert_close, full_precision, made, there
from tests.plugin import test_predict as prediction
from tests.plugin.training import test_guided_trainer as guided
from tests.plugin.training.guided_runs import logged, moves
from tests.tiny_models import tiny_parser

pytestmark = CUDA
# Fixtures.
precision, checkpoints, predict = full_precision, prediction.checkpoints, prediction.predict
GUIDINGS = {
    "plain": None,
    "received": guided.GUIDED,
    "official": GuidingArguments(mdg_weight=0.5, pdg_weight=0.01, guiding_kwargs={"guiding_axis": "official"}),
    "patterns": GuidingArguments(mdg_weight=0.5, pattern_weight=0.1, patterns=["prev", "first"]),
}
CPU = {"use_cpu": True, "bf16": False}
THERE = {"use_cpu": DEVICE == "cpu"}


def assert_alike(found: Any, expected: Any) -> None:
    """The same answers, with scores that may differ by rounding."""
    if isinstance(expected, dict):
        assert found.keys() == expected.keys()
        found, expected = list(found.values()), list(expected.values())
    if isinstance(expected, list | tuple):
        assert len(found) == len(expected)
        for one, other in zip(found, expected, strict=True):
            assert_alike(one, other)
    else:
        assert found == (pytest.approx(expected, abs=1e-4) if isinstance(expected, float) else expected)


def train(folder: Any, guiding: Any, implementation: str = "sdpa", **args: Any) -> tuple[list[dict], dict]:
    """What two steps log, and by how much they move the weights."""
    kind = guided.AccumulatingTrainer if guiding is None else guided.GuidedTrainer
    model = guided.build(guided.FAMILIES["bert"], implementation)
    trainer = guided.trainer_of(model, folder, guiding, kind, max_steps=2, **args)
    assert trainer.args.device.type == ("cpu" if args["use_cpu"] else DEVICE)
    moved = moves(trainer)
    return logged(trainer), {name: weight.cpu() for name, weight in moved.items()}


@pytest.mark.parametrize("bf16", [False, True], ids=["float32", "bfloat16"])
@pytest.mark.parametrize("implementation", ["sdpa", "eager"])
@pytest.mark.parametrize("name", GUIDINGS)
def test_training(name, implementation, bf16, tmp_path):
    lines, moved = train(tmp_path, GUIDINGS[name], implementation, **CPU)
    found, there_moved = train(tmp_path, GUIDINGS[name], implementation, **THERE, bf16=bf16)
    for line, expected in zip(found, lines, strict=True):
        for term in ("loss", "task_loss", "mdg_loss", "pdg_loss", "pattern_loss"):
            if term in expected:
                assert line[term] == pytest.approx(expected[term], rel=0.1 if bf16 else 1e-3), term
    if not bf16:  # steps of 1e-3 leave few digits of a gradient
        assert_close(there_moved, moved, 5e-3, least=0.1)


@pytest.mark.parametrize("name", GUIDINGS)
def test_gradient_checkpointing(name, tmp_path):
    plain = train(tmp_path, GUIDINGS[name], **THERE)
    again = train(tmp_path, GUIDINGS[name], **THERE, gradient_checkpointing=True)
    assert_close(again[1], plain[1], 5e-3, least=0.1)
    assert again[0][0]["loss"] == pytest.approx(plain[0][0]["loss"], rel=1e-5)


def test_trees():
    scores = torch.randn(3, 7, 7, generator=torch.Generator().manual_seed(0))
    ours = scores.to(DEVICE)
    assert decode_tree(ours[0]).tolist() == decode_tree(scores[0]).tolist()
    assert decode_trees(ours, [6, 4, 1]).tolist() == decode_trees(scores, [6, 4, 1]).tolist()
    assert_alike(
        [one.tolist() for one in k_best_trees(ours[0], 3)], [one.tolist() for one in k_best_trees(scores[0], 3)]
    )
    marginals = tree_marginals(ours[0].requires_grad_())
    assert marginals.device.type == DEVICE
    torch.testing.assert_close(marginals.detach().cpu(), tree_marginals(scores[0]))


@pytest.mark.parametrize("decoder", DECODERS)
@pytest.mark.parametrize("name", ["parser-pairs-linear", "parser-heads-biaffine", "parser-tags"])
def test_parsing(name, decoder):
    model, inputs = made(name)
    inputs = {key: inputs[key] for key in ("input_ids", "attention_mask", "word_index")}
    with torch.no_grad():
        _, expected = parse_batch(model.eval(), inputs, decoder)
        _, found = parse_batch(model.to(DEVICE), there(inputs), decoder)
    assert (found.heads == expected.heads).all() and (found.relations == expected.relations).all()
    assert_alike(found.scores.tolist(), expected.scores.tolist())


def test_several_trees():
    model, tokenizer = tiny_parser()
    answers = []
    for device in ("cpu", DEVICE):
        parse = pipeline("dependency-parsing", model=model, tokenizer=tokenizer, device=device)
        answers.append(parse("dog cat taxi house .", k=3, marginals=True))
    assert_alike(answers[1], answers[0])


ENTITIES = [{"start": 4, "end": 10}, {"start": 16, "end": 20}, {"start": 14, "end": 15}]
MARKED = "The <e1>author</e1> of a <e2>book</e2>."
SEVERAL = {"text": "The author of a book.", "entities": ENTITIES}


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("relations", f"{MARKED}\n{json.dumps(SEVERAL)}\n"),
        ("tagger", "a dog\nthe house .\n"),
        *((name, "the dog .\na cat\n") for name in ("classes", "topics", "score")),
        ("ranking", json.dumps({"query": "a cat", "candidates": [{"text": "a dog"}, {"text": "book"}]}) + "\n"),
    ],
)
def test_predict(predict, name, content):
    device = "cuda:0" if DEVICE == "cuda" else DEVICE
    assert_alike(predict(name, content, "--device", device), predict(name, content, "--device", "cpu"))


def test_predict_trees(predict):
    device = "cuda:0" if DEVICE == "cuda" else DEVICE
    assert predict("parser", prediction.CONLLU, "--device", device, suffix="conllu") == predict(
        "parser", prediction.CONLLU, suffix="conllu"
    )
