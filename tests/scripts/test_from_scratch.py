"""`run_glue.py` with a model that is trained from scratch, on corpora as they are published."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from huggingface_hub import ModelCard
from transformers import AutoModelForSequenceClassification, AutoTokenizer, BertForSequenceClassification, pipeline

import msattn  # noqa: F401
import run_glue
from msattn.data.formats.mtl16 import MTL16_DOMAINS
from msattn.data.formats.sentiment_trees import SENTIMENTS

SCRIPT = run_glue
SMALL = [
    "hidden_size=16",
    "num_attention_heads=4",
    "num_hidden_layers=2",
    "hidden_dropout_prob=0.0",
    'scales=[1, "N/4"]',
]
FRESH = {"model_name_or_path": None, "model_type": "ms_transformer", "config_overrides": SMALL}
WORDS = ("bad", "dull", "fine", "good", "great")
LABELS = ("entailment", "neutral", "contradiction")


@pytest.fixture
def encoder() -> None:
    """No checkpoint."""


@pytest.fixture
def trees(tmp_path) -> Path:
    """Five sentiments, and a word that tells each."""
    lines = [f"({number % 5} (2 It) (3 (2 's) ({number % 5} {WORDS[number % 5]})))\n" for number in range(40)]
    path = tmp_path / "trees.txt"
    path.write_text("".join(lines), encoding="utf-8")
    return path


@pytest.fixture
def reviews(tmp_path) -> Path:
    """Two domains; in one of them, a quarter of the test is in the training data."""
    folder = tmp_path / "mtl16"
    folder.mkdir()
    for domain, repeated in {"books": 0, "magazines": 2}.items():
        train = [f"{number % 2}\t{('awful', 'lovely')[number % 2]} {domain} {number}\n" for number in range(24)]
        test = [*train[:repeated], *(line.replace("\t", "\tso ") for line in train[: 8 - repeated])]
        (folder / f"{domain}.task.train").write_text("".join(train))
        (folder / f"{domain}.task.test").write_text("".join(test))
    return folder


def read_json(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


def test_trees_are_learned_saved_and_used(run, trees, tmp_path):
    files = {"train_file": trees, "validation_file": trees, "test_file": trees}
    steps = {"max_steps": 60, "learning_rate": 1e-2, "train_sampling_strategy": "group_by_length"}
    results = run("do_train", "do_eval", "do_predict", **FRESH, **files, **steps)
    assert results["eval_accuracy"] == results["test_accuracy"] == 1 and results["train_samples"] == 40

    out = tmp_path / "out"
    model, tokenizer = AutoModelForSequenceClassification.from_pretrained(out), AutoTokenizer.from_pretrained(out)
    assert tuple(model.config.id2label.values()) == SENTIMENTS and model.config.scales == (1, "N/4")
    assert set(WORDS) < set(tokenizer.get_vocab()) and len(tokenizer) == model.config.vocab_size == 11
    classify = pipeline("text-classification", model=str(out), device="cpu")
    assert classify("It 's dull")[0]["label"] == "negative"

    card = ModelCard.load(out / "README.md")
    assert "a model of the family `ms_transformer`, trained from scratch, under a classifier of sentences" in card.text
    assert "import msattn" in card.text and "- scales: (1, 'N/4')" in card.text
    assert "multi-scale-attention" in card.data.tags and card.data.base_model is None

    # Without training, as any checkpoint.
    again = {"model_name_or_path": out, "output_dir": tmp_path / "again"}
    assert run("do_eval", "do_predict", validation_file=trees, test_file=trees, **again)["test_accuracy"] == 1


def test_phrases_of_trees(run, trees, fails):
    results = run("do_train", "do_eval", "train_phrases", train_file=trees, validation_file=trees, **FRESH)
    assert (results["train_samples"], results["eval_samples"]) == (200, 40)
    table = trees.with_suffix(".csv")
    table.write_text("text,label\na,1\nb,0\n")
    assert "only the trees of SST-5 have phrases" in fails("do_train", "train_phrases", train_file=table, **FRESH)


def test_long_texts_are_not_truncated(run, tmp_path, caplog):
    rows = [{"text": "dog " * 700 + word, "label": word} for word in ("a", "b") * 2]
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    options = {"train_file": path, "validation_file": path, "max_steps": 15, "learning_rate": 1e-2}
    # Their last word tells them apart.
    assert run("do_train", "do_eval", **FRESH, **options)["eval_accuracy"] == 1
    again = {"model_name_or_path": tmp_path / "out", "output_dir": tmp_path / "again", "validation_file": path}
    assert run("do_eval", **again)["eval_accuracy"] == 1
    assert "truncated" not in caplog.text
    assert run("do_eval", "overwrite_output_dir", max_seq_length=600, **again)["eval_accuracy"] == 0.5
    assert "eval: 4 of 4 examples are longer than 600 tokens and were truncated" in caplog.text

    bert = ["hidden_size=16", "num_attention_heads=4", "num_hidden_layers=1", "intermediate_size=16"]
    plain = {**FRESH, **options, "model_type": "bert", "config_overrides": bert, "max_steps": 1}
    run("do_train", "overwrite_output_dir", **plain)
    assert isinstance(
        AutoModelForSequenceClassification.from_pretrained(tmp_path / "out"), BertForSequenceClassification
    )
    assert "train: 4 of 4 examples are longer than 128 tokens" in caplog.text


@pytest.mark.parametrize("overrides, pairs", [([], True), (["sentence_pairs=false"], False)])
def test_pairs(run, tmp_path, capsys, overrides, pairs):
    rows = [
        {"gold_label": label, "sentence1": "A dog.", "sentence2": f"Some {label}.", "annotator_labels": []}
        for label in (*LABELS, "-") * 8
    ]
    path = tmp_path / "snli.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "dev.txt").write_text("".join(f"a dog\tsome {label}\t{n}\n" for n, label in enumerate(LABELS)))
    results = run(
        "do_train",
        "do_eval",
        "raw_text",
        **{**FRESH, "config_overrides": [*SMALL, *overrides]},
        train_file=path,
        validation_file=tmp_path / "dev.txt",
        max_steps=40,
        learning_rate=1e-2,
    )
    assert (results["train_samples"], results["eval_samples"], results["eval_accuracy"]) == (24, 3, 1)
    config = AutoModelForSequenceClassification.from_pretrained(tmp_path / "out").config
    assert config.sentence_pairs is pairs and tuple(config.id2label.values()) == LABELS
    if pairs:
        (tmp_path / "one.tsv").write_text("sentence1\nA dog.\n")
        again = {"model_name_or_path": tmp_path / "out", "test_file": tmp_path / "one.tsv"}
        with pytest.raises(SystemExit):
            run("do_predict", **again)
        assert "the model compares pairs, and there is one column of text: sentence1." in capsys.readouterr().err


def test_a_domain_from_its_files(run, reviews):
    files = {"train_file": reviews / "books.task.train", "test_file": reviews / "books.task.test"}
    assert run("do_train", "do_predict", **FRESH, **files)["test_samples"] == 8


@pytest.fixture
def run_domains(run, reviews, tmp_path):
    """Runs the two domains and returns `mtl16.json`."""

    def run_domains(*flags: str, **options: Any) -> dict[str, Any]:
        values = {"mtl16_dir": reviews, "domains": ["magazines", "books"], **FRESH, **options}
        # A run over domains leaves no results of one model.
        with pytest.raises(FileNotFoundError):
            run("do_train", "do_predict", *flags, **values)
        return read_json(tmp_path / "out" / "mtl16.json")

    return run_domains


def test_repeated_reviews_in_what_is_cut_off(run_domains, reviews, caplog):
    train = reviews / "books.task.train"
    train.write_text(train.read_text() * 2)
    run_domains("do_eval", domains=["books"], validation_split_percentage=25, max_steps=1)
    assert " of the 12 examples that --validation_split_percentage holds out have the same text as one" in caplog.text


def test_domains(run_domains, tmp_path, capsys):
    study = run_domains("do_eval", validation_split_percentage=25, seeds=[1, 2], max_steps=40, learning_rate=1e-2)
    # In the order of the paper's table.
    books, magazines = study["points"]
    assert (books["domain"], magazines["domain"]) == ("books", "magazines")
    assert (books["train_samples"], books["eval_samples"], books["test_samples"]) == (18, 6, 8)
    assert magazines["test_unseen_samples"] == 6 and "test_unseen_accuracy" not in books
    assert study["average"]["test_accuracy"] == 1

    out = tmp_path / "out"
    table = (out / "mtl16.md").read_text(encoding="utf-8")
    header, _, *rows = table.splitlines()
    assert header == "| domain | eval_accuracy | test_accuracy | test_unseen_accuracy |"
    assert [row.split(" | ")[0] for row in rows] == ["| books", "| magazines", "| average of 2"]
    assert "100.00 ± 0.00" in rows[0]
    printed = capsys.readouterr().out
    assert table in printed and "domain magazines (2 of 2)" in printed
    # Each with a vocabulary of its own.
    for domain, other in (("books", "magazines"), ("magazines", "books")):
        vocabulary = AutoTokenizer.from_pretrained(out / domain / "seed-2").get_vocab()
        assert domain in vocabulary and other not in vocabulary
    card = ModelCard.load(out / "magazines" / "seed-1" / "README.md")
    assert {result.dataset_name for result in card.data.eval_results} == {"MTL-16 magazines"}
    assert "test without what is in train" in {result.dataset_split for result in card.data.eval_results}


def test_domains_that_are_done_are_not_run_again(run_domains, reviews, tmp_path, capsys):
    kept = reviews / "magazines.task.test"
    content = kept.read_bytes()
    kept.write_text("broken\n")
    with pytest.raises(SystemExit):
        run_domains()
    first = read_json(tmp_path / "out" / "mtl16.json")["points"]
    assert [point["domain"] for point in first] == ["books"]

    kept.write_bytes(content)
    points = run_domains(resume_from_checkpoint="last")["points"]
    assert points[0] == first[0] and points[1]["domain"] == "magazines"
    assert f"{tmp_path / 'out' / 'books'}: finished before; these are its figures." in capsys.readouterr().out


def test_mistakes(fails, trees, reviews):
    fresh = {**FRESH, "train_file": trees}
    assert "give either --model_name_or_path, a checkpoint, or --model_type" in fails("do_train", train_file=trees)
    assert "fresh weights need --do_train" in fails("do_predict", test_file=trees, **fresh)
    assert "fresh weights need --do_train" in fails("do_eval", validation_file=trees, **FRESH)
    assert "--scales is for a pre-trained encoder; use --config_overrides" in fails("do_train", scales=[3], **fresh)
    assert "--head is for a pre-trained encoder" in fails("do_train", head="bert", **fresh)
    tags, pairs = (
        {**fresh, "config_overrides": [*SMALL, override]} for override in ("crf=true", "sentence_pairs=true")
    )
    assert "crf=true is for tagging: run_tagging.py." in fails("do_train", **tags)
    assert "the model compares pairs, and there is one column of text" in fails("do_train", **pairs)
    assert "did you mean hidden_size?" in fails("do_train", **{**fresh, "config_overrides": ["hiddensize=3"]})
    assert "--pad_to_max_length needs --max_seq_length" in fails("do_train", "pad_to_max_length", **fresh)
    domains = {**FRESH, "mtl16_dir": reviews}
    assert "--domains are those of MTL-16" in fails("do_train", domains=["books"], **fresh)
    assert "invalid choice: 'book'" in fails("do_train", "do_predict", **{**domains, "domains": ["book"]})
    assert "--task_name and --mtl16_dir both name" in fails("do_train", "do_predict", task_name="rte", **domains)
    assert "--mtl16_dir names the data" in fails("do_train", "do_predict", train_file=trees, **domains)
    assert "--mtl16_dir names the columns" in fails("do_train", "do_predict", text_column_names=["a"], **domains)
    assert "--train_phrases is for the trees" in fails("do_train", "do_predict", "train_phrases", **domains)
    assert "leave out --train_fraction" in fails("do_train", "do_predict", train_fraction=[0.5], **domains)
    assert "a study needs scores" in fails("do_train", **domains)
    missing = next(domain for domain in MTL16_DOMAINS if domain not in ("books", "magazines"))
    assert f"{missing}.task.train: the file cannot be read" in fails("do_train", "do_predict", **domains, max_steps=1)
