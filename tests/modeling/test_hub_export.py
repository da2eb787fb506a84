from __future__ import annotations

import ast
import builtins
import json
import re
import symtable
from importlib import import_module
from pathlib import Path

import pytest

import msattn
from msattn import BertForMultiScaleRE, BertForMultiScaleSequenceClassification, MultiScaleBertModel
from msattn.modeling import hub_export
from msattn.modeling.hub_export import joined_sources
from tests.tiny_models import tiny_relation_extractor

SOURCES = {"configuration_multiscale_bert.py", "modeling_multiscale_bert.py", "pipeline_relation_extraction.py"}
PACKAGE = Path(msattn.__file__).parent


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
    assert {path.name for path in sources.values()} == SOURCES
    for source in sources.values():
        for node in ast.walk(ast.parse(source.read_text())):
            if isinstance(node, ast.ImportFrom):
                assert node.module in sources if node.level else True
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
    assert not names(tmp_path)


def test_old_shards_go_and_other_files_stay(model, tmp_path):
    (tmp_path / "tokenizer.json").touch()
    model.save_pretrained(tmp_path, max_shard_size="4KB")
    sharded = {name for name in names(tmp_path) if "-of-" in name}
    assert len(sharded) > 1
    model.save_pretrained(tmp_path)
    assert not sharded & names(tmp_path)
    assert {"model.safetensors", "tokenizer.json"} <= names(tmp_path)


def bound(statement):
    """The names that a statement at the top of a file gives a value."""
    table = symtable.symtable(ast.unparse(statement), "", "exec")
    return {name.get_name() for name in table.get_symbols() if name.is_assigned() or name.is_imported()}


@pytest.fixture(scope="module")
def exported():
    """The joined files of all models."""
    files = {}
    for path in Path(hub_export.__file__).parent.glob("modeling_*.py"):
        family = path.stem.removeprefix("modeling_")
        tasks = {
            task: PACKAGE / file
            for cls in vars(import_module(f"msattn.modeling.{path.stem}")).values()
            for task, (file, *_) in getattr(cls, "_hub_pipelines", {}).items()
        }
        for task in tasks or [None]:
            paths = {f"configuration_{family}": PACKAGE / f"configuration/configuration_{family}.py", path.stem: path}
            paths |= {f"pipeline_{task}": tasks[task]} if task else {}
            files |= {(family, task, name): text for name, text in joined_sources(paths).items()}
    return files


def test_no_two_joined_files_use_one_name_for_two_things(exported):
    assert len(exported) == 22
    for key, text in exported.items():
        owners = dict.fromkeys(dir(builtins), ast.parse("a_name_of_Python"))
        for statement in ast.parse(text).body:
            for name in bound(statement):
                owner = owners.setdefault(name, statement)
                assert owner is statement or ast.unparse(owner) == ast.unparse(statement), (*key, name)


def test_joined_files_agree_on_when_annotations_are_evaluated(exported):
    # `@strict` checks the types of a configuration, and would see only strings.
    future = "from __future__ import annotations\n"
    for key, text in exported.items():
        labels = re.findall(r"^# (\S+\.py)$", text, flags=re.MULTILINE)
        assert labels
        for label in labels:
            source = next(
                path
                for path in (PACKAGE.parent / label, PACKAGE / label, *PACKAGE.glob(f"*/{label}"))
                if path.is_file()
            )
            assert (future in source.read_text(encoding="utf-8")) == (future in text), (*key, label)
