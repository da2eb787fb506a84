"""Studies of the scripts: over the part of the training data, and over the guided layer."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from huggingface_hub import ModelCard
from transformers import AutoModel, AutoTokenizer

import run_glue
import run_ranking
from msattn.analysis import attention_diversity
from msattn.results import Study
from tests.scripts.command_line import command_line
from tests.scripts.relation_runs import ROOT, launch, read_json, same_weights

NOUNS = ("author", "book", "house", "dog")
TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2"]


@pytest.fixture(scope="module")
def sentences(tmp_path_factory) -> Path:
    rows = [{"text": f"the {NOUNS[number % 4]}", "label": number % 2} for number in range(16)]
    path = tmp_path_factory.mktemp("data") / "sentences.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


@pytest.fixture
def command(encoder, sentences, tmp_path):
    """A command line of `run_glue.py`: two steps on the sentences, unless `options` say otherwise."""

    def command(*flags: str, **options: Any) -> list[str]:
        values = {
            "model_name_or_path": encoder,
            "train_file": sentences,
            "validation_file": sentences,
            "output_dir": tmp_path / "out",
            "max_steps": 2,
            "save_strategy": "no",
            "report_to": "none",
            "disable_tqdm": True,
            "use_cpu": True,
            **options,
        }
        return command_line(flags, values)

    return command


@pytest.fixture
def run(command, monkeypatch):
    def run(*flags: str, script: Any = run_glue, **options: Any) -> None:
        monkeypatch.setattr(sys, "argv", [script.__name__, *command("do_train", *flags, **options)])
        script.main()

    return run


def test_parts_of_the_training_data(run, tmp_path, capsys):
    run("do_eval", train_fraction=[1.0, 0.25], seeds=[1, 2], eval_strategy="epoch")

    out = tmp_path / "out"
    study = read_json(out / "study.json")
    assert study["variable"] == "train_fraction"
    assert [(point["train_fraction"], point["train_samples"]) for point in study["points"]] == [(0.25, 4), (1.0, 16)]
    for point, folder in zip(study["points"], ("fraction-0.25", "fraction-1.0"), strict=True):
        results = read_json(out / folder / "all_results.json")
        assert {**point, "seeds": results["seeds"]} == {"train_fraction": point["train_fraction"], **results}
        assert (out / folder / "seed-2" / "model.safetensors").is_file()
    table = (out / "study.md").read_text(encoding="utf-8")
    assert table in capsys.readouterr().out
    header = table.splitlines()[0].strip("| ").split(" | ")
    assert header[:2] == ["train_fraction", "train_samples"]
    assert set(header[2:]) == {"eval_accuracy", "eval_macro_f1", "eval_loss"}
    assert table.count(" ± ") == 6
    assert (out / "study.png").read_bytes().startswith(b"\x89PNG")

    # Two steps are two epochs of the small part and one of the whole.
    first = Study.from_folder(out).after_epoch(out, 1)
    assert [first.points[1][name] for name in first.scores] == [study["points"][1][name] for name in first.scores]
    assert first.points[0]["eval_loss"] != study["points"][0]["eval_loss"]


def test_one_part_is_no_study(run, tmp_path):
    run("do_eval", train_fraction=[0.5])
    assert read_json(tmp_path / "out" / "all_results.json")["train_samples"] == 8
    assert not (tmp_path / "out" / "study.json").exists()


@pytest.mark.slow
def test_each_layer(run, tmp_path):
    run("do_eval", "guide_each_layer", mdg_weight=0.1, guiding="paper", train_fraction=[0.5])
    out = tmp_path / "out"
    study = read_json(out / "study.json")
    assert study["variable"] == "guided_layer"
    assert [(point["guided_layer"], point["train_samples"]) for point in study["points"]] == [(0, 8), (1, 8)]
    for layer in (0, 1):
        card = ModelCard.load(out / f"layer-{layer}" / "README.md").text
        assert f"- guided_layers: [{layer}]" in card and "- pdg_normalize: none" in card
    assert not same_weights(out / "layer-0", out / "layer-1")

    # A point is what a run of its own would be.
    run("do_eval", mdg_weight=0.1, guiding="paper", train_fraction=[0.5], guided_layers=[1], output_dir=tmp_path / "1")
    assert same_weights(out / "layer-1", tmp_path / "1")


def test_doses(run, encoder, tmp_path):
    run("do_eval", mdg_weight=2.0, pdg_weight=0.5, guide_doses=[1, 0], seeds=[2])
    out = tmp_path / "out"
    study = Study.from_folder(out)
    assert [(study.variable, point["guiding_dose"]) for point in study.points] == [
        ("guiding_dose", 0),
        ("guiding_dose", 1),
    ]
    assert {"eval_accuracy", "eval_map_cosine", "eval_map_entropy"} <= set(study.scores)
    assert (out / "study.png").read_bytes().startswith(b"\x89PNG")
    texts = [(f"the {noun}",) for noun in NOUNS]
    for point, weight in zip(study.points, (0, 2.0), strict=True):
        folder = out / f"dose-{point['guiding_dose']}" / "seed-2"
        card = ModelCard.load(folder / "README.md").text
        assert (f"- mdg_weight: {weight}" in card) == bool(weight)
        model, tokenizer = AutoModel.from_pretrained(folder), AutoTokenizer.from_pretrained(folder)
        overall = attention_diversity(model, tokenizer, texts).overall
        results = read_json(folder / "all_results.json")
        assert results["eval_map_cosine"] == pytest.approx(overall.similarity, abs=1e-4)
        assert results["eval_map_entropy"] == pytest.approx(overall.entropy, abs=1e-4)


@pytest.mark.slow
def test_a_part_of_the_queries(run, tmp_path):
    texts = [{"text": noun, "label": int(noun == "dog")} for noun in NOUNS]
    path = tmp_path / "queries.jsonl"
    path.write_text("".join(json.dumps({"query": str(n), "candidates": texts}) + "\n" for n in range(6)))
    files = {"train_file": path, "validation_file": path}
    run("do_eval", script=run_ranking, train_fraction=[0.5, 1.0], **files)
    points = read_json(tmp_path / "out" / "study.json")["points"]
    assert [point["train_samples"] for point in points] == [12, 24]
    assert all("eval_mrr" in point for point in points)


def test_a_study_that_broke_off_is_resumed(run, fails, tmp_path):
    options = {"train_fraction": [0.25, 0.5], "save_strategy": "steps", "save_steps": 2}
    out = tmp_path / "out"
    out.mkdir()
    (out / "fraction-0.5").write_text("in the way")
    assert "fraction-0.5" in fails("do_eval", **options)
    first = read_json(out / "study.json")["points"]
    assert [point["train_samples"] for point in first] == [4]

    (out / "fraction-0.5").unlink()
    run("do_eval", resume_from_checkpoint="last", **options)
    points = read_json(out / "study.json")["points"]
    assert [point["train_samples"] for point in points] == [4, 8]
    # What was done is not run again.
    assert points[0] == first[0]


@pytest.mark.slow
def test_two_processes(command, tmp_path):
    argv = command("do_train", "do_eval", "guide_each_layer", mdg_weight=0.1)
    finished = launch([*TORCHRUN, str(ROOT / "run_glue.py")], argv)
    assert finished.returncode == 0, finished.stderr
    assert finished.stdout.count("| guided_layer |") == 1
    assert len(read_json(tmp_path / "out" / "study.json")["points"]) == 2


def test_mistakes(fails, sentences, tmp_path):
    unlabelled = tmp_path / "test.jsonl"
    unlabelled.write_text('{"text": "dog"}\n')
    weight = {"mdg_weight": 0.1}

    assert "above 0 and at most 1, not [20.0]" in fails(train_fraction=[20])
    assert "leaves none of the 16" in fails(train_fraction=[0.01])
    assert "a study needs scores: give --do_eval" in fails(train_fraction=[0.2, 1])
    assert "none without labels" in fails("do_predict", train_fraction=[0.2, 1], test_file=unlabelled)
    assert "takes one model" in fails("do_eval", "push_to_hub", train_fraction=[0.2, 1])
    assert "--resume_from_checkpoint last" in fails("do_eval", train_fraction=[0.2, 1], resume_from_checkpoint="a")
    assert "needs --do_train and a weight" in fails("do_eval", "guide_each_layer")
    assert "leave out --guided_layers" in fails("do_eval", "guide_each_layer", guided_layers=[0], **weight)
    assert "takes one --train_fraction" in fails("do_eval", "guide_each_layer", train_fraction=[0.2, 1], **weight)
    assert "needs --do_train and a weight" in fails("do_eval", guide_doses=[1])
    assert "--guide_doses takes one --train_fraction" in fails(
        "do_eval", "guide_each_layer", guide_doses=[1], **weight
    )
    assert "0 or positive numbers, got -1.0 1.0" in fails("do_eval", guide_doses=[1, -1], **weight)
    assert "--train_fraction needs --do_train" in fails("do_eval", train_fraction=[0.2], do_train=False)
