"""Docstrings in the form of Hugging Face's doc-builder, as Markdown: an extension of griffe."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from typing import Any

import griffe

# Whose public names have a page in docs/api/. Of two rooms that share a name, the first has it.
ROOMS = ("msattn", "msattn.data", "msattn.metrics", "msattn.plots", "msattn.onnx", "msattn.app")
TITLES = {"Args": "Parameters"}
SECTION = re.compile(
    r"^(Args|Attributes|Raises|Returns|Yields|Example):\n((?:(?: .*)?\n)*(?: .*)?)", flags=re.MULTILINE
)
ITEM = re.compile(r"^(?P<names>[^\s(:][^(:]*?)(?P<type> \(.*?\))?:(?= |$)", flags=re.MULTILINE)
REFERENCE = re.compile(r"\[`~?([\w.]+)`\](?![\[(])")


def markdown(docstring: str, public: Mapping[str, str]) -> str:
    """
    Turns a docstring into Markdown.

    Args:
        docstring (`str`): The docstring, without its indentation.
        public (`Mapping[str, str]`): The paths of all public names; references to them are links.

    Returns:
        `str`: Parameters, attributes and errors are lists, other sections text. Examples are sessions of Python.
    """
    text = SECTION.sub(_section, docstring).replace("```python\n>>>", "```pycon\n>>>")
    return REFERENCE.sub(lambda match: _link(match[1], public), text)


def _section(match: re.Match[str]) -> str:
    title, body = match[1], re.sub("^    ", "", match[2], flags=re.MULTILINE).strip("\n")
    if title in ("Args", "Attributes", "Raises"):
        body = ITEM.sub(_item, body)
    return f"**{TITLES.get(title, title)}**\n\n{body}\n\n"


def _item(match: re.Match[str]) -> str:
    names = ", ".join(f"`{name}`" for name in re.split(r",\s*", match["names"].replace("`", "")))
    return f"- {names}{match['type'] or ''}:"


def _link(name: str, public: Mapping[str, str]) -> str:
    path = public.get(name.rpartition(".")[2]) or public.get(name.partition(".")[0])
    return f"[`{name}`][{path}]" if path else f"`{name}`"


def _describe(field: griffe.Attribute) -> None:
    """Gives a field of a dataclass the help of its command-line argument as its docstring, and its plain default."""
    given = {word.arg: word.value for word in ast.parse(str(field.value), mode="eval").body.keywords}
    match given.get("metadata"):
        case ast.Dict(keys=[ast.Constant(value="help"), *_], values=[ast.Constant(value=text), *_]):
            field.docstring = griffe.Docstring(text, parent=field)
            field.value = ast.unparse(given["default"]) if "default" in given else None


class HuggingFaceDocstrings(griffe.Extension):
    """Turns all docstrings of the package into Markdown."""

    def on_package(self, *, pkg: griffe.Module, **kwargs: Any) -> None:
        rooms = {room: pkg.modules_collection[room] for room in reversed(ROOMS)}
        public = {
            name: f"{room}.{name}"
            for room, module in rooms.items()
            for name in map(str, module.exports or ())
            if f"{room}.{name}" not in ROOMS
        }
        self._change(pkg, public)

    def _change(self, obj: griffe.Object, public: Mapping[str, str]) -> None:
        if obj.is_attribute and str(obj.value).startswith("field("):
            _describe(obj)
        if obj.docstring:
            obj.docstring.value = markdown(obj.docstring.value, public)
        for member in obj.members.values():
            if not member.is_alias:
                self._change(member, public)
