"""Windows of attention heads: what they hide, that they are kept, and that nothing ignores them."""

from __future__ import annotations

import json
import pickle
from copy import deepcopy

import pytest
import torch
from accelerate.hooks import ModelHook, add_hook_to_module
from transformers import (
    AutoModel,
    AutoModelForCausalLM,
    AutoModelForSequenceClassification,
    DebertaConfig,
    T5EncoderModel,
)

from msattn import (
    MultiScaleModel,
    PairwiseParser,
    read_attention,
    set_windows,
)
from msattn.modeling.attention_call import AttentionRefused
from tests.attention_contract import tiny_model
from tests.banded_contract import bands_everywhere
from tests.tiny_encoders import randomized, tiny_encoder

# By layer and head: a group of two heads, and heads without a window.
WINDOWS = [[1, 1, 3, None], [0, 2, None, 2]]
SPECIAL = (7, 31)
LENGTHS = (30, 13)
FAMILIES = ["bert", "distilbert", "modernbert", "llama", "t5"]


@pytest.fixture(autouse=True)
def all_bands(monkeypatch):
    bands_everywhere(monkeypatch)


def inputs_of(left: bool = False) -> dict[str, torch.Tensor]:
    """Special tokens at the ends and in the middle, more in one text than in the other."""
    ids = torch.randint(8, 30, (2, max(LENGTHS)), generator=torch.Generator().manual_seed(0))
    real = torch.arange(max(LENGTHS)) < torch.tensor(LENGTHS)[:, None]
    ids[:, 0] = ids[0, 20] = SPECIAL[0]
    ids[0, -1] = ids[1, LENGTHS[1] - 1] = SPECIAL[1]
    ids = ids * real
    return {"input_ids": ids.flip(-1) if left else ids, "attention_mask": (real.flip(-1) if left else real).long()}


def model_of(family: str, **changes) -> torch.nn.Module:
    config = tiny_encoder(family, **changes)
    return randomized(T5EncoderModel(config) if family == "t5" else AutoModel.from_config(config))


def visible_by_definition(inputs, row, special=SPECIAL, causal=False, native=None) -> torch.Tensor:
    """Which token sees which, pair by pair: `(batch, heads, tokens, tokens)`."""
    ids, real = inputs["input_ids"], inputs["attention_mask"].bool()
    texts, tokens = ids.shape
    seen = torch.zeros(texts, len(row), tokens, tokens, dtype=torch.bool)
    for text in range(texts):
        for head, window in enumerate(row):
            for i in range(tokens):
                for j in range(tokens):
                    near = window is None or abs(i - j) <= window
                    between = int(ids[text, i]) in special or int(ids[text, j]) in special
                    own = (native is None or abs(i - j) <= native) and (not causal or j <= i)
                    seen[text, head, i, j] = real[text, j] and own and (near or between)
    return seen


def states(model, inputs, **options) -> torch.Tensor:
    return model(**inputs, **options).last_hidden_state[inputs["attention_mask"].bool()]


@pytest.mark.parametrize("left", [False, True])
@pytest.mark.parametrize("family", ["bert", "llama"])
def test_a_window_is_its_mask(family, left):
    """The same model under a mask of its own, in four dimensions."""
    row, inputs = [1, 1, 4, None], inputs_of(left)
    mask = visible_by_definition(inputs, row, causal=family == "llama")
    model = model_of(family, attn_implementation="sdpa")
    places = inputs["attention_mask"].cumsum(dim=1).sub(1).clamp_min(0)
    options = {"position_ids": places, "use_cache": False} if family == "llama" else {}
    expected = model(input_ids=inputs["input_ids"], attention_mask=mask, **options).last_hidden_state
    windowed = states(set_windows(model, [row, row], SPECIAL), inputs, **options)
    torch.testing.assert_close(windowed, expected[inputs["attention_mask"].bool()], rtol=1e-4, atol=1e-5)
    assert not torch.allclose(windowed, states(set_windows(model, None), inputs, **options), atol=1e-3)


@pytest.mark.parametrize("special", [(), SPECIAL])
@pytest.mark.parametrize("family", FAMILIES)
def test_all_implementations_see_the_same(family, special):
    """In the banded way, under masks, and in maps; states and gradients."""
    model = set_windows(model_of(family), WINDOWS, special)
    found = []
    for implementation, asked in (("msattn", False), ("msattn", True), ("received", True), ("banded", False)):
        model.set_attn_implementation(implementation)
        model.zero_grad()
        options = {"use_cache": False} if family == "llama" else {}
        output = states(model, inputs_of(), output_attentions=asked, **options)
        output.square().mean().backward()
        gradient = [weight.grad for weight in model.parameters() if weight.grad is not None]
        found.append([output.detach(), *gradient])
    for other in found[1:]:
        for one, first in zip(other, found[0], strict=True):
            torch.testing.assert_close(one, first, rtol=1e-4, atol=1e-5)


def test_layers_have_their_own_windows():
    """Of native windows and ours, the narrower counts; special tokens are not beyond native ones."""
    model, inputs = set_windows(model_of("modernbert"), WINDOWS, SPECIAL), inputs_of()
    model.set_attn_implementation("words")  # returns whole maps
    maps = model(**inputs, output_attentions=True).attentions
    for layer, row in enumerate(WINDOWS):
        native = model.config.sliding_window if model.config.layer_types[layer] == "sliding_attention" else None
        seen = visible_by_definition(inputs, row, native=native)
        real = inputs["attention_mask"].bool()[:, None, :, None]
        assert torch.equal((maps[layer] > 0) & real, seen & real)


def test_readings_are_those_of_the_windows():
    model, inputs = set_windows(model_of("bert"), WINDOWS, SPECIAL), inputs_of()
    model.set_attn_implementation("words")
    maps = model(**inputs, output_attentions=True).attentions
    model.set_attn_implementation("banded")
    with read_attention(model) as readings:
        model(**inputs)
    for reading, whole in zip(readings, maps, strict=True):
        expected = (whole * inputs["attention_mask"][:, None, :, None]).sum(dim=-2)
        torch.testing.assert_close(reading["received"], expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("family", ["distilbert", "t5"])  # the latter copies its configuration
def test_windows_are_saved_and_loaded(family, tmp_path):
    model = set_windows(model_of(family), WINDOWS, SPECIAL)
    expected = states(model, inputs_of())
    for folder in ("first", "second"):
        model.save_pretrained(tmp_path / folder)
        model = type(model).from_pretrained(tmp_path / folder)
        assert model.config._attn_implementation == "banded" and model.config.attention_windows == WINDOWS
        torch.testing.assert_close(states(model, inputs_of()), expected)
        # Where msattn is not installed, Transformers refuses an implementation that it does not know.
        assert json.loads((tmp_path / folder / "config.json").read_text())["attn_implementation"] == "banded"
    model = type(model).from_pretrained(tmp_path / "first", attn_implementation="sdpa")
    torch.testing.assert_close(states(model, inputs_of()), expected)


def test_a_classifier_loads_windows_of_a_model(tmp_path):
    model = set_windows(model_of("distilbert"), WINDOWS, SPECIAL)
    model.save_pretrained(tmp_path)
    loaded = AutoModelForSequenceClassification.from_pretrained(tmp_path, attn_implementation="received")
    expected = states(model, inputs_of())
    torch.testing.assert_close(states(loaded.base_model, inputs_of()), expected, rtol=1e-4, atol=1e-5)


def test_nothing_ignores_windows():
    model = set_windows(model_of("bert"), 2, SPECIAL)
    built = AutoModel.from_config(model.config, attn_implementation="sdpa")
    assert built.config._attn_implementation == "banded"
    for name in ("eager", "sdpa"):
        model.set_attn_implementation(name)
        with pytest.raises(
            AttentionRefused, match=f"has attention windows, which attn_implementation='{name}' would ignore"
        ):
            model(**inputs_of())
    set_windows(model, None).set_attn_implementation("sdpa")
    model(**inputs_of())
    assert model.config.attention_windows is None
    assert not hasattr(model.config, "attention_windows_special_token_ids")


def test_a_model_with_hooks_of_accelerate():
    """`device_map` gives a model a `forward` of its own, behind which windows were once ignored under "sdpa"."""
    model = model_of("bert")
    expected = states(set_windows(deepcopy(model), WINDOWS, SPECIAL), inputs_of())
    set_windows(add_hook_to_module(model, ModelHook()), WINDOWS, SPECIAL)
    torch.testing.assert_close(states(model, inputs_of()), expected)
    copied = deepcopy(model)
    for weights in copied.parameters():
        weights.data.zero_()
    assert not states(copied, inputs_of()).equal(expected)  # it runs its own layers
    model.set_attn_implementation("sdpa")
    with pytest.raises(AttentionRefused, match="has attention windows"):
        model(**inputs_of())


def test_a_replica_of_data_parallel_runs_its_own_layers():
    model = set_windows(model_of("bert"), WINDOWS, SPECIAL)
    expected = states(model, inputs_of())
    replica = model._replicate_for_data_parallel()
    assert states(replica, inputs_of()).equal(expected)
    replica.encoder = deepcopy(model.encoder)
    for weights in replica.encoder.parameters():
        weights.data.zero_()
    assert not states(replica, inputs_of()).equal(expected)
    assert states(model, inputs_of()).equal(expected)


@pytest.mark.parametrize("family", ["bert", "mpnet"])
def test_a_pickled_model_keeps_its_windows(family):
    model = set_windows(model_of(family), WINDOWS, SPECIAL)
    read = pickle.loads(pickle.dumps(AutoModel.from_config(model.config)))
    read.load_state_dict(model.state_dict())
    assert torch.equal(states(read.eval(), inputs_of()), states(model, inputs_of()))
    read.set_attn_implementation("eager")
    with pytest.raises(AttentionRefused, match="has attention windows"):
        read(**inputs_of())


def test_a_classifier_and_a_shared_layer():
    """Windows go to the model that has the layers; ALBERT has one layer, used twice."""
    model = randomized(AutoModelForSequenceClassification.from_config(tiny_encoder("albert"))).eval()
    set_windows(model, [[0, 1, 2, None]], SPECIAL)
    found = model(**inputs_of()).logits
    model.set_attn_implementation("received")
    torch.testing.assert_close(model(**inputs_of()).logits, found, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("model_class", "words"),
    [
        (MultiScaleModel, {}),
        # It reads its encoder's attention, which windows change, and is saved with its reader.
        (PairwiseParser, {"word_index": torch.arange(max(LENGTHS)).expand(2, -1)}),
    ],
)
def test_windows_of_an_encoder_inside_of_our_models(model_class, words, tmp_path):
    config = model_class.config_class(encoder=tiny_encoder("bert"), num_labels=3)
    model, inputs = randomized(model_class(config)), inputs_of() | words
    without = model(**inputs)[0]
    expected = set_windows(model, WINDOWS, SPECIAL)(**inputs)[0]
    assert not torch.allclose(expected, without)
    model.save_pretrained(tmp_path)
    loaded = model_class.from_pretrained(tmp_path)
    assert loaded.config.encoder.attention_windows == WINDOWS
    torch.testing.assert_close(loaded(**inputs)[0], expected)


def test_special_tokens_have_to_be_known():
    model, inputs = set_windows(model_of("bert"), WINDOWS, SPECIAL), inputs_of()
    embeddings = model.get_input_embeddings()(inputs["input_ids"])
    with pytest.raises(AttentionRefused, match="is not told where special tokens are: give the model input_ids"):
        model(inputs_embeds=embeddings, attention_mask=inputs["attention_mask"])
    special = torch.isin(inputs["input_ids"], torch.tensor(SPECIAL))
    found = model(inputs_embeds=embeddings, attention_mask=inputs["attention_mask"], special_tokens=special)
    assert torch.equal(found.last_hidden_state, model(**inputs).last_hidden_state)


@pytest.mark.parametrize("family", ["llama", "qwen3", "gemma3_text"])  # the last has windows of its own, too
@pytest.mark.parametrize("cache", ["dynamic", "static"])
def test_decoding_with_a_cache(family, cache):
    """As without one, beside padding on the left; the prompt in one part and in two."""
    model = AutoModelForCausalLM.from_config(tiny_encoder(family))
    model = set_windows(randomized(model), [[1, 3, None, 2]] * model.config.num_hidden_layers)
    inputs = inputs_of(left=True)
    options = {"max_new_tokens": 6, "do_sample": False, "output_logits": True, "return_dict_in_generate": True}
    whole = model.generate(**inputs, **options, use_cache=False)
    found = model.generate(**inputs, **options, cache_implementation=cache)
    assert torch.equal(found.sequences, whole.sequences)
    for one, other in zip(found.logits, whole.logits, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-4)
    ids = inputs["input_ids"][:1]
    states = model(input_ids=ids).logits
    start = model(input_ids=ids[:, :20], use_cache=True)
    torch.testing.assert_close(
        model(input_ids=ids[:, 20:], past_key_values=start.past_key_values).logits,
        states[:, 20:],
        rtol=1e-4,
        atol=1e-4,
    )


def test_readings_beside_a_static_cache():
    """Its room is no part of the text."""
    model = randomized(AutoModelForCausalLM.from_config(tiny_encoder("llama")))
    inputs, found = inputs_of(left=True), []
    for cache in ("dynamic", "static"):
        with read_attention(model, ("distance", "entropy"), bands=(-1,)) as readings:
            model.generate(**inputs, max_new_tokens=3, do_sample=False, cache_implementation=cache)
        found.append([reading.statistics for reading in readings])
    assert len(found[0]) == len(found[1])
    for one, other in zip(*found, strict=True):
        for name in one:
            torch.testing.assert_close(one[name], other[name], rtol=0, atol=1e-5)


def test_special_tokens_beside_a_cache_are_refused():
    model = set_windows(model_of("llama"), 2, SPECIAL)
    cache = model(**inputs_of(), use_cache=True).past_key_values
    with pytest.raises(AttentionRefused, match="has windows beside special tokens, which need the whole text: set"):
        model(input_ids=torch.tensor([[9], [9]]), past_key_values=cache)


@pytest.mark.heavy
def test_compiled():
    model, inputs = set_windows(model_of("bert"), WINDOWS, SPECIAL), inputs_of()
    found = torch.compile(model, fullgraph=True, backend="aot_eager")(**inputs).last_hidden_state
    real = inputs["attention_mask"].bool()
    torch.testing.assert_close(found[real], states(model, inputs), rtol=1e-4, atol=1e-5)


def test_bad_windows():
    model = model_of("bert")
    for windows, message in [
        (-1, "windows must be at least 0 or None, got .-1, -1"),
        ([1, 2, 3], "windows must be one a layer, 2 in all, .* got .1, 2, 3"),
        ([[1, 2], 3], r"or lists of one a head, \[4, 4\], got .*1, 2., 3"),
        ([[1, 2, 3, -4], 3], "-4"),
    ]:
        with pytest.raises(ValueError, match=message):
            set_windows(model, windows)
    for windows, ids in ((1.5, ()), (3, [1.5])):
        with pytest.raises(TypeError, match="'float' object cannot be interpreted as an integer"):
            set_windows(model, windows, ids)
    assert getattr(model.config, "attention_windows", None) is None
    set_windows(model, torch.tensor([2, 3]), torch.tensor([1, 2]))
    assert model.config.attention_windows == set_windows(model_of("bert"), [2, 3], [1, 2]).config.attention_windows


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: torch.nn.Linear(2, 2), "Linear has no model of Transformers inside"),
        (
            lambda: AutoModel.from_config(
                DebertaConfig(vocab_size=9, hidden_size=8, num_attention_heads=2, num_hidden_layers=1)
            ),
            "DebertaModel has no self-attention on the",
        ),
        (
            lambda: AutoModel.from_config(tiny_encoder("t5")).decoder,
            "T5Stack is one half of an encoder-decoder, .* give set_windows the whole model, whose encoder gets",
        ),
        (lambda: tiny_model("mvp"), "MvpModel does not tell its decoder from its encoder"),
    ],
)
def test_models_without_windows(make, message):
    with pytest.raises(AttentionRefused, match=message):
        set_windows(make(), 3)


@pytest.mark.parametrize("special", [(), SPECIAL])
@pytest.mark.parametrize("family", ["bart", "t5"])  # one shares its configuration with its halves, one copies it
def test_the_encoder_of_an_encoder_decoder(family, special, tmp_path):
    """It sees as under a mask of its own; the decoder attends as before, and is read."""
    model, inputs = tiny_model(family).double(), inputs_of()
    inputs["decoder_input_ids"] = inputs["input_ids"].roll(3)  # as many as in the encoder, at other places
    seen = visible_by_definition(inputs, WINDOWS[0], special)
    mask = torch.zeros(seen.shape, dtype=torch.float64).masked_fill(~seen, torch.finfo(torch.float64).min)
    encoded = model.get_encoder()(input_ids=inputs["input_ids"], attention_mask=mask)
    asked = {"output_attentions": True, "use_cache": False}
    expected = model(**inputs | asked, encoder_outputs=encoded)
    set_windows(model, [WINDOWS[0]] * 2, special)
    model.save_pretrained(tmp_path)
    loaded = type(model).from_pretrained(tmp_path, dtype=torch.float64)
    for one in (model, loaded):
        torch.testing.assert_close(one(**inputs, use_cache=False)[0], expected[0], rtol=0, atol=1e-12)
        one.set_attn_implementation("msattn")
        for kind in ("decoder_attentions", "cross_attentions"):
            for found, eager in zip(one(**inputs, **asked)[kind], expected[kind], strict=True):
                torch.testing.assert_close(found, eager, rtol=0, atol=1e-12)
    short = {name: tensor[1:, : LENGTHS[1]] for name, tensor in inputs.items()}
    alone = loaded.get_encoder()(**{name: short[name] for name in ("input_ids", "attention_mask")})[0]
    torch.testing.assert_close(alone[0], loaded(**inputs).encoder_last_hidden_state[1, : LENGTHS[1]])
    loaded.set_attn_implementation("sdpa")
    with pytest.raises(AttentionRefused, match="has attention windows"):
        loaded(**inputs)
    set_windows(loaded, None)(**inputs)


def test_cross_attention_beside_windows():
    """Its padding is that of the encoder: no query is padding for it, whatever the lengths."""
    torch.manual_seed(0)
    model = model_of("bert", is_decoder=True, add_cross_attention=True)
    inputs = {"input_ids": inputs_of()["input_ids"], "encoder_attention_mask": inputs_of()["attention_mask"]}
    inputs |= {"encoder_hidden_states": torch.randn(2, max(LENGTHS), 32), "use_cache": False}
    expected = model(**inputs)[0]
    torch.testing.assert_close(set_windows(model, max(LENGTHS))(**inputs)[0], expected, rtol=1e-4, atol=1e-5)
