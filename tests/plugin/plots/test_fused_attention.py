"""Fused attention: from a model to words and phrases, and to a picture and a page of them."""

from __future__ import annotations

import json
import re
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from transformers import pipeline

from msattn import BertForMultiScaleSequenceClassification, MultiScaleBertConfig, MultiScaleBertModel, UserError
from msattn.plots import FusedAttention, fused_attention_html
from tests.tiny_models import labelled, tiny_relation_extractor, tiny_tokenizer
from tests.tiny_tokenizers import tiny_tokenizer_of

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


@pytest.mark.parametrize(
    ("threshold", "own", "answer"), [(0.2, {}, 1), (0.9, {}, 0), (0.2, {"b": 0.9}, 0), (None, {}, 0)]
)
def test_the_label_is_that_of_the_pipeline(threshold, own, answer):
    fields = {"decision_threshold": threshold, "relation_thresholds": own, "negative_label": "a"}
    model, tokenizer = tiny_relation_extractor(calibration_temperature=2.0, **fields, **labelled("a", "b"))
    model.classifier.weight.data.zero_()
    model.classifier.bias.data = torch.tensor([1.0, 0.0])  # 0.62 and 0.38
    attention = FusedAttention.from_model(model, tokenizer, "the author wrote a book", head=(4, 10), tail=(17, 23))
    assert attention.label == "ab"[answer]
    text = "the <e1>author</e1> wrote <e2>a book</e2>"
    found = pipeline("relation-extraction", model=model, tokenizer=tokenizer)(text)
    assert found["label"] == attention.label


def test_sentence_classifier_and_headless_model():
    relation_extractor, tokenizer = tiny_relation_extractor(problem_type="multi_label_classification")
    for model_class in (BertForMultiScaleSequenceClassification, MultiScaleBertModel):
        attention = FusedAttention.from_model(model_class(relation_extractor.config), tokenizer, "the book " * 60)
        assert (len(attention.tokens), attention.label, attention.entities) == (64, None, [])


def test_tokens_of_bytes_are_readable():
    tokenizer = tiny_tokenizer_of("byte level")
    relation_extractor, _ = tiny_relation_extractor(vocab_size=len(tokenizer))
    attention = FusedAttention.from_model(MultiScaleBertModel(relation_extractor.config), tokenizer, "a large café")
    assert "".join(attention.tokens) == "<s>alargecafé</s>"


def test_inputs_that_the_model_cannot_read():
    model, tokenizer = tiny_relation_extractor()
    with pytest.raises(UserError, match="which two entities"):
        FusedAttention.from_model(model, tokenizer, "the book")
    with pytest.raises(UserError, match="fit into 64 tokens"):
        FusedAttention.from_model(model, tokenizer, "the book " * 60, head=(0, 3), tail=(500, 503))
    with pytest.raises(UserError, match="An exported model gives no attention"):
        FusedAttention.from_model(SimpleNamespace(config=model.config), tokenizer, "the book")
    with pytest.raises(UserError, match="no fusion layer"):
        FusedAttention.from_model(tiny_relation_extractor(fusion_layers=0)[0], tiny_tokenizer(), "the book")


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
