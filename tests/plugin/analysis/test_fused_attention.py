"""The attention of a sentence: from a model's output to words and phrases."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from transformers import pipeline

from msattn import BertForMultiScaleSequenceClassification, MultiScaleBertConfig, MultiScaleBertModel, UserError
from msattn.analysis import FusedAttention
from tests.tiny_models import tiny_relation_extractor, tiny_tokenizer

TOKENS = ["[CLS]", "un", "##s", "##payer", "wrote", "a", "book", "[SEP]"]


def test_heads_are_averaged_and_columns_are_words_then_scales():
    output = torch.rand(2, 8, 24)
    attention = FusedAttention.from_output(output, TOKENS, (3, 5))
    mean = output.double().mean(0).numpy()
    np.testing.assert_allclose(attention.words, mean[:, :8])
    assert list(attention.phrases) == [3, 5]
    np.testing.assert_allclose(attention.phrases[3], mean[:, 8:16])
    np.testing.assert_allclose(attention.phrases[5], mean[:, 16:])


def test_what_the_pipeline_returns_can_be_drawn():
    model, tokenizer = tiny_relation_extractor()
    text, head, tail = "The author of a book .", (4, 10), (16, 20)
    extractor = pipeline("relation-extraction", model=model, tokenizer=tokenizer)
    result = extractor({"text": text, "head": head, "tail": tail}, output_attentions=True)
    found = FusedAttention.from_output(result["fusion_attentions"][-1], result["tokens"], model.config.scales)
    expected = FusedAttention.from_model(model, tokenizer, text, head, tail)
    assert found.tokens == expected.tokens
    np.testing.assert_allclose(found.words, expected.words, atol=1e-6)


@pytest.mark.parametrize("alignment", ["causal", "same"])
@pytest.mark.parametrize("scale", [1, 2, 3, 4, 5])
def test_a_phrase_covers_the_tokens_that_its_convolution_sees(alignment, scale):
    """Whichever inputs change the output of the model's own convolution."""
    tokens = 7
    model = MultiScaleBertModel(
        MultiScaleBertConfig(
            hidden_size=8,
            num_attention_heads=2,
            num_hidden_layers=1,
            intermediate_size=8,
            vocab_size=9,
            scales=[scale],
            conv_alignment=alignment,
        )
    )
    layer, phrases = model.fusion[0], []
    torch.nn.init.ones_(layer.convs[0].weight)
    layer.convs[0].register_forward_hook(lambda module, inputs, output: phrases.append(output[0].any(0)))
    attention = FusedAttention.from_output(torch.ones(1, tokens, 2 * tokens), ["a"] * tokens, [scale], alignment)
    for token in range(tokens):
        layer(torch.zeros(1, tokens, 8).index_fill(1, torch.tensor([token]), 1.0))
    for position in range(tokens):
        start, end = attention.phrase(scale, position)
        assert [token for token in range(tokens) if phrases[token][position]] == list(range(start, end))


@pytest.mark.parametrize(
    ("query", "positions"),
    [(3, [3]), ("BOOK", [6]), ("unspayer", [1, 2, 3]), (["wrote", 0, "wrote"], [4, 0]), (None, list(range(8)))],
)
def test_queries(query, positions):
    assert FusedAttention.from_output(torch.rand(1, 8, 8), TOKENS, ()).positions(query) == positions


def test_entities_are_the_default_query():
    attention = FusedAttention.from_output(torch.rand(1, 8, 8), TOKENS, (), head=(6, 7), tail=(1, 4))
    assert attention.positions() == [6, 1]


@pytest.mark.parametrize(
    ("query", "message"), [(8, "tokens 0 to 7"), (-1, "tokens 0 to 7"), ("house", "no word 'house'.*unspayer wrote")]
)
def test_unknown_queries(query, message):
    with pytest.raises(UserError, match=message):
        FusedAttention.from_output(torch.rand(1, 8, 8), TOKENS, ()).positions(query)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"attentions": torch.rand(8, 16)}, r"must have the shape \(heads, 8, 16\), not \(8, 16\)"),
        ({"scales": (3, 5)}, r"8 tokens with 2 scales must have the shape \(heads, 8, 24\), not \(1, 8, 16\)"),
        ({"alignment": "left"}, 'alignment must be "causal" or "same"'),
        ({"head": (7, 9)}, r"within the 8 tokens, not \[7, 9\]"),
        ({"attentions": torch.full((1, 8, 16), torch.nan)}, "finite"),
        ({"tokens": [], "attentions": torch.zeros(1, 0, 0)}, "no token"),
    ],
)
def test_arguments_that_do_not_fit(changes, message):
    arguments = {"attentions": torch.rand(1, 8, 16), "tokens": TOKENS, "scales": (3,), **changes}
    with pytest.raises(UserError, match=message):
        FusedAttention.from_output(**arguments)


def test_relation_extractor():
    model, tokenizer = tiny_relation_extractor(scales=(3, 5), conv_alignment="same", fusion_heads=2, fusion_layers=2)
    model.train()
    text = "the author wrote a book"
    attention = FusedAttention.from_model(model, tokenizer, text, head=(17, 23), tail=(4, 10))
    expected = "[CLS] the [E2] author [/E2] wrote [E1] a book [/E1] [SEP]"
    assert " ".join(attention.tokens) == expected
    assert (attention.head, attention.tail) == ((6, 10), (2, 5))
    assert attention.label in model.config.id2label.values()
    assert attention.alignment == "same"
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
        assert len(attention.tokens) == 64
        assert attention.label is None
        assert attention.entities == []


def test_inputs_that_the_model_cannot_read():
    model, tokenizer = tiny_relation_extractor()
    with pytest.raises(UserError, match="which two entities"):
        FusedAttention.from_model(model, tokenizer, "the book")
    with pytest.raises(UserError, match="head and tail, or neither"):
        FusedAttention.from_model(model, tokenizer, "the book", head=(0, 3))
    with pytest.raises(UserError, match="fit into 64 tokens"):
        FusedAttention.from_model(model, tokenizer, "the book " * 60, head=(0, 3), tail=(500, 503))
    with pytest.raises(UserError, match="no fusion layer"):
        FusedAttention.from_model(tiny_relation_extractor(fusion_layers=0)[0], tiny_tokenizer(), "the book")
