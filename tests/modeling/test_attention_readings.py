"""Readings are what the model would return as `attentions`, of every forward pass."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper
from transformers import FNetConfig, FNetModel, PreTrainedModel

from msattn import BiLSTMConfig, MSTransformerConfig
from msattn.modeling import attention_call
from msattn.modeling.attention import READERS
from msattn.modeling.attention_call import AttentionRefused
from msattn.modeling.attention_readings import Reader, read_attention, read_passes
from msattn.modeling.modeling_bilstm import BiLSTMModel
from msattn.modeling.modeling_ms_transformer import MSTransformerModel
from tests.attention_contract import tiny_model


def build() -> PreTrainedModel:
    model = tiny_model("bert", num_hidden_layers=3, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    model.set_attn_implementation("sdpa")
    return model


def batch(*lengths: int, seed: int = 0) -> dict[str, torch.Tensor]:
    real = (torch.arange(max(lengths)) < torch.tensor(lengths).unsqueeze(-1)).long()
    torch.manual_seed(seed)
    return {"input_ids": torch.randint(3, 40, real.shape) * real, "attention_mask": real}


QUESTIONS, ANSWERS = batch(7, 4), batch(9, 9, 2, seed=1)


def column_sums(model: nn.Module, inputs: dict[str, torch.Tensor]) -> list[torch.Tensor]:
    """Of eager maps."""
    model.set_attn_implementation("eager")
    maps = model(**inputs, output_attentions=True).attentions
    model.set_attn_implementation("sdpa")
    return [(one * inputs["attention_mask"][:, None, :, None]).sum(-2) for one in maps]


class BiEncoder(nn.Module):
    """Returns a number, from two passes of one encoder."""

    def __init__(self, encoder: nn.Module):
        super().__init__()
        self.encoder = encoder

    def forward(self, questions, answers):
        left, right = (self.encoder(**texts)[0].mean(1) for texts in (questions, answers))
        return (left @ right.T).square().mean()


class Past(nn.Module):
    """Calls past hooks, as adapters do."""

    def __init__(self, model: nn.Module):
        super().__init__()
        self.model = model

    def forward(self, **inputs):
        return self.model.forward(**inputs)


@pytest.mark.parametrize("past", [False, True])
def test_every_pass_of_a_bi_encoder(past):
    encoder = build()
    model = BiEncoder(Past(encoder) if past else encoder)
    expected = [column_sums(encoder, inputs) for inputs in (QUESTIONS, ANSWERS)]
    plain = model(QUESTIONS, ANSWERS)
    hooks = [len(module._forward_hooks) for module in model.modules()]
    with read_attention(model) as readings:
        assert encoder.config._attn_implementation == "received"
        loss = model(QUESTIONS, ANSWERS)
    torch.testing.assert_close(loss, plain)
    assert [(reading.forward, reading.layer) for reading in readings] == [(i, j) for i in range(2) for j in range(3)]
    for reading in readings:
        inputs = (QUESTIONS, ANSWERS)[reading.forward]
        torch.testing.assert_close(reading["received"], expected[reading.forward][reading.layer])
        assert torch.equal(reading.real, inputs["attention_mask"].bool())
        assert reading["received"].requires_grad
    assert encoder.config._attn_implementation == "sdpa"
    assert not any(hasattr(module, READERS) for module in model.modules())
    assert [len(module._forward_hooks) for module in model.modules()] == hooks


def test_the_other_layers_compute_no_sums(monkeypatch):
    model, sizes = build(), []
    with read_attention(model, layers=[1]):
        blocked = attention_call.BlockedAttention.apply
        monkeypatch.setattr(
            attention_call.BlockedAttention, "apply", lambda *inputs: (sizes.append(1), blocked(*inputs))[1]
        )
        model(**QUESTIONS)
    assert len(sizes) == 1


def test_statistics():
    model = build()
    model.set_attn_implementation("eager")
    maps = model(**QUESTIONS, output_attentions=True).attentions
    with read_attention(model, ("received", "entropy"), layers=[0, 2], bands=(1,)) as readings:
        model(**QUESTIONS)
    real = QUESTIONS["attention_mask"][:, None].float()
    for reading, weights in zip(readings, maps[::2], strict=True):
        torch.testing.assert_close(reading["received"], (weights * real.unsqueeze(-1)).sum(-2))
        torch.testing.assert_close(reading["entropy"], -(weights * weights.clamp_min(1e-30).log()).sum(-1) * real)
        torch.testing.assert_close(reading["bands"][:, :, :-1, 0], weights.diagonal(1, -2, -1) * real[..., :-1])
        assert reading["entropy"].requires_grad


@pytest.mark.parametrize("inside", [True, False])
def test_recomputation_counts_once(inside, monkeypatch):
    gradients, counts = [], []
    for checkpointing in ("none", "own", "of FSDP"):
        model = build().train()
        if checkpointing == "own":
            model.gradient_checkpointing_enable({"use_reentrant": False})
        elif checkpointing == "of FSDP":
            model.encoder.layer = nn.ModuleList(map(checkpoint_wrapper, model.encoder.layer))
        if checkpointing != "none" and not inside:
            model.set_attn_implementation("received")
        with read_attention(model) as readings:
            states = model(**ANSWERS)[0]
            loss = states.square().mean() + sum(reading["received"].square().mean() for reading in readings)
            if inside:
                loss.backward()
        if not inside:
            loss.backward()
        counts.append(len(readings))
        gradients.append(model.encoder.layer[0].attention.self.query.weight.grad)
        with torch.no_grad(), monkeypatch.context() as patched:  # what is read no longer costs nothing
            patched.setattr(attention_call.AttentionCall, "sums", None)
            patched.setattr(attention_call.AttentionCall, "output_and_sums", None)
            model.eval()(**ANSWERS)
        with torch.no_grad(), read_attention(model):  # nothing will be computed again
            model(**ANSWERS)
        assert not any(hasattr(module, READERS) for module in model.modules())
    assert counts == [3, 3, 3]
    torch.testing.assert_close(gradients[1:], gradients[:1] * 2)


def test_readers_inside_each_other():
    model = build()
    with read_attention(model, ("entropy",)) as outer:
        with read_attention(model, layers=[0]) as inner:
            model(**QUESTIONS)
        model(**ANSWERS)
    assert [(reading.forward, reading.layer) for reading in outer] == [(i, j) for i in range(2) for j in range(3)]
    assert [set(reading.statistics) for reading in (*inner, outer[0])] == [{"received"}, {"entropy"}]
    assert not any(hasattr(module, READERS) for module in model.modules())
    assert model.config._attn_implementation == "sdpa"


def test_an_error_inside_leaves_the_model_as_it_was():
    model = build()
    with pytest.raises(RuntimeError), read_attention(model):
        model(input_ids=torch.zeros(1, 100, dtype=torch.long))
    assert model.config._attn_implementation == "sdpa" and not hasattr(model, READERS)
    with read_attention(model) as readings:
        model(**QUESTIONS)
    assert len(readings) == 3


def test_mistakes():
    model = build()
    parallel = nn.DataParallel(model)
    parallel.device_ids = [0, 1]
    for wrong, options, message in [
        (nn.Linear(2, 2), {}, "Linear has no model of Transformers inside"),
        (BiLSTMModel(BiLSTMConfig(vocab_size=9, hidden_size=8)), {}, "BiLSTMModel has no attention"),
        (FNetModel(FNetConfig(vocab_size=9, hidden_size=8, num_hidden_layers=1)), {}, "FNetModel has no attention"),
        (parallel, {}, "DataParallel runs in threads"),
        (torch.compile(model, backend="eager"), {}, "is compiled"),
        (model, {"statistics": ["sums"]}, "statistics must be some of received, .*got .'sums'"),
        (model, {"layers": [-1]}, "there is no layer -1; the model has 0 to 2"),
        (model, {"layers": [3]}, "there is no layer 3; the model has 0 to 2"),
    ]:
        with pytest.raises((AttentionRefused, ValueError), match=message), read_attention(wrong, **options):
            wrong(**QUESTIONS)


@pytest.mark.parametrize("family", ["bert", "megatron-bert", "ms_transformer"])
def test_special_tokens_are_left_out(family):
    """Rows and columns of them, in every pass by its own ids; what the model returns stays whole."""
    if family == "ms_transformer":
        model = MSTransformerModel(MSTransformerConfig(vocab_size=40, hidden_size=16, num_attention_heads=4)).eval()
    else:
        model = tiny_model(family)
    special = {5, 9, 11}
    with read_passes(model, Reader(special_ids=special)) as readings:
        for inputs in (QUESTIONS, ANSWERS):
            model(**inputs)
    layers = model.config.num_hidden_layers
    model.set_attn_implementation("eager")
    assert len(readings) == 2 * layers
    for start, inputs in ((0, QUESTIONS), (layers, ANSWERS)):
        maps = model(**inputs, output_attentions=True).attentions
        kept = inputs["attention_mask"].bool() & ~torch.isin(inputs["input_ids"], torch.tensor([*special]))
        assert kept.any() and not kept.all()
        for reading, one in zip(readings[start : start + layers], maps, strict=True):
            assert torch.equal(reading.real, kept)
            expected = (one * kept[:, None, :, None]).sum(-2) * kept[:, None]
            torch.testing.assert_close(reading["received"] * kept[:, None], expected)


def test_special_tokens_that_cannot_be_left_out():
    """Recomputed layers once counted them, and texts given as vectors always."""
    model = build().train()
    vectors = model.get_input_embeddings()(QUESTIONS["input_ids"])
    with read_passes(model, Reader(special_ids={5})), pytest.raises(AttentionRefused, match="give the model input"):
        model(inputs_embeds=vectors, attention_mask=QUESTIONS["attention_mask"])
    model.gradient_checkpointing_enable({"use_reentrant": False})
    with read_passes(model, Reader(special_ids={5})) as readings:
        model(**QUESTIONS)
        with pytest.raises(AttentionRefused, match="without gradient checkpointing"):
            readings[0]["received"].square().sum().backward()


def test_what_a_model_returns_has_its_special_tokens():
    model = build()
    sums = column_sums(model, QUESTIONS)
    model.set_attn_implementation("received")
    with read_passes(model, Reader(special_ids={5, 9, 11, 12, 13})) as readings:
        returned = model(**QUESTIONS, output_attentions=True).attentions
    torch.testing.assert_close(list(returned), sums)
    assert not torch.allclose(readings[0]["received"], sums[0])
