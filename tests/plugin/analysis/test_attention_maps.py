"""Maps and received attention of encoders: the same alone and in a batch, in every family."""

from __future__ import annotations

import pytest
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors
from transformers import AutoModel, BertConfig, FNetConfig, FunnelConfig, FunnelModel, PreTrainedTokenizerFast

from msattn import UserError, set_windows
from msattn.analysis import attention_maps, bertviz_attention, received_maps
from tests.plugin.analysis.tiny_encoders import CONFIGS, SIZES, tiny_encoder
from tests.tiny_models import tiny_tokenizer

TEXTS = [("a cat .",), ("the author of the book wrote in a house , a dog .",), ("",), ("the unpayers wrote",)]
PAIRS = [("the dog", "a cat in the house"), ("the author wrote a book .", "a taxi")]
CLOSE = {"rtol": 1e-4, "atol": 1e-5}


@pytest.fixture(scope="module")
def tokenizer():
    return tiny_tokenizer()


@pytest.mark.parametrize("family", CONFIGS)
def test_full_maps_are_those_of_eager_attention(family, tokenizer):
    model = tiny_encoder(family)
    own = model.config._attn_implementation
    maps, tokens, start = attention_maps(model, tokenizer, "the unpayers wrote")
    assert tokens == ["[CLS]", "the", "un", "##payer", "##s", "wrote", "[SEP]"] and start is None
    assert maps.shape == (2, 4, 7, 7) and maps.dtype == torch.float32 and not maps.requires_grad
    torch.testing.assert_close(maps.sum(dim=-1), torch.ones(2, 4, 7), **CLOSE)
    assert model.config._attn_implementation == own

    eager = tiny_encoder(family)
    eager.set_attn_implementation("eager")
    ids = torch.tensor([tokenizer("the unpayers wrote")["input_ids"]])
    torch.testing.assert_close(maps, torch.cat(eager(ids, output_attentions=True).attentions), **CLOSE)


def test_maps_of_windows(tokenizer):
    model = set_windows(tiny_encoder("bert"), 1)
    maps, _, _ = attention_maps(model, tokenizer, "the unpayers wrote")
    places = torch.arange(7)
    outside = (places[:, None] - places).abs() > 1
    assert not maps[..., outside].any() and maps.sum(dim=-1).allclose(torch.ones(2, 4, 7))


@pytest.mark.parametrize("texts", [TEXTS, PAIRS])
@pytest.mark.parametrize("family", CONFIGS)
def test_received_attention_is_the_column_sums_of_each_text_alone(family, texts, tokenizer):
    model = tiny_encoder(family)
    own = model.config._attn_implementation
    expected = [attention_maps(model, tokenizer, *text).maps.sum(dim=-2) for text in texts]
    expected.sort(key=lambda maps: maps.shape[-1], reverse=True)
    found = []
    for received, real in received_maps(model, tokenizer, texts, batch_size=3):
        assert len(received) <= 3 and not received.requires_grad
        assert not received[~real[:, None, None].expand_as(received)].any()
        found += [sample[..., mask] for sample, mask in zip(received, real, strict=True)]
    assert model.config._attn_implementation == own
    assert len(found) == len(texts)
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other, **CLOSE)


def test_no_matrix_is_held_where_the_model_can_do_without(tokenizer, monkeypatch):
    def refuse(*args, **kwargs):
        raise AssertionError("eager attention")

    monkeypatch.setattr("transformers.models.bert.modeling_bert.eager_attention_forward", refuse)
    for implementation in ("sdpa", "eager"):
        model = tiny_encoder()
        model.set_attn_implementation(implementation)
        next(received_maps(model, tokenizer, TEXTS))


def test_dropout_is_off_and_the_mode_comes_back(tokenizer):
    model = tiny_encoder(attention_probs_dropout_prob=0.5, hidden_dropout_prob=0.5).train()
    one, other = (attention_maps(model, tokenizer, *TEXTS[0]).maps for _ in range(2))
    assert torch.equal(one, other) and model.training
    torch.testing.assert_close(next(received_maps(model, tokenizer, TEXTS[:1]))[0][0], one.sum(dim=-2), **CLOSE)
    assert model.training


def test_half_precision_is_summed_in_single(tokenizer):
    model = tiny_encoder("deberta").bfloat16()
    received, real = next(received_maps(model, tokenizer, TEXTS))
    assert received.dtype == torch.float32
    sums = received.sum(dim=-1) / real.sum(dim=-1)[:, None, None]
    torch.testing.assert_close(sums, torch.ones_like(sums), rtol=0, atol=0.02)


def test_long_texts_are_cut(tokenizer):
    model = tiny_encoder(max_position_embeddings=16)
    assert len(attention_maps(model, tokenizer, "a cat " * 50).tokens) == 16
    assert next(received_maps(model, tokenizer, [("a cat " * 50,)]))[0].shape[-1] == 16


def test_the_form_of_bertviz(tokenizer):
    model = tiny_encoder()
    attention, tokens, start = bertviz_attention(model, tokenizer, "a cat .", "the dog")
    assert tokens == ["[CLS]", "a", "cat", ".", "[SEP]", "the", "dog", "[SEP]"] and start == 5
    assert isinstance(attention, tuple) and [tuple(layer.shape) for layer in attention] == [(1, 4, 8, 8)] * 2
    assert torch.equal(torch.cat(attention), attention_maps(model, tokenizer, "a cat .", "the dog").maps)
    assert len(bertviz_attention(model, tokenizer, "a cat .")) == 2


def test_tokens_of_bytes_are_readable():
    vocabulary = ["<s>", "<pad>", "</s>", "a", "Ġ", "b", "Ġb", "Ã", "¼", "Ã¼"]
    backend = Tokenizer(models.BPE({token: i for i, token in enumerate(vocabulary)}, [("Ġ", "b"), ("Ã", "¼")]))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    backend.post_processor = processors.TemplateProcessing("<s> $A </s>", None, [("<s>", 0), ("</s>", 2)])
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=backend, bos_token="<s>", eos_token="</s>", pad_token="<pad>", model_max_length=64
    )
    assert attention_maps(tiny_encoder("roberta"), tokenizer, "a bü  b").tokens == [
        *("<s>", "a", "b", "ü", "Ġ", "b", "</s>")
    ]


def test_models_without_maps(tokenizer):
    sizes = {name: SIZES[name] for name in ("vocab_size", "hidden_size", "num_hidden_layers", "intermediate_size")}
    model = AutoModel.from_config(FNetConfig(**sizes))
    for call in (lambda: attention_maps(model, tokenizer, "a"), lambda: next(received_maps(model, tokenizer, TEXTS))):
        with pytest.raises(UserError, match="FNetModel returns no attentions"):
            call()
    funnel = FunnelConfig(vocab_size=40, d_model=16, n_head=2, d_head=8, d_inner=16, block_sizes=[1, 1])
    with pytest.raises(UserError, match="FunnelModel has attentions of shape .*: no maps"):
        attention_maps(FunnelModel(funnel), tokenizer, *TEXTS[1])
    decoder = AutoModel.from_config(BertConfig(**SIZES))
    decoder.forward = lambda input_ids: None
    with pytest.raises(UserError, match="BertModel returns no attentions"):
        attention_maps(decoder, tokenizer, "a")
