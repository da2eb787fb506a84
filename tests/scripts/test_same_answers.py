"""Predictions of a script, `msattn predict`, the pipeline and ONNX are the same, on odd inputs."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import pytest
from transformers import pipeline

import run_glue
import run_tagging
from msattn.data.tagged_words import read_tagged_words
from msattn.export import main as export
from msattn.predict import main as predict

ODD = [
    "a dog \U0001f436 wrote .",
    "the\u00a0house and a\u2003book",
    "caf\u00e9 cafe\u0301 dog",
    "two  spaces\tand a tab",
    "\u4f60\u597d dog",
    "\u200bzero wi\u200bdth\u200b \u200d soft\u00adly dog",
    "don't!!! #dog @cats http://x.org/a?b=1",
    "(A) DOG, a-b; c/d",
    "1,234.5 %",
    '"dog" \'\u00ab.\u00bb',
]
SCRATCH = {
    "model_name_or_path": None,
    "model_type": "ms_transformer",
    "config_overrides": ["hidden_size=16", "num_attention_heads=2", "scales=[1]"],
}


@pytest.fixture
def run(run_into):
    """Trained for some steps, and its answers are far from each other."""
    return partial(run_into, **{"learning_rate": 0.05, "max_steps": 4})


def answers(model: Path, file: Path, output: Path) -> list[dict]:
    predict([str(model), str(file), "--output", str(output)])
    return [json.loads(line) for line in output.read_text(encoding="utf-8").splitlines()]


SLOW = pytest.mark.slow


@pytest.mark.parametrize("exported", [False, pytest.param(True, marks=SLOW)])
@pytest.mark.parametrize(
    "model", [{"head": "plain"}, {"head": "multiscale"}, SCRATCH], ids=["plain", "fused", "scratch"]
)
def test_classes(run, write, tmp_path, model, exported):
    rows = [{"text": text, "label": "ab"[number % 2]} for number, text in enumerate(ODD)]
    file = write(rows, "rows.jsonl")
    trained = run(run_glue, "do_train", train_file=file, into="trained", **model)
    run(run_glue, "do_predict", test_file=file, into="scored", model_name_or_path=trained, max_steps=-1)
    scored = [json.loads(line) for line in (tmp_path / "scored" / "test_predictions.jsonl").read_text().splitlines()]
    expected = [
        {"label": row["prediction"], "score": pytest.approx(max(row["probabilities"].values()), abs=2e-5)}
        for row in scored
    ]
    assert len({row["prediction"] for row in scored}) == 2 or len({row["score"].expected for row in expected}) > 5
    assert pipeline("text-classification", model=str(trained))(ODD) == expected
    assert answers(trained, file, tmp_path / "answers") == expected
    if exported:
        export(["onnx", str(trained), str(tmp_path / "onnx")])
        assert answers(tmp_path / "onnx", file, tmp_path / "exported") == expected


@pytest.mark.parametrize("exported", [False, pytest.param(True, marks=SLOW)])
@pytest.mark.parametrize("model", [{}, SCRATCH], ids=["plain", "scratch"])
def test_tags(run, write, tmp_path, model, exported):
    texts = write([{"text": text} for text in ODD], "texts.jsonl")
    words = [["dog", "caf\u00e9", ",", "wrote"], ["a", "book", "%", "\U0001f436"]] * 4
    file = write([{"tokens": row, "ner_tags": ["B-x", "O", "O", "I-x"]} for row in words], "rows.jsonl")
    trained = run(run_tagging, "do_train", train_file=file, into="trained", **model)
    found = answers(trained, texts, tmp_path / "answers")
    assert len({tag for row in found for tag in row["tags"]}) > 1
    # The script reads the words that were found in the texts.
    given = write([{"words": row["words"]} for row in found], "words.jsonl")
    run(run_tagging, "do_predict", test_file=given, into="scored", model_name_or_path=trained, max_steps=-1)
    scored = read_tagged_words(tmp_path / "scored" / "test_predictions.conll")
    assert scored["tags"][:] == [row["tags"] for row in found]
    tag = pipeline("token-classification", model=str(trained), ignore_labels=[])
    for text, row in zip(ODD, found, strict=True):
        if model and "你好" in text:
            continue  # the pipeline reads it as one word there, and we read characters
        at = {token["start"]: token["entity"] for token in tag(text)}
        place, tags = 0, []
        for word in row["words"]:
            place = text.index(word, place)
            tags.append(at.get(place))
            place += len(word)
        assert tags == row["tags"], text
    if exported:
        export(["onnx", str(trained), str(tmp_path / "onnx")])
        assert answers(tmp_path / "onnx", texts, tmp_path / "exported") == found
