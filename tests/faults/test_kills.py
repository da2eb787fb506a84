"""A run that is killed at any moment and resumed ends with the weights of the run that nobody disturbed."""

from __future__ import annotations

import time

import pytest

from tests.faults.runs import SCRIPTS, command, finish, results, start, write_files

pytestmark = [pytest.mark.heavy, pytest.mark.slow]

LAST = ["--resume_from_checkpoint", "last"]
# Spread over a run: every second one is before a write to the output folder, the others are points in time.
MOMENTS = 10


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    return write_files(tmp_path_factory.mktemp("files"))


@pytest.fixture(scope="module")
def whole(files, tmp_path_factory):
    """The results of a run that nobody disturbed, its number of writes and its seconds."""
    known = {}

    def run(script: str) -> tuple:
        if script not in known:
            folder = tmp_path_factory.mktemp("whole") / script
            size = finish(script, command(script, files), folder)
            known[script] = results(folder), *size
        return known[script]

    return run


@pytest.mark.parametrize("moment", range(MOMENTS))
@pytest.mark.parametrize("script", SCRIPTS)
def test_killed_and_resumed(script, moment, files, whole, tmp_path):
    expected, writes, seconds = whole(script)
    argv, share = command(script, files), (moment + 0.5) / MOMENTS
    if moment % 2:
        process = start(script, argv, tmp_path / "run", dies_at=round(share * writes))
        process.join()
        assert process.exitcode == -9
    else:
        process = start(script, argv, tmp_path / "run")
        time.sleep(share * seconds)
        process.kill()
        process.join()
    finish(script, argv + LAST, tmp_path / "run")
    assert results(tmp_path / "run") == expected


@pytest.mark.parametrize("script", SCRIPTS)
def test_killed_twice_then_finished_twice(script, files, whole, tmp_path):
    expected, writes, _ = whole(script)
    argv = command(script, files)
    for share, more in ((0.6, []), (0.3, LAST)):
        process = start(script, argv + more, tmp_path / "run", dies_at=round(share * writes))
        process.join()
        assert process.exitcode == -9
    for _ in range(2):
        finish(script, argv + LAST, tmp_path / "run")
        assert results(tmp_path / "run") == expected


@pytest.mark.parametrize("room", [0, 300, 5_000, 15_000])
def test_no_room_on_the_disk_for_larger_files(room, files, whole, tmp_path):
    process = start("run_tagging", command("run_tagging", files), tmp_path / "run", room=room)
    process.join()
    assert process.exitcode
    finish("run_tagging", command("run_tagging", files) + LAST, tmp_path / "run")
    assert results(tmp_path / "run") == whole("run_tagging")[0]


def test_another_seed_ends_with_other_weights(files, whole, tmp_path):
    """The tests above would pass, too, if nothing were drawn at random."""
    finish("run_tagging", [*command("run_tagging", files), "--seed", "7"], tmp_path / "run")
    assert results(tmp_path / "run")[0] != whole("run_tagging")[0][0]
