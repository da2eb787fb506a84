from __future__ import annotations

import ast
import json
import sys

import pytest

from msattn import BertForMultiScaleRE, BertForMultiScaleSequenceClassification, MultiScaleBertModel
from msattn.modeling import hub_export
from msattn.modeling.hub_export import flat_sources
from tests.tiny_models import tiny_relation_extractor

SOURCES = {"modeling_multiscale_bert.py", "configuration_multiscale_bert.py", "relation_extraction.py"}


class Subclass(BertForMultiScaleRE):
    pass


@pytest.fixture
def model():
    return tiny_relation_extractor()[0]


def names(folder):
    return {path.name for path in folder.iterdir()}


def test_a_checkpoint_carries_its_code(model, tmp_path):
    model.save_pretrained(tmp_path)
    sources = {path.stem: path for path in tmp_path.glob("*.py")}
    assert names(tmp_path) == {path.name for path in sources.values()} | {"config.json", "model.safetensors"}
    assert SOURCES < names(tmp_path)
    for source in sources.values():
        for node in ast.walk(ast.parse(source.read_text())):
            if isinstance(node, ast.ImportFrom):
                assert node.module in sources if node.level == 1 else not node.level
                assert not (node.module or "").startswith("msattn")


@pytest.mark.parametrize(
    "cls, auto_classes",
    [
        (MultiScaleBertModel, []),
        (BertForMultiScaleRE, ["AutoModelForRelationExtraction", "AutoModelForSequenceClassification"]),
        (BertForMultiScaleSequenceClassification, ["AutoModelForSequenceClassification"]),
    ],
)
def test_auto_map(model, cls, auto_classes, tmp_path):
    cls(model.config).save_pretrained(tmp_path)
    assert json.loads((tmp_path / "config.json").read_text())["auto_map"] == {
        "AutoConfig": "configuration_multiscale_bert.MultiScaleBertConfig",
        "AutoModel": "modeling_multiscale_bert.MultiScaleBertModel",
        **dict.fromkeys(auto_classes, f"modeling_multiscale_bert.{cls.__name__}"),
    }


def test_saving_leaves_the_configuration_as_it_was(model, tmp_path):
    model.save_pretrained(tmp_path)
    assert not hasattr(model.config, "auto_map")
    model.config.auto_map = {"AutoModel": "someone/else--modeling.Model"}
    model.save_pretrained(tmp_path)
    assert model.config.auto_map == {"AutoModel": "someone/else--modeling.Model"}


def test_a_class_from_elsewhere_is_saved_without_code(model, tmp_path):
    Subclass(model.config).save_pretrained(tmp_path)
    assert names(tmp_path) == {"config.json", "model.safetensors"}


def test_only_the_main_process_writes(model, tmp_path):
    model.save_pretrained(tmp_path, is_main_process=False)
    # Early releases of Transformers 5 write the weights in every process.
    assert names(tmp_path) <= {"model.safetensors"}


def test_old_shards_go_and_other_files_stay(model, tmp_path):
    (tmp_path / "tokenizer.json").touch()
    model.save_pretrained(tmp_path, max_shard_size="4KB")
    sharded = {name for name in names(tmp_path) if "-of-" in name}
    assert len(sharded) > 1
    model.save_pretrained(tmp_path)
    assert not sharded & names(tmp_path)
    assert {"model.safetensors", "tokenizer.json"} <= names(tmp_path)


def test_imports_are_followed_and_flattened(tmp_path):
    (tmp_path / "configuration").mkdir()
    (tmp_path / "modeling").mkdir()
    (tmp_path / "configuration" / "configuration_x.py").write_text("import math\n")
    (tmp_path / "modeling" / "layers.py").write_text("from ..configuration.configuration_x import math\n")
    (tmp_path / "modeling" / "modeling_x.py").write_text(
        "import json\nfrom ..configuration.configuration_x import (\n    math,\n)\n"
        "def later():\n    from .layers import math\n"
    )
    assert flat_sources(tmp_path / "modeling" / "modeling_x.py") == {
        "configuration_x.py": "import math\n",
        "layers.py": "from .configuration_x import math\n",
        "modeling_x.py": "import json\nfrom .configuration_x import (\n    math,\n)\n"
        "def later():\n    from .layers import math\n",
    }


def test_two_files_of_one_name_are_refused(tmp_path):
    for folder in ("configuration", "modeling"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "layers.py").write_text(f"# {folder}\n")
    (tmp_path / "modeling" / "modeling_x.py").write_text(
        "from .layers import a\nfrom ..configuration.layers import b\n"
    )
    with pytest.raises(ValueError, match="layers.py"):
        flat_sources(tmp_path / "modeling" / "modeling_x.py")
    # Remote code lies in the cache of Transformers and beside the checkpoint.
    (tmp_path / "modeling" / "layers.py").write_text("# configuration\n")
    assert flat_sources(tmp_path / "modeling" / "modeling_x.py")["layers.py"] == "# configuration\n"


def test_the_exporter_needs_only_the_standard_library():
    tree = ast.parse(open(hub_export.__file__).read())
    imported = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    imported |= {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert {name.partition(".")[0] for name in imported} <= set(sys.stdlib_module_names)
