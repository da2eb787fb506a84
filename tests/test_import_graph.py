"""No import points upwards, and no two files need each other."""

from __future__ import annotations

import ast
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
# Each room may import itself and what is named behind it.
ROOMS = {
    "errors": "",
    "writing": "errors",
    "configuration": "",
    "modeling": "configuration",
    "streaming": "errors writing",
    "command_line": "errors writing",
    "data.files": "errors",
    "data.formats": "errors data.files",
    "data.inputs": "errors data.files",
    "data": "errors data.formats data.files data.inputs",
    "trees": "errors modeling",
    "guiding": "errors modeling data.files data.inputs",
    "metrics": "errors data.files data.inputs trees",
    "training": (
        "errors configuration modeling data.files data.formats data data.inputs trees guiding metrics command_line"
    ),
    "pipelines": "errors configuration modeling data.files data.formats data data.inputs trees",
    "plots": "errors command_line configuration modeling data data.files data.inputs trees pipelines loading",
    "auto": "errors configuration modeling pipelines",
    "onnx": "errors writing configuration modeling",
    "loading": "errors command_line auto onnx training",
    "predict": "errors command_line data.files data auto loading pipelines streaming",
    "export": "errors command_line onnx loading",
    "app": "errors command_line data.inputs pipelines plots auto loading",
    "demo": "data plots",
    "": "errors configuration modeling data trees guiding metrics training pipelines plots auto onnx",
}


def module_of(path: Path) -> str:
    """Its name without `msattn.`, which `plugin` stands for."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    parts = parts[1:] if parts[0] == "plugin" else parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


FILES = {
    module_of(path): path
    for folder in ("configuration", "modeling", "plugin")
    for path in (ROOT / folder).rglob("*.py")
}


def room_of(module: str) -> str:
    return max((room for room in ROOMS if f"{module}.".startswith(f"{room}.") or not room), key=len)


def imports_of(module: str) -> set[str]:
    """The modules of this project that it imports when it is imported itself, and inside of functions."""
    path, found = FILES[module], set()
    package = module.split(".") if path.name == "__init__.py" else module.split(".")[:-1]
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names = [alias.name.removeprefix("msattn") for alias in node.names if alias.name.split(".")[0] == "msattn"]
            found |= {name.lstrip(".") for name in names}
        elif isinstance(node, ast.ImportFrom):
            if node.level:
                base = ".".join([*package[: len(package) - node.level + 1], *filter(None, [node.module])])
            elif (node.module or "").split(".")[0] == "msattn":
                base = node.module.removeprefix("msattn").lstrip(".")
            else:
                continue
            for alias in node.names:
                inner = f"{base}.{alias.name}".lstrip(".")
                found.add(inner if inner in FILES else base)
    return found - {module}


def test_every_file_is_in_a_room():
    assert {room_of(module) for module in FILES} == set(ROOMS)


@pytest.mark.parametrize("room", ROOMS)
def test_no_import_points_upwards(room):
    allowed = {room, *ROOMS[room].split()}
    wrong = {
        f"{module} imports {imported}"
        for module in FILES
        if room_of(module) == room
        for imported in imports_of(module)
        if room_of(imported) not in allowed
    }
    assert not wrong


def test_rooms_and_files_need_each_other_in_one_direction_only():
    rooms = TopologicalSorter({room: below.split() for room, below in ROOMS.items()})
    assert set(rooms.static_order()) == set(ROOMS)
    assert set(TopologicalSorter({module: imports_of(module) for module in FILES}).static_order()) >= set(FILES)
