"""The page: one file, harmless whatever the sentence, with the weights as they are."""

from __future__ import annotations

import json
import re

import numpy as np
import torch

from msattn.analysis import FusedAttention, fused_attention_html

TOKENS = ["[CLS]", "</script><script>alert(1)</script>", "<!--", "a & b", "{{data}}", "naïve", "\u2028", "[SEP]"]


def page_of(tmp_path, **arguments) -> tuple[FusedAttention, str]:
    torch.manual_seed(0)
    output = torch.randn(1, len(TOKENS), 3 * len(TOKENS)).softmax(dim=-1)
    attention = FusedAttention.from_output(output, TOKENS, (3, 5), "same", **arguments)
    fused_attention_html(attention, tmp_path / "attention.html")
    return attention, (tmp_path / "attention.html").read_text(encoding="utf-8")


def test_data_are_the_attention(tmp_path):
    attention, page = page_of(tmp_path, head=(1, 2), tail=(3, 5))
    (data,) = json.loads(re.search(r'<script type="application/json" id="examples">(.*?)</script>', page, re.S)[1])
    assert data["tokens"] == TOKENS
    assert data["entities"] == [[1, 2], [3, 5]]
    np.testing.assert_allclose(data["words"], attention.words, atol=5e-7)
    for (scale, weights), lane in zip(attention.phrases.items(), data["scales"], strict=True):
        assert lane["scale"] == scale
        np.testing.assert_allclose(lane["weights"], weights, atol=5e-7)
        assert lane["spans"] == [list(attention.phrase(scale, position)) for position in range(len(TOKENS))]


def test_tokens_and_label_are_text_only(tmp_path):
    _, page = page_of(tmp_path, label="<img src=x onerror=alert(1)>")
    assert page.count("<script") == page.count("</script") == 2
    assert "<img" not in page
    assert "<title>&lt;img src=x" in page
    assert "<!--" not in page
    assert "innerHTML" not in page


def test_nothing_is_loaded(tmp_path):
    _, page = page_of(tmp_path)
    assert "default-src 'none'" in page
    assert not re.search(r"https?://|\bsrc\s*=|<link|@import|url\(", page)
