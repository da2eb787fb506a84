"""A full disk names the file that it has no room for, leaves no torn file, and the run goes on where there is room."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults.runs import LOG, finish, results, start

pytestmark = [pytest.mark.heavy, pytest.mark.slow]

LAST = ["--resume_from_checkpoint", "last"]


@pytest.fixture(scope="module")
def whole(commands, tmp_path_factory):
    folder = tmp_path_factory.mktemp("whole") / "run"
    finish(*commands["tagger"], folder)
    return results(folder)


@pytest.mark.parametrize("room", [0, 300, 1_000, 5_000, 15_000, 60_000])
def test_no_room_for_larger_files(room, commands, whole, tmp_path):
    script, argv = commands["tagger"]
    process = start(script, argv, tmp_path / "run", room=room)
    process.join()
    assert process.exitcode in (0, 2)
    left = [path for path in (tmp_path / "run").rglob("*") if path.is_file()]
    assert not [path for path in left if not path.stat().st_size and path.name not in ("unfinished", "_run.lock")]
    if room >= LOG and process.exitcode:
        log = Path(f"{tmp_path / 'run'}.log").read_text(encoding="utf-8")
        assert str(tmp_path / "run") in log.splitlines()[-1] and "Traceback" not in log
    finish(script, argv + LAST, tmp_path / "run")
    assert results(tmp_path / "run") == whole
