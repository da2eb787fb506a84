from __future__ import annotations

from pathlib import Path

import pytest

from msattn import BertForMultiScaleRE, MultiScaleBertConfig
from msattn.arguments.multiscale_arguments import MultiScaleArguments, head_fields
from msattn.arguments.pretrained import load_model
from msattn.arguments.relation_arguments import HEADS
from msattn.errors import UserError
from tests.tiny_models import tiny_relation_extractor


def loaded(checkpoint: Path, head: str | None, **given) -> MultiScaleBertConfig:
    """The configuration of the model that the arguments stand for; its layers are those that it names."""
    args = MultiScaleArguments(str(checkpoint), **given)
    fields = head_fields(args, HEADS[head]) if head else {}
    model = load_model(BertForMultiScaleRE, args, 25, **fields)
    assert len(model.bert.fusion) == model.config.fusion_layers
    return model.config


@pytest.fixture
def save(tmp_path):
    def save(**config) -> Path:
        tiny_relation_extractor(**config)[0].save_pretrained(tmp_path)
        return tmp_path

    return save


@pytest.mark.parametrize("head, layers", [(None, 0), ("entity-start", 0), ("multiscale", 1), ("plain-attention", 1)])
def test_a_head_puts_its_layer_on_a_baseline(head, layers, save):
    assert loaded(save(fusion_layers=0), head).fusion_layers == layers


def test_multiscale_keeps_the_layers_that_are_there(save):
    checkpoint = save(fusion_layers=2, scales=(3, 5))
    assert loaded(checkpoint, "multiscale").fusion_layers == loaded(checkpoint, None).fusion_layers == 2
    assert loaded(checkpoint, "multiscale", fusion_layers=1).fusion_layers == 1
    assert loaded(checkpoint, "multiscale").scales == (3, 5)


def test_multiscale_is_not_without_layers_or_scales(save):
    checkpoint = save(fusion_layers=0, scales=(), mask_mode="none")
    with pytest.raises(UserError, match="--fusion_layers 0: --head stands for fusion_layers = 1"):
        loaded(checkpoint, "multiscale", scales=[3], fusion_layers=0)
    with pytest.raises(UserError, match="words only; give this --head its --scales"):
        loaded(checkpoint, "multiscale")
    assert loaded(checkpoint, "multiscale", scales=[3]).scales == (3,)
