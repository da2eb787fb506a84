from __future__ import annotations

import sys
from pathlib import Path

import pytest

import run_tagging
from tests.faults.runs import runs, write_files


@pytest.fixture(scope="session")
def files(tmp_path_factory) -> dict[str, Path]:
    return write_files(tmp_path_factory.mktemp("files"))


@pytest.fixture(scope="session")
def commands(files) -> dict[str, tuple[str, list[str]]]:
    return runs(files)


@pytest.fixture
def tag(commands, monkeypatch):
    """Runs the tagger in this process, with more arguments."""

    def tag(folder: Path, *more: object) -> None:
        argv = [*commands["tagger"][1], "--output_dir", str(folder), *map(str, more)]
        monkeypatch.setattr(sys, "argv", ["run_tagging.py", *argv])
        run_tagging.main()

    return tag


@pytest.fixture
def stops(tag, capsys):
    """As `tag`, for a run that stops: its exit code and the last line of stderr, before which is no traceback."""

    def stops(folder: Path, *more: object) -> tuple[int, str]:
        capsys.readouterr()
        with pytest.raises(SystemExit) as stop:
            tag(folder, *more)
        error = capsys.readouterr().err
        assert "Traceback" not in error
        return int(stop.value.code), error.splitlines()[-1]

    return stops
