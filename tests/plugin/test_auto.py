from __future__ import annotations

import importlib
from importlib.metadata import version

import pytest
from transformers import (
    AutoConfig,
    AutoModel,
    AutoModelForSequenceClassification,
    BertConfig,
    BertForSequenceClassification,
)

import msattn
from msattn import (
    AutoModelForRelationExtraction,
    BertForMultiScaleRE,
    BertForMultiScaleSequenceClassification,
    MultiScaleBertConfig,
    MultiScaleBertModel,
)
from tests.tiny_models import tiny_relation_extractor

AUTO_CLASSES = {
    AutoModel: MultiScaleBertModel,
    AutoModelForRelationExtraction: BertForMultiScaleRE,
    AutoModelForSequenceClassification: BertForMultiScaleSequenceClassification,
}


SIZES = {"vocab_size": 8, "hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 1, "intermediate_size": 8}


@pytest.fixture
def model():
    return tiny_relation_extractor()[0]


def test_the_configuration_is_registered(model, tmp_path):
    assert AutoConfig.for_model("multiscale_bert") == MultiScaleBertConfig()
    model.config.save_pretrained(tmp_path)
    assert type(AutoConfig.from_pretrained(tmp_path)) is MultiScaleBertConfig


@pytest.mark.parametrize("auto_class", AUTO_CLASSES, ids=lambda auto_class: auto_class.__name__)
def test_auto_classes_build_and_load(auto_class, tmp_path):
    built = auto_class.from_config(MultiScaleBertConfig(**SIZES))
    assert type(built) is AUTO_CLASSES[auto_class]
    built.save_pretrained(tmp_path)
    assert type(auto_class.from_pretrained(tmp_path)) is AUTO_CLASSES[auto_class]
    # The installed class wins over the checkpoint's code.
    assert type(auto_class.from_pretrained(tmp_path, trust_remote_code=True)) is AUTO_CLASSES[auto_class]


def test_a_relation_extractor_stays_one_under_the_stock_auto_class(model, tmp_path):
    model.save_pretrained(tmp_path)
    loaded = AutoModelForSequenceClassification.from_pretrained(tmp_path)
    assert type(loaded) is BertForMultiScaleRE
    assert all(loaded.state_dict()[name].equal(weight) for name, weight in model.state_dict().items())


def test_new_families_can_register():
    class OtherConfig(BertConfig):
        model_type = "other"

    class OtherModel(BertForSequenceClassification):
        config_class = OtherConfig

    AutoModelForRelationExtraction.register(OtherConfig, OtherModel)
    try:
        config = OtherConfig(**SIZES)
        assert type(AutoModelForRelationExtraction.from_config(config)) is OtherModel
    finally:
        del AutoModelForRelationExtraction._model_mapping._extra_content[OtherConfig]


def test_code_of_a_family_that_msattn_does_not_know_loads_with_consent(model, tmp_path):
    model.save_pretrained(tmp_path)
    for path in tmp_path.glob("*.py"):
        path.write_text(path.read_text().replace("MultiScaleBertConfig", "NewConfig"))
    for path in (tmp_path / "config.json", tmp_path / "configuration_multiscale_bert.py"):
        text = path.read_text().replace('"multiscale_bert"', '"new_family"')
        path.write_text(text.replace("MultiScaleBertConfig", "NewConfig"))
    with pytest.raises(ValueError, match="trust_remote_code=True"):
        AutoModelForRelationExtraction.from_pretrained(tmp_path)
    loaded = AutoModelForRelationExtraction.from_pretrained(tmp_path, trust_remote_code=True)
    assert type(loaded).__module__.startswith("transformers_modules")
    loaded.save_pretrained(tmp_path / "again")
    again = AutoModelForRelationExtraction.from_pretrained(tmp_path / "again", trust_remote_code=True)
    assert again.config.model_type == "new_family"


def test_a_checkpoint_of_another_task_is_refused(tmp_path):
    config = BertConfig(**SIZES)
    BertForSequenceClassification(config).save_pretrained(tmp_path)
    with pytest.raises(ValueError, match="AutoModelForRelationExtraction"):
        AutoModelForRelationExtraction.from_pretrained(tmp_path)


def test_registration_can_be_repeated(caplog):
    importlib.reload(msattn)
    assert not caplog.records


def test_public_names():
    assert msattn.__version__ == version("msattn")
    assert all(hasattr(msattn, name) for name in msattn.__all__)
    assert msattn.data.__name__ == "msattn.data"
    with pytest.raises(AttributeError, match="nothing"):
        _ = msattn.nothing
