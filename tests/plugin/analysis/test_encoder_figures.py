"""Heat maps and principal components: what is drawn is what was given."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from matplotlib.backends.backend_agg import FigureCanvasAgg

from msattn import UserError
from msattn.analysis import attention_maps, average_attention, head_vectors, plot_attention_maps, plot_heads
from tests.plugin.analysis.tiny_encoders import tiny_encoder
from tests.tiny_models import tiny_tokenizer


def labels(ticks) -> list[str]:
    return [label.get_text() for label in ticks]


def test_average_attention():
    maps = torch.rand(3, 2, 5, 5)
    np.testing.assert_allclose(average_attention(maps), maps.mean(dim=(0, 1)), rtol=1e-6)
    np.testing.assert_allclose(average_attention(maps, layer=-1), maps[2].mean(dim=0), rtol=1e-6)
    np.testing.assert_allclose(average_attention(maps, head=1), maps[:, 1].mean(dim=0), rtol=1e-6)
    np.testing.assert_allclose(average_attention(maps, 0, 1), maps[0, 1], rtol=1e-6)
    for arguments, message in (((3, None), "no layer 3; the model has 0 to 2"), ((None, 2), "no head 2")):
        with pytest.raises(UserError, match=message):
            average_attention(maps, *arguments)


def test_heat_maps_share_their_colours(tmp_path):
    tokens = [["[CLS]", "a$b$", "telecommunications-company"], ["x", "y"]]
    maps = [np.arange(9.0).reshape(3, 3) / 20, np.array([[0.9, 0.1], [0.3, 0.7]])]
    path = tmp_path / "map.svg"
    figure = plot_attention_maps(maps, tokens, path, ["none", "both"], "attention (layer 1)")
    *panels, bar = figure.axes
    assert [axes.get_title() for axes in panels] == ["none", "both"]
    assert [axes.get_xlabel() for axes in panels] == ["attended token"] * 2
    assert panels[0].get_ylabel() == "attending token" and bar.get_ylabel() == "attention (layer 1)"
    for axes, weights, names in zip(panels, maps, tokens, strict=True):
        (image,) = axes.images
        np.testing.assert_array_equal(image.get_array(), weights)
        assert image.get_clim() == (0, 0.9)
        shown = [name if len(name) < 19 else "telecommunication…" for name in names]
        assert labels(axes.get_xticklabels()) == labels(axes.get_yticklabels()) == shown
        assert axes.yaxis_inverted()  # the first token at the top
    assert path.read_text(encoding="utf-8").count(">a$b$</text>") == 2

    clipped = plot_attention_maps(maps, tokens, darkest=0.2)
    assert [axes.images[0].get_clim() for axes in clipped.axes[:2]] == [(0, 0.2)] * 2
    assert [drawn.axes[1].images[0].colorbar.extend for drawn in (figure, clipped)] == ["neither", "max"]


@pytest.mark.parametrize("count", [1, 12, pytest.param(300, marks=pytest.mark.slow)])
def test_labels_of_tokens_do_not_overlap(count):
    figure = plot_attention_maps([np.full((count, count), 1 / count)], [["telecommunications"] * count])
    FigureCanvasAgg(figure).draw()
    boxes = [label.get_window_extent() for label in figure.axes[0].get_yticklabels()]
    for box, below in zip(boxes, boxes[1:], strict=False):
        assert box.shrunk(1, 0.8).y0 >= below.shrunk(1, 0.8).y1
    assert all(figure.bbox.containsx(box.x0) and figure.bbox.containsy(box.y0) for box in boxes)


def test_heat_maps_that_do_not_fit():
    with pytest.raises(UserError, match=r"of 2 tokens must be \(2, 2\), not \(3, 3\)"):
        plot_attention_maps([np.ones((3, 3))], [["a", "b"]])
    with pytest.raises(UserError, match=r"saved as .png or .svg"):
        plot_attention_maps([np.ones((1, 1))], [["a"]], "map.gif")


def test_vectors_of_heads():
    model, tokenizer = tiny_encoder(), tiny_tokenizer()
    texts = [("a cat .",), ("the author wrote a book",)]
    maps = [attention_maps(model, tokenizer, *text).maps.numpy() for text in texts]
    np.testing.assert_array_equal(head_vectors(model, tokenizer, texts[:1]), maps[0].reshape(2, 4, -1))
    expected = np.concatenate([maps[1].sum(axis=-2), maps[0].sum(axis=-2)], axis=-1)  # the longer one first
    np.testing.assert_allclose(head_vectors(model, tokenizer, texts), expected, rtol=1e-4, atol=1e-5)


def test_heads_are_points_on_common_components():
    generator = np.random.default_rng(0)
    vectors = [generator.normal(size=(3, 4, 30)), generator.normal(size=(2, 4, 30))]
    figure = plot_heads(vectors, titles=["none", "both"])
    one, other, bar = figure.axes
    points = np.concatenate([axes.collections[0].get_offsets() for axes in (one, other)])

    rows = np.concatenate([part.reshape(-1, 30) for part in vectors])
    rows = rows - rows.mean(axis=0)
    left, values, _ = np.linalg.svd(rows, full_matrices=False)
    np.testing.assert_allclose(np.abs(points), np.abs(left * values)[:, :2], atol=1e-10)
    share = values**2 / (values**2).sum()
    assert one.get_xlabel() == other.get_xlabel() == f"component 1 ({100 * share[0]:.0f} % of the variance)"
    assert one.get_ylabel() == f"component 2 ({100 * share[1]:.0f} %)"
    assert (one.get_xlim(), one.get_ylim()) == (other.get_xlim(), other.get_ylim())
    assert (one.get_title(), other.get_title(), bar.get_ylabel()) == ("none", "both", "layer")

    FigureCanvasAgg(figure).draw()
    first, second = (axes.collections[0].get_facecolors() for axes in (one, other))
    assert len(np.unique(first, axis=0)) == 3 and len(np.unique(second, axis=0)) == 2
    np.testing.assert_array_equal(first[:8], second)  # the same layers, the same colours
    assert (first[:4] == first[0]).all() and (first[4] != first[0]).any()


def test_heads_that_cannot_be_compared():
    with pytest.raises(UserError, match="different tokens"):
        plot_heads([np.ones((1, 2, 3)), np.ones((1, 2, 4))])
    with pytest.raises(UserError, match="only one head"):
        plot_heads([np.ones((1, 1, 3))])
    with pytest.raises(UserError, match="the text is one token"):
        plot_heads([np.ones((2, 2, 1))])
    alike = plot_heads([np.ones((2, 2, 3))])
    np.testing.assert_array_equal(alike.axes[0].collections[0].get_offsets(), np.zeros((4, 2)))
