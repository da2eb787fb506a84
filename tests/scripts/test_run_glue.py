"""`run_glue.py` from its arguments to the files that it leaves behind."""

from __future__ import annotations

import json
import random
import sys
from pathlib import Path
from typing import Any

import datasets
import pytest
from huggingface_hub import ModelCard
from transformers import (
    AutoConfig,
    AutoModel,
    AutoModelForSequenceClassification,
    AutoTokenizer,
    BertForSequenceClassification,
    DebertaV2Config,
    RobertaConfig,
    pipeline,
)

import run_glue
from msattn import MultiScaleForSequenceClassification
from msattn.data import GLUE_TASKS
from tests.tiny_models import WORDS, saved_encoder, tiny_tokenizer

SCRIPT = run_glue
NOUNS = ("author", "book", "house", "dog", "cat", "taxi")
MEASURES = {
    "cola": {"matthews_correlation"},
    "mrpc": {"accuracy", "f1", "combined_score"},
    "qqp": {"accuracy", "f1", "combined_score"},
    "stsb": {"pearson", "spearmanr", "combined_score"},
}
SUBMISSIONS = {
    "cola": {"CoLA": {"0", "1"}},
    "sst2": {"SST-2": {"0", "1"}},
    "mrpc": {"MRPC": {"0", "1"}},
    "qqp": {"QQP": {"0", "1"}},
    "stsb": {"STS-B": None},
    "mnli": dict.fromkeys(("MNLI-m", "MNLI-mm"), {"entailment", "neutral", "contradiction"}),
    "qnli": {"QNLI": {"entailment", "not_entailment"}},
    "rte": {"RTE": {"entailment", "not_entailment"}},
    "wnli": {"WNLI": {"0", "1"}},
}


@pytest.fixture(scope="module")
def encoder(tmp_path_factory) -> Path:
    return saved_encoder(tmp_path_factory.mktemp("encoder"), layers=1)


@pytest.fixture(scope="module")
def glue_dir(tmp_path_factory) -> Path:
    """All nine tasks in GLUE's own layout, 16 training and 8 other examples each."""
    folder = tmp_path_factory.mktemp("glue")
    for spec in GLUE_TASKS.values():
        (folder / spec.folder).mkdir()
        for split, file in spec.files.items():
            (folder / spec.folder / file).write_text("".join(tsv_lines(spec, split)), encoding="utf-8")
    return folder


def tsv_lines(spec, split: str) -> list[str]:
    draw = random.Random(split)
    labelled = not split.startswith("test")
    header = [*spec.columns.values(), spec.label_column] if labelled else ["index", *spec.columns.values()]
    lines = [] if split in spec.headerless else ["\t".join(header) + "\n"]
    for number in range(16 if split == "train" else 8):
        texts = [" ".join(draw.choices(WORDS, k=draw.randint(2, 9))) for _ in spec.columns]
        label = f"{number % 11 / 2}" if spec.labels is None else spec.labels[number % len(spec.labels)]
        if split in spec.headerless:
            cells = ["gj04", str(number % 2), "", *texts]
        else:
            cells = [*texts, label] if labelled else [str(number), *texts]
        lines.append("\t".join(cells) + "\n")
    return lines


def sentence_rows(count: int, label=lambda number: NOUNS[number % 3]) -> list[dict[str, Any]]:
    """Sentences that name their label."""
    return [
        {"id": f"row {number}", "review": f"the {NOUNS[number % 3]} in a house", "label": label(number)}
        for number in range(count)
    ]


def json_lines(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def read_json(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


@pytest.mark.parametrize("task", GLUE_TASKS)
def test_every_task(run, glue_dir, tmp_path, task):
    results = run("do_train", "do_eval", "do_predict", task_name=task, glue_dir=glue_dir, head="multiscale")

    prefixes = ["eval", "eval_mm"] if task == "mnli" else ["eval"]
    for prefix in prefixes:
        assert {f"{prefix}_{name}" for name in MEASURES.get(task, {"accuracy"})} <= results.keys()
        assert results[f"{prefix}_samples"] == 8
        assert (tmp_path / "out" / f"{prefix}_report.txt").is_file() == (task != "stsb")
    assert results["train_samples"] == 16 and results["test_samples"] == 8
    if task in MEASURES and len(MEASURES[task]) > 1:
        first, second = (results[f"eval_{name}"] for name in MEASURES[task] - {"combined_score"})
        assert results["eval_combined_score"] == pytest.approx((first + second) / 2)

    for name, answers in SUBMISSIONS[task].items():
        header, *rows = [line.split("\t") for line in (tmp_path / "out" / f"{name}.tsv").read_text().splitlines()]
        assert header == ["index", "prediction"]
        assert [index for index, _ in rows] == [str(index) for index in range(8)]
        if answers is None:
            assert all(0 <= float(answer) <= 5 for _, answer in rows)
        else:
            assert {answer for _, answer in rows} <= answers

    config = AutoModelForSequenceClassification.from_pretrained(tmp_path / "out").config
    regression = task == "stsb"
    assert config.problem_type == ("regression" if regression else "single_label_classification")
    assert tuple(config.id2label.values()) == (GLUE_TASKS[task].labels or ("LABEL_0",))
    assert (config.scales, config.fusion_layers, config.mask_mode) == ((3,), 1, "hard")

    card = ModelCard.load(tmp_path / "out" / "README.md").data
    assert {(result.dataset_type, result.dataset_config) for result in card.eval_results} == {("nyu-mll/glue", task)}
    splits = {"validation_matched", "validation_mismatched"} if task == "mnli" else {"validation"}
    assert {result.dataset_split for result in card.eval_results} == splits
    assert {result.metric_type for result in card.eval_results} == MEASURES.get(task, {"accuracy"})


def test_a_task_from_the_hub(run, tmp_path, monkeypatch):
    columns = {"sentence": ["dog", "cat"] * 4, "idx": list(range(8))}
    labelled, bare = (datasets.Dataset.from_dict({**columns, "label": label}) for label in ([0, 1] * 4, [-1] * 8))
    hub = datasets.DatasetDict({"train": labelled, "validation": labelled, "test": bare})
    monkeypatch.setattr(datasets, "load_dataset", lambda *names, cache_dir: hub)
    results = run("do_train", "do_eval", "do_predict", task_name="sst2")
    assert "eval_accuracy" in results and "test_loss" not in results
    assert len((tmp_path / "out" / "SST-2.tsv").read_text().splitlines()) == 9


@pytest.mark.parametrize(
    ("head", "options", "expected"),
    [
        ("bert", {}, {"fusion_layers": 0, "pooling": None}),
        ("mean", {}, {"fusion_layers": 0, "pooling": "mean"}),
        ("cls", {}, {"fusion_layers": 0, "pooling": "cls"}),
        ("plain-attention", {}, {"scales": (), "mask_mode": "none", "fusion_layers": 1}),
        ("multiscale", {"scales": [3, 5], "mask_mode": "ste"}, {"scales": (3, 5), "mask_mode": "ste"}),
    ],
)
def test_heads(run, glue_dir, tmp_path, head, options, expected):
    run("do_train", task_name="rte", glue_dir=glue_dir, head=head, **options)
    model = AutoModelForSequenceClassification.from_pretrained(tmp_path / "out")
    assert type(model) is MultiScaleForSequenceClassification
    assert {name: getattr(model.config, name) for name in expected} == expected


def test_the_classifier_of_transformers(run, fails, glue_dir, tmp_path):
    task = {"task_name": "rte", "glue_dir": glue_dir}
    run("do_train", head="plain", **task)
    assert type(AutoModelForSequenceClassification.from_pretrained(tmp_path / "out")) is BertForSequenceClassification
    # The checkpoint says which model it is of, and knows its labels.
    rows = json_lines(tmp_path / "rows.jsonl", [{"sentence1": "dog", "sentence2": "cat"}])
    run("do_predict", model_name_or_path=tmp_path / "out", output_dir=tmp_path / "again", test_file=rows)
    lines = (tmp_path / "again" / "test_predictions.tsv").read_text().splitlines()
    assert lines[1].partition("\t")[2] in ("entailment", "not_entailment")
    assert "--scales is for multi-scale fusion: give --head multiscale" in fails(
        "do_train", head="plain", scales=[3], **task
    )


@pytest.mark.parametrize("config_class", [RobertaConfig, DebertaV2Config])
def test_an_encoder_of_another_family_guided(run, fails, glue_dir, tmp_path, config_class):
    tokenizer = tiny_tokenizer()
    tokenizer.save_pretrained(tmp_path / "encoder")
    sizes = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}
    config = config_class(vocab_size=len(tokenizer), max_position_embeddings=66, pad_token_id=0, **sizes)
    AutoModel.from_config(config).save_pretrained(tmp_path / "encoder")
    options = {"task_name": "rte", "glue_dir": glue_dir, "model_name_or_path": tmp_path / "encoder"}
    family = config.model_type

    assert "--scales is for multi-scale fusion: give --head multiscale" in fails("do_train", scales=[3, 5], **options)
    assert "there is no layer 2; the model has 0 to 1" in fails(
        "do_train", mdg_weight=0.1, guided_layers=[2], **options
    )

    results = run(
        "do_train",
        "do_eval",
        mdg_weight=0.25,
        pdg_weight=0.01,
        guided_layers=[-1],
        guiding="paper",
        logging_steps=1,
        **options,
    )
    assert "eval_accuracy" in results
    lines = read_json(tmp_path / "out" / "trainer_state.json")["log_history"][:2]
    for line in lines:
        total = line["task_loss"] + 0.25 * line["mdg_loss"] + 0.01 * line["pdg_loss"]
        assert line["loss"] == pytest.approx(total, rel=1e-3)
    model = AutoModelForSequenceClassification.from_pretrained(tmp_path / "out")
    assert model.config.model_type == family
    card = ModelCard.load(tmp_path / "out" / "README.md").text
    assert "- mdg_weight: 0.25" in card and "- guided_layers: [-1]" in card and "- pdg_normalize: none" in card
    assert "import msattn" not in card and "trust_remote_code" not in card

    # The trained classifier knows its labels.
    json_lines(tmp_path / "dev.jsonl", [{"text": "dog", "label": "entailment"}] * 2)
    dev = {"validation_file": tmp_path / "dev.jsonl", "output_dir": tmp_path / "again"}
    assert run("do_eval", model_name_or_path=tmp_path / "out", **dev)["eval_samples"] == 2


def test_argument_file_seeds_and_early_stopping(encoder, glue_dir, tmp_path, monkeypatch, capsys):
    arguments = {
        "model_name_or_path": str(encoder),
        "task_name": "cola",
        "glue_dir": str(glue_dir),
        "output_dir": str(tmp_path / "out"),
        "do_train": True,
        "do_eval": True,
        "validation_split_percentage": 25,
        "seeds": [1, 2],
        "num_train_epochs": 3,
        "eval_strategy": "epoch",
        "save_strategy": "epoch",
        "save_total_limit": 1,
        "load_best_model_at_end": True,
        "metric_for_best_model": "matthews_correlation",
        "early_stopping_patience": 1,
        "report_to": "none",
        "disable_tqdm": True,
        "use_cpu": True,
    }
    file = tmp_path / "arguments.json"
    file.write_text(json.dumps(arguments))
    monkeypatch.setattr(sys, "argv", ["run_glue.py", str(file)])
    run_glue.main()

    table = (tmp_path / "out" / "results.md").read_text()
    assert table in capsys.readouterr().out
    assert "eval_matthews_correlation" in table and "dev_matthews_correlation" in table
    assert [line.split(" | ")[0] for line in table.splitlines()[2:]] == ["| 1", "| 2", "| mean", "| std"]
    results = read_json(tmp_path / "out" / "all_results.json")
    assert list(results["seeds"]) == ["1", "2"]
    for run in results["seeds"].values():
        assert (run["train_samples"], run["eval_samples"], run["dev_samples"]) == (12, 4, 8)
    card = ModelCard.load(tmp_path / "out" / "seed-1" / "README.md").data
    assert [result.dataset_split for result in card.eval_results] == ["held out of train", "validation"]


def test_own_csv(run, fails, tmp_path, capsys):
    texts = ['a "dog", in', "null", "the\ncat", "NA"]
    rows = [f'{number},"{texts[number % 4]}",un,{number % 2}' for number in range(8)]
    for name, lines in {"train": rows, "dev": rows[:4]}.items():
        lines = [line.replace('"dog"', '""dog""') for line in lines]
        (tmp_path / f"{name}.csv").write_text("\n".join(["id,first,second,label", *lines]) + "\n")
    (tmp_path / "test.csv").write_text("id,first,second\n0,dog,cat\n")
    results = run(
        "do_train",
        "do_eval",
        "do_predict",
        train_file=tmp_path / "train.csv",
        validation_file=tmp_path / "dev.csv",
        test_file=tmp_path / "test.csv",
    )
    assert capsys.readouterr().out.count("read from first and second; the label is one of 2: 0, 1.\n") == 1
    assert (results["train_samples"], results["eval_samples"], results["test_samples"]) == (8, 4, 1)
    assert {"eval_accuracy", "eval_macro_f1"} <= results.keys()
    assert (tmp_path / "out" / "test_predictions.tsv").read_text().splitlines()[0] == "index\tprediction"
    assert not (tmp_path / "out" / "test_predictions.jsonl").exists()  # no label to compare with
    lines = [json.loads(line) for line in (tmp_path / "out" / "eval_predictions.jsonl").read_text().splitlines()]
    assert [list(line) for line in lines] == [["text", "text_pair", "gold", "prediction", "probabilities"]] * 4
    for line in lines:
        assert sum(line["probabilities"].values()) == pytest.approx(1, abs=1e-5)
        assert line["prediction"] == max(line["probabilities"], key=line["probabilities"].get)

    (tmp_path / "test.csv").write_text("id,first\n0,dog\n")
    error = fails("do_train", "do_predict", train_file=tmp_path / "train.csv", test_file=tmp_path / "test.csv")
    assert error == f"error: {tmp_path / 'test.csv'}:2: the row has no text in 'second'."


def test_named_columns_of_a_table(run, fails, tmp_path):
    rows = [f'{n}\t"the dog\tbook {WORDS[n]}\t3.5\t{("NEUTRAL", "ENTAILMENT")[n % 2]}' for n in range(8)]
    table = tmp_path / "train.txt"
    table.write_text("\r\n".join(["pair\tsentence_A\tsentence_B\tscore\tjudgment", *rows]) + "\r\n")
    names = {"text_column_names": ["sentence_A", "sentence_B"], "label_column_name": "judgment"}
    results = run("do_train", "do_eval", train_file=table, validation_file=table, **names)
    assert results["eval_samples"] == 8
    config = AutoConfig.from_pretrained(tmp_path / "out")
    assert config.label2id == {"ENTAILMENT": 0, "NEUTRAL": 1}

    assert "no labels in 'label' (--label_column_name)" in fails("do_train", train_file=table)
    error = fails("do_train", train_file=table, **{**names, "text_column_names": ["sentence_C"]})
    assert error == f"error: {table}:2: the row has no text in 'sentence_C'."
    assert "one column or two, not 3" in fails("do_train", train_file=table, text_column_names=["a", "b", "c"])
    assert "leave out --text_column_names" in fails("do_train", task_name="rte", text_column_names=["a"])


def test_own_sentences_are_learned_saved_and_used(run, tmp_path):
    train = json_lines(tmp_path / "train.jsonl", sentence_rows(48))
    test = json_lines(tmp_path / "test.jsonl", sentence_rows(6))
    results = run(
        "do_train",
        "do_predict",
        train_file=train,
        test_file=test,
        max_steps=60,
        learning_rate=3e-2,
        mask_mode="none",
        pad_to_max_length=True,
        max_seq_length=16,
    )
    assert results["test_accuracy"] == results["test_macro_f1"] == 1.0
    rows = [line.split("\t")[1] for line in (tmp_path / "out" / "test_predictions.tsv").read_text().splitlines()[1:]]
    assert rows == ["author", "book", "house"] * 2
    assert "macro avg" in (tmp_path / "out" / "test_report.txt").read_text()

    # Another process knows the labels from the checkpoint alone.
    again = run("do_eval", model_name_or_path=tmp_path / "out", validation_file=test, output_dir=tmp_path / "again")
    assert again["eval_accuracy"] == 1.0
    classify = pipeline("text-classification", model=str(tmp_path / "out"))
    assert classify("the book in a house")[0]["label"] == "book"


def test_labels_that_the_first_examples_lack(run, tmp_path, caplog, capsys):
    rows = [{"text": WORDS[n], "label": float(n // 6)} for n in range(12)]
    results = run("do_train", train_file=json_lines(tmp_path / "train.jsonl", rows), max_train_samples=6)
    assert results["train_samples"] == 6
    assert "The first 6 examples lack 1 of the 2 labels of the training data: shuffle the file" in caplog.text
    assert "the label is one of 2: 0, 1.\n" in capsys.readouterr().out


def test_own_scores(run, tmp_path):
    rows = [{"sentence1": "dog", "sentence2": WORDS[n], "note": "x", "label": n / 2} for n in range(12)]
    train = json_lines(tmp_path / "train.jsonl", rows)
    (tmp_path / "dev.json").write_text(json.dumps(rows[:5]))
    results = run("do_train", "do_eval", train_file=train, validation_file=tmp_path / "dev.json")
    assert {"eval_pearson", "eval_spearmanr", "eval_combined_score", "eval_mse"} <= results.keys()
    lines = (tmp_path / "out" / "eval_predictions.tsv").read_text().splitlines()
    assert len(lines) == 6 and all(float(line.split("\t")[1]) for line in lines[1:])
    again = run(
        "do_eval",
        model_name_or_path=tmp_path / "out",
        validation_file=tmp_path / "dev.json",
        output_dir=tmp_path / "again",
    )
    assert again["eval_mse"] == pytest.approx(results["eval_mse"], rel=1e-4)


def test_truncation_is_counted(run, tmp_path, caplog):
    rows = [{"text": "the dog " * words, "label": words % 2} for words in range(1, 9)]
    train = json_lines(tmp_path / "train.jsonl", rows)
    run("do_train", train_file=train, max_seq_length=10)
    assert "train: 4 of 8 examples are longer than 10 tokens" in caplog.text


def test_limits_and_part_of_the_data(run, glue_dir, caplog):
    results = run(
        "do_train",
        "do_eval",
        task_name="mnli",
        glue_dir=glue_dir,
        max_train_samples=4,
        max_eval_samples=3,
        max_seq_length=500,
        validation_split_percentage=50,
    )
    names = ("train_samples", "eval_samples", "dev_samples", "dev_mm_samples")
    assert [results[name] for name in names] == [4, 3, 3, 3]
    assert "the model takes 64 tokens at most" in caplog.text


def test_the_classifier_of_another_task(run, fails, glue_dir, tmp_path):
    run("do_train", task_name="mnli", glue_dir=glue_dir)
    task = {"task_name": "rte", "glue_dir": glue_dir, "model_name_or_path": tmp_path / "out"}
    assert "classifier" in fails("do_train", output_dir=tmp_path / "rte", **task)
    run("do_train", "ignore_mismatched_sizes", output_dir=tmp_path / "rte", **task)
    assert AutoTokenizer.from_pretrained(tmp_path / "rte").model_max_length == 64
    assert AutoModelForSequenceClassification.from_pretrained(tmp_path / "rte").config.num_labels == 2


def test_mistakes(fails, glue_dir, tmp_path):
    task = {"task_name": "rte", "glue_dir": glue_dir}
    train = json_lines(tmp_path / "train.jsonl", sentence_rows(6))
    bare = json_lines(tmp_path / "bare.jsonl", [{"text": "dog"}])
    mixed = json_lines(tmp_path / "mixed.jsonl", [{"text": "dog", "label": 1}, {"text": "cat"}])
    same = json_lines(tmp_path / "same.jsonl", [{"text": "dog", "label": "a"}] * 2)
    numbers = json_lines(tmp_path / "numbers.jsonl", [{"count": 3, "label": "a"}])
    nothing = json_lines(tmp_path / "nothing.jsonl", [{"text": None, "sentence": None, "label": "a"}])
    scores = json_lines(tmp_path / "scores.jsonl", [{"text": "dog", "label": 0.5}, {"text": "cat", "label": 1}])
    half = json_lines(tmp_path / "half.jsonl", [{"text": "\ud800", "label": "a"}])

    assert "give --train_file, --dataset_name, --task_name or --mtl16_dir" in fails("do_train")
    assert "there is nothing to do" in fails(**task)
    assert "invalid float value: 'nan'" in fails("do_train", pdg_weight="nan", **task)
    assert "--guiding: invalid choice: 'papers'" in fails("do_train", guiding="papers", **task)
    assert "--glue_dir needs the task" in fails("do_train", glue_dir=glue_dir)
    assert "leave out --train_file" in fails("do_train", train_file=train, **task)
    assert "no room for a word" in fails("do_train", max_seq_length=3, **task)
    assert "--max_train_samples must be a whole number" in fails("do_train", max_train_samples=0, **task)
    assert "above 0 and below 100" in fails("do_train", validation_split_percentage=100, **task)
    assert "there is no such folder" in fails("do_train", model_name_or_path=tmp_path / "none", **task)
    assert "pooling" in fails("do_train", pooling="entity_start", **task)
    assert "there is no such file" in fails("do_train", train_file=tmp_path / "none.csv")
    assert "--do_eval needs validation data" in fails("do_train", "do_eval", train_file=train)
    assert "the labels are not known" in fails("do_eval", validation_file=train)
    assert f"{bare}: there are no labels" in fails("do_train", train_file=bare)
    assert f"{mixed}:2: the example has no label" in fails("do_train", train_file=mixed)
    assert "more than one label" in fails("do_train", train_file=same)
    assert "no column of text beside label among count, label" in fails("do_train", train_file=numbers)
    assert f"{nothing}:1: the row has no text in 'sentence'" in fails("do_train", train_file=nothing)
    assert f"{half}:1: " in fails("do_train", train_file=half)
    assert "the label 'author' is not a number" in fails(
        "do_train",
        "do_eval",
        train_file=scores,
        validation_file=json_lines(tmp_path / "dev.jsonl", [{"text": "dog", "label": "author"}]),
    )


def test_a_task_without_its_training_file(fails, glue_dir, tmp_path):
    folder = tmp_path / "glue" / "QNLI"
    folder.mkdir(parents=True)
    (folder / "dev.tsv").write_text((glue_dir / "QNLI" / "dev.tsv").read_text())
    error = fails("do_train", task_name="qnli", glue_dir=tmp_path / "glue")
    assert error == f"error: {folder / 'train.tsv'}: there is no such file, and the train split needs it."
