"""What can break only on a GPU: models and attention on CUDA are those on the CPU. `pytest -m slow -rxX` runs them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import pytest
import torch
from torch import nn
from transformers import AutoModel, AutoModelForSequenceClassification

from msattn import (
    BiLSTMForSequenceClassification,
    MSTransformerForSequenceClassification,
    MultiScaleForRelationExtraction,
    MultiScaleForSequenceClassification,
    MultiScaleForTokenClassification,
    PairwiseForRelationClassification,
    PairwiseParser,
    attention_statistics,
    head_gates,
    read_attention,
    received_attention,
    scale_aware_attention,
    set_windows,
)
from msattn.modeling import attention_bands, window_attention
from msattn.modeling.attention import attention_forward
from msattn.modeling.attention_statistics import STATISTICS
from msattn.modeling.window_fitting import head_reach
from tests.attention_contract import inputs_of, tiny_model
from tests.modeling import test_banded_attention as banded
from tests.modeling import test_bert_members as members
from tests.modeling import test_encoder_classifiers as classifiers
from tests.modeling import test_modeling_bilstm as bilstm
from tests.modeling import test_modeling_ms_transformer as ms_transformer
from tests.modeling import test_modeling_multiscale as multiscale
from tests.modeling import test_modeling_pairwise as pairwise
from tests.modeling import test_received_attention as received
from tests.modeling import test_tag_layers as tag_layers
from tests.modeling import test_window_fitting as fitting
from tests.modeling.attention_reference import queries_and_keys, real_tokens
from tests.tiny_encoders import batch, randomized, tiny_encoder

DEVICE = "cuda"
CUDA = [pytest.mark.slow, pytest.mark.skipif(DEVICE == "cuda" and not torch.cuda.is_available(), reason="no GPU")]
pytestmark = CUDA
#: What stands in the columns that padding adds.
PADDING = {"input_ids": 0, "attention_mask": 0, "token_type_ids": 0, "word_index": -1, "labels": -100}


@pytest.fixture(autouse=True)
def full_precision():
    """No TensorFloat-32, whose products have 10 bits."""
    backends = (torch.backends.cuda.matmul, torch.backends.cudnn)
    before = [backend.allow_tf32 for backend in backends]
    for backend in backends:
        backend.allow_tf32 = False
    yield
    for backend, allowed in zip(backends, before, strict=True):
        backend.allow_tf32 = allowed


# Models, each with inputs and labels.


def by_tester(tester: Any, **options: Any) -> tuple[nn.Module, dict[str, torch.Tensor]]:
    model = tester.build(**options)
    return model, {**tester.inputs(model.config), "labels": tester.labels(model.config)}


def fused(family: str, model_class: Any, inputs: dict, **options: Any) -> tuple[nn.Module, dict[str, torch.Tensor]]:
    labels = torch.tensor([0, 2, 1])
    if model_class is MultiScaleForTokenClassification:
        labels = (batch(family)["input_ids"] % 4).where(batch(family)["attention_mask"].bool(), torch.tensor(-100))
    return multiscale.build(family, model_class, **options), {**batch(family), "labels": labels, **inputs}


def paired(model_class: Any, family: str = "bert", encoder: dict | None = None, tags: Any = None, **options: Any):
    options |= {"word_tags": tag_layers.LABELS} if tags else {}
    return pairwise.build(family, model_class, encoder, **options), pairwise.INPUTS[model_class](family) | (tags or {})


def sentence_pairs(model_class: Any) -> tuple[nn.Module, dict[str, torch.Tensor]]:
    model = classifiers.Classifier(model_class).build(sentence_pairs=True, num_labels=2)
    return model, {**classifiers.encoded(classifiers.PAIRS), "labels": torch.tensor([0, 1, 1])}


def with_bert(member: members.Member) -> tuple[nn.Module, dict[str, torch.Tensor]]:
    return randomized(member.bert_class(member.config)), {**batch("bert"), **member.inputs}


def windowed(special: tuple[int, ...], family: str = "bert") -> tuple[nn.Module, dict[str, torch.Tensor]]:
    config = tiny_encoder(family, num_labels=3, max_position_embeddings=400)
    model = randomized(AutoModelForSequenceClassification.from_config(config))
    set_windows(model, [[1, 3, 20, None], [4, 4, 4, 4]], special)
    return model, {**banded.long_inputs(), "labels": torch.tensor([0, 2])}


STARTS = {"entity_starts": multiscale.STARTS}
SPANS = {**STARTS, "entity_ends": multiscale.STARTS + 2}
RELATIONS = (MultiScaleForRelationExtraction, STARTS)
HEADS: dict[str, dict] = {
    "pairs-linear": {},
    "pairs-biaffine": {"scorer": "biaffine"},
    "heads-biaffine": pairwise.SELECT,
}
HEADS |= {"heads-linear": {"objective": "head_select", "scorer": "linear"}}
CASES: dict[str, Callable[[], tuple[nn.Module, dict[str, torch.Tensor]]]] = {
    **{
        f"multiscale-{family}": partial(fused, family, *RELATIONS)
        for family in ("roberta", "deberta-v2", "t5", "llama")
    },
    "multiscale-entmax": partial(fused, "bert", *RELATIONS, mask_mode="entmax"),
    "multiscale-sentences": partial(fused, "modernbert", MultiScaleForSequenceClassification, {}),
    "multiscale-tokens": partial(fused, "electra", MultiScaleForTokenClassification, {}),
    "entity-start": partial(fused, "bert", *RELATIONS, fusion_layers=0),
    "r-bert": partial(fused, "bert", MultiScaleForRelationExtraction, SPANS, pooling="r_bert", fusion_layers=0),
    **{f"parser-{name}": partial(paired, PairwiseParser, **options) for name, options in HEADS.items()},
    "parser-modernbert": partial(paired, PairwiseParser, "modernbert", **pairwise.SELECT),
    "parser-eager": partial(paired, PairwiseParser, "bert", {"attn_implementation": "eager"}),
    "parser-layer-mix": partial(paired, PairwiseParser, layer_mix=2, word_state="mean"),
    "parser-tags": partial(paired, PairwiseParser, tags=tag_layers.TAGS),
    "pairwise-relations": partial(paired, PairwiseForRelationClassification),
    "pairwise-relations-biaffine": partial(paired, PairwiseForRelationClassification, "t5", scorer="biaffine"),
    "pairwise-relations-layer-mix": partial(paired, PairwiseForRelationClassification, layer_mix=2, features="emb"),
    **{
        f"{member.bert_class.__name__}-{number}": partial(with_bert, member)
        for number, member in enumerate(members.MEMBERS)
        if member.inputs
    },
    "windows-sentences": partial(by_tester, ms_transformer.TestMSTransformerForSequenceClassification()),
    "windows-tokens": partial(by_tester, ms_transformer.TestMSTransformerForTokenClassification(), scales=(1, 3)),
    "windows-global": partial(by_tester, ms_transformer.TestMSTransformerForTokenClassification(), cls_global=True),
    "windows-pairs": partial(sentence_pairs, MSTransformerForSequenceClassification),
    "windows-crf": partial(by_tester, ms_transformer.TestTaggerWithCRF()),
    "windows-encoder": partial(windowed, ()),
    "windows-encoder-special": partial(windowed, (7, 31)),
    "bilstm-sentences": partial(by_tester, bilstm.TestBiLSTMForSequenceClassification()),
    "bilstm-tokens": partial(by_tester, bilstm.TestBiLSTMForTokenClassification()),
    "bilstm-crf": partial(by_tester, bilstm.TestBiLSTMForTokenClassification(), crf=True),
    "bilstm-pairs": partial(sentence_pairs, BiLSTMForSequenceClassification),
}
#: They read a number from the device: how many words, the windows of a sentence, whether there is padding; and what
#: Transformers reads without a mask.
READING = (
    "parser",
    "BertPairwiseParser",
    "windows-sentences",
    "windows-tokens",
    "windows-global",
    "windows-pairs",
    "windows-crf",
    "windows-encoder-special",
    "bilstm-crf",
    "bilstm-pairs",
    "multiscale-llama",
    "multiscale-deberta",
)
#: One of each system, for what takes long.
COMPILED = ("multiscale-roberta", "parser-heads-biaffine", "pairwise-relations", "windows-tokens", "windows-encoder")


@pytest.fixture(params=CASES)
def case(request) -> tuple[nn.Module, dict[str, torch.Tensor]]:
    return made(request.param)


def made(name: str) -> tuple[nn.Module, dict[str, torch.Tensor]]:
    """On the CPU, in training mode, without dropout: cuDNN has no gradient of an LSTM in evaluation mode."""
    if "crf" in name:
        pytest.importorskip("torchcrf")
    model, inputs = CASES[name]()
    for module in model.train().modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.0
        if hasattr(config := getattr(module, "config", None), "attention_probs_dropout_prob"):
            config.attention_probs_dropout_prob = 0.0
    return model, inputs


def there(inputs: dict[str, Any]) -> dict[str, Any]:
    return {name: value.to(DEVICE) if isinstance(value, torch.Tensor) else value for name, value in inputs.items()}


def results(model: Any, inputs: dict[str, torch.Tensor], call: Any = None) -> tuple[dict, dict[str, torch.Tensor]]:
    """Outputs and gradients."""
    model.zero_grad()
    outputs = (model if call is None else call)(**inputs)
    outputs.loss.backward()
    found = {**outputs, **(outputs.get("tag_logits") or {})}
    gradients = {name: weight.grad for name, weight in model.named_parameters() if weight.grad is not None}
    return {name: value.detach() for name, value in found.items() if isinstance(value, torch.Tensor)}, gradients


def assert_close(
    found: dict[str, Any], expected: dict[str, Any], tolerance: float = 1e-4, least: float = 0.01
) -> None:
    """Within a share of the largest number, or of `least` where all are smaller."""
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        size = value.abs()[value.abs() < 1e3].amax().item() if value.numel() else 0.0  # not what hides an arc
        allowed = {"rtol": tolerance, "atol": tolerance * max(size, least), "check_dtype": False}
        torch.testing.assert_close(found[name].cpu(), value.cpu(), **allowed, msg=lambda text, n=name: f"{n}: {text}")


def assert_near(found: dict[str, torch.Tensor], expected: dict[str, torch.Tensor]) -> None:
    """As near as half precision comes."""
    for name, value in expected.items():
        kept = value.abs() < 1e3
        gap = (found[name].cpu().float() - value).abs()[kept].mean()
        assert gap < 0.1 * (value[kept].std() if kept.sum() > 1 else value), name


def test_outputs_and_gradients_are_those_of_the_cpu(case):
    model, inputs = case
    outputs, gradients = ({n: v.clone() for n, v in part.items()} for part in results(model, inputs))
    found = results(model.to(DEVICE), there(inputs))
    assert {value.device.type for part in found for value in part.values()} == {DEVICE}
    assert_close(found[0], outputs)
    assert_close(found[1], gradients)


@pytest.mark.parametrize("autocast", [False, True], ids=["whole", "autocast"])
def test_bfloat16(case, autocast):
    model, inputs = case
    exact, _ = results(model, inputs)
    model = model.to(DEVICE, None if autocast else torch.bfloat16)
    with torch.autocast(DEVICE, dtype=torch.bfloat16, enabled=autocast):
        outputs, gradients = results(model, there(inputs))
    assert all(gradient.isfinite().all() for gradient in gradients.values())
    assert_near(outputs, exact)


def test_padding_and_order_change_nothing(case):
    model, inputs = case[0].to(DEVICE).eval(), there(case[1])
    tokens, pad = inputs["input_ids"].shape[1], model.config.get_text_config().pad_token_id or 0
    padded = {
        name: nn.functional.pad(value, (0, 3), value=pad if name == "input_ids" else PADDING[name])
        if name in PADDING and value.shape[1:] == (tokens,)
        else value
        for name, value in inputs.items()
    }
    with torch.no_grad():
        expected, longer = model(**inputs), model(**padded)
        turned = model(**{name: value.flip(0) for name, value in inputs.items()})
    for found in (longer, turned):
        torch.testing.assert_close(found.loss, expected.loss, rtol=1e-4, atol=1e-5)
    scores = [one["arc_scores" if "arc_scores" in one else "logits"] for one in (expected, longer, turned)]
    torch.testing.assert_close(scores[2].flip(0), scores[0], rtol=1e-4, atol=1e-4)
    if scores[0].shape[1] != tokens:  # padding has no answers
        torch.testing.assert_close(scores[1], scores[0], rtol=1e-4, atol=1e-4)


@contextmanager
def no_waiting() -> Iterator[None]:
    """Raises an error where the CPU waits for the GPU."""
    if DEVICE != "cuda":
        yield
        return
    torch.cuda.set_sync_debug_mode("error")
    try:
        yield
    finally:
        torch.cuda.set_sync_debug_mode("default")


READS = pytest.mark.xfail(reason="reads a number from the device", raises=RuntimeError)
WAITING = [pytest.param(name, marks=READS if name.startswith(READING) else ()) for name in CASES]


@pytest.mark.parametrize("name", WAITING)
def test_forward_and_backward_do_not_wait(name):
    model, inputs = made(name)
    # With a mask, Transformers asks whether there is padding.
    model, inputs = model.to(DEVICE), there({key: v for key, v in inputs.items() if key != "attention_mask"})
    results(model, inputs)  # what libraries set up at first
    with no_waiting():
        results(model, inputs)


@pytest.mark.heavy
@pytest.mark.parametrize("name", COMPILED)
def test_inductor(name):
    """Not called after `torch.compile`, which `conftest.py` skips on older versions."""
    model, inputs = made(name)
    model, inputs = model.to(DEVICE), there(inputs)
    outputs, gradients = ({n: v.clone() for n, v in part.items()} for part in results(model, inputs))
    backend = "inductor" if DEVICE == "cuda" else "aot_eager"
    found = results(model, inputs, torch.compile(model, backend=backend))
    assert_close(found[0], outputs, 1e-3)
    assert_close(found[1], gradients, 1e-3)


# Attention, against float64 on the CPU.


def with_gradients(function: Callable[..., Any], tensors: Any, dtype: torch.dtype, device: str) -> dict[str, Any]:
    """What a function returns for tensors, and a gradient of each."""
    leaves = [tensor.detach().to(device, dtype).requires_grad_() for tensor in tensors]
    found = function(*leaves)
    found = found if isinstance(found, dict) else {"result": found}
    loss = sum((one * torch.linspace(-1, 1, one.numel(), device=device).view_as(one)).sum() for one in found.values())
    gradients = torch.autograd.grad(loss, leaves)
    return {**{name: one.detach().double() for name, one in found.items()}} | {
        f"gradient {number}": gradient.double() for number, gradient in enumerate(gradients)
    }


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["float32", "bfloat16"])
@pytest.mark.parametrize("left", [False, True], ids=["right", "left"])
@pytest.mark.parametrize("windows", [[1, 3, 20, None], [[1, 3, 20, 200], [0, 9, 9, 9], [1] * 4]], ids=["fixed", "own"])
@pytest.mark.parametrize("method", [None, "dense", "banded"])
@pytest.mark.parametrize("tokens", [200, 256])  # a GPU has other kernels for a multiple of 64
def test_scale_aware_attention(tokens, method, windows, left, dtype, monkeypatch):
    monkeypatch.setattr(window_attention, "LITTLE", 0)
    monkeypatch.setattr(attention_bands, "SHORT_ON_GPU", 0)  # what is chosen by itself is "dense" here
    generator = torch.Generator().manual_seed(0)
    tensors = [torch.randn(3, 4, tokens, 64, generator=generator).to(dtype) for _ in range(3)]
    real = torch.arange(tokens) < torch.tensor([[tokens], [90], [1]])
    real = real.flip(-1) if left else real

    def attend(method: str | None, *states: torch.Tensor) -> torch.Tensor:
        device = states[0].device
        reach = torch.tensor(windows, device=device) if isinstance(windows[0], list) else windows
        if method is None:
            return scale_aware_attention(*states, reach, real.to(device))
        return window_attention.window_attention(*states, reach, real=real.to(device), method=method).transpose(1, 2)

    expected = with_gradients(partial(attend, "dense"), tensors, torch.float64, "cpu")
    found = with_gradients(partial(attend, method), tensors, dtype, DEVICE)
    assert_close(found, expected, 1e-4 if dtype == torch.float32 else 3e-2)


@pytest.mark.parametrize("short", [0, 2048], ids=["bands", "matrix"])
@pytest.mark.parametrize("left", [False, True], ids=["right", "left"])
def test_windows_of_a_model(left, short, monkeypatch):
    monkeypatch.setattr(attention_bands, "SHORT_ON_GPU", short)
    model, inputs = banded.modernbert(), banded.long_inputs(left)
    expected = [one.clone() for one in banded.results(model.double(), "sdpa", inputs)]
    found = banded.results(model.float().to(DEVICE), "banded", there(inputs))
    assert_close(dict(enumerate(found)), dict(enumerate(expected)))


@pytest.mark.parametrize("causal", [False, True], ids=["whole", "causal"])
@pytest.mark.parametrize("names", [{}, *received.SPECIAL.values()], ids=["plain", *received.SPECIAL])
def test_statistics(names, causal):
    query, key = queries_and_keys(key_heads=2)
    options, real = received.special(names), real_tokens()
    added = [name for name, value in options.items() if isinstance(value, torch.Tensor)]
    columns = torch.rand(3, 2, 11, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    places = torch.arange(11).expand(3, -1)

    def statistics(query, key, columns, *rest):
        where = {"attention_mask": real.to(query.device), "places": places.to(query.device), "is_causal": causal}
        asked = {"statistics": STATISTICS, "bands": (-1, 1), "columns": columns}
        found = attention_statistics(query, key, **where, **asked, **options | dict(zip(added, rest, strict=True)))
        alone = {"attention_mask": where["attention_mask"], **options | dict(zip(added, rest, strict=True))}
        return found | {"alone": received_attention(query, key, is_causal=causal, **alone)}

    tensors = [query, key, columns, *(options[name] for name in added)]
    expected = with_gradients(statistics, tensors, torch.float64, "cpu")
    assert_close(with_gradients(statistics, tensors, torch.float32, DEVICE), expected)


@pytest.mark.parametrize("softcap", [None, 50.0], ids=["fused", "blocks"])
def test_layers_with_dropout_drop_at_the_rate_and_do_not_wait(softcap):
    query, key = torch.zeros(2, 4, 3, 60, 16, device=DEVICE).unbind()
    value, mask = torch.ones_like(query).requires_grad_(), torch.ones(4, 1, 1, 60, dtype=torch.bool, device=DEVICE)
    options = {"dropout": 0.25, "softcap": softcap, "returns_sums": True, "output_attentions": True}
    for _ in range(2):
        with no_waiting():
            output, sums = attention_forward(nn.Module(), query, key, value, mask, **options)
            output.sum().backward()
    assert output.mean().item() == pytest.approx(1, abs=0.05) and output.std() > 0.01
    torch.testing.assert_close(sums, torch.ones_like(sums), rtol=0, atol=1e-4)
    # Two passes have the same dropout forward and backward.
    assert value.grad.sum().item() == pytest.approx(2 * value.numel(), rel=0.05)


@pytest.mark.parametrize("implementation", ["sdpa", "eager"])
def test_reading_a_model_with_dropout(implementation):
    model = randomized(AutoModel.from_config(tiny_encoder("bert", num_hidden_layers=1)))
    inputs = batch("bert", right=2)
    model.set_attn_implementation("eager")
    maps = model.double()(**inputs, output_attentions=True).attentions[0]
    expected = (maps * inputs["attention_mask"][:, None, :, None]).sum(dim=-2)
    model.float().train().to(DEVICE).set_attn_implementation(implementation)
    model.encoder.layer[0].attention.self.dropout.p = 0.3
    with read_attention(model) as readings:
        model(**there(inputs))
    (reading,) = readings
    reading["received"].square().sum().backward()
    assert_close({"received": reading["received"]}, {"received": expected.detach()})
    assert model.encoder.layer[0].attention.self.query.weight.grad.any()


@pytest.mark.parametrize("implementation", ["sdpa", "eager", "received"])
def test_head_gates(implementation):
    found = []
    for device, dtype in (("cpu", torch.float64), (DEVICE, torch.float32)):
        model = tiny_model("bert").to(device, dtype)
        model.set_attn_implementation(implementation)
        with head_gates(model) as gates:
            states = model(**{name: value.to(device) for name, value in inputs_of(model).items()}).last_hidden_state
            found.append({"gates": torch.autograd.grad(states.pow(3).sum(), gates)[0]})
    assert_close(found[1], found[0])


def test_window_fitting():
    model, batches = randomized(AutoModel.from_config(tiny_encoder("bert"))), fitting.batches_of("bert")
    expected = head_reach(model.double(), batches, fitting.SPECIAL).beyond
    found = head_reach(model.float().to(DEVICE), [there(one) for one in batches], fitting.SPECIAL).beyond
    assert_close(dict(enumerate(found)), dict(enumerate(expected)))


@pytest.mark.parametrize(("kind", "share"), [("windows", 0.25), ("received", 0.5)])
def test_memory_of_8192_tokens(kind, share):
    """A part of what the maps of all heads take."""
    tensors = torch.randn(3, 2, 8, 8192, 64, device=DEVICE, dtype=torch.bfloat16).requires_grad_()
    real = torch.arange(8192, device=DEVICE) < torch.tensor([[8192], [7000]], device=DEVICE)
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    if kind == "windows":
        found = scale_aware_attention(*tensors, [1, 1, 3, 3, 16, 16, 64, 64], real)
    else:
        found = received_attention(*tensors[:2], real)
    found.sum().backward()
    assert found.isfinite().all() and tensors.grad.isfinite().all()
    maps = 2 * 8 * 8192**2 * torch.bfloat16.itemsize
    assert torch.cuda.max_memory_allocated() - before < share * maps
