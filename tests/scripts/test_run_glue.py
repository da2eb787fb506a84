"""`run_glue.py` from its arguments to the files that it leaves behind."""

from __future__ import annotations

import json
import random
from pathlib import Path

import datasets
import pytest
from huggingface_hub import ModelCard
from transformers import (
    AutoConfig,
    AutoModel,
    AutoModelForSequenceClassification,
    BertForSequenceClassification,
    DebertaV2Config,
    RobertaConfig,
)

import run_glue
from msattn import MultiScaleForSequenceClassification
from msattn.data import GLUE_TASKS
from msattn.training import splits
from tests.tiny_models import WORDS, saved_encoder, saved_model, tiny_tokenizer

SCRIPT = run_glue
NOUNS = ("author", "book", "house")
MEASURES = {
    "cola": {"matthews_correlation"},
    "mrpc": {"accuracy", "f1", "combined_score"},
    "qqp": {"accuracy", "f1", "combined_score"},
    "stsb": {"pearson", "spearmanr", "combined_score"},
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
    headerless = spec.folder == "CoLA" and labelled
    header = [*spec.columns.values(), spec.label_column] if labelled else ["index", *spec.columns.values()]
    lines = [] if headerless else ["\t".join(header) + "\n"]
    for number in range(16 if split == "train" else 8):
        texts = [" ".join(draw.choices(WORDS, k=draw.randint(2, 9))) for _ in spec.columns]
        label = f"{number % 11 / 2}" if spec.labels is None else spec.labels[number % len(spec.labels)]
        if headerless:
            cells = ["gj04", str(number % 2), "", *texts]
        else:
            cells = [*texts, label] if labelled else [str(number), *texts]
        lines.append("\t".join(cells) + "\n")
    return lines


@pytest.mark.parametrize("task", GLUE_TASKS)
def test_every_task(run, glue_dir, tmp_path, task):
    results = run("do_train", "do_eval", "do_predict", task_name=task, glue_dir=glue_dir, head="multiscale")
    for prefix in ["eval", "eval_mm"] if task == "mnli" else ["eval"]:
        assert {f"{prefix}_{name}" for name in MEASURES.get(task, {"accuracy"})} <= results.keys()
        assert results[f"{prefix}_samples"] == 8
        assert (tmp_path / "out" / f"{prefix}_report.txt").is_file() == (task != "stsb")
        lines = (tmp_path / "out" / f"{prefix}_predictions.jsonl").read_text(encoding="utf-8").splitlines()
        assert {"gold", "prediction"} <= json.loads(lines[0]).keys()
    assert results["train_samples"] == 16 and results["test_samples"] == 8

    for name in ("MNLI-m", "MNLI-mm") if task == "mnli" else (GLUE_TASKS[task].folder,):
        lines = (tmp_path / "out" / f"{name}.tsv").read_text().splitlines()
        assert lines[0] == "index\tprediction" and len(lines) == 9

    config = AutoModelForSequenceClassification.from_pretrained(tmp_path / "out").config
    assert config.problem_type == ("regression" if task == "stsb" else "single_label_classification")
    assert tuple(config.id2label.values()) == (GLUE_TASKS[task].labels or ("LABEL_0",))
    assert (config.scales, config.fusion_layers, config.mask_mode) == ((3,), 1, "hard")

    card = ModelCard.load(tmp_path / "out" / "README.md").data
    assert {(result.dataset_type, result.dataset_config) for result in card.eval_results} == {("nyu-mll/glue", task)}
    splits = {"validation_matched", "validation_mismatched"} if task == "mnli" else {"validation"}
    assert {result.dataset_split for result in card.eval_results} == splits
    assert {result.metric_type for result in card.eval_results} == MEASURES.get(task, {"accuracy"})


@pytest.mark.parametrize(
    ("head", "overrides", "expected"),
    [
        ("mean", None, {"fusion_layers": 0, "pooling": "mean"}),
        ("cls", None, {"fusion_layers": 0, "pooling": "cls"}),
        ("plain-attention", None, {"scales": (), "mask_mode": "none", "fusion_layers": 1}),
        ("multiscale", ["scales=[3, 5]", "mask_mode=ste"], {"scales": (3, 5), "mask_mode": "ste"}),
    ],
)
def test_heads(run, glue_dir, tmp_path, head, overrides, expected):
    run("do_train", task_name="rte", glue_dir=glue_dir, head=head, config_overrides=overrides)
    model = AutoModelForSequenceClassification.from_pretrained(tmp_path / "out")
    assert type(model) is MultiScaleForSequenceClassification
    assert {name: getattr(model.config, name) for name in expected} == expected


def test_the_classifier_of_transformers(run, fails, write, glue_dir, tmp_path):
    task = {"task_name": "rte", "glue_dir": glue_dir}
    run("do_train", **task)
    assert type(AutoModelForSequenceClassification.from_pretrained(tmp_path / "out")) is BertForSequenceClassification
    # The checkpoint says which model it is of, and knows its labels.
    test = write([{"sentence1": "dog", "sentence2": "cat"}], "rows.jsonl")
    run("do_predict", model_name_or_path=tmp_path / "out", output_dir=tmp_path / "again", test_file=test)
    lines = (tmp_path / "again" / "test_predictions.tsv").read_text().splitlines()
    assert lines[1].partition("\t")[2] in ("entailment", "not_entailment")
    other = write(
        [{"sentence1": "dog", "sentence2": "cat", "label": label} for label in ("yes", "no") * 2], "other.jsonl"
    )
    held = {"train_file": other, "validation_split_percentage": 50}
    error = fails("do_eval", model_name_or_path=tmp_path / "out", **held)
    assert "train data, example 1, 'dog': the label 'yes' is not one of entailment, not_entailment" in error


@pytest.mark.parametrize("config_class", [RobertaConfig, DebertaV2Config])
def test_an_encoder_of_another_family_guided(run, glue_dir, tmp_path, config_class):
    sizes = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}
    config = config_class(vocab_size=len(tiny_tokenizer()), max_position_embeddings=66, pad_token_id=0, **sizes)
    encoder = saved_model(tmp_path / "encoder", AutoModel.from_config(config))
    options = {"task_name": "rte", "glue_dir": glue_dir, "model_name_or_path": encoder}
    guiding = {"mdg_weight": 0.25, "pdg_weight": 0.01, "guided_layers": [-1], "logging_steps": 1}
    assert "eval_accuracy" in run("do_train", "do_eval", **options, **guiding)
    for line in json.loads((tmp_path / "out" / "trainer_state.json").read_text())["log_history"][:2]:
        total = line["task_loss"] + 0.25 * line["mdg_loss"] + 0.01 * line["pdg_loss"]
        assert line["loss"] == pytest.approx(total, rel=1e-3)
    model = AutoModelForSequenceClassification.from_pretrained(tmp_path / "out")
    assert model.config.model_type == config.model_type
    card = ModelCard.load(tmp_path / "out" / "README.md").text
    assert "- mdg_weight: 0.25" in card and "import msattn" not in card and "trust_remote_code" not in card


def test_early_stopping_and_a_held_out_part(run, glue_dir, tmp_path):
    results = run(
        "do_train",
        "do_eval",
        "load_best_model_at_end",
        **{"task_name": "mnli", "glue_dir": glue_dir, "validation_split_percentage": 50},
        **{"max_train_samples": 4, "max_eval_samples": 3},
        **{
            "max_steps": 9,
            "learning_rate": 0,
            "new_layers_learning_rate": 0,
            "metric_for_best_model": "accuracy",
            "early_stopping_patience": 1,
        },
        **{"eval_strategy": "steps", "eval_steps": 1, "save_strategy": "steps", "save_steps": 1},
    )
    names = ("train_samples", "eval_samples", "dev_samples", "dev_mm_samples")
    assert [results[name] for name in names] == [4, 3, 3, 3]
    assert json.loads((tmp_path / "out" / "trainer_state.json").read_text())["global_step"] == 2
    card = ModelCard.load(tmp_path / "out" / "README.md").data
    splits = {"held out of train", "validation_matched", "validation_mismatched"}
    assert {result.dataset_split for result in card.eval_results} == splits


@pytest.mark.parametrize("names", [["worse", "better"], None])
def test_a_dataset_of_the_hub(run, tmp_path, monkeypatch, names):
    split = datasets.Dataset.from_dict(
        {"idx": [1, 2], "text": ["dogs", "cat"], "label": [1, 0] if names else [0.5, 2]}
    )
    test = datasets.Dataset.from_dict(
        {"idx": [1, 2], "text": ["dogs", "cat"], "label": [-1] * 2 if names else [0.5] * 2}
    )
    if names:
        split, test = (part.cast_column("label", datasets.ClassLabel(names=names)) for part in (split, test))
    data = datasets.DatasetDict({"train": split, "validation": split, "test": test})
    monkeypatch.setattr(splits, "load_dataset", lambda *names, **options: data)
    results = run("do_train", "do_eval", "do_predict", dataset_name="tester/reviews")
    assert ("eval_accuracy" in results, "eval_mse" in results) == (bool(names), not names)
    assert list(AutoConfig.from_pretrained(tmp_path / "out").id2label.values()) == (names or ["LABEL_0"])


def test_own_csv(run, fails, write, tmp_path, capsys, caplog):
    texts = ['a ""dog"", in', "null", "the\ncat", "NA"]
    lines = ["id,first,second,label", *(f'{number},"{texts[number % 4]}",un,{number % 2}' for number in range(8))]
    files = {"train_file": write("\n".join(lines), "train.csv"), "test_file": write("id,first\n0,dog\n", "test.csv")}
    files |= {"validation_file": write("\n".join(lines[:5]), "dev.csv"), "text_column_names": ["first", "second"]}
    error = fails("do_train", "do_predict", **files)
    assert error == f"error: {files['test_file']}:2: there is no column 'second' of text; there are id, first."

    write("id,first,second\n0,dog,cat\n", "test.csv")
    results = run("do_train", "do_eval", "do_predict", **files)
    shown = capsys.readouterr()
    assert "read from first and second; the label is one of 2: 0, 1.\n" in shown.out
    for noise in ("total_flos", "eval_samples_per_second", "LOAD REPORT", "it/s"):
        assert noise not in shown.out + shown.err + caplog.text
    assert "eval: 4 of the 4 examples are in the training data, too" in caplog.text
    assert (results["train_samples"], results["eval_samples"], results["test_samples"]) == (8, 4, 1)
    assert {"eval_accuracy", "eval_macro_f1"} <= results.keys()
    assert (tmp_path / "out" / "test_predictions.tsv").read_text().splitlines()[0] == "index\tprediction"
    assert not (tmp_path / "out" / "test_predictions.jsonl").exists()  # no label to compare with
    found = [json.loads(line) for line in (tmp_path / "out" / "eval_predictions.jsonl").read_text().splitlines()]
    assert [list(line) for line in found] == [["text", "text_pair", "gold", "prediction", "probabilities"]] * 4
    for line in found:
        assert sum(line["probabilities"].values()) == pytest.approx(1, abs=1e-5)
        assert line["prediction"] == max(line["probabilities"], key=line["probabilities"].get)

    # The checkpoint reads its own columns.
    config = AutoConfig.from_pretrained(tmp_path / "out")
    assert (config.text_columns, config.label_column) == (["first", "second"], "label")
    trained = {"model_name_or_path": tmp_path / "out", "output_dir": tmp_path / "scored"}
    again = run("do_predict", test_file=files["validation_file"], **trained)
    assert again["test_accuracy"] == results["eval_accuracy"]
    other = write("id,text,label\n0,dog,1\n", "other.csv")
    error = fails("do_predict", test_file=other, **trained)
    assert error == f"error: {other}:2: there is no column 'first' of text; there are id, text, label."


def test_a_class_that_a_split_lacks(run, write, caplog):
    train = write([{"text": WORDS[n % 4], "label": "ab"[n % 2]} for n in range(8)], "train.jsonl")
    dev = write([{"text": "the cat", "label": "a"}] * 4, "dev.jsonl")
    results = run("do_train", "do_eval", train_file=train, validation_file=dev)
    assert "eval: no example has the label b." in caplog.text
    assert results["eval_macro_f1"] <= 50 and results["eval_majority_accuracy"] == 100
    caplog.clear()
    one = write([{"text": "the cat", "label": "c"}] * 4, "one.jsonl")
    run("do_train", "do_eval", train_file=train, validation_file=one)
    assert caplog.text.count("has the label c") == 1


def test_named_columns_of_a_table(run, write, tmp_path):
    lines = [f'{n}\t"the dog\tbook {WORDS[n]}\t3.5\t{("NEUTRAL", "ENTAILMENT")[n % 2]}' for n in range(8)]
    table = write("\r\n".join(["pair\tsentence_A\tsentence_B\tscore\tjudgment", *lines, ""]), "train.txt")
    names = {"text_column_names": ["sentence_A", "sentence_B"], "label_column_name": "judgment"}
    results = run("do_train", "do_eval", train_file=table, validation_file=table, **names)
    assert results["eval_samples"] == 8
    assert AutoConfig.from_pretrained(tmp_path / "out").label2id == {"ENTAILMENT": 0, "NEUTRAL": 1}


def test_own_scores(run, write, tmp_path, caplog):
    scored = [{"sentence1": "dog " * n, "sentence2": WORDS[n], "note": "x", "label": n / 2} for n in range(1, 13)]
    files = {"train_file": write(scored, "train.jsonl"), "validation_file": write(scored[:5], "dev.jsonl")}
    files["test_file"] = write([{**row, "label": -1.0} for row in scored], "test.jsonl")  # STS-B has no others
    results = run("do_train", "do_eval", "do_predict", max_seq_length=9, **files)
    assert f"{files['test_file']}: every label is -1" in caplog.text and "test_pearson" not in results
    assert "train: 7 of 12 examples are longer than 9 tokens and were truncated" in caplog.text
    assert {"eval_pearson", "eval_spearmanr", "eval_combined_score", "eval_mse"} <= results.keys()
    lines = (tmp_path / "out" / "eval_predictions.tsv").read_text().splitlines()
    assert len(lines) == 6 and all(float(line.split("\t")[1]) for line in lines[1:])


def test_a_classifier_predicts_alone_and_takes_another_task(run, fails, glue_dir, tmp_path):
    run("do_train", task_name="mnli", glue_dir=glue_dir)
    task = {"task_name": "mnli", "glue_dir": glue_dir, "model_name_or_path": tmp_path / "out"}
    assert run("do_predict", output_dir=tmp_path / "again", **task)["test_mm_samples"] == 8
    assert {path.name for path in (tmp_path / "again").glob("*.tsv")} == {"MNLI-m.tsv", "MNLI-mm.tsv"}
    task["task_name"] = "rte"
    assert "ignore_mismatched_sizes" in fails("do_train", output_dir=tmp_path / "rte", **task)
    run("do_train", "ignore_mismatched_sizes", output_dir=tmp_path / "rte", **task)
    assert AutoModelForSequenceClassification.from_pretrained(tmp_path / "rte").config.num_labels == 2


def test_mistakes(fails, write, glue_dir):
    task = {"task_name": "rte", "glue_dir": glue_dir}
    train = write([{"text": noun, "label": noun} for noun in NOUNS], "train.jsonl")
    same = write([{"text": "dog", "label": "a"}] * 2, "same.jsonl")
    scores = write([{"text": "dog", "label": 0.5}, {"text": "cat", "label": 1}], "scores.jsonl")
    words = write([{"text": "dog", "label": "author"}], "words.jsonl")
    commas = write([{"text": "dog", "label": "3,5"}, {"text": "cat", "label": "4"}], "commas.jsonl")
    assert "give --train_file, --dataset_name or --task_name" in fails("do_train")
    assert "leave out --dataset_name and the files" in fails("do_train", train_file=train, **task)
    assert "--glue_dir is for --task_name" in fails("do_train", train_file=train, glue_dir=glue_dir)
    assert "--train_phrases is for trees of SST-5" in fails("do_train", "train_phrases", **task)
    error = fails("do_train", "train_phrases", train_file=train, validation_split_percentage=10)
    assert "with --train_phrases, give --validation_file" in error
    assert "--task_name has columns of its own" in fails("do_train", label_column_name="gold", **task)
    assert "one column or two, not 3" in fails("do_train", train_file=train, text_column_names=["a", "b", "c"])
    assert "the labels are not known" in fails("do_eval", validation_file=train)
    assert "more than one label" in fails("do_train", train_file=same)
    assert "numbers with a decimal comma, such as '3,5'" in fails("do_train", train_file=commas)
    upper = write([{"text": "dog", "label": NOUNS[0].upper()}], "upper.jsonl")
    error = fails("do_train", "do_eval", train_file=train, validation_file=upper)
    assert f"the label '{NOUNS[0].upper()}' is '{NOUNS[0]}' in the training data: write it one way" in error
    assert "smoothing_factor is for labels" in fails("do_train", train_file=scores, label_smoothing_factor=0.1)
    for files in ((scores, words), (words, scores)):  # one decimal number makes all scores
        error = fails("do_train", "do_eval", **dict(zip(("train_file", "validation_file"), files, strict=True)))
        assert "data, example 1, 'dog': the label 'author' is not a number, as other labels are" in error
