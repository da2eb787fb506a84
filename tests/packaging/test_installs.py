"""Builds and installs a copy of the sources, without the network, in every way that pip offers."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest

pytestmark = pytest.mark.heavy

ROOT = Path(__file__).parents[2]
PACKAGES = {
    "configuration": "msattn/configuration",
    "model_cards": "msattn/model_cards",
    "modeling": "msattn/modeling",
    "plugin": "msattn",
}


SCRIPTS = ("run_re.py", "run_glue.py", "run_tagging.py", "run_parsing.py", "run_ranking.py")
SOURCES = (
    *("setup.cfg", "pyproject.toml", "MANIFEST.in", "README.md", "CHANGELOG.md", "CITATION.cff", "LICENSE"),
    *("msattn_command.py", *SCRIPTS),
)
# What Transformers itself imports depends on its release.
CHEAP_IMPORT = (
    "import sys, transformers.modeling_utils, transformers.pipelines; before = set(sys.modules); import msattn;"
    "assert not {'datasets', 'evaluate', 'matplotlib', 'sklearn', 'pandas'} & (set(sys.modules) - before)"
)
CARDS = re.compile(r"msattn/model_cards/(reference/|[a-z-]+\.(md|json)$)")


def pip(*arguments: str | Path, python: str | Path = sys.executable) -> None:
    command = [python, "-m", "pip", "--quiet", "--disable-pip-version-check", *arguments]
    run = subprocess.run(command, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr


@pytest.fixture(scope="module")
def sources(tmp_path_factory):
    """A checkout whose path holds a space, without what an earlier build has left behind."""
    folder = tmp_path_factory.mktemp("a checkout")
    for name in PACKAGES:
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in SOURCES:
        shutil.copy(ROOT / name, folder)
    return folder


@pytest.fixture(scope="module")
def wheel(sources, tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    pip("wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", folder, sources)
    return next(folder.glob("*.whl"))


def test_the_wheel_holds_msattn_and_nothing_else(sources, wheel):
    version = wheel.name.split("-")[1]
    expected = {
        f"{package}/{file.relative_to(sources / folder).as_posix()}"
        for folder, package in PACKAGES.items()
        for file in (sources / folder).rglob("*")
        if file.is_file()
    } | {"msattn_command.py", *(f"msattn/scripts/{name}" for name in SCRIPTS)}
    # The cards of the reference models and their recipes stay in the repository.
    expected = {name for name in expected if not CARDS.match(name)}
    names = set(zipfile.ZipFile(wheel).namelist())
    metadata = f"msattn-{version}.dist-info/"
    assert {name for name in names if not name.startswith(metadata)} == expected
    assert {"msattn/py.typed", "msattn/model_cards/TEMPLATE.md", f"{metadata}licenses/LICENSE"} <= names


def test_the_sdist_builds_the_same_wheel(sources, wheel, tmp_path):
    code = "import sys; from setuptools import build_meta; print(build_meta.build_sdist(sys.argv[1]))"
    run = subprocess.run([sys.executable, "-c", code, tmp_path], cwd=sources, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    sdist = tmp_path / run.stdout.splitlines()[-1]
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {*SOURCES, "plugin/py.typed"} <= names
    pip("wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", tmp_path, sdist)
    (built,) = tmp_path.glob("*.whl")
    assert set(zipfile.ZipFile(built).namelist()) == set(zipfile.ZipFile(wheel).namelist())


@pytest.mark.parametrize(
    "options",
    [
        pytest.param((), id="wheel"),
        pytest.param(("--editable",), id="editable", marks=pytest.mark.slow),
        pytest.param(("--config-settings", "editable_mode=strict", "--editable"), id="strict", marks=pytest.mark.slow),
    ],
)
def test_an_installation_imports_from_the_root_and_from_elsewhere(options, sources, wheel, tmp_path):
    environment = tmp_path / "environment"
    venv.create(environment, symlinks=True)
    site = Path(sysconfig.get_path("purelib", "venv", {"base": str(environment)}))
    # The dependencies are those of the environment that runs the tests, after the new one's own packages.
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib"))
    python = environment / "bin" / "python"
    pip("install", "--no-deps", "--no-build-isolation", *options, sources if options else wheel, python=python)
    checks = {
        sources: f"{CHEAP_IMPORT};"
        "import msattn.configuration, msattn.metrics, msattn.modeling, importlib.resources as resources;"
        "(resources.files('msattn.model_cards') / 'TEMPLATE.md').read_text(); print(msattn.__file__)",
        tmp_path: "import importlib.util; print(importlib.util.find_spec('msattn').origin)",
    }
    for folder, code in checks.items():
        run = subprocess.run([python, "-c", code], cwd=folder, capture_output=True, text=True)
        assert run.returncode == 0, run.stderr
        assert Path(run.stdout.strip()).is_relative_to(sources if options else environment), run.stdout
    helped = subprocess.run([environment / "bin" / "msattn", "--help"], cwd=tmp_path, capture_output=True, text=True)
    assert helped.stdout.startswith("usage: msattn COMMAND"), helped.stderr
