"""Models that compute their softmax themselves: on the interface through an adapter, or read from whole maps."""

from __future__ import annotations

from copy import deepcopy

import pytest
import torch
from torch import nn
from transformers import (
    AutoConfig,
    AutoModel,
    AutoModelForSequenceClassification,
    BertConfig,
    BertModel,
    BertPreTrainedModel,
    DebertaConfig,
    DebertaV2Config,
    MPNetConfig,
    PreTrainedConfig,
    PreTrainedModel,
    XLNetConfig,
)

from msattn import GuidingArguments, guiding_loss, head_gates, read_attention, set_windows
from msattn.modeling.attention_adapters import adapt
from msattn.modeling.attention_call import AttentionRefused
from msattn.modeling.attention_statistics import STATISTICS

SIZES = {
    "vocab_size": 40,
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 16,
    "max_position_embeddings": 32,
    "hidden_dropout_prob": 0.0,
    "attention_probs_dropout_prob": 0.0,
}
POSITIONS = {"relative_attention": True, "pos_att_type": ["p2c", "c2p"]}
ADAPTED = {
    "mpnet": MPNetConfig(**SIZES),
    "deberta-v2": DebertaV2Config(**SIZES, **POSITIONS),
    # As in DeBERTa-v3: logarithmic buckets, shared projections, a norm of the positions, and a convolution.
    "deberta-v3": DebertaV2Config(
        **SIZES, **POSITIONS, position_buckets=4, share_att_key=True, norm_rel_ebd="layer_norm", conv_kernel_size=3
    ),
    "deberta without positions": DebertaV2Config(**SIZES),
}
OUTSIDE = {
    "deberta": DebertaConfig(**SIZES),
    "xlnet": XLNetConfig(vocab_size=40, d_model=16, n_layer=2, n_head=2, d_inner=16, dropout=0.0),
}
REAL = (torch.arange(9) < torch.tensor([[9], [5]])).long()
IDS = torch.randint(5, 40, REAL.shape, generator=torch.Generator().manual_seed(0)) * REAL
BATCH = {"input_ids": IDS, "attention_mask": REAL}


class AttentionPooling(nn.Module):
    """To Transformers, a file with such a class is off its attention interface."""


class OfOnesOwn(BertPreTrainedModel):
    def __init__(self, config: PreTrainedConfig, parts: list[nn.Module]):
        super().__init__(config)
        self.pooling = AttentionPooling()
        self.parts = nn.ModuleList(parts)
        self.post_init()


class OwnBert(BertModel):
    """Layers on the interface, in a file that Transformers takes to be off it."""


def build(config: PreTrainedConfig, auto: type = AutoModel, **options) -> PreTrainedModel:
    """With weights that make attention uneven."""
    torch.manual_seed(0)
    model = auto.from_config(deepcopy(config), **options).double().eval()
    for parameter in model.parameters():
        if parameter.dim() == 2:
            torch.nn.init.normal_(parameter, std=0.3)
    return model


def gradients(model: PreTrainedModel, loss: torch.Tensor) -> dict[str, torch.Tensor]:
    loss.backward()
    named = ((name, parameter.grad) for name, parameter in model.named_parameters())
    return {name: gradient for name, gradient in named if gradient is not None and gradient.any()}


@pytest.mark.parametrize("implementation", ["eager", "received", "sdpa", "banded"])
@pytest.mark.parametrize("name", ADAPTED)
def test_states_and_their_gradients(name, implementation):
    """Of real tokens; those of a position bias are among them."""
    stock, adapted = build(ADAPTED[name]), build(ADAPTED[name])
    adapt(adapted)
    adapted.set_attn_implementation(implementation)
    states = [model(**BATCH)[0][REAL.bool()] for model in (stock, adapted)]
    torch.testing.assert_close(states[1], states[0])
    of_stock, of_adapted = (
        gradients(model, one.square().sum()) for model, one in zip((stock, adapted), states, strict=True)
    )
    assert of_stock.keys() == of_adapted.keys() and type(adapted).__name__ == type(stock).__name__
    torch.testing.assert_close(of_adapted, of_stock)
    assert adapted.state_dict().keys() == stock.state_dict().keys()


@pytest.mark.parametrize("last_queries", [None, 2])
@pytest.mark.parametrize("name", [*ADAPTED, *OUTSIDE])
def test_readings_are_those_of_maps(name, last_queries):
    model = build({**ADAPTED, **OUTSIDE}[name])
    plain = model(**BATCH, output_attentions=True)
    counted = REAL * (torch.arange(9) >= REAL.sum(1, keepdim=True) - (last_queries or 9))
    maps = [one * counted[:, None, :, None] for one in plain.attentions]
    before = model.config._attn_implementation
    options = {"columns": IDS[:, None].double(), "bands": (-1,), "last_queries": last_queries}
    with read_attention(model, [*STATISTICS], **options) as readings:
        outputs = model(**BATCH)
        again = model(**BATCH, output_attentions=True, return_dict=False)
    assert model.config._attn_implementation == before and outputs.get("attentions") is None
    torch.testing.assert_close(outputs[0][REAL.bool()], plain[0][REAL.bool()])
    assert len(again[-1]) == 2 and len(readings) == 4
    places = torch.arange(9)
    assert [reading.forward for reading in readings] == [0, 0, 1, 1]
    for reading, one in zip(readings, [*maps, *maps], strict=True):
        assert torch.equal(reading.real, REAL.bool())
        expected = {
            "received": one.sum(-2),
            "received_max": one.amax(-2),
            "entropy": -(one * one.clamp_min(1e-300).log()).sum(-1),
            "distance": (one * (places[:, None] - places).abs()).sum(-1),
            "peak": one.amax(-1),
            "square": one.square().sum(-1),
            "columns": one @ IDS[:, None, :, None].double(),
            "bands": nn.functional.pad(one.diagonal(-1, 2, 3), (1, 0))[..., None],
        }
        assert reading.statistics.keys() == expected.keys()
        for statistic, value in expected.items():
            torch.testing.assert_close(reading[statistic], value, msg=lambda text, name=statistic: f"{name}: {text}")


@pytest.mark.parametrize("name", [*ADAPTED, *OUTSIDE])
def test_guiding_has_the_gradient_of_maps(name):
    guiding = GuidingArguments(mdg_weight=0.5, pdg_weight=0.1)
    found = []
    for from_maps in (True, False):
        model = build({**ADAPTED, **OUTSIDE}[name], AutoModelForSequenceClassification)
        with read_attention(model) as readings:
            outputs = model(**BATCH, output_attentions=True)
        if from_maps:
            plain = build({**ADAPTED, **OUTSIDE}[name], AutoModelForSequenceClassification)
            model, maps = plain, plain(**BATCH, output_attentions=True).attentions
            for reading, one in zip(readings, maps, strict=True):
                reading.statistics = {"received": (one * REAL[:, None, :, None]).sum(-2)}
        found.append(gradients(model, guiding_loss(readings, guiding)[0]))
        assert len(outputs.attentions) == 2
    torch.testing.assert_close(found[1], found[0])


@pytest.mark.parametrize("name", ADAPTED)
def test_names_of_ours_reach_the_layers(name):
    """`from_pretrained` and `from_config` with our implementations: MPNet once gave other states for padded texts."""
    maps = build(ADAPTED[name])(**BATCH, output_attentions=True).attentions
    sums = [(one * REAL[:, None, :, None]).sum(-2) for one in maps]
    model = build(ADAPTED[name], AutoModelForSequenceClassification, attn_implementation="received")
    base = build(ADAPTED[name], attn_implementation="received")
    torch.testing.assert_close(list(base(**BATCH, output_attentions=True).attentions), sums)
    assert model(**BATCH, output_attentions=True).attentions[0].shape == (2, 2, 9)
    rows = build(ADAPTED[name], attn_implementation="rows")
    whole = rows(**BATCH, output_attentions=True).attentions[0]
    torch.testing.assert_close(
        whole[REAL.bool()[:, None].expand(-1, 2, -1)], maps[0][REAL.bool()[:, None].expand(-1, 2, -1)]
    )
    if name == "mpnet":
        chosen = rows(**BATCH, output_attentions=True, rows=torch.tensor([[3], [2]])).attentions[0]
        torch.testing.assert_close(
            chosen, whole[torch.arange(2)[:, None], :, torch.tensor([[3], [2]])].transpose(1, 2)
        )


@pytest.mark.parametrize("name", OUTSIDE)
@pytest.mark.parametrize("implementation", ["received", "banded", "rows", "words"])
def test_names_of_ours_are_refused_elsewhere(name, implementation):
    with pytest.raises(AttentionRefused, match=f"computes its softmax itself.*'{implementation}': leave it out"):
        AutoModel.from_config(OUTSIDE[name], attn_implementation=implementation)


def test_classes_of_ones_own_are_judged_by_their_layers():
    config = BertConfig(**SIZES, attn_implementation="received")
    bert = BertModel(config)
    for parts in ([bert], [bert.encoder]):
        OfOnesOwn(config, parts)
    with pytest.raises(AttentionRefused, match="OfOnesOwn computes its softmax itself"):
        OfOnesOwn(config, [nn.MultiheadAttention(16, 2)])


def test_classes_of_ones_own_are_read_and_given_windows():
    torch.manual_seed(0)
    stock, own = BertModel(BertConfig(**SIZES)).eval(), OwnBert(BertConfig(**SIZES)).eval()
    own.load_state_dict(stock.state_dict())
    found = []
    for model in (stock, own):
        with read_attention(model) as readings:
            model(**BATCH)
        found.append([reading["received"] for reading in readings] + [set_windows(model, 1)(**BATCH)[0]])
    assert len(found[0]) == 3 and own.config._attn_implementation == "banded"
    torch.testing.assert_close(found[1], found[0])


@pytest.mark.parametrize("name", ADAPTED)
def test_gates_and_windows(name, tmp_path):
    model = build(ADAPTED[name])
    plain = model(**BATCH)[0][REAL.bool()]
    with head_gates(model) as gates:
        torch.testing.assert_close(model(**BATCH)[0][REAL.bool()], plain)
        (importance,) = torch.autograd.grad(model(**BATCH)[0][REAL.bool()].square().sum(), gates)
    assert (importance != 0).all()
    set_windows(model, 2)
    with read_attention(model, (), bands=(-3, -2, 2, 3)) as readings:
        states = model(**BATCH)[0]
    assert (readings[0]["bands"][..., [0, 3]] == 0).all() and (readings[0]["bands"][0, :, 3, 1:3] > 0).all()
    model.save_pretrained(tmp_path)
    loaded = AutoModel.from_pretrained(tmp_path, dtype=torch.double)
    assert AutoConfig.from_pretrained(tmp_path).architectures == [type(model).__name__]
    torch.testing.assert_close(loaded(**BATCH)[0][REAL.bool()], states[REAL.bool()])
    with torch.no_grad():
        far = IDS.clone()
        far[0, 8] = 7
        moved = loaded(input_ids=far, attention_mask=REAL)[0]
    torch.testing.assert_close(moved[0, :4], states[0, :4])
    if name == "mpnet":
        set_windows(model, 2, special_token_ids=[int(IDS[0, 0])])
        assert not torch.equal(model(**BATCH)[0], states)
    else:
        with pytest.raises(AttentionRefused, match="hands no keyword arguments on"):
            set_windows(model, 2, special_token_ids=[0])
