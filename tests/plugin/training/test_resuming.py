"""Which checkpoint a run goes on from, and what it says if that is of another run."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest
from datasets import Dataset
from transformers import TrainingArguments

from msattn import GuidingArguments, UserError
from msattn.training.arguments import DataArguments, ModelArguments
from msattn.training.resuming import RECORD, RunRecord, find_checkpoint, rows_hash

ROWS = Dataset.from_dict({"input_ids": [[1, 2], [3], [4, 5, 6]], "labels": [0, 1, 0]})


def run(folder, wanted="last", data=ROWS, model=None, **given) -> tuple[TrainingArguments, RunRecord]:
    args = TrainingArguments(str(folder), resume_from_checkpoint=wanted, use_cpu=True, **given)
    return args, RunRecord(args, data, model or ModelArguments("bert"), DataArguments(train_file="a.txt"))


def checkpoint(folder, step, complete=True, optimizer=True, **given):
    path = folder / f"checkpoint-{step}"
    path.mkdir()
    args, record = run(folder, **given)
    if optimizer:
        (path / "optimizer.pt").touch()
    (path / "trainer_state.json").write_text("{}" if complete else '{"epoch": 1.')
    record.on_save(args, SimpleNamespace(is_world_process_zero=True, global_step=step), None)
    return path


@pytest.mark.parametrize("wanted", ["last", "true", "True"])
def test_last_is_the_newest_complete_one(wanted, tmp_path):
    checkpoint(tmp_path, 9)
    path = checkpoint(tmp_path, 10)
    checkpoint(tmp_path, 11, complete=False)  # the run was killed while it wrote this one
    args, record = run(tmp_path, wanted)
    assert find_checkpoint(args, record) == str(path)
    assert args.restore_callback_states_from_checkpoint


def test_last_is_of_this_run_where_another_went_further(tmp_path):
    checkpoint(tmp_path, 10, data=ROWS.select([0, 1]))
    path = checkpoint(tmp_path, 5)
    assert find_checkpoint(*run(tmp_path)) == str(path)


def test_a_checkpoint_of_version_0_2_has_another_record(tmp_path, caplog):
    path = checkpoint(tmp_path, 5)
    (path / RECORD).unlink()
    assert find_checkpoint(*run(tmp_path)) == str(path)
    assert "whether it belongs to this run cannot be checked" in caplog.text


@pytest.mark.parametrize("wanted", [None, "false"])
def test_nothing_is_resumed_unless_asked(wanted, tmp_path):
    checkpoint(tmp_path, 5)
    assert find_checkpoint(*run(tmp_path, wanted)) is None


def test_last_of_a_run_that_has_not_begun_is_none(tmp_path):
    assert find_checkpoint(*run(tmp_path)) is None


def test_a_folder_that_does_not_exist(tmp_path):
    with pytest.raises(UserError, match="there is no such folder; last takes the newest one"):
        find_checkpoint(*run(tmp_path, str(tmp_path / "missing")))


def test_a_checkpoint_without_the_optimizer_is_refused(tmp_path):
    path = checkpoint(tmp_path, 5, optimizer=False)
    for wanted in ("last", str(path)):
        with pytest.raises(UserError, match="no state of the optimizer, as after --save_only_model"):
            find_checkpoint(*run(tmp_path, wanted))


@pytest.mark.parametrize(
    "other, said",
    [
        ({}, None),
        ({"per_device_eval_batch_size": 3}, None),
        ({"seed": 7}, "seed 42 -> 7"),
        ({"data": ROWS.select([1, 0, 2])}, "training data "),
    ],
)
def test_says_what_differs(other, said, tmp_path, caplog):
    path = checkpoint(tmp_path, 5)
    assert find_checkpoint(*run(tmp_path, **other)) == str(path)
    messages = [record.getMessage() for record in caplog.records if record.name == "msattn.training.resuming"]
    assert len(messages) == (said is not None)
    assert all(f"differs from this one: {said}" in message for message in messages)


@pytest.mark.parametrize(
    "then, now",
    [
        ({}, {"learning_rate": 1e-3}),
        ({}, {"model": ModelArguments("bert", new_layers_learning_rate="1e-3")}),
        ({}, {"model": ModelArguments("bert", embedding_learning_rate=0.0)}),
        ({"model": ModelArguments("bert", new_layers_learning_rate=None)}, {}),  # version 0.2 had no auto
    ],
)
def test_learning_rates_cannot_change(then, now, tmp_path):
    path = checkpoint(tmp_path, 5, **then)
    with pytest.raises(UserError, match="other learning rates, and goes on with --learning_rate 5e-05 --new_layers"):
        find_checkpoint(*run(tmp_path, **now))
    new = "5e-5" if then else "auto"
    same = {"model": ModelArguments("bert", new_layers_learning_rate=new, embedding_learning_rate=5e-5)}
    assert find_checkpoint(*run(tmp_path, **same)) == str(path)


@pytest.mark.parametrize("name, value", [("weight_decay", 0.1), ("adam_beta2", 0.98), ("adam_epsilon", 1e-6)])
def test_what_the_optimizer_keeps_cannot_change(name, value, tmp_path):
    path = checkpoint(tmp_path, 5, **{name: value})
    with pytest.raises(UserError, match=f"another optimizer, and goes on with --{name} {value} only"):
        find_checkpoint(*run(tmp_path))
    record = json.loads((path / RECORD).read_text())
    (path / RECORD).write_text(json.dumps({key: fact for key, fact in record.items() if key != name}))  # an older one
    assert find_checkpoint(*run(tmp_path)) == str(path)


def test_the_hash_is_of_the_rows_alone(tmp_path):
    ROWS.save_to_disk(tmp_path / "saved")
    doubled = Dataset.from_dict({name: ROWS[name][:] * 2 for name in ROWS.column_names})
    same = (Dataset.load_from_disk(tmp_path / "saved"), doubled.select(range(3)), doubled.select([3, 4, 5]))
    assert {rows_hash(rows) for rows in same} == {rows_hash(ROWS)}
    assert rows_hash(ROWS.select([0, 2, 1])) != rows_hash(ROWS) != rows_hash(doubled)


def test_the_record_is_plain_json(tmp_path):
    facts = json.loads((checkpoint(tmp_path, 5) / RECORD).read_text())
    assert facts["seed"] == 42 and facts["model_name_or_path"] == "bert" and "train_file" not in facts
    args, _ = run(tmp_path)
    guiding = GuidingArguments(patterns=["dependency"], pattern_weight=1.0, dependency_files=["a.conllu"])
    guided = RunRecord(args, ROWS, guiding)  # the rows have no trees
    assert guided.facts["dependency_files"] == ["a.conllu"]
