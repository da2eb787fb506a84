"""The figure: its lines are the weights, its bars the phrases."""

from __future__ import annotations

import html
import re

import numpy as np
import pytest
import torch
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_rgb
from matplotlib.patches import PathPatch

from msattn import UserError
from msattn.analysis import FusedAttention, plot_fused_attention
from msattn.analysis.fused_attention_figure import QUERY, ROW

TOKENS = "[CLS] the [E1] Bern ##oulli [/E1] sold $ 5 & $ 6 < <b> [E2] maps [/E2] [SEP]".split()


def random_attention(tokens=TOKENS, scales=(3, 5), alignment="causal", **entities) -> FusedAttention:
    torch.manual_seed(0)
    output = torch.rand(2, len(tokens), (1 + len(scales)) * len(tokens)).softmax(dim=-1)
    return FusedAttention.from_output(output, tokens, scales, alignment, **entities)


def lines(figure) -> dict[tuple[int, int, int], PathPatch]:
    """By query, scale (0: words) and position."""
    gids = {patch: patch.get_gid() for patch in figure.axes[0].patches if patch.get_gid()}
    return {tuple(map(int, gid.split("-")[1:])): patch for patch, gid in gids.items()}


def weight(attention, query, scale, position) -> float:
    return (attention.phrases[scale] if scale else attention.words)[query, position]


def test_more_attention_is_a_darker_thicker_line_on_top():
    attention = random_attention()
    drawn = lines(plot_fused_attention(attention, [2, 14], top=100))
    assert len(drawn) == 2 * 3 * len(TOKENS)
    for words in (True, False):
        ordered = sorted((weight(attention, *link), patch) for link, patch in drawn.items() if (link[1] == 0) == words)
        for (less, pale), (more, dark) in zip(ordered, ordered[1:], strict=False):
            assert less < more
            assert pale.get_linewidth() < dark.get_linewidth()
            assert pale.get_zorder() < dark.get_zorder()
            assert sum(to_rgb(pale.get_edgecolor())) >= sum(to_rgb(dark.get_edgecolor()))


def test_top_keeps_the_strongest_of_each_query():
    attention = random_attention()
    drawn = lines(plot_fused_attention(attention, [2, 14], top=4))
    for query in (2, 14):
        kept = [weight(attention, *link) for link in drawn if link[0] == query]
        every = np.concatenate([attention.words[query], *(rows[query] for rows in attention.phrases.values())])
        np.testing.assert_array_equal(sorted(kept), np.sort(every)[-4:])


def test_no_line_where_there_is_next_to_no_attention():
    words = np.zeros((3, 3))
    words[1] = 0.001, 0.004, 0.5
    attention = FusedAttention(["a", "b", "c"], words, {3: np.zeros((3, 3))})
    assert list(lines(plot_fused_attention(attention))) == [(1, 0, 2)]
    assert lines(plot_fused_attention(attention, "a")) == {}


@pytest.mark.parametrize("alignment", ["causal", "same"])
def test_lines_end_at_what_is_attended(alignment):
    """A word's line at the word; a phrase's in the middle of the words that it covers, on the other side."""
    attention = random_attention(alignment=alignment)
    figure = plot_fused_attention(attention, 7, top=1000)
    centres = sorted(
        {text.get_position()[1] for text in figure.axes[0].texts if text.get_text() in ("[CLS]", "[SEP]")}
    )
    for (query, scale, position), patch in lines(figure).items():
        vertices = patch.get_path().vertices
        rows = (vertices[:, 1] - centres[0]) / ROW
        assert rows[0] == pytest.approx(query)
        if scale:
            start, end = attention.phrase(scale, position)
            assert rows[-1] == pytest.approx((start + end - 1) / 2)
            assert vertices[-1, 0] < QUERY
        else:
            assert rows[-1] == pytest.approx(position)
            assert vertices[-1, 0] > QUERY


def test_svg_holds_every_token_as_text(tmp_path):
    path = tmp_path / "attention.svg"
    attention = random_attention(head=(2, 6), tail=(14, 17), label="Product-Producer(e2,e1) $a$")
    plot_fused_attention(attention, path=path)
    texts = [html.unescape(text) for text in re.findall(r"<text[^>]*>(.*?)</text>", path.read_text(encoding="utf-8"))]
    assert "Product-Producer(e2,e1) $a$" in texts
    for token in TOKENS:
        assert texts.count(token) == 3 * TOKENS.count(token)


@pytest.mark.parametrize("count", [1, 5, 60])
@pytest.mark.parametrize("scales", [(), (1, 2, 3), (3, 5, 7)])
def test_nothing_overlaps_at_any_length(count, scales):
    tokens = ["telecommunications", "donaudampfschifffahrtsgesellschaft"] * count
    figure = plot_fused_attention(random_attention(tokens[:count], scales, head=(0, 1), tail=(count - 1, count)))
    FigureCanvasAgg(figure).draw()
    boxes = [text.get_window_extent().shrunk(0.9, 0.8) for text in figure.axes[0].texts]
    assert len(boxes) >= count
    for number, box in enumerate(boxes):
        assert figure.bbox.containsx(box.x0) and figure.bbox.containsx(box.x1)
        assert figure.bbox.containsy(box.y0) and figure.bbox.containsy(box.y1)
        assert not any(box.overlaps(other) for other in boxes[:number])


def test_wrong_arguments(tmp_path):
    attention = random_attention()
    with pytest.raises(UserError, match=r"saved as .png or .svg"):
        plot_fused_attention(attention, path=tmp_path / "attention.jpg")
    with pytest.raises(UserError, match="top must be at least 1"):
        plot_fused_attention(attention, top=0)
    with pytest.raises(UserError, match="no token 99"):
        plot_fused_attention(attention, 99)
