"""Asking for attention changes nothing, and what comes is exact, or the model is refused by name."""

from __future__ import annotations

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoModelForSeq2SeqLM, PreTrainedModel

from msattn.modeling.attention import attention_forward, select_layers
from msattn.modeling.attention_readings import read_attention
from tests.attention_contract import (
    check,
    inputs_of,
    run,
    skip_if_older,
    survey,
    text_model,
    tiny_model,
)

SAMPLE = (
    "albert",  # layers that are shared
    "bart",  # cross-attention
    "bert",
    "deberta-v2",  # an adapter, with a position bias that depends on queries and keys
    "deepseek_v3",  # values of another width
    "distilbert",
    "gemma2",  # soft cap
    "gpt2",  # does not tell its layers that attention is asked for
    "gpt_oss",  # sinks
    "inkling2_text",  # position bias, and sinks of each query
    "llama",  # grouped keys
    "modernbert",  # windows
    "mpnet",  # an adapter, with a position bias
    "nllb-moe",  # does not tell its layers that they are causal
    "t5",  # position bias
    "umt5",  # position bias of each layer
)
INDICES = "gives its attention indices, which the attention implementation"
REFUSALS = (
    INDICES,
    "returns no attention maps",
    "is outside the attention interface",
    "reads its masks",
    "adds its mask",
)


@pytest.mark.parametrize("model_type", SAMPLE)
def test_families(model_type):
    if text_model(model_type) is None:
        skip_if_older("not in this release of Transformers")
    sentence = check(model_type)
    if sentence is not None:
        assert sentence == "is outside the attention interface"
        skip_if_older(sentence)


@pytest.mark.parametrize(
    "model_type", ["albert", "bart", "distilbert", "gemma2", "gpt2", "gpt_oss", "llama", "modernbert", "t5", "umt5"]
)
def test_readings_are_what_a_model_returns(model_type):
    model = tiny_model(model_type)
    asked = run(model, "received", True)
    if model.config._attn_implementation != "received":
        skip_if_older("is outside the attention interface in this release")
    both = model.config.is_encoder_decoder
    kinds = ("encoder_attentions", "decoder_attentions") if both else ("attentions",)
    passes = [asked[kind] for kind in kinds] * 2
    model.set_attn_implementation("eager")
    with torch.no_grad(), read_attention(model) as readings:
        for _ in range(2):
            torch.testing.assert_close(model(**inputs_of(model))[0], asked[0])
    models = [module for module in model.modules() if isinstance(module, PreTrainedModel)]
    assert {module.config._attn_implementation for module in models} == {"eager"}
    places = [(forward, layer) for forward, layers in enumerate(passes) for layer in range(len(layers))]
    assert [(reading.forward, reading.layer) for reading in readings] == places
    for reading in readings:
        torch.testing.assert_close(reading["received"], passes[reading.forward][reading.layer])
        if reading.forward % len(kinds) == 0:
            assert torch.equal(reading.real, inputs_of(model)["attention_mask"].bool())


@pytest.mark.slow
def test_every_text_model():
    found = survey(check)
    assert len(found.pop(None)) > 50
    for sentence in found:
        assert any(known in sentence for known in (*REFUSALS, "not built")), sentence


@pytest.mark.parametrize("model_type", ["gpt2", "llama", "t5"])
def test_decoding_with_a_cache(model_type):
    """The sums over the new queries alone, of all keys so far."""
    model = tiny_model(model_type)
    inputs = inputs_of(model)
    prompt = {name: inputs[name].flip(-1) for name in ("input_ids", "attention_mask")}
    options = {"max_new_tokens": 3, "do_sample": False, "output_attentions": True, "return_dict_in_generate": True}
    kind = "decoder_attentions" if model.config.is_encoder_decoder else "attentions"
    auto = AutoModelForSeq2SeqLM if model.config.is_encoder_decoder else AutoModelForCausalLM
    generator = auto.from_config(model.config).eval()
    results = []
    for implementation in ("eager", "received"):
        generator.set_attn_implementation(implementation)
        results.append(generator.generate(**prompt, **options, eos_token_id=59, decoder_start_token_id=0))
    eager, received = results
    assert torch.equal(eager.sequences, received.sequences)
    for step, (sums, maps) in enumerate(zip(received[kind], eager[kind], strict=True)):
        for one, whole in zip(sums, maps, strict=True):
            rows = prompt["attention_mask"] if kind == "attentions" and not step else torch.ones(2, whole.shape[-2])
            torch.testing.assert_close(one, (whole * rows[:, None, :, None]).sum(-2), rtol=0, atol=1e-5)


def test_a_layer_that_is_left_out():
    for model_type in ("llama", "gpt2"):
        model = tiny_model(model_type)
        whole = run(model, "received", True)
        select_layers(model, [1])
        one = run(model, "received", True)
        assert one.attentions[0].shape == (2, 4, 0)
        torch.testing.assert_close(one.attentions[1], whole.attentions[1])
        select_layers(model, None)
        torch.testing.assert_close(run(model, "received", True).attentions[0], whole.attentions[0])


@pytest.mark.parametrize(
    ("model_type", "implementation", "options"),
    [
        ("bert", "received", {}),
        ("modernbert", "received", {}),
        ("gpt2", "received", {"use_cache": False}),  # does not tell its layers that attention is asked for
        ("bert", "rows", {"rows": torch.tensor([[2, 3, 8], [1, 5, -1]])}),
    ],
)
def test_checkpointing_changes_nothing(model_type, implementation, options):
    gradients = []
    for checkpointing in (False, True):
        model = tiny_model(model_type).train()
        model.set_attn_implementation(implementation)
        if checkpointing:
            model.gradient_checkpointing_enable()
        torch.manual_seed(2)
        attentions = model(**inputs_of(model), output_attentions=True, **options).attentions
        assert len(attentions) == 2
        sum(one.square().sum() for one in attentions).backward()
        gradients.append({name: weight.grad for name, weight in model.named_parameters() if weight.grad is not None})
    assert gradients[0]
    torch.testing.assert_close(*gradients)


class Sparse(torch.nn.Module):
    is_causal = False


@pytest.mark.parametrize("attentions", [False, True])
def test_unknown_arguments_are_refused_by_name(attentions):
    query = torch.randn(1, 2, 3, 4)
    options = {"output_attentions": attentions}
    with pytest.raises(ValueError, match='Sparse gives its attention block_indices, .* attn_implementation="eager"'):
        attention_forward(Sparse(), query, query, query, None, block_indices=query, **options)
    attention_forward(Sparse(), query, query, query, None, block_indices=None, use_cache=True, **options)
