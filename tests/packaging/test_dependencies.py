from __future__ import annotations

import ast
import re
import sys
from importlib.metadata import packages_distributions
from pathlib import Path

from tests.packaging.lowest_requirements import lowest_requirements

ROOT = Path(__file__).parents[2]


def dependencies() -> set[str]:
    return {requirement.split("==")[0] for requirement in lowest_requirements()}


def imported_modules(path: Path) -> set[str]:
    modules = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            modules |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            modules.add(node.module.split(".")[0])
    return modules


def test_what_the_package_imports_is_a_dependency():
    files = [file for folder in ("configuration", "modeling", "plugin") for file in (ROOT / folder).rglob("*.py")]
    imported = set().union(*map(imported_modules, files)) - set(sys.stdlib_module_names) - {"msattn"}
    distributions = packages_distributions()
    undeclared = {module for module in imported if not dependencies() & {module, *distributions.get(module, ())}}
    assert not undeclared


def test_the_guide_says_why_each_dependency_is_there():
    guide = (
        (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8").split("## Dependencies")[1].split("For development:")[0]
    )
    assert set(re.findall(r"^\| (\w[\w.-]+) \|", guide, flags=re.MULTILINE)) - {"package"} == dependencies()
