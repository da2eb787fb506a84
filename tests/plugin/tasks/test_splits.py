"""Which data a run reads, and what it holds out of them."""

from __future__ import annotations

from collections import Counter

import pytest
from datasets import Dataset
from transformers import TrainingArguments

from msattn import UserError
from msattn.arguments.data_arguments import DataArguments
from msattn.tasks.splits import hold_out, is_used, most_samples, used_splits

# A label with one example, as SemEval has one, and two that differ in size.
LABELS = ["often"] * 40 + ["seldom"] * 9 + ["once"]


def data(labels=LABELS) -> Dataset:
    return Dataset.from_dict({"number": list(range(len(labels))), "label": labels})


def args(tmp_path, **given) -> TrainingArguments:
    return TrainingArguments(str(tmp_path), report_to=[], **given)


@pytest.mark.parametrize("percentage", [1, 10, 20, 33.3, 50])
@pytest.mark.parametrize("labels", [None, LABELS])
def test_two_parts_of_the_whole(labels, percentage):
    train, held = hold_out(data(), percentage, 42, labels)
    assert sorted(train["number"][:] + held["number"][:]) == list(range(50))
    assert len(held) == -(-50 * percentage // 100)
    assert train["number"][:] != sorted(train["number"][:])


def test_labels_keep_their_proportions():
    train, held = hold_out(data(), 20, 42, LABELS)
    assert Counter(held["label"]) == {"often": 8, "seldom": 2}
    assert Counter(train["label"]) == {"often": 32, "seldom": 7, "once": 1}


def test_no_label_is_held_out_as_a_whole():
    labels = ["a", "a", "b", "c", "d"]
    for percentage in (20, 40, 80):
        train, _ = hold_out(data(labels), percentage, 1, labels)
        assert set(train["label"]) == set(labels)


def test_the_seed_alone_decides():
    parts = [hold_out(data(), 20, seed, LABELS)[1]["number"][:] for seed in (1, 1, 2)]
    assert parts[0] == parts[1] != parts[2]


def test_without_labels_it_is_the_split_of_datasets():
    expected = data().train_test_split(0.2, seed=7)
    train, held = hold_out(data(), 20, 7)
    assert (train["number"][:], held["number"][:]) == (expected["train"]["number"][:], expected["test"]["number"][:])


@pytest.mark.parametrize("percentage", [0, 100, -5, float("nan")])
def test_no_percentage(percentage):
    with pytest.raises(UserError, match="--validation_split_percentage must be between 0 and 100, got"):
        hold_out(data(), percentage, 1, LABELS)


def test_nothing_to_hold_out():
    with pytest.raises(UserError, match="of 2 training examples, none would be held out"):
        hold_out(data(["a", "b"]), 50, 1, ["a", "b"])


@pytest.mark.parametrize(
    "given, cut, splits",
    [
        ({}, None, []),
        ({"do_train": True}, None, ["train"]),
        ({"do_train": True}, 10, ["train"]),
        ({"do_train": True, "eval_strategy": "epoch"}, None, ["train", "validation"]),
        ({"do_eval": True}, None, ["validation"]),
        ({"do_eval": True}, 10, ["train", "validation"]),
        ({"do_predict": True}, 10, ["test"]),
    ],
)
def test_what_is_read(given, cut, splits, tmp_path):
    assert used_splits(DataArguments(validation_split_percentage=cut), args(tmp_path, **given)) == splits


def test_parts_of_a_split_are_used_as_it_is(tmp_path):
    used = {prefix for prefix in ("train", "eval", "eval_mm", "dev", "test_mm") if is_used(prefix, args(tmp_path))}
    assert not used
    evaluates = args(tmp_path, do_eval=True)
    assert [is_used(prefix, evaluates) for prefix in ("train", "eval", "dev_mm", "test_unseen")] == [0, 1, 1, 0]
    most = DataArguments(max_train_samples=1, max_eval_samples=2, max_predict_samples=3)
    assert [most_samples(prefix, most) for prefix in ("train", "eval_mm", "dev", "test_unseen")] == [1, 2, 2, 3]
