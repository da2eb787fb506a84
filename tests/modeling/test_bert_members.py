"""The models with BERT built in: they load every checkpoint of BERT, and compute what the general models compute."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import BertConfig, BertForMaskedLM, BertForPreTraining, BertModel, PreTrainedModel

from msattn import (
    BertForMultiScaleRE,
    BertForMultiScaleSequenceClassification,
    BertPairwiseConfig,
    BertPairwiseForRelationClassification,
    BertPairwiseParser,
    MultiScaleBertConfig,
    MultiScaleBertModel,
    MultiScaleConfig,
    MultiScaleForRelationExtraction,
    MultiScaleForSequenceClassification,
    MultiScaleModel,
    PairwiseConfig,
    PairwiseForRelationClassification,
    PairwiseParser,
)
from tests.common import TOLERANCE, assert_fresh
from tests.modeling.test_modeling_pairwise import ENTITIES, HEADS, RELATIONS, SELECT, WORDS
from tests.tiny_encoders import BERT, batch, randomized, tiny_encoder

STARTS = {"entity_starts": torch.tensor([[1, 4], [3, 0], [2, 6]])}
TREES = {"word_index": WORDS, "heads": HEADS, "relations": RELATIONS}
PIECES = {"entity_pieces": ENTITIES}
LABELS = {"labels": torch.tensor([0, 2, 1])}
FUSION = {"scales": (3, 5), "fusion_heads": 2, "fusion_layers": 2, "mask_mode": "sigmoid", "num_labels": 3}
PAIRS = {"num_labels": 3, "arc_size": 10, "relation_size": 6}


class Member(NamedTuple):
    """A class with BERT built in, the general one, where BERT is, its new layers, their fields, and inputs."""

    bert_class: type[PreTrainedModel]
    general_class: type[PreTrainedModel]
    encoder: str
    new: tuple[str, ...]
    fields: dict[str, Any]
    inputs: dict[str, torch.Tensor]

    @property
    def config(self):
        family = MultiScaleBertConfig if self.fields is FUSION else BertPairwiseConfig
        return family(**BERT, **self.fields)

    def general(self) -> PreTrainedModel:
        family = MultiScaleConfig if self.fields is FUSION else PairwiseConfig
        return self.general_class(family(encoder=tiny_encoder("bert"), **self.fields)).eval()


FUSED = ("bert.fusion.", "classifier.")
SELECTED = PAIRS | SELECT
MEMBERS = [
    Member(MultiScaleBertModel, MultiScaleModel, "", ("fusion.",), FUSION, {}),
    Member(BertForMultiScaleRE, MultiScaleForRelationExtraction, "bert.", FUSED, FUSION, STARTS | LABELS),
    Member(
        BertForMultiScaleSequenceClassification, MultiScaleForSequenceClassification, "bert.", FUSED, FUSION, LABELS
    ),
    Member(BertPairwiseParser, PairwiseParser, "bert.", ("arcs.", "relations."), PAIRS, TREES),
    Member(BertPairwiseParser, PairwiseParser, "bert.", ("arcs.", "relations."), SELECTED, TREES),
    Member(
        BertPairwiseForRelationClassification,
        PairwiseForRelationClassification,
        "bert.",
        ("classifier.",),
        PAIRS,
        PIECES | LABELS,
    ),
]


@pytest.fixture(params=MEMBERS, ids=lambda member: member.bert_class.__name__)
def member(request) -> Member:
    return request.param


def plain_config() -> BertConfig:
    return BertConfig(**BERT)


def assert_loads(member: Member, folder, encoder: BertModel) -> None:
    """Every weight of the encoder, and nothing but the new layers afresh."""
    model, info = member.bert_class.from_pretrained(
        folder, initializer_range=0.05, output_loading_info=True, **member.fields
    )
    weights = dict(model.named_parameters())
    new = {name for name in weights if name.startswith(member.new)}
    assert new and info["missing_keys"] == new
    assert not info["unexpected_keys"] and not info["mismatched_keys"] and not info["error_msgs"]
    for name in new:
        assert_fresh(name, weights[name], 0.05)
    loaded = {name.removeprefix(member.encoder): weight for name, weight in weights.items() if name not in new}
    for name, weight in encoder.named_parameters():
        if not name.startswith("pooler."):
            assert torch.equal(loaded.pop(name), weight), name
    assert not loaded


def test_padding_on_the_left_changes_nothing(member):
    model = randomized(member.bert_class(member.config))
    # The places of words, entities and markers; -1 fills up.
    moved = {
        name: torch.nn.functional.pad(value, (3, 0), value=-1)
        if name == "word_index"
        else (value + 3).where(value >= 0, value)
        for name, value in member.inputs.items()
        if name not in ("heads", "relations", "labels")
    }
    given = {name: member.inputs[name] for name in moved}
    with torch.no_grad():
        found, expected = model(**batch("bert", left=3), **moved)[0], model(**batch("bert"), **given)[0]
    if member.encoder == "":
        real = batch("bert")["attention_mask"].bool()
        found, expected = found[:, 3:][real], expected[real]
    torch.testing.assert_close(found, expected, **TOLERANCE)


def test_random_layers_are_not_left_frozen(member, tmp_path):
    BertModel(plain_config()).save_pretrained(tmp_path)
    model = member.bert_class.from_pretrained(tmp_path, **member.fields)
    for name, weight in model.named_parameters():
        weight.requires_grad_(not name.startswith(member.new))
    names = rf"modules_to_save=\[.*{member.new[-1].rstrip('.')}"
    with pytest.raises(ValueError, match=f"is new and random, and none of its weights is trained; .*{names}"):
        model.train()
    member.bert_class.from_pretrained(tmp_path, **member.fields).train()


@pytest.mark.parametrize("plain_class", [BertModel, BertForMaskedLM, BertForPreTraining])
def test_load_plain_checkpoint(member, plain_class, tmp_path):
    plain = plain_class(plain_config())
    plain.save_pretrained(tmp_path)
    assert_loads(member, tmp_path, plain.base_model)


def test_load_checkpoint_of_2018(member, tmp_path):
    """As google-bert/bert-base-uncased is: TensorFlow's names of the layer norms, heads and pooler included."""
    plain = BertForPreTraining(plain_config())
    plain.save_pretrained(tmp_path)
    weights = load_file(tmp_path / "model.safetensors")
    old = {"LayerNorm.weight": "LayerNorm.gamma", "LayerNorm.bias": "LayerNorm.beta"}
    for new_name, old_name in old.items():
        weights = {name.replace(new_name, old_name): weight for name, weight in weights.items()}
    assert "bert.embeddings.LayerNorm.gamma" in weights and "cls.seq_relationship.weight" in weights
    save_file(weights, tmp_path / "model.safetensors", metadata={"format": "pt"})
    config = json.loads((tmp_path / "config.json").read_text())
    del config["transformers_version"]
    (tmp_path / "config.json").write_text(json.dumps(config))
    assert_loads(member, tmp_path, plain.bert)


def test_the_general_model_is_the_same(member, tmp_path):
    """Weights, loss, outputs and gradients; also after saving and loading."""
    bert, general = randomized(member.bert_class(member.config)), member.general()
    names = {name: name for name in bert.state_dict()}
    if member.fields is FUSION:
        inner = "" if member.encoder == "" else "multiscale."
        for name in names:
            own = name.removeprefix(member.encoder)
            new = own if name.startswith(member.new) else f"encoder.{own}"
            names[name] = name.replace("classifier", "multiscale_classifier") if "bert" not in name else inner + new
            if member.encoder == "" or name.startswith("bert.fusion."):
                names[name] = inner + new.removeprefix("bert.")
    else:
        names = {name: name.replace("bert.", "encoder.", 1) for name in names}
    general.load_state_dict({names[name]: weight for name, weight in bert.state_dict().items()})
    inputs = {**batch("bert"), **member.inputs}
    bert.save_pretrained(tmp_path)
    loaded, info = member.bert_class.from_pretrained(tmp_path, output_loading_info=True)
    assert not any(info.values()), info
    expected = general(**inputs)
    for model in (bert, loaded):
        found = model(**inputs)
        torch.testing.assert_close(found.to_tuple(), expected.to_tuple(), **TOLERANCE)
    for model in (bert, general):
        outputs = model.train()(**inputs)
        (outputs.loss if member.inputs else outputs.last_hidden_state.square().mean()).backward()
    for name, weight in bert.named_parameters():
        torch.testing.assert_close(weight.grad, general.get_parameter(names[name]).grad, **TOLERANCE)


def test_what_loading_must_not_thaw(tmp_path):
    """Loading makes new parameters, and `DistributedDataParallel` waits for a gradient of each that asks for one."""
    BertModel(plain_config()).save_pretrained(tmp_path)
    for mode in ("hard", "ste"):
        model = MultiScaleBertModel.from_pretrained(tmp_path, mask_mode=mode)
        assert model.fusion[0].mask_key.weight.requires_grad == (mode == "ste")
    model = BertPairwiseParser.from_pretrained(tmp_path, freeze_encoder=True).train()
    assert model.training and not model.bert.training
    assert not any(weight.requires_grad for weight in model.bert.parameters())


def test_attention_mask_of_another_shape():
    inputs = batch("bert")
    inputs["attention_mask"] = inputs["attention_mask"][:, None, None]
    with pytest.raises(ValueError, match=r"must be \(batch, tokens\) = \(3, 9\), got \(3, 1, 1, 9\)"):
        MultiScaleBertModel(MEMBERS[0].config)(**inputs)
