"""Which data a run reads, and what it holds out of them."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from datasets import Dataset
from transformers import TrainingArguments

from msattn import UserError
from msattn.data.relations import ALL_PAIRS, LISTED
from msattn.training.arguments import DataArguments
from msattn.training.splits import held_out, hold_out_and_limit, read_splits
from run_re import RelationDataArguments

# A label with one example, as SemEval has one, and two that differ in size.
LABELS = ["often"] * 40 + ["seldom"] * 9 + ["once"]


def data(labels=LABELS) -> Dataset:
    return Dataset.from_dict({"number": list(range(len(labels))), "label": labels})


def args(tmp_path, **given) -> TrainingArguments:
    return TrainingArguments(str(tmp_path), report_to=[], **given)


@pytest.mark.parametrize("percentage", [1, 10, 20, 33.3, 50])
@pytest.mark.parametrize("labels", [None, LABELS])
def test_two_parts_of_the_whole(labels, percentage):
    train, held = held_out(data(), percentage, 42, labels)
    assert sorted(train["number"][:] + held["number"][:]) == list(range(50))
    assert len(held) == -(-50 * percentage // 100)
    assert train["number"][:] != sorted(train["number"][:])


def test_labels_keep_their_proportions():
    train, held = held_out(data(), 20, 42, LABELS)
    assert Counter(held["label"]) == {"often": 8, "seldom": 2}
    assert Counter(train["label"]) == {"often": 32, "seldom": 7, "once": 1}


SCORES = np.arange(50, dtype=np.float32)  # those of STS-B


@pytest.mark.parametrize("labels, stratified", [(LABELS, True), ([0.5] * 50, False), (SCORES, False)])
def test_classes_are_held_out_by_their_proportions(labels, stratified, tmp_path):
    run, cut = args(tmp_path, do_train=True, do_eval=True), DataArguments(validation_split_percentage=20)
    held = hold_out_and_limit({"train": data(labels)}, cut, run)["eval"]
    assert held["number"][:] == held_out(data(labels), 20, 42, labels if stratified else None)[1]["number"][:]


def test_no_label_is_held_out_as_a_whole():
    labels = ["a", "a", "b", "c", "d"]
    for percentage in (20, 40, 80):
        train, _ = held_out(data(labels), percentage, 1, labels)
        assert set(train["label"]) == set(labels)


def test_the_seed_alone_decides():
    parts = [held_out(data(), 20, seed, LABELS)[1]["number"][:] for seed in (1, 1, 2)]
    assert parts[0] == parts[1] != parts[2]


def test_without_labels_it_is_the_split_of_datasets():
    expected = data().train_test_split(0.2, seed=7)
    train, held = held_out(data(), 20, 7)
    assert (train["number"][:], held["number"][:]) == (expected["train"]["number"][:], expected["test"]["number"][:])


@pytest.mark.parametrize("labels, share, part", [(["a", "b"], 50, "none"), (None, 99.9, "all")])
def test_a_part_without_examples(labels, share, part):
    with pytest.raises(UserError, match=f"{share}: of 2 training examples, {part} would be held out"):
        held_out(data(["a", "b"]), share, 1, labels)


@pytest.mark.parametrize(
    "given, cut, read, used",
    [
        ({"do_train": True}, None, ["train"], ["train"]),
        ({"do_train": True, "eval_strategy": "epoch"}, None, ["train", "eval"], ["eval", "train"]),
        ({"do_eval": True}, None, ["eval"], ["eval"]),
        ({"do_eval": True}, 10, ["train", "eval"], ["dev", "eval"]),
        ({"do_predict": True}, 10, ["test"], ["test"]),
    ],
)
def test_what_is_read_and_used(given, cut, read, used, tmp_path):
    data_args, run = DataArguments(validation_split_percentage=cut), args(tmp_path, **given)
    found = read_splits(lambda split: data(), data_args, run)
    assert [*found] == read
    assert sorted(hold_out_and_limit(found, data_args, run)) == used


@pytest.mark.parametrize(
    "given, missing",
    [
        ({}, "there is nothing to do: give at least one of --do_train"),
        ({"do_train": True}, "the run needs train data: give --train_file or --dataset_name."),
        ({"do_eval": True}, "give --validation_file or --dataset_name, or --validation_split_percentage"),
        ({"eval_strategy": "epoch"}, "the run needs validation data: give --validation_file"),
        ({"do_predict": True}, "the run needs test data: give --test_file"),
    ],
)
def test_what_is_missing(given, missing, tmp_path):
    with pytest.raises(UserError, match=missing):
        read_splits(lambda split: None, DataArguments(), args(tmp_path, **given), " or --dataset_name")


@pytest.mark.parametrize(
    "wrong", [{"validation_split_percentage": -5}, {"early_stopping_patience": 1}], ids=lambda wrong: [*wrong][0]
)
def test_what_would_train_on_something_else_or_stop_late(wrong, tmp_path):
    with pytest.raises(UserError, match=f"--{[*wrong][0]}"):
        read_splits(lambda split: data(), DataArguments(**wrong), args(tmp_path, do_train=True, do_eval=True))


def test_what_is_not_trained_is_not_pushed(tmp_path):
    with pytest.raises(UserError, match="--push_to_hub pushes what a run trains"):
        read_splits(lambda split: data(), DataArguments(), args(tmp_path, do_predict=True, push_to_hub=True))


def test_validation_data_that_a_training_would_not_read(tmp_path, caplog):
    run = args(tmp_path, do_train=True)
    with pytest.raises(UserError, match="--validation_split_percentage needs --do_eval"):
        read_splits(lambda split: data(), DataArguments(validation_split_percentage=10), run)
    assert [*read_splits(lambda split: data(), DataArguments(validation_file="dev.txt"), run)] == ["train"]
    assert "--validation_file is not read" in caplog.text
    assert [*read_splits(lambda split: data(), DataArguments(test_file="test.txt"), run)] == ["train"]
    assert "--test_file is not read without --do_predict" in caplog.text


def test_limits(tmp_path):
    limits = DataArguments(max_train_samples=10, max_eval_samples=2, max_predict_samples=3)
    found = {prefix: data() for prefix in ("train", "eval_mm", "dev", "test_unseen")}
    run = args(tmp_path, do_train=True, do_eval=True, do_predict=True)
    kept = hold_out_and_limit(found, limits, run)
    assert {prefix: len(rows) for prefix, rows in kept.items()} == dict(zip(found, (10, 2, 2, 3), strict=True))


@pytest.mark.parametrize(("most", "kept"), [(1, 2), (2, 2), (3, 2), (4, 2), (5, 5), (9, 6)])
def test_limits_keep_all_pairs_of_a_text(most, kept, tmp_path):
    rows = Dataset.from_dict({"text": [*"aabbbc"], "label": [*"xyxyxy"]})
    rows.info.description = ALL_PAIRS
    found = hold_out_and_limit(
        {"test": rows}, DataArguments(max_predict_samples=most), args(tmp_path, do_predict=True)
    )
    assert len(found["test"]) == kept


@pytest.mark.parametrize(
    ("listed", "negatives", "whole"), [(False, None, False), (True, None, True), (False, 2, True)]
)
def test_parts_of_relations_have_whole_texts(listed, negatives, whole, tmp_path):
    run = args(tmp_path, do_train=True)

    def part(texts, fraction):
        rows = Dataset.from_dict({"text": texts, "head": [[0, 1]] * len(texts), "number": range(len(texts))})
        rows.info.description = LISTED if listed else ""
        given = RelationDataArguments(train_fraction=fraction, negative_pairs=negatives)
        return hold_out_and_limit({"train": rows}, given, run)["train"]

    torn = [text for text, count in Counter(part([*"abcdefghij"] * 3, 0.4)["text"]).items() if count < 3]
    assert bool(torn) is not whole
    small, large = ({*part([*"abcdefghij"] * 3, fraction)["number"]} for fraction in (0.2, 0.6))
    assert small < large and (len(small), len(large)) == (6, 18)
    # Of texts with one pair each, the rows are those that they always were.
    assert part([*"abcdefghij"], 0.4)["number"][:] == np.sort(np.random.default_rng(42).permutation(10)[:4]).tolist()


def test_parts_lie_inside_each_other(tmp_path):
    found, run = {"train": data(), "eval": data()}, args(tmp_path, do_train=True, do_eval=True)
    small, large = (hold_out_and_limit(found, DataArguments(train_fraction=part), run) for part in (0.2, 0.5))
    numbers = large["train"]["number"][:]
    assert [len(part["train"]) for part in (small, large)] == [round(0.2 * len(data())), round(0.5 * len(data()))]
    assert numbers == sorted(numbers) and set(small["train"]["number"][:]) < set(numbers)
    assert len(large["eval"]) == len(data())
    with pytest.raises(UserError, match="--train_fraction 0.001 leaves none of the"):
        hold_out_and_limit(found, DataArguments(train_fraction=0.001), run)
    with pytest.raises(UserError, match="--train_fraction 50: give a number from 0 to 1"):
        hold_out_and_limit(found, DataArguments(train_fraction=50), run)
