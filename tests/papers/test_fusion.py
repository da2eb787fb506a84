"""The picture of fused attention."""

from __future__ import annotations

import html
import re

import pytest
from attention_picture import QUERY, ROW, main, plot

from tests.plugin.plots.test_fused_attention import TOKENS, random_attention
from tests.tiny_models import tiny_relation_extractor


@pytest.mark.parametrize("alignment", ["causal", "same"])
def test_lines_end_at_what_is_attended(alignment):
    """A word's line at the word; a phrase's in the middle of the words that it covers, on the other side."""
    attention = random_attention(alignment=alignment)
    figure = plot(attention)
    first = min(text.get_position()[1] for text in figure.axes[0].texts if text.get_text() == "[CLS]")
    lines = [patch for patch in figure.axes[0].patches if patch.get_gid()]
    assert len(lines) == 2 * len(TOKENS)
    for patch in lines:
        query, scale, position = map(int, patch.get_gid().split("-")[1:])
        vertices = patch.get_path().vertices
        rows = (vertices[:, 1] - first) / ROW
        start, end = attention.phrase(scale, position) if scale else (position, position + 1)
        assert rows[0] == pytest.approx(query) and rows[-1] == pytest.approx((start + end - 1) / 2)
        assert (vertices[-1, 0] < QUERY) == bool(scale)


def test_every_token_is_a_text(tmp_path):
    path = tmp_path / "attention.svg"
    plot(random_attention(head=(2, 6), tail=(14, 17), label="Product-Producer(e2,e1) $a$"), path)
    texts = [html.unescape(text) for text in re.findall(r"<text[^>]*>(.*?)</text>", path.read_text(encoding="utf-8"))]
    assert "Product-Producer(e2,e1) $a$" in texts
    assert all(texts.count(token) == 3 * TOKENS.count(token) for token in TOKENS)


def test_a_sentence_of_a_model(tmp_path):
    model, tokenizer = tiny_relation_extractor(scales=[3, 5])
    for part in (model, tokenizer):
        part.save_pretrained(tmp_path / "model")
    text = "the <e1>author</e1> wrote a <e2>book</e2> ."
    main(["--model", str(tmp_path / "model"), "--text", text, "--output", str(tmp_path / "a.png")])
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")
