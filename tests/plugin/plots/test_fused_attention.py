"""Fused attention: from a model to words and phrases, and to a picture and a page of them."""

from __future__ import annotations

import html
import json
import re

import numpy as np
import pytest
import torch

from msattn import BertForMultiScaleSequenceClassification, MultiScaleBertConfig, MultiScaleBertModel, UserError
from msattn.plots import FusedAttention, fused_attention_html, plot_fused_attention
from msattn.plots.fused_picture import QUERY, ROW
from tests.tiny_models import tiny_relation_extractor, tiny_tokenizer

TOKENS = "[CLS] the [E1] Bern ##oulli [/E1] sold $ 5 & $ 6 < <b> [E2] maps [/E2] [SEP]".split()
EVIL = ["[CLS]", "</script><script>alert(1)</script>", "<!--", "a & b", "{{data}}", "naïve", "\u2028", "[SEP]"]


def random_attention(tokens=TOKENS, scales=(3, 5), **fields) -> FusedAttention:
    parts = np.random.default_rng(0).dirichlet(np.ones((1 + len(scales)) * len(tokens)), len(tokens))
    words, *phrases = np.split(parts, 1 + len(scales), axis=1)
    return FusedAttention(list(tokens), words, dict(zip(scales, phrases, strict=True)), **fields)


@pytest.mark.parametrize("alignment", ["causal", "same"])
@pytest.mark.parametrize("scale", [1, 2, 3, 4, 5])
def test_a_phrase_covers_the_tokens_that_its_convolution_sees(alignment, scale):
    """Whichever inputs change the output of the model's own convolution."""
    tokens = 7
    sizes = {"hidden_size": 8, "num_attention_heads": 2, "num_hidden_layers": 1, "intermediate_size": 8}
    model = MultiScaleBertModel(MultiScaleBertConfig(**sizes, vocab_size=9, scales=[scale], conv_alignment=alignment))
    layer, phrases = model.fusion[0], []
    torch.nn.init.ones_(layer.convs[0].weight)
    layer.convs[0].register_forward_hook(lambda module, inputs, output: phrases.append(output[0].any(0)))
    for token in range(tokens):
        layer(torch.zeros(1, tokens, 8).index_fill(1, torch.tensor([token]), 1.0))
    attention = random_attention(["a"] * tokens, [scale], alignment=alignment)
    for position in range(tokens):
        start, end = attention.phrase(scale, position)
        assert [token for token in range(tokens) if phrases[token][position]] == list(range(start, end))


@pytest.mark.parametrize(
    ("query", "positions"), [(3, [3]), ("MAPS", [15]), ("bernoulli", [3, 4]), (["sold", 0, "sold"], [6, 0])]
)
def test_queries(query, positions):
    assert random_attention().positions(query) == positions
    assert random_attention().positions() == list(range(len(TOKENS)))
    assert random_attention(head=(14, 17), tail=(2, 6)).positions() == [14, 2]


@pytest.mark.parametrize("query", [99, -1, "house"])
def test_unknown_queries(query):
    with pytest.raises(UserError, match=r"tokens 0 to 17|no word 'house'.*bernoulli|no word 'house'.*Bernoulli"):
        random_attention().positions(query)


def test_relation_extractor():
    model, tokenizer = tiny_relation_extractor(scales=(3, 5), conv_alignment="same", fusion_heads=2, fusion_layers=2)
    model.train()
    attention = FusedAttention.from_model(model, tokenizer, "the author wrote a book", head=(17, 23), tail=(4, 10))
    expected = "[CLS] the [E2] author [/E2] wrote [E1] a book [/E1] [SEP]"
    assert " ".join(attention.tokens) == expected
    assert (attention.head, attention.tail) == ((6, 10), (2, 5))
    assert attention.label in model.config.id2label.values()
    assert attention.alignment == "same" and list(attention.phrases) == [3, 5]
    assert model.training

    model.eval()
    ids = tokenizer.convert_tokens_to_ids(expected.split())
    outputs = model(torch.tensor([ids]), entity_starts=torch.tensor([[6, 2]]), output_attentions=True)
    weights = np.concatenate([attention.words, *attention.phrases.values()], axis=1)
    np.testing.assert_allclose(weights, outputs.fusion_attentions[-1][0].mean(0).detach(), atol=1e-6)


def test_sentence_classifier_and_headless_model():
    relation_extractor, tokenizer = tiny_relation_extractor(problem_type="multi_label_classification")
    for model_class in (BertForMultiScaleSequenceClassification, MultiScaleBertModel):
        attention = FusedAttention.from_model(model_class(relation_extractor.config), tokenizer, "the book " * 60)
        assert (len(attention.tokens), attention.label, attention.entities) == (64, None, [])


def test_inputs_that_the_model_cannot_read():
    model, tokenizer = tiny_relation_extractor()
    with pytest.raises(UserError, match="which two entities"):
        FusedAttention.from_model(model, tokenizer, "the book")
    with pytest.raises(UserError, match="fit into 64 tokens"):
        FusedAttention.from_model(model, tokenizer, "the book " * 60, head=(0, 3), tail=(500, 503))
    with pytest.raises(UserError, match="no fusion layer"):
        FusedAttention.from_model(tiny_relation_extractor(fusion_layers=0)[0], tiny_tokenizer(), "the book")
    with pytest.raises(UserError, match=r"weights of 2 tokens cannot have the shape \(3, 3\)"):
        FusedAttention(["a", "b"], np.ones((3, 3)), {})


def lines(figure) -> dict:
    """The line of each query, scale (0: words) and position."""
    gids = {patch: patch.get_gid() for patch in figure.axes[0].patches if patch.get_gid()}
    return {tuple(map(int, gid.split("-")[1:])): patch for patch, gid in gids.items()}


def weight(attention, query, scale, position) -> float:
    return (attention.phrases[scale] if scale else attention.words)[query, position]


def test_more_attention_is_a_darker_thicker_line_on_top():
    attention = random_attention()
    drawn = lines(plot_fused_attention(attention, [2, 14], top=100))
    for words in (True, False):
        ordered = sorted((weight(attention, *link), patch) for link, patch in drawn.items() if (link[1] == 0) == words)
        for (_, pale), (_, dark) in zip(ordered, ordered[1:], strict=False):
            assert pale.get_linewidth() < dark.get_linewidth()
            assert pale.get_zorder() < dark.get_zorder()
            assert sum(pale.get_edgecolor()[:3]) >= sum(dark.get_edgecolor()[:3])


def test_top_keeps_the_strongest_of_each_query_that_can_be_seen():
    attention = random_attention()
    drawn = lines(plot_fused_attention(attention, [2, 14], top=4))
    for query in (2, 14):
        kept = [weight(attention, *link) for link in drawn if link[0] == query]
        every = np.concatenate([attention.words[query], *(rows[query] for rows in attention.phrases.values())])
        np.testing.assert_array_equal(sorted(kept), np.sort(every)[-4:])
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
    first = min(text.get_position()[1] for text in figure.axes[0].texts if text.get_text() == "[CLS]")
    for (query, scale, position), patch in lines(figure).items():
        vertices = patch.get_path().vertices
        rows = (vertices[:, 1] - first) / ROW
        start, end = attention.phrase(scale, position) if scale else (position, position + 1)
        assert rows[0] == pytest.approx(query) and rows[-1] == pytest.approx((start + end - 1) / 2)
        assert (vertices[-1, 0] < QUERY) == bool(scale)


def test_svg_holds_every_token_as_text(tmp_path):
    path = tmp_path / "attention.svg"
    attention = random_attention(head=(2, 6), tail=(14, 17), label="Product-Producer(e2,e1) $a$")
    plot_fused_attention(attention, path=path)
    texts = [html.unescape(text) for text in re.findall(r"<text[^>]*>(.*?)</text>", path.read_text(encoding="utf-8"))]
    assert "Product-Producer(e2,e1) $a$" in texts
    assert all(texts.count(token) == 3 * TOKENS.count(token) for token in TOKENS)


@pytest.mark.parametrize("count", [1, 5, 60])
@pytest.mark.parametrize("scales", [(), (3, 5, 7)])
def test_nothing_overlaps_at_any_length(count, scales):
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    tokens = ["telecommunications", "donaudampfschifffahrtsgesellschaft"] * count
    figure = plot_fused_attention(random_attention(tokens[:count], scales, head=(0, 1), tail=(count - 1, count)))
    FigureCanvasAgg(figure).draw()
    boxes = [text.get_window_extent().shrunk(0.9, 0.8) for text in figure.axes[0].texts]
    for number, box in enumerate(boxes):
        assert figure.bbox.containsx(box.x0) and figure.bbox.containsx(box.x1)
        assert figure.bbox.containsy(box.y0) and figure.bbox.containsy(box.y1)
        assert not any(box.overlaps(other) for other in boxes[:number])


def test_the_page_is_the_attention_and_harmless(tmp_path):
    attention = random_attention(
        EVIL, alignment="same", head=(1, 2), tail=(3, 5), label="<img src=x onerror=alert(1)>"
    )
    page = fused_attention_html(attention, tmp_path / "attention.html")
    assert (tmp_path / "attention.html").read_text(encoding="utf-8") == page
    (data,) = json.loads(re.search(r'<script type="application/json" id="examples">(.*?)</script>', page, re.S)[1])
    assert data["tokens"] == EVIL and data["entities"] == [[1, 2], [3, 5]]
    np.testing.assert_allclose(data["words"], attention.words, atol=5e-7)
    for (scale, weights), lane in zip(attention.phrases.items(), data["scales"], strict=True):
        assert lane["scale"] == scale
        np.testing.assert_allclose(lane["weights"], weights, atol=5e-7)
        assert lane["spans"] == [list(attention.phrase(scale, position)) for position in range(len(EVIL))]
    assert page.count("<script") == page.count("</script") == 2
    assert "<img" not in page and "<title>&lt;img src=x" in page and "<!--" not in page and "innerHTML" not in page
    assert "default-src 'none'" in page
    assert not re.search(r"https?://|\bsrc\s*=[\"']|<link|@import|url\(", page)
