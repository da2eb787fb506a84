"""`run_ranking.py` from its arguments to the files that it leaves behind."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from huggingface_hub import ModelCard
from transformers import (
    AutoModelForSequenceClassification,
    AutoTokenizer,
    pipeline,
)

import run_ranking
from msattn.metrics.ranking import MEASURES

SCRIPT = run_ranking
NOUNS = ("author", "book", "house", "dog", "cat", "taxi")


def query_rows(count: int) -> list[dict[str, Any]]:
    """The relevant candidate names what the query names."""
    return [
        {
            "id": f"q{number}",
            "query": f"the {NOUNS[number % 6]}",
            "candidates": [
                {"id": noun, "text": f"a {noun}", "label": int(noun == NOUNS[number % 6])} for noun in NOUNS
            ],
        }
        for number in range(count)
    ]


@pytest.fixture
def files(write) -> dict[str, Path]:
    sizes = {"train_file": 12, "validation_file": 5, "test_file": 4}
    return {name: write(query_rows(size), f"{name}.jsonl") for name, size in sizes.items()}


def run_lines(path: Path) -> list[list[str]]:
    return [line.split(" ") for line in path.read_text(encoding="utf-8").splitlines()]


def test_from_training_to_use(run, files, tmp_path):
    results = run("do_train", "do_eval", "do_predict", **files)

    folder = tmp_path / "out"
    for prefix, queries in (("eval", 5), ("test", 4)):
        assert {f"{prefix}_{name}" for name in (*MEASURES, "loss")} <= set(results)
        lines = run_lines(folder / f"{prefix}_run.trec")
        assert len(lines) == queries * len(NOUNS)
        firsts = {line[0]: line[2] for line in lines if line[3] == "1"}
        right = [firsts[f"q{number}"] == NOUNS[number % 6] for number in range(queries)]
        assert results[f"{prefix}_recall_at_1"] == pytest.approx(100 * np.mean(right))
        assert results[f"{prefix}_recall_at_20"] == 100

    card = ModelCard.load(folder / "README.md")
    assert card.data.pipeline_tag == "text-ranking"
    assert {result.metric_name for result in card.data.eval_results} >= {"MRR", "R@20", "MAP"}
    assert "trust_remote_code" not in card.text

    model = AutoModelForSequenceClassification.from_pretrained(folder)
    assert model.config.num_labels == 1 and model.config.problem_type == "multi_label_classification"
    tokenizer = AutoTokenizer.from_pretrained(folder)
    relevance = pipeline("text-classification", model=model, tokenizer=tokenizer, device="cpu")
    (score,) = (float(line[4]) for line in lines if line[0] == "q0" and line[2] == "dog")
    found = relevance([{"text": "the author", "text_pair": "a dog"}])
    assert found[0]["score"] == pytest.approx(1 / (1 + np.exp(-score)), abs=1e-5)
    assert found[0]["label"] == "relevant"


def test_learns(run, write):
    rows = query_rows(6)
    for row in rows:
        row["candidates"] = [{**candidate, "label": int(candidate["id"] == "dog")} for candidate in row["candidates"]]
    file = write(rows, "dogs.jsonl")
    options = {"max_steps": 40, "learning_rate": 1e-2, "per_device_train_batch_size": 18}
    results = run("do_train", "do_eval", train_file=file, validation_file=file, **options)
    assert results["eval_recall_at_1"] == results["eval_mrr"] == results["eval_map"] == 100


@pytest.mark.parametrize(
    "guiding",
    [
        {"mdg_weight": 0.1, "pdg_weight": 0.1},
        {"patterns": ["first", "pmi"], "pattern_weight": 1},
    ],
)
def test_guided(run, files, tmp_path, guiding):
    results = run("do_train", "do_eval", logging_steps=1, **guiding, **files)
    logged = json.loads((tmp_path / "out" / "trainer_state.json").read_text())["log_history"][0]
    assert logged["mdg_loss" if "mdg_weight" in guiding else "pattern_loss"] != 0
    lines = run_lines(tmp_path / "out" / "eval_run.trec")
    ranks = [int(rank) for query, _, noun, rank, *_ in lines if noun == NOUNS[int(query[1:])]]
    assert len(ranks) == 5 and results["eval_mrr"] == pytest.approx(100 * np.mean([1 / rank for rank in ranks]))


def test_chooses_by_a_held_out_part(run, files):
    results = run(
        "do_train",
        "do_eval",
        "load_best_model_at_end",
        train_negatives=2,
        validation_split_percentage=25,
        eval_strategy="steps",
        save_strategy="steps",
        eval_steps=1,
        save_steps=1,
        metric_for_best_model="mrr",
        early_stopping_patience=1,
        **files,
    )
    assert {"eval_mrr", "dev_mrr"} <= set(results)
    assert results["train_samples"] == 9 * 3 and results["eval_samples"] == 3 * 6 and results["dev_samples"] == 5 * 6


def test_trec_files(run, tmp_path):
    (tmp_path / "queries.tsv").write_text("".join(f"q{n}\tthe {noun}\n" for n, noun in enumerate(NOUNS)))
    (tmp_path / "collection.tsv").write_text("".join(f"d{n}\ta {noun}\n" for n, noun in enumerate(NOUNS)))
    (tmp_path / "qrels.txt").write_text("".join(f"q{n} 0 d{n} 1\n" for n in range(4)))
    for split, queries in {"train": (0, 1), "validation": (2, 3), "test": (4, 5)}.items():
        # The runs lack what is relevant to all but the third query.
        lines = [f"q{n} Q0 d{d} 1 0 bm25\n" for n in queries for d in range(6) if n != d or n == 2]
        (tmp_path / f"{split}.trec").write_text("".join(lines))
    options = {f"{split}_file": tmp_path / f"{split}.trec" for split in ("train", "validation", "test")}
    options |= {"queries_file": tmp_path / "queries.tsv", "collection_file": tmp_path / "collection.tsv"}
    options |= {"qrels_file": tmp_path / "qrels.txt"}
    results = run("do_train", "do_eval", "do_predict", validation_split_percentage=50, **options)
    # Relevant documents are added to the training data, not to a held-out part of them.
    assert results["train_samples"] == 6 and results["eval_samples"] == 5 and results["eval_recall_at_20"] == 0
    assert results["dev_samples"] == 11 and results["dev_recall_at_20"] == 50
    assert results["test_samples"] == 10 and "test_mrr" not in results
    assert len(run_lines(tmp_path / "out" / "test_run.trec")) == 10


def test_only_ranks_with_a_trained_model(run, write, files, tmp_path):
    run("do_train", train_file=files["train_file"])
    rows = [
        {**row, "candidates": [{"id": c["id"], "text": c["text"]} for c in row["candidates"]]} for row in query_rows(3)
    ]
    unlabelled = write(rows, "new.jsonl")
    trained = {"model_name_or_path": tmp_path / "out", "output_dir": tmp_path / "ranked"}
    run("do_predict", test_file=unlabelled, max_predict_samples=2, **trained)
    assert {line[0] for line in run_lines(tmp_path / "ranked" / "test_run.trec")} == {"q0", "q1"}


def test_queries_without_relevant_candidates(run, fails, write, caplog):
    nothing = {"query": "a taxi", "candidates": [{"text": "a dog", "label": 0}, {"text": "a cat", "label": 0}]}
    mixed = write([*query_rows(2), nothing], "mixed.jsonl")
    results = run("do_train", "do_eval", "do_predict", train_file=mixed, validation_file=mixed, test_file=mixed)
    assert results["train_samples"] == results["eval_samples"] == 12 and results["test_samples"] == 14
    assert results["eval_mrr"] == results["test_mrr"]
    none = write([nothing], "none.jsonl")
    assert "no query has a candidate that is known to be relevant" in fails("do_eval", validation_file=none)
    every = write([{"query": "a taxi", "positive": ["a dog", "a cat"]}], "every.jsonl")
    run("do_train", train_file=every)
    assert f"{every}: every candidate is relevant" in caplog.text


def test_run_files_need_the_texts(fails, files):
    error = fails("do_train", train_file=files["train_file"], queries_file="q.tsv")
    assert "run files of TREC need both --queries_file and --collection_file" in error
