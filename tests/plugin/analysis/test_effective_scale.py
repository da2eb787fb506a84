"""The effective-scale task: its data, its anchors, its models and its command."""

from __future__ import annotations

import json

import pytest
import torch
from matplotlib.backends.backend_agg import FigureCanvasAgg

from msattn import UserError
from msattn.analysis import effective_scale, plot_effective_scale
from msattn.analysis.__main__ import main
from msattn.analysis.effective_scale import MODELS, EffectiveScaleArguments, build_model, mirrored_pairs, with_cls
from msattn.analysis.effective_scale_figure import effective_scale_table

TINY = "--tokens 8 --size 2 --samples 64 --test_samples 32 --hidden_size 20 --batch_size 16 --epochs 1".split()


def test_the_target_is_the_sum_of_the_products_of_mirrored_pairs():
    vectors, targets = mirrored_pairs(5, tokens=7, size=3, pairs=3, seed=0)
    a = vectors[2].double().numpy()  # from 0 here, from 1 in the formula
    assert targets[2].tolist() == pytest.approx((a[0] * a[6] + a[1] * a[5] + a[2] * a[4]).tolist())
    assert vectors.min() >= 0 and vectors.max() <= 1
    again, _ = mirrored_pairs(5, tokens=7, size=3, pairs=1, seed=0)
    assert torch.equal(vectors, again) and not torch.equal(vectors, mirrored_pairs(5, 7, 3, 3, seed=1)[0])


@pytest.mark.parametrize("pairs", [1, 4])
def test_anchors(pairs):
    vectors, targets = mirrored_pairs(200_000, tokens=8, size=1, pairs=pairs, seed=3)
    sums = (vectors[:, :pairs] + vectors.flip(1)[:, :pairs]).sum(dim=1) / 2 - pairs / 4
    assert (targets - pairs / 4).square().mean().item() == pytest.approx(7 * pairs / 144, rel=0.02)
    assert (targets - sums).square().mean().item() == pytest.approx(pairs / 144, rel=0.02)


def test_the_models_of_the_slides():
    args = EffectiveScaleArguments(output_dir="")
    reach = {"Hier-S": 6, "deepHier-S": 18, "Transformer": 32}
    for name in MODELS:
        model = build_model(args, name).eval()
        assert model.config.num_attention_heads == 10 and model.config.position_embeddings == "learned"
        vectors = with_cls(torch.rand(1, 32, 4)).requires_grad_()
        assert vectors.shape == (1, 33, 4) and (vectors[:, 0] == -1).all()
        assert model(inputs_embeds=vectors).logits.shape == (1, 4)
        if name in reach:
            first = model.ms_transformer(inputs_embeds=vectors).last_hidden_state[0, 0]
            first.square().sum().backward()
            assert vectors.grad[0].any(dim=-1).nonzero().max() == reach[name]


def test_command(tmp_path, capsys, monkeypatch):
    arguments = ["effective-scale", "--output_dir", str(tmp_path / "out"), *TINY]
    main([*arguments, "--model", "Hier-S", "Flex", "--pairs", "1", "4"])
    found = json.loads((tmp_path / "out" / "effective_scale.json").read_text(encoding="utf-8"))
    assert found["settings"]["samples"] == 64 and found["settings"]["position_embeddings"] == "learned"
    points = found["points"]
    assert [(point["model"], point["pairs"]) for point in points] == [
        ("Hier-S", 1), ("Flex", 1), ("Hier-S", 4), ("Flex", 4)
    ]  # fmt: skip
    table = (tmp_path / "out" / "effective_scale.md").read_text(encoding="utf-8")
    assert table == effective_scale_table(points) + "\n" == capsys.readouterr().out
    assert (tmp_path / "out" / "effective_scale.png").read_bytes().startswith(b"\x89PNG")
    assert (tmp_path / "out" / "effective_scale.svg").read_text(encoding="utf-8").startswith("<?xml")

    # What is there already is not trained again, and training is repeatable.
    run, trained = effective_scale.run_point, []
    monkeypatch.setattr(effective_scale, "run_point", lambda *point: trained.append(point[1:]) or run(*point))
    main([*arguments, "--model", "Hier-S", "deepHier-S", "--pairs", "1", "4", "--seeds", "1"])
    assert trained == [("deepHier-S", 1, 1), ("deepHier-S", 4, 1)]
    (tmp_path / "out" / "effective_scale.json").unlink()
    main([*arguments, "--model", "Flex", "--pairs", "4"])
    (again,) = json.loads((tmp_path / "out" / "effective_scale.json").read_text(encoding="utf-8"))["points"]
    assert again["mse"] == points[3]["mse"]


@pytest.mark.parametrize("positions", ["sinusoidal", "none"])
def test_positions(tmp_path, positions):
    options = ["--model", "Flex", "--pairs", "2", "--position_embeddings", positions]
    main(["effective-scale", "--output_dir", str(tmp_path), *TINY, *options])
    assert json.loads((tmp_path / "effective_scale.json").read_text())["settings"]["position_embeddings"] == positions


@pytest.mark.slow
def test_pairs_are_learnt(tmp_path):
    """One pair of eight vectors is within the reach of all: the error falls below that of sums."""
    sizes = "--tokens 8 --size 1 --samples 20000 --test_samples 2000 --hidden_size 20 --epochs 5".split()
    main(["effective-scale", "--output_dir", str(tmp_path), "--model", "Transformer", "--pairs", "1", *sizes])
    (point,) = json.loads((tmp_path / "effective_scale.json").read_text(encoding="utf-8"))["points"]
    assert point["mse"] < 1 / 144


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--model", "Hier"], "--model Hier: there are Hier-S, deepHier-S"),
        (["--pairs", "5"], "--pairs 5: of 8 vectors there are 1 to 4 pairs"),
        (["--pairs", "0"], "--pairs 0"),
        (["--seeds", "1", "1"], "--seeds 1 1: one is named twice"),
        (["--pairs", "2", "2"], "--pairs 2 2: one is named twice"),
        (["--model", "Flex", "Flex"], "--model Flex Flex: one is named twice"),
        (["--samples", "0"], "--samples must be above 0"),
        (["--position_embeddings", "rotary"], "invalid choice"),
    ],
)
def test_wrong_arguments(tmp_path, options, message):
    with pytest.raises(UserError, match=message):
        main(["effective-scale", "--output_dir", str(tmp_path), *TINY, "--pairs", "1", *options])
    assert not list(tmp_path.iterdir())


def test_a_folder_of_other_runs(tmp_path):
    arguments = ["effective-scale", "--output_dir", str(tmp_path), *TINY, "--model", "Hier-S", "--pairs", "1"]
    main(arguments)
    with pytest.raises(UserError, match="holds runs with --learning_rate 0.01, not 0.02: take another folder"):
        main([*arguments, "--learning_rate", "0.02"])
    (tmp_path / "effective_scale.json").write_text("{}")
    with pytest.raises(UserError, match="does not hold runs of this task"):
        main(arguments)


POINTS = [
    {"model": "Hier-S", "pairs": 1, "seed": 1, "mse": 0.01},
    {"model": "Hier-S", "pairs": 4, "seed": 1, "mse": 0.03},
    {"model": "Flex", "pairs": 4, "seed": 1, "mse": 0.002},
    {"model": "Flex", "pairs": 4, "seed": 2, "mse": 0.004},
]


def test_table():
    lines = effective_scale_table(POINTS).splitlines()
    assert lines[0] == "| K | 7K/144 | K/144 | Hier-S | Flex |"
    assert lines[2] == "| 1 | 0.0486 | 0.0069 | 0.0100 | – |"
    assert lines[3] == "| 4 | 0.1944 | 0.0278 | 0.0300 | **0.0030** ± 0.0014 |"


def test_figure():
    figure = plot_effective_scale(POINTS)
    FigureCanvasAgg(figure).draw()
    (axes,) = figure.axes
    lines = {container.get_label(): container[0].get_ydata().tolist() for container in axes.containers}
    assert lines == {"Hier-S": [0.01, 0.03], "Flex": [pytest.approx(0.003)]}
    anchors = {line.get_label(): line.get_ydata() for line in axes.lines[:2]}
    assert anchors["a constant: 7K/144"] == pytest.approx([7 / 144, 28 / 144])
    assert anchors["sums without pairs: K/144"] == pytest.approx([1 / 144, 4 / 144])
    assert axes.get_xscale() == axes.get_yscale() == "log"
    assert [label.get_text() for label in axes.get_xticklabels()] == ["1", "4"]
    assert {"0.01", "0.1"} <= {label.get_text() for label in axes.get_yticklabels()}
    assert not any(label.get_text() for label in axes.get_yticklabels(minor=True))
    with pytest.raises(UserError, match="saved as .png or .svg"):
        plot_effective_scale(POINTS, "scale.pdf")
