from __future__ import annotations

import ast
import importlib
import re
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest
from transformers import AutoConfig, PreTrainedConfig

import msattn
from msattn import AutoModelForRelationExtraction
from msattn.auto import FAMILIES, auto_class_of
from tests.tiny_models import tiny_relation_extractor

SIZES = {"vocab_size": 30, "hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 8}
WAYS = [
    pytest.param(config, auto_class, name, id=f"{name}-{auto_class.__name__}")
    for config, models in FAMILIES.items()
    for auto_class, names in models.items()
    for name in names.split()
]


@pytest.fixture
def model():
    return tiny_relation_extractor()[0]


@pytest.mark.parametrize(("config", "auto_class", "name"), WAYS)
def test_auto_classes_build_and_load(config, auto_class, name, tmp_path):
    own = {field: size for field, size in SIZES.items() if field in config.__dataclass_fields__}
    settings = config(**({"encoder": {"model_type": "bert", **SIZES}} if "encoder" in config.sub_configs else own))
    model_class = getattr(msattn, name)
    if auto_class._model_mapping[config][0] is model_class:
        assert type(auto_class.from_config(settings)) is model_class
    model_class(settings).save_pretrained(tmp_path)
    # The installed class wins over the checkpoint's code.
    for options in ({}, {"trust_remote_code": True}):
        assert type(auto_class.from_pretrained(tmp_path, **options)) is model_class
    assert type(AutoConfig.from_pretrained(tmp_path)) is config


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


def test_every_class_of_the_package_has_a_task():
    names = {
        name
        for name in {*msattn.__all__, *msattn._MODULE_OF}
        if re.match("(?!Auto).*(Classification|Parser|RE)$", name)
    }
    assert {"BertForMultiScaleSequenceClassification", "BertPairwiseParser"} < names
    for name in names:
        assert auto_class_of(PreTrainedConfig(architectures=[name]), name).__name__.startswith("AutoModelFor")


def test_registration_can_be_repeated(caplog):
    importlib.reload(msattn)
    assert not caplog.records


def test_public_names():
    assert msattn.__version__ == version("msattn")
    assert all(hasattr(msattn, name) for name in {*msattn.__all__, *msattn._MODULE_OF})
    assert msattn.data.__name__ == "msattn.data"
    with pytest.raises(AttributeError, match="nothing"):
        _ = msattn.nothing


def test_type_checkers_take_every_name_as_public():
    imports = [node for node in ast.walk(ast.parse(Path(msattn.__file__).read_text())) if hasattr(node, "names")]
    aliases = [alias for node in imports for alias in node.names]
    assert {*msattn._MODULE_OF} <= {one.name for one in aliases if one.asname or one.name in msattn.__all__}


READ = "from transformers import AttentionInterface as A; assert {'received', 'banded', 'words', 'rows'} < {*A()}"


FIRST_IMPORTS = [
    "import sys, msattn; assert not {'transformers.modeling_utils', 'transformers.pipelines'} & {*sys.modules}",
    "import sys, msattn.plots; assert 'matplotlib' not in sys.modules",
    "from msattn.modeling.attention_call import AttentionRefused",
    # The file of a model imports what registers attention before its own classes are there.
    f"import msattn; from transformers import DebertaV2Model, MPNetModel; {READ}",
    f"import msattn, transformers.processing_utils; from msattn.modeling import attention_windows; {READ}",
    "from msattn.pipelines.dependency_parsing import DependencyParsingPipeline",
    f"import msattn; {READ}",
    f"import transformers.modeling_utils, msattn; {READ}",
    "import msattn; from transformers.pipelines import PIPELINE_REGISTRY as P; P.check_task('dependency-parsing')",
]
# Forks a process for each, after importing torch and others that import neither Transformers nor msattn.
EACH_FIRST = """
import os, sys, scipy.stats, sklearn.metrics, torch, torch._dynamo
assert not {"transformers", "msattn", "matplotlib"} & {*sys.modules}
for code in sys.argv[1:]:
    if not os.fork():
        exec(code, {})
        os._exit(0)
    assert os.wait()[1] == 0, code
"""


@pytest.mark.heavy
def test_what_takes_long_is_imported_late():
    """And what depends on it is registered then, whatever is imported first."""
    subprocess.run([sys.executable, "-c", EACH_FIRST, *FIRST_IMPORTS], check=True, timeout=300)
