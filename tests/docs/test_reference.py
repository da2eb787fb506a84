from __future__ import annotations

import inspect
import re
import runpy
from collections import Counter
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pathlib import Path

import griffe
import pytest
from transformers import Trainer

ROOT = Path(__file__).parents[2]
SITE = runpy.run_path(str(ROOT / "docs/site/docstrings.py"))
ROOMS, markdown = SITE["ROOMS"], SITE["markdown"]
MODULES = {"data", "metrics", "onnx", "plots"}  # They are public names of msattn, and have pages of their own.


def public_names() -> Iterator[tuple[str, str]]:
    for room in ROOMS:
        yield from ((room, name) for name in import_module(room).__all__ if name not in MODULES)


@cache
def package() -> griffe.Module:
    return griffe.load("msattn")


def docstrings(obj: griffe.Object) -> Iterator[tuple[str, str]]:
    if obj.docstring:
        yield obj.path, obj.docstring.value
    for member in obj.members.values():
        if not member.is_alias:
            yield from docstrings(member)


def test_every_public_name_is_in_the_reference_once():
    pages = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "docs/api").glob("*.md"))
    listed = Counter(re.findall(r"^::: (\S+)$", pages, flags=re.MULTILINE))
    assert listed == Counter(f"{room}.{name}" for room, name in public_names())


@pytest.mark.parametrize(("room", "name"), [*public_names()])
def test_every_public_name_is_documented(room, name):
    documented = package().modules_collection[room][name]
    assert documented.has_docstring
    public = getattr(import_module(room), name)
    if inspect.isclass(public):
        # What bases have is documented there. The mixin is for classes derived from Trainer.
        inherited = {name for base in (*public.__mro__[1:], Trainer) for name in dir(base)}
        own = [member for key, member in documented.members.items() if key[0] != "_" and key not in inherited]
        assert not [member.path for member in own if member.is_function and not member.has_docstring]


def test_every_section_of_every_docstring_is_rendered():
    for path, docstring in docstrings(package()):
        text = markdown(docstring, {})
        assert not re.search(r"^(Args|Attributes|Raises|Returns|Yields|Examples?):$", text, flags=re.MULTILINE), path
        for body in re.findall(r"^\*\*(?:Parameters|Attributes|Raises)\*\*\n\n(.*?)\n\n", text + "\n\n", re.M | re.S):
            assert re.match(r"- ", body), path
            assert not re.search(r"^[^- ]", body, flags=re.MULTILINE), path


def test_a_docstring_as_markdown():
    docstring = "Args:\n    one (`int`): Numbers:\n        both."
    assert markdown(docstring, {}).strip() == "**Parameters**\n\n- `one` (`int`): Numbers:\n    both."
    assert markdown("See [`add`].", {"add": "msattn.add"}).strip() == "See [`add`][msattn.add]."
