"""A run that is killed at any moment and resumed ends as the run that nobody disturbed, bit by bit."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults.runs import finish, kill, moments, results, start

pytestmark = [pytest.mark.heavy, pytest.mark.slow]

LAST = ["--resume_from_checkpoint", "last"]
NAMES = ("relations", "seeds", "study", "parser", "tagger", "ranking")
# Nine for each of the six runs.
KILLS = 9


@pytest.fixture(scope="module")
def whole(commands, tmp_path_factory):
    """The results of a run that nobody disturbed, its number of writes and its seconds."""
    known = {}

    def run(name: str) -> tuple[dict, int, float]:
        if name not in known:
            folder = tmp_path_factory.mktemp("whole") / name
            size = finish(*commands[name], folder)
            known[name] = results(folder), *size
        return known[name]

    return run


def resumed_after(moment: int | float, name: str, commands, folder: Path, seconds: float) -> tuple[int, dict]:
    script, argv = commands[name]
    process = start(script, argv, folder, moment if isinstance(moment, int) else None)
    if isinstance(moment, int):
        process.join()
    else:
        kill(process, moment * seconds)
    code = process.exitcode
    finish(script, argv + LAST, folder)
    return code, results(folder)


@pytest.mark.parametrize("number", range(KILLS))
@pytest.mark.parametrize("name", NAMES)
def test_killed_at_a_random_moment(name, number, commands, whole, tmp_path):
    expected, writes, seconds = whole(name)
    moment = moments(NAMES.index(name), KILLS, writes)[number]
    code, found = resumed_after(moment, name, commands, tmp_path / "run", seconds)
    assert code in (-9, 0)
    assert found == expected


@pytest.mark.parametrize("name", NAMES)
def test_killed_twice(name, commands, whole, tmp_path):
    expected, writes, seconds = whole(name)
    script, argv = commands[name]
    for share, more in ((0.6, []), (0.3, LAST)):
        process = start(script, argv + more, tmp_path / "run", int(share * writes))
        process.join()
        assert process.exitcode == -9
    finish(script, argv + LAST, tmp_path / "run")
    assert results(tmp_path / "run") == expected


@pytest.mark.parametrize("name", NAMES)
def test_finished_and_resumed_stays_as_it_is(name, commands, tmp_path):
    script, argv = commands[name]
    finish(script, argv, tmp_path / "run")
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "run").rglob("*.safetensors")}
    expected = results(tmp_path / "run")
    finish(script, argv + LAST, tmp_path / "run")
    assert results(tmp_path / "run") == expected
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "run").rglob("*.safetensors")} == before
