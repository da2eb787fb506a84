"""The attention implementation `"banded"` is `"sdpa"`, cheaper."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from transformers import AutoModel, AutoModelForCausalLM
from transformers.masking_utils import sliding_window_bidirectional_mask_function

from msattn.modeling import attention, attention_bands, window_attention
from msattn.modeling.attention_bands import band_attention
from msattn.modeling.mask_bands import Band, decode_band
from tests.attention_contract import skip_if_older, survey, text_model, tiny_model
from tests.banded_contract import check
from tests.tiny_encoders import batch, randomized, tiny_encoder

# How each is computed.
SAMPLE = {
    "albert": "fused",
    "gemma2": "banded",  # soft cap, causal windows
    "gemma3_text": "banded",
    "gpt_oss": "banded",  # sinks
    "llama": "fused",
    "mistral": "banded",  # grouped keys
    "modernbert": "banded",
    "qwen2": "banded",
    "t5": "fused",  # position bias
}
LONG = {"max_position_embeddings": 400, "local_attention": 16, "global_attn_every_n_layers": 2}


@pytest.mark.parametrize("model_type", SAMPLE)
def test_families(model_type, monkeypatch):
    if text_model(model_type) is None:
        skip_if_older("not in this release of Transformers")
    assert check(model_type, monkeypatch) == SAMPLE[model_type]


@pytest.mark.slow
def test_every_text_model(monkeypatch):

    def answer_of(model_type):
        with monkeypatch.context() as patch:
            return check(model_type, patch)

    assert len(survey(answer_of)["banded"]) > 25


def modernbert(**changes: Any) -> torch.nn.Module:
    torch.manual_seed(0)
    return randomized(AutoModel.from_config(tiny_encoder("modernbert", **LONG, **changes)))


def long_inputs(left: bool = False, lengths=(300, 170)) -> dict[str, torch.Tensor]:
    ids = torch.randint(5, 60, (len(lengths), max(lengths)), generator=torch.Generator().manual_seed(0))
    real = torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]
    real = real.flip(-1) if left else real
    return {"input_ids": ids * real, "attention_mask": real.long()}


def results(model, implementation, inputs) -> list[torch.Tensor]:
    """The states of real tokens, and the gradient of every parameter."""
    model.set_attn_implementation(implementation)
    model.zero_grad()
    states = model(**inputs).last_hidden_state[inputs["attention_mask"].bool()]
    states.square().mean().backward()
    return [states.detach(), *(weight.grad for weight in model.parameters() if weight.grad is not None)]


@pytest.mark.parametrize("left", [False, True])
def test_states_and_gradients_are_those_of_sdpa(left):
    model, inputs = modernbert(), long_inputs(left)
    for found, expected in zip(results(model, "banded", inputs), results(model, "sdpa", inputs), strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)


def bands_of(monkeypatch) -> list[Band]:
    """The bands that are computed from now on."""
    bands: list[Band] = []
    monkeypatch.setattr(
        window_attention,
        "band_attention",
        lambda *args, **options: bands.append(args[3]) or band_attention(*args, **options),
    )
    return bands


def test_only_layers_with_a_window_are_banded(monkeypatch):
    bands = bands_of(monkeypatch)
    model = modernbert(num_hidden_layers=4)
    model.set_attn_implementation("banded")
    model(**long_inputs())
    assert bands == [Band(-8, 8)] * 2  # every second layer
    bands.clear()
    model(**batch("modernbert"))  # too short to pay
    assert not bands


def test_a_gpu_has_bands_above_1024_tokens():
    """Without a GPU: a device without numbers is not a CPU, either. Windows of `set_windows` always need a band."""
    config = modernbert().config

    def is_band(tokens: int, device: str) -> bool:
        sizes = {"batch_size": 1, "q_length": tokens, "kv_length": tokens}
        near = sliding_window_bidirectional_mask_function(8)
        mask = attention.attention_mask(mask_function=near, config=config, device=device, **sizes)
        return decode_band(mask) is not None

    assert is_band(300, "cpu") and is_band(1025, "meta")
    assert not is_band(300, "meta") and not is_band(1024, "meta")
    config.attention_windows = [[1] * 4] * 2
    assert is_band(300, "meta")


def decoder(**changes: Any) -> Any:
    torch.manual_seed(0)
    config = tiny_model("mistral", sliding_window=16, max_position_embeddings=500, **changes).config
    return randomized(AutoModelForCausalLM.from_config(config))


@pytest.mark.parametrize("left", [False, True])
def test_a_decoder_generates_the_same_after_a_long_prompt(left):
    model, answers = decoder(), []
    inputs = long_inputs(left=left) if left else long_inputs(lengths=(300, 300))
    for implementation, cache in (("sdpa", "dynamic"), ("banded", "dynamic"), ("banded", "static")):
        model.set_attn_implementation(implementation)
        answers.append(
            model.generate(
                **inputs,
                cache_implementation=cache,
                max_new_tokens=4,
                do_sample=False,
                eos_token_id=59,
                output_logits=True,
                return_dict_in_generate=True,
            )
        )
    for answer in answers[1:]:
        assert torch.equal(answer.sequences, answers[0].sequences)
        for found, expected in zip(answer.logits, answers[0].logits, strict=True):
            torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)


def test_packed_texts_and_own_masks_keep_their_mask(monkeypatch):
    seen = []
    monkeypatch.setattr(attention, "decode_band", lambda mask: seen.append(mask) or decode_band(mask))
    model = decoder().model
    ids = long_inputs(lengths=(300,))["input_ids"]
    packed = {"input_ids": ids, "position_ids": torch.cat([torch.arange(100), torch.arange(200)])[None]}
    own = {"input_ids": ids, "attention_mask": torch.rand(1, 1, 300, 300).ge(0.5).tril() | torch.eye(300).bool()}
    for inputs in (packed, own):
        states = []
        for implementation in ("sdpa", "banded"):
            model.set_attn_implementation(implementation)
            states.append(model(**inputs, use_cache=False).last_hidden_state)
        torch.testing.assert_close(*states, rtol=1e-4, atol=1e-5)
        assert seen and all(mask.dim() == 4 for mask in seen)


@pytest.mark.parametrize("narrow", [0, 4], ids=["fused", "by products"])
def test_dropout_of_a_layer_with_a_window(narrow, monkeypatch):
    monkeypatch.setattr(attention_bands, "NARROW", narrow)
    query, key = torch.zeros(2, 4, 3, 60, 8).unbind()
    torch.manual_seed(0)
    output = band_attention(query, key, torch.ones(4, 3, 60, 8), Band(-3, 1), dropout_p=0.25)
    inner = output[:, :, 3:-1, 0] * 5 * 0.75  # how many of the 5 are left
    torch.testing.assert_close(inner, inner.round())
    assert inner.mean().item() == pytest.approx(5 * 0.75, abs=0.3)


def test_gradient_checkpointing():
    model, inputs = modernbert(), long_inputs()
    plain = results(model, "banded", inputs)
    model.train()
    model.gradient_checkpointing_enable({"use_reentrant": False})
    for found, expected in zip(results(model, "banded", inputs), plain, strict=True):
        torch.testing.assert_close(found, expected)


@pytest.mark.heavy
def test_compiles_to_one_graph():
    model, inputs = modernbert(), long_inputs()
    model.set_attn_implementation("banded")
    expected = model(**inputs).last_hidden_state
    found = torch.compile(model, fullgraph=True, backend="aot_eager")(**inputs).last_hidden_state
    real = inputs["attention_mask"].bool()
    torch.testing.assert_close(found[real], expected[real], rtol=1e-4, atol=1e-5)


@pytest.mark.heavy
def test_an_exported_program_keeps_the_band(monkeypatch):
    """For every length of a named range."""
    model = modernbert().eval()
    model.set_attn_implementation("banded")
    bands = bands_of(monkeypatch)
    sentences, tokens = torch.export.Dim("sentences", max=64), torch.export.Dim("tokens", min=4, max=400)
    shapes = dict.fromkeys(("input_ids", "attention_mask"), {0: sentences, 1: tokens})
    program = torch.export.export(model, (), long_inputs(), dynamic_shapes=shapes, strict=False).module()
    assert bands == [Band(-8, 8)]
    for lengths in ((300, 170), (4,), (33, 9, 20), (400, 1)):
        inputs = long_inputs(lengths=lengths)
        real = inputs["attention_mask"].bool()
        found, expected = (call(**inputs).last_hidden_state[real] for call in (program, model))
        torch.testing.assert_close(found, expected, rtol=0, atol=1e-5)
