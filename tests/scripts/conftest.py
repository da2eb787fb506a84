from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from msattn.data.demo_corpus import DemoPaths, write_demo
from msattn.errors import UserError
from tests.scripts.command_line import command_line
from tests.tiny_models import saved_encoder


@pytest.fixture(scope="session")
def demo(tmp_path_factory) -> DemoPaths:
    return write_demo(tmp_path_factory.mktemp("demo"))


@pytest.fixture(scope="module")
def encoder(tmp_path_factory) -> Path:
    """A BERT of two layers and its tokenizer. Modules that need another one have a fixture of this name."""
    return saved_encoder(tmp_path_factory.mktemp("encoder"), layers=2)


@pytest.fixture
def run(request, tmp_path, monkeypatch):
    """
    Runs the `SCRIPT` of a test's module in this process and returns all its metrics: two steps with the module's
    fixture `encoder`, unless `options` say otherwise; None leaves one out.
    """
    encoder = request.getfixturevalue("encoder")

    def run(*flags: str, script: Any = None, **options: Any) -> dict[str, Any]:
        script = script or request.module.SCRIPT
        values = {
            "model_name_or_path": encoder,
            "output_dir": tmp_path / "out",
            "max_steps": 2,
            "save_strategy": "no",
            "report_to": "none",
            "disable_tqdm": True,
            "use_cpu": True,
            **options,
        }
        monkeypatch.setattr(sys, "argv", [script.__name__, *command_line(flags, values)])
        script.main()
        return json.loads((Path(values["output_dir"]) / "all_results.json").read_text(encoding="utf-8"))

    return run


@pytest.fixture
def run_into(run, tmp_path):
    """As `run`, for tests of several scripts: runs one of them and returns the folder that it wrote."""

    def run_into(script: Any, *flags: str, into: str = "out", **options: Any) -> Path:
        run(*flags, script=script, output_dir=tmp_path / into, **options)
        return tmp_path / into

    return run_into


@pytest.fixture
def fails(run, capsys):
    """As `run`, for a mistake of the user: returns the one line that says it."""

    def fails(*flags: str, **options: Any) -> str:
        capsys.readouterr()
        with pytest.raises((UserError, SystemExit)) as stop:
            run(*flags, **options)
        if isinstance(stop.value, UserError):
            return f"error: {stop.value}"
        error = capsys.readouterr().err
        assert stop.value.code == 2 and "Traceback" not in error
        return next(line for line in error.splitlines() if line.startswith("error: "))

    return fails
