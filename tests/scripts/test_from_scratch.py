"""`run_glue.py` with a model that is trained from scratch, on corpora as they are published."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from huggingface_hub import ModelCard
from transformers import AutoModelForSequenceClassification, AutoTokenizer, BertForSequenceClassification, pipeline

import msattn  # noqa: F401
import run_glue
from msattn.data.formats.sentiment_trees import SENTIMENTS
from tests.tiny_models import saved_encoder

SCRIPT = run_glue
SIZES = ["hidden_size=16", "num_attention_heads=4", "num_hidden_layers=2", "hidden_dropout_prob=0.0"]
SMALL = [*SIZES, 'scales=[1, "N/4"]']
FRESH = {"model_name_or_path": None, "model_type": "ms_transformer", "config_overrides": SMALL}
WORDS = ("bad", "dull", "fine", "good", "great")
LABELS = ("entailment", "neutral", "contradiction")


@pytest.fixture
def encoder() -> None:
    """No checkpoint."""


@pytest.fixture
def trees(write) -> Path:
    """Five sentiments, and a word that tells each."""
    lines = (f"({number % 5} (2 It) (3 (2 's) ({number % 5} {WORDS[number % 5]})))\n" for number in range(40))
    return write("".join(lines), "trees.txt")


def test_trees_are_learned_saved_and_used(run, trees, tmp_path):
    files = {"train_file": trees, "validation_file": trees, "test_file": trees}
    steps = {"max_steps": 60, "learning_rate": 1e-2, "train_sampling_strategy": "group_by_length"}
    results = run("do_train", "do_eval", "do_predict", **FRESH, **files, **steps)
    assert results["eval_accuracy"] == results["test_accuracy"] == 100 and results["train_samples"] == 40

    out = tmp_path / "out"
    model, tokenizer = AutoModelForSequenceClassification.from_pretrained(out), AutoTokenizer.from_pretrained(out)
    assert tuple(model.config.id2label.values()) == SENTIMENTS and model.config.scales == (1, "N/4")
    assert set(WORDS) < set(tokenizer.get_vocab()) and len(tokenizer) == model.config.vocab_size == 11
    assert pipeline("text-classification", model=str(out), device="cpu")("It 's dull")[0]["label"] == "negative"
    card = ModelCard.load(out / "README.md")
    assert "a model of the family `ms_transformer`, trained from scratch, under a classifier of sentences" in card.text
    assert "import msattn" in card.text and "- scales: (1, 'N/4')" in card.text
    assert "multi-scale-attention" in card.data.tags and card.data.base_model is None

    # Without training, as any checkpoint.
    again = {"model_name_or_path": out, "output_dir": tmp_path / "again"}
    assert run("do_eval", "do_predict", validation_file=trees, test_file=trees, **again)["test_accuracy"] == 100


def test_phrases_of_trees(run, fails, trees):
    assert "--head is for a pre-trained encoder" in fails("do_train", train_file=trees, head="cls", **FRESH)
    results = run("do_train", "do_eval", "train_phrases", train_file=trees, validation_file=trees, **FRESH)
    assert (results["train_samples"], results["eval_samples"]) == (200, 40)


def test_long_texts_are_not_truncated(run, write, tmp_path, caplog):
    rows = [{"text": "dog " * 700 + word, "label": word} for word in ("a", "b") * 2]
    path = write(rows, "rows.jsonl")
    options = {"train_file": path, "validation_file": path, "max_steps": 15, "learning_rate": 1e-2}
    # Their last word tells them apart.
    assert run("do_train", "do_eval", **FRESH, **options)["eval_accuracy"] == 100
    assert "truncated" not in caplog.text
    again = {"model_name_or_path": tmp_path / "out", "output_dir": tmp_path / "again", "validation_file": path}
    assert run("do_eval", max_seq_length=600, **again)["eval_accuracy"] == 50
    assert "eval: 4 of 4 examples are longer than 600 tokens and were truncated" in caplog.text

    plain = {**FRESH, **options, "model_type": "bert", "config_overrides": SIZES, "max_steps": 1}
    run("do_train", **plain)
    assert isinstance(
        AutoModelForSequenceClassification.from_pretrained(tmp_path / "out"), BertForSequenceClassification
    )
    assert "train: 4 of 4 examples are longer than 128 tokens" in caplog.text


@pytest.mark.parametrize("overrides, pairs", [([], True), (["sentence_pairs=false"], False)])
def test_pairs(run, write, tmp_path, overrides, pairs):
    rows = [
        {"gold_label": label, "sentence1": "A dog.", "sentence2": f"Some {label}.", "annotator_labels": []}
        for label in (*LABELS, "-") * 8
    ]
    results = run(
        "do_train",
        "do_eval",
        **{**FRESH, "config_overrides": [*SMALL, *overrides]},
        train_file=write(rows, "snli.jsonl"),
        validation_file=write("".join(f"a dog\tsome {label}\t{n}\n" for n, label in enumerate(LABELS)), "dev.txt"),
        max_steps=40,
        learning_rate=1e-2,
    )
    assert (results["train_samples"], results["eval_samples"], results["eval_accuracy"]) == (24, 3, 100)
    config = AutoModelForSequenceClassification.from_pretrained(tmp_path / "out").config
    assert config.sentence_pairs is pairs and tuple(config.id2label.values()) == LABELS


def test_pairs_need_token_types(fails, write, tmp_path):
    path = saved_encoder(tmp_path / "encoder", layers=1) / "tokenizer_config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "model_input_names": ["input_ids", "attention_mask"]}))
    pairs = write("text,text_pair,label\na dog,a cat,a\na cat,a dog,b\n", "pairs.csv")
    options = {**FRESH, "word_vectors": tmp_path / "encoder", "train_file": pairs}
    options["config_overrides"] = ["hidden_size=16", "num_attention_heads=2"]
    assert "encoder: the tokenizer has no token types, by which the model tells" in fails("do_train", **options)


@pytest.mark.parametrize(
    "options, message",
    [
        (
            {"preset": "paper", "model_type": "bilstm"},
            "paper is of the family ms_transformer, and not of bilstm",
        ),
        ({"config_overrides": ["crf=true"]}, "crf=true is for taggers: run_tagging.py"),
    ],
)
def test_what_no_classifier_has_is_refused(fails, trees, options, message):
    assert message in fails("do_train", **{**FRESH, "train_file": trees, **options})


def test_a_domain_of_reviews(run, write, caplog):
    """MTL-16, as published. A quarter of the test is in the training data."""
    train = [f"{number % 2}\t{('awful', 'lovely')[number % 2]} books {number}\n" for number in range(24)]
    test = [*train[:2], *(line.replace("\t", "\tso ") for line in train[:6])]
    files = {"train_file": write("".join(train), "a.task.train"), "test_file": write("".join(test), "a.task.test")}
    results = run("do_train", "do_eval", "do_predict", **FRESH, **files, validation_split_percentage=25)
    assert (results["train_samples"], results["eval_samples"], results["test_samples"]) == (18, 6, 8)
    assert "of the 8 examples are in the training data, too" in caplog.text


def test_a_model_learns_what_another_one_answers(run, fails, write, trees, tmp_path):
    teacher, texts = tmp_path / "teacher", write([{"text": f"It {word}"} for word in WORDS], "texts.jsonl")
    steps = {"max_steps": 60, "learning_rate": 1e-2}
    run("do_train", train_file=trees, output_dir=teacher, **FRESH, **steps)
    taught = {**FRESH, **steps, "train_file": texts, "distill_from": teacher}
    results = run("do_train", "do_eval", validation_file=trees, gradient_accumulation_steps=2, **taught)
    assert results["eval_accuracy"] == 100
    assert AutoModelForSequenceClassification.from_pretrained(tmp_path / "out").config.id2label[0] == SENTIMENTS[0]

    student = {"model_name_or_path": saved_encoder(tmp_path / "encoder", layers=1), "max_steps": 1}
    run("do_train", **student, train_file=texts, distill_from=teacher)

    assert "no labels in 'label'" in fails("do_train", "do_eval", validation_split_percentage=50, **taught)
    pairs = write([{"text": "It good", "text_pair": "It bad"}] * 2, "pairs.jsonl")
    assert "the teacher reads sentence, the data text and text_pair" in fails(
        "do_train", **{**taught, "train_file": pairs}
    )
    again = {"model_name_or_path": teacher, "distill_from": teacher, "validation_file": trees}
    assert "--distill_from is for training" in fails("do_eval", **again)
    assert "--label_smoothing_factor is for labels" in fails(
        "do_train", label_smoothing_factor=0.1, train_file=texts, **again
    )
    assert "has no classes of sentences" in fails(
        "do_train", **{**taught, "distill_from": saved_encoder(tmp_path / "bare", layers=1)}
    )
