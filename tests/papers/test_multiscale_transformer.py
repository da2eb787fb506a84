"""The scripts of papers/multiscale_transformer: the effective-scale task, attention distances, the linear baseline."""

from __future__ import annotations

import csv
import json
import sys

import effective_scale
import mtl16
import pytest
import tfidf
import torch
import unlabelled
from attention_distances import main as draw_distances
from effective_scale import MODELS, build_model, mirrored_pairs, with_cls

from tests.plugin.plots.test_encoders import encoder
from tests.tiny_models import tiny_tokenizer

TINY = "--samples 64 --test_samples 32 --epochs 1".split()


def test_the_target_is_the_sum_of_the_products_of_mirrored_pairs():
    vectors, targets = mirrored_pairs(5, pairs=3, seed=0)
    a = vectors[2].double().numpy()  # from 0 here, from 1 in the formula
    assert targets[2].tolist() == pytest.approx((a[0] * a[31] + a[1] * a[30] + a[2] * a[29]).tolist())
    assert torch.equal(vectors, mirrored_pairs(5, pairs=1, seed=0)[0])


@pytest.mark.parametrize(("name", "reach"), [("Hier-S", 6), ("deepHier-S", 18), ("Transformer", 32), ("Flex", None)])
def test_the_models_of_the_slides(name, reach):
    model = build_model(name).eval()
    vectors = with_cls(torch.rand(1, 32, 4)).requires_grad_()
    assert vectors.shape == (1, 33, 4) and (vectors[:, 0] == -1).all()
    assert model(inputs_embeds=vectors).logits.shape == (1, 4)
    if reach:
        model.ms_transformer(inputs_embeds=vectors).last_hidden_state[0, 0].square().sum().backward()
        assert vectors.grad[0].any(dim=-1).nonzero().max() == reach


def test_finished_runs_are_not_repeated(tmp_path, capsys, monkeypatch):
    given = ["--output_dir", str(tmp_path), *TINY]
    effective_scale.main([*given, "--model", "Hier-S", "Flex", "--pairs", "1", "4"])
    points = json.loads((tmp_path / "effective_scale.json").read_text())["points"]
    assert [(point["model"], point["pairs"]) for point in points] == [
        (m, k) for k in (1, 4) for m in ("Hier-S", "Flex")
    ]
    assert effective_scale.table(points) in capsys.readouterr().out
    assert (tmp_path / "effective_scale.png").read_bytes().startswith(b"\x89PNG")
    run, trained = effective_scale.run_point, []
    monkeypatch.setattr(effective_scale, "run_point", lambda *one, **sizes: trained.append(one) or run(*one, **sizes))
    effective_scale.main([*given, "--model", "Hier-S", "deepHier-S", "--pairs", "1"])
    assert trained == [("deepHier-S", 1, 1)]
    with pytest.raises(SystemExit):
        effective_scale.main([*given, "--samples", "65"])


def test_the_table():
    points = [{"model": m, "pairs": 1, "mse": e} for m, e in (("A", 0.001), ("A", 0.003), ("B", 0.02))]
    row = effective_scale.table(points).splitlines()[-1]
    assert row == "| 1 | 0.0486 | 0.0069 | **0.0020** ± 0.0014 | 0.0200 |"
    assert set(MODELS) == {"Hier-S", "deepHier-S", "Flex", "Transformer"}


def test_distances_are_drawn_and_written(tmp_path, capsys):
    for name in ("one", "two"):
        encoder().save_pretrained(tmp_path / name)
        tiny_tokenizer().save_pretrained(tmp_path / name)
    (tmp_path / "texts.txt").write_text("the author of the book wrote\na cat .\n")
    models = [str(tmp_path / name) for name in ("one", "two")]
    draw_distances(["--model", *models, "--file", str(tmp_path / "texts.txt"), "--output", str(tmp_path / "d.svg")])
    assert "| one: uniform attention |" in capsys.readouterr().out
    text = (tmp_path / "d.svg").read_text()
    assert "layers, the mean of their heads" in text and ">two<" in text
    rows = list(csv.DictReader((tmp_path / "d.csv").open()))
    assert len(rows) == 16 and rows[-1]["layer"] == "1" and rows[-1]["head"] == "3"


def test_reviews_of_the_training_data_are_left_out(tmp_path, capsys):
    (tmp_path / "MR.task.train").write_text("1\tgood\n0\tbad\n")
    (tmp_path / "MR.task.test").write_text("1\tgood\n0\tawful\n1\tfine\n")
    for seed, answers in ((1, "100"), (2, "011")):
        rows = [{"gold": gold, "prediction": answer} for gold, answer in zip("101", answers, strict=True)]
        (tmp_path / "study" / "MR" / f"seed-{seed}").mkdir(parents=True)
        path = tmp_path / "study" / "MR" / f"seed-{seed}" / "test_predictions.jsonl"
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    mtl16.main([str(tmp_path / "study"), "--mtl16_dir", str(tmp_path)])
    assert capsys.readouterr().out.splitlines()[2:] == [
        "| MR | 50.0 ± 23.6 | 50.0 ± 0.0 |",
        "| average of 1 | 50.0 ± 23.6 | 50.0 ± 0.0 |",
    ]


def test_the_linear_baseline(tmp_path, monkeypatch, capsys):
    rows = [f'{{"text": "{word} {number}", "label": "{word}"}}\n' for number in range(12) for word in ("good", "bad")]
    (tmp_path / "a.jsonl").write_text("".join(rows))
    files = ["--train_file", str(tmp_path / "a.jsonl"), "--test_file", str(tmp_path / "a.jsonl"), "--folds", "2"]
    monkeypatch.setattr(sys, "argv", ["tfidf.py", *files])
    tfidf.main()
    assert "| 100.0 |" in capsys.readouterr().out.splitlines()[-1]


def test_texts_for_distillation_share_no_words_with_the_test_data(tmp_path):
    train, test, found = tmp_path / "train.jsonl", tmp_path / "test.jsonl", tmp_path / "found.jsonl"
    texts = [
        "A film that I liked.",
        "A film that I liked.",
        "He said: a FILM, that bored me",
        "too short",
        "a film is a film",
    ]
    train.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    test.write_text(json.dumps({"text": "a film that bored", "label": "no"}) + "\n")
    unlabelled.main([str(train), "--test_file", str(test), "--words", "4", "--output", str(found)])
    assert [json.loads(line)["text"] for line in found.read_text().splitlines()] == [texts[0], texts[4]]
