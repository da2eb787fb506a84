"""The figure of studies: its lines are the scores."""

from __future__ import annotations

import re

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_rgb

from msattn import UserError
from msattn.analysis import plot_studies, plot_study
from msattn.analysis.__main__ import main
from msattn.results import Study, write_json


def fractions(scores, stds=(), parts=(0.2, 0.4, 1.0), total=1000) -> Study:
    points = [
        {"train_fraction": part, "train_samples": part * total, "eval_loss": 9.0, "eval_accuracy": score}
        for part, score in zip(parts, scores, strict=True)
    ]
    for point, std in zip(points, stds, strict=False):
        point["eval_accuracy_std"] = std
    return Study("train_fraction", points)


def layers(scores, stds=()) -> Study:
    points = [{"guided_layer": layer, "test_mrr": score, "eval_map": 0.0} for layer, score in enumerate(scores)]
    for point, std in zip(points, stds, strict=False):
        point["test_mrr_std"] = std
    return Study("guided_layer", points)


def drawn(axes: Axes) -> list[tuple[list, list]]:
    return [tuple(map(list, container.lines[0].get_data())) for container in axes.containers]


def tick_labels(axes: Axes) -> list[str]:
    return [label.get_text() for label in axes.get_xticklabels()]


def test_points_in_order_with_the_size_of_the_data():
    study = fractions([0.5, 0.75, 0.625])
    study.points.reverse()
    (axes,) = plot_study([study]).axes
    assert drawn(axes) == [([0.2, 0.4, 1.0], [0.5, 0.75, 0.625])]
    assert tick_labels(axes) == ["20 %\n200", "40 %\n400", "100 %\n1,000"]
    assert axes.get_ylabel() == "accuracy (eval)"
    assert axes.get_xlabel() == "part of the training data, and its examples"
    assert axes.get_xscale() == "linear"


def test_bars_are_the_standard_deviation():
    (axes,) = plot_study([layers([50.0, 60.0], [2.0, 0.5])], metric="test_mrr").axes
    (container,) = axes.containers
    (bars,) = container.lines[2]
    np.testing.assert_allclose(bars.get_segments(), [[[0, 48], [0, 52]], [[1, 59.5], [1, 60.5]]])
    assert axes.get_ylabel() == "mrr (test), mean ± standard deviation"
    assert axes.get_xlabel() == "guided layer" and tick_labels(axes) == ["0", "1"]


def test_no_bars_of_one_run():
    (axes,) = plot_study([layers([50.0, 60.0])]).axes
    assert not axes.containers[0].has_yerr


def test_studies_side_by_side_and_references():
    figure = plot_study(
        [layers([1.0, 2.0, 3.0]), layers([3.0, 2.0])],
        metric="test_mrr",
        names=["MDG", "PDG", "no guiding"],
        references=[{"test_mrr": 1.5}],
    )
    (axes,) = figure.axes
    assert drawn(axes) == [([0, 1, 2], [1.0, 2.0, 3.0]), ([0, 1], [3.0, 2.0])]
    (line,) = [line for line in axes.lines if line.get_linestyle() == "--"]
    assert list(line.get_ydata()) == [1.5, 1.5]
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["MDG", "PDG", "no guiding"]
    colors = {to_rgb(container.lines[0].get_color()) for container in axes.containers} | {to_rgb(line.get_color())}
    assert len(colors) == 3


def test_bars_at_the_same_place_stand_side_by_side():
    figure = plot_study([layers([1.0, 2.0], [0.5, 0.5])] * 2, metric="test_mrr", names=["a", "b"])
    FigureCanvasAgg(figure).draw()
    (axes,) = figure.axes
    first, second = (container.lines[0].get_transform().transform((0, 1)) for container in axes.containers)
    middle = axes.transData.transform((0, 1))
    assert first[0] < middle[0] < second[0]
    assert first[0] + second[0] == pytest.approx(2 * middle[0])
    assert first[1] == second[1] == middle[1]


def test_doses_lie_at_the_cosine_of_the_maps():
    points = [
        {
            "guiding_dose": dose,
            "test_f1": score,
            "test_f1_std": 1.0,
            "test_map_cosine": cosine,
            "test_map_cosine_std": 0.1,
        }
        for dose, score, cosine in ((1.0, 70.0, 0.25), (0.0, 80.0, 0.75), (0.01, 75.0, 0.5))
    ]
    (axes,) = plot_study([Study("guiding_dose", points)]).axes
    assert drawn(axes) == [([0.75, 0.5, 0.25], [80, 75, 70])]
    across, up = axes.containers[0].lines[2]
    np.testing.assert_allclose(across.get_segments()[0], [[0.65, 80], [0.85, 80]])
    np.testing.assert_allclose(up.get_segments()[0], [[0.75, 79], [0.75, 81]])
    assert [text.get_text() for text in axes.texts] == ["0", "0.01", "1"]
    assert "cosine" in axes.get_xlabel() and axes.get_ylabel() == "f1 (test), mean ± standard deviation"


def test_counts_that_differ_are_left_out():
    (axes,) = plot_study([fractions([1, 2, 3]), fractions([1, 2, 3], total=500)], names=["a", "b"]).axes
    assert tick_labels(axes) == ["20 %", "40 %", "100 %"]


@pytest.mark.parametrize(
    "parts",
    [(1.0,), (0.2, 0.4, 0.6, 0.8, 1.0), (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0), [n / 10 for n in range(1, 11)]],
)
def test_tick_labels_do_not_overlap(parts):
    figure = plot_study([fractions(np.arange(len(parts)), parts=parts, total=392702)])
    FigureCanvasAgg(figure).draw()
    boxes = [label.get_window_extent() for label in figure.axes[0].get_xticklabels()]
    assert len(boxes) == len(parts)
    assert not any(left.overlaps(right) for left, right in zip(boxes, boxes[1:], strict=False))


def test_a_loss_is_drawn_only_on_request():
    assert plot_study([fractions([1, 2, 3])]).axes[0].get_ylabel() == "accuracy (eval)"
    assert plot_study([fractions([1, 2, 3])], metric="eval_loss").axes[0].get_ylabel() == "loss (eval)"


def test_command(tmp_path):
    for name, scores in (("none", [1, 2, 3]), ("mdg", [2, 3, 4])):
        study = fractions(scores)
        write_json(tmp_path / name / "study.json", {"variable": study.variable, "points": study.points})
    write_json(tmp_path / "all" / "all_results.json", {"eval_accuracy": 2.5})
    output = tmp_path / "study.svg"
    folders = [str(tmp_path / name) for name in ("none", "mdg")]
    main(["study", "--folders", *folders, "--references", str(tmp_path / "all"), "--output", str(output)])
    texts = re.findall(r"<text[^>]*>(.*?)</text>", output.read_text(encoding="utf-8"))
    assert {"none", "mdg", "all", "20 %", "200", "accuracy (eval)"} <= set(texts)

    main(["study", "--folders", *folders, "--names", "BERT", "BERT + MDG", "--output", str(output)])
    assert "BERT + MDG" in output.read_text(encoding="utf-8")


def test_scores_after_epochs(tmp_path):
    study = fractions([7, 8, 9])
    write_json(tmp_path / "a" / "study.json", study.to_dict())
    for part, scores in {"0.2": [1, 4], "0.4": [2, 5], "1.0": [3, 6]}.items():
        for seed in (1, 2):
            log = [{"epoch": 1.0, "loss": 0.5}]
            for epoch, score in enumerate(scores, start=1):
                log.append({"epoch": float(epoch), "eval_accuracy": score + seed, "eval_runtime": 1.0})
            folder = tmp_path / "a" / f"fraction-{part}" / f"seed-{seed}"
            write_json(folder / "trainer_state.json", {"log_history": log})
    one, two = (study.after_epoch(tmp_path / "a", epoch) for epoch in (1, 2))
    assert [point["eval_accuracy"] for point in two.points] == [5.5, 6.5, 7.5]
    assert two.points[0]["eval_accuracy_std"] == pytest.approx(0.5**0.5)
    assert two.points[0]["train_samples"] == study.points[0]["train_samples"]

    first, second = plot_studies({"after epoch 1": [one], "after epoch 2": [two]}).axes
    assert drawn(first) == [([0.2, 0.4, 1.0], [2.5, 3.5, 4.5])]
    assert drawn(second) == [([0.2, 0.4, 1.0], [5.5, 6.5, 7.5])]
    assert (first.get_title(), second.get_title()) == ("after epoch 1", "after epoch 2")
    assert first.get_ylim() == second.get_ylim() and second.get_ylabel() == ""

    output = tmp_path / "epochs.svg"
    main(["study", "--folders", str(tmp_path / "a"), "--epochs", "1", "2", "--output", str(output)])
    texts = re.findall(r"<text[^>]*>(.*?)</text>", output.read_text(encoding="utf-8"))
    assert {"after epoch 1", "after epoch 2"} <= set(texts)
    with pytest.raises(UserError, match=r"seed-1.trainer_state.json: the run logged no scores after epoch 3; it"):
        main(["study", "--folders", str(tmp_path / "a"), "--epochs", "3", "--output", str(output)])


def test_wrong_arguments(tmp_path):
    with pytest.raises(UserError, match=r"saved as .png or .svg"):
        plot_study([layers([1])], tmp_path / "study.jpg")
    with pytest.raises(UserError, match="studies that vary the same"):
        plot_study([layers([1]), fractions([1, 2, 3])])
    with pytest.raises(UserError, match="2 names for 1 lines"):
        plot_study([layers([1])], names=["a", "b"])
    with pytest.raises(UserError, match="all have are test_mrr, eval_map; there is no eval_f1"):
        plot_study([layers([1])], metric="eval_f1")
    with pytest.raises(UserError, match="no score in common"):
        plot_study([layers([1])], references=[{"eval_loss": 1}])
    with pytest.raises(UserError, match=r"study.json: there is no such file"):
        main(["study", "--folders", str(tmp_path), "--output", str(tmp_path / "study.png")])
