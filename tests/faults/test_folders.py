"""What belongs to another run is neither trained on, nor mixed with, nor deleted, unless someone says so."""

from __future__ import annotations

import json
import os
import shutil
import signal
from pathlib import Path

import pytest
from safetensors.torch import load_file, save_file

from msattn.errors import UserError
from msattn.tasks.folder_lock import LOCK, OWNER, lock_folder
from tests.faults.runs import results

LAST = ("--resume_from_checkpoint", "last")


@pytest.fixture(scope="module")
def _finished(tmp_path_factory) -> list[Path]:
    return [tmp_path_factory.mktemp("finished") / "run"]


@pytest.fixture
def finished(_finished, tag, tmp_path) -> Path:
    """The folder of a finished run, which each test has for itself."""
    if not _finished[0].exists():
        tag(_finished[0])
    return shutil.copytree(_finished[0], tmp_path / "run")


def test_a_finished_run_reports_its_own_figures(finished, tag, capsys):
    before, figures = results(finished), (finished / "all_results.json").read_text()
    capsys.readouterr()
    tag(finished, *LAST)
    assert f"{finished}: finished before; these are its figures." in capsys.readouterr().out
    assert results(finished) == before and (finished / "all_results.json").read_text() == figures


def test_a_finished_run_takes_no_other_arguments(finished, stops):
    before = results(finished)
    for wanted in LAST, ():
        code, line = stops(finished, "--learning_rate", 0.5, "--seed", 7, *wanted)
        assert code == 2
        assert line.startswith(
            f"error: {finished} belongs to another run (--learning_rate 0.001 -> 0.5, --seed 42 -> 7); "
        )
    assert results(finished) == before


def test_resumed_anyway_says_so_in_the_card(finished, tag, stops):
    more = ("--learning_rate", 0.5, "--max_steps", 8)
    tag(finished, *more, "--resume_anyway", *LAST)
    assert json.loads((finished / "trainer_state.json").read_text())["global_step"] == 8
    said = "resumed from a checkpoint of another run (`--resume_anyway`): --learning_rate 0.001 -&gt; 0.5"
    assert said in (finished / "README.md").read_text()
    # Whoever goes on from there says it, too.
    (finished / "fingerprint.json").unlink()
    tag(finished, *more, *LAST)
    assert said in (finished / "README.md").read_text()


def test_more_scores_of_a_finished_run(finished, tag, files):
    """The model is not trained again, and its figures stay."""
    before = json.loads((finished / "all_results.json").read_text())
    weights = (finished / "model.safetensors").stat().st_mtime_ns
    tag(finished, "--do_predict", "--test_file", files["tags"], *LAST)
    after = json.loads((finished / "all_results.json").read_text())
    assert {name: after[name] for name in before} == before and after["test_accuracy"] == before["eval_accuracy"]
    assert (finished / "model.safetensors").stat().st_mtime_ns == weights
    tag(finished, "--do_predict", "--test_file", files["tags"], *LAST)


def test_checkpoints_without_an_optimizer_are_refused(finished, tag, stops, tmp_path):
    tag(tmp_path / "small", "--save_only_model")
    (tmp_path / "small" / "fingerprint.json").unlink()
    code, line = stops(tmp_path / "small", *LAST)
    assert code == 2 and "checkpoint-6 cannot be resumed: it has no optimizer and no scheduler and no random" in line


def test_a_damaged_finished_run_is_made_again_from_its_checkpoint(finished, tag):
    before = results(finished)
    (finished / "model.safetensors").write_bytes(b"")
    tag(finished, *LAST)
    assert results(finished) == before


def test_other_results_are_replaced_when_asked(finished, tag, stops, commands, monkeypatch):
    (finished / "notes.txt").write_text("mine")
    (finished / "eval_old.txt").write_text("mine, too")
    code, line = stops(finished, "--max_steps", 2)
    assert code == 2 and line.endswith("; give another --output_dir, --overwrite_output_dir replaces its results.")
    tag(finished, "--max_steps", 2, "--overwrite_output_dir", "--do_eval", False, "--eval_strategy", "no")
    left = {path.name for path in finished.iterdir()}
    assert {"notes.txt", "eval_old.txt", "checkpoint-2", "model.safetensors"} <= left
    assert not {"checkpoint-4", "checkpoint-6", "eval_results.json", "eval_predictions.conll"} & left


def test_a_checkpoint_that_does_not_fit(finished, stops):
    """The model of a checkpoint of version 0.1 is not known before its weights are read."""
    (finished / "fingerprint.json").unlink()
    shutil.rmtree(finished / "checkpoint-6")
    newest = finished / "checkpoint-4"
    (newest / "fingerprint.json").unlink()
    weights = load_file(newest / "model.safetensors")
    save_file({name: weight[:1].clone() for name, weight in weights.items()}, newest / "model.safetensors")
    code, line = stops(finished, *LAST, "--resume_anyway")
    assert (code, line) == (2, f"error: {newest}: the checkpoint is of another model; its weights do not fit.")


def test_results_of_unknown_origin(finished, stops, tag):
    (finished / "fingerprint.json").unlink()
    shutil.rmtree(finished / "checkpoint-6")
    code, line = stops(finished)
    assert code == 2 and "belongs to another run (its results have no fingerprint)" in line


def test_the_second_run_says_who_is_there(stops, tmp_path):
    with lock_folder(tmp_path / "run"):
        code, line = stops(tmp_path / "run")
        assert code == 2
        assert line.startswith(f"error: {tmp_path / 'run'}: another run is writing to this folder (")
        assert f"process {os.getpid()} on " in line
    assert not (tmp_path / "run").exists()


def test_a_killed_run_leaves_no_lock(tmp_path):
    child = os.fork()
    if not child:
        with lock_folder(tmp_path):
            os.kill(os.getpid(), signal.SIGKILL)
    assert os.waitpid(child, 0)[1] == signal.SIGKILL
    assert {path.name for path in tmp_path.iterdir()} == {LOCK, OWNER}
    with lock_folder(tmp_path), pytest.raises(UserError, match=f"process {os.getpid()} on "), lock_folder(tmp_path):
        pass
    assert not any(tmp_path.iterdir())
