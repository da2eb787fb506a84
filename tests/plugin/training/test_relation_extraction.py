from __future__ import annotations

import json
from dataclasses import asdict
from types import SimpleNamespace

import numpy as np
import pytest
from datasets import Dataset
from transformers import EvalPrediction, TrainingArguments

from msattn import MultiScaleConfig
from msattn.data.negatives import Negatives, random_pairs
from msattn.data.pair_rules import PairRules
from msattn.data.relations import ALL_PAIRS, labels_in, read_relations
from msattn.errors import UserError
from msattn.metrics.multi_label import multi_label_report
from msattn.metrics.relation_reports import RelationAnswers, relation_report
from msattn.training.relation_extraction import relation_card
from msattn.training.relation_labels import choose_negative
from msattn.training.relation_scoring import (
    ScoredPairs,
    as_in_pipeline,
    trained_pairs,
    untrained_pairs,
    write_relation_predictions,
)
from msattn.training.relation_splits import hold_out_texts, read_relation_data
from run_re import RelationDataArguments

LABELS = ["born in", "none", "works for"]
PROBABILITIES = np.array([[0.6, 0.3, 0.1], [0.4, 0.5, 0.1], [0.1, 0.8, 0.1], [0.1, 0.2, 0.7]])
GOLD = np.array([0, 0, 1, 1])


def names(logits, **options):
    answers = RelationAnswers(LABELS, "none", **options)
    return answers.names(answers.chosen(answers.probabilities(logits)))


def test_answers_follow_temperature_and_thresholds():
    logits = np.log(PROBABILITIES)
    assert names(logits) == ["born in", "none", "none", "works for"]
    assert names(logits, threshold=0.35) == ["born in", "born in", "none", "works for"]
    assert names(logits, threshold=0.35, thresholds={"born in": 0.5}) == ["born in", "none", "none", "works for"]
    assert names(2 * logits, temperature=2, threshold=0.65) == ["none", "none", "none", "works for"]
    cool = RelationAnswers(LABELS, "none", temperature=2).probabilities(2 * logits)
    np.testing.assert_allclose(cool, PROBABILITIES)


def test_the_card_names_the_configuration_of_a_data_set():
    data = RelationDataArguments(dataset_name="owner/relations", dataset_config_name="english")
    card = relation_card(MultiScaleConfig(trained_pairs=None), data, LABELS, "none")
    assert (card.dataset_name, card.dataset_config) == ("owner/relations", "english")


def test_answers_of_several_relations():
    logits = np.array([[0.0, 2.0, -1.0], [-3.0, -3.0, -3.0]])
    answers = RelationAnswers(LABELS, None, several=True)
    np.testing.assert_allclose(answers.probabilities(logits), 1 / (1 + np.exp(-logits)))
    assert answers.names(answers.chosen(answers.probabilities(logits))) == [["born in", "none"], []]
    strict = RelationAnswers(LABELS, None, several=True, threshold=0.6, thresholds={"works for": 0.2})
    assert strict.names(strict.chosen(strict.probabilities(logits))) == [["none", "works for"], []]
    prediction = EvalPrediction(predictions=logits, label_ids=np.array([[1.0, 0, 0], [0, 0, 0]]))
    scores = answers.metrics(prediction)
    assert (scores["precision"], scores["recall"], scores["false_positives"]) == (50, 100, 0)
    assert scores["f1"] == pytest.approx(200 / 3) and scores["accuracy"] == 50
    # The best relations have 0.881 and 0.047: whether they hold is answered by yes, which is wrong, and no.
    best, none = 1 / (1 + np.exp(-2)), 1 / (1 + np.exp(3))
    assert scores["ece"] == pytest.approx(100 * (best + none) / 2)
    one = RelationAnswers(["x"], None, several=True)  # scikit-learn would score both classes, and not name them
    scores = one.metrics(EvalPrediction(predictions=np.array([[1.0], [1.0], [-1.0]]), label_ids=np.eye(3)[:, :1]))
    assert (scores["precision"], scores["recall"]) == (50, 100)
    assert "x      50.00    100.00     66.67         1" in multi_label_report(
        [["x"], ["x"], []], [["x"], [], []], ["x", "y"]
    )


def test_metrics_are_those_of_the_answers():
    prediction = EvalPrediction(predictions=np.log(PROBABILITIES), label_ids=GOLD)
    plain = RelationAnswers(LABELS, "none").metrics(prediction)
    # One of two answers is right, of two relations.
    assert plain["f1"] == plain["micro_f1"] == plain["precision"] == plain["recall"] == pytest.approx(50)
    assert plain["ece"] == pytest.approx(100 * (0.4 + 0.5 + 0.2 + 0.7) / 4)
    assert not any(name.startswith("uncalibrated") for name in plain)
    decided = RelationAnswers(LABELS, "none", threshold=0.35).metrics(prediction)
    assert decided["f1"] == pytest.approx(80)
    assert decided["uncalibrated_f1"] == plain["f1"] and decided["uncalibrated_ece"] == plain["ece"]


def test_false_positives_of_scored_pairs_are_counted():
    prediction = EvalPrediction(predictions=np.log(PROBABILITIES), label_ids=np.array([0, 1, 1, 1]))
    assert RelationAnswers(LABELS, "none").metrics(prediction)["false_positives"] == pytest.approx(100 / 3)
    assert "false_positives" not in RelationAnswers(LABELS, None).metrics(prediction)


def all_pairs(texts=10, words=3):
    """All ordered pairs of three entities in each of some texts; the first pair of each has a relation."""
    spans = [[2 * number, 2 * number + 1] for number in range(words)]
    rows = Dataset.from_list(
        [
            {
                "text": f"a b c {text}",
                "head_type": None,
                "tail_type": None,
                "head": head,
                "tail": tail,
                "label": "x" if (head, tail) == (spans[0], spans[1]) else "none",
            }
            for text in range(texts)
            for head in spans
            for tail in spans
            if head != tail
        ]
    )
    rows.info.description = ALL_PAIRS
    return rows


def test_held_out_texts_keep_all_their_pairs():
    args = SimpleNamespace(validation_split_percentage=20, split_seed=1)
    train, held = hold_out_texts(all_pairs(), args, Negatives(2, "none", seed=1))
    assert not {*train["text"]} & {*held["text"]}
    assert (len(train), len(held)) == (8 * 3, 2 * 6) and train["label"][:].count("none") == 8 * 2
    marked = all_pairs()
    marked.info.description = ""  # its rows are annotated
    assert len(hold_out_texts(marked, args, Negatives(2, "none", seed=1))[0]) == 8 * 6


def as_answered(rows, encoded, trained):
    logits = np.array([[4.0, 0.0]] * len(encoded))
    return as_in_pipeline(rows, encoded, logits, trained, RelationAnswers(["x", "none"], "none"))


def test_scores_are_those_of_the_pipeline():
    """Of six pairs, three have their head first, and one of these does not fit."""
    rows = all_pairs()
    encoded = Dataset.from_dict({"row": [row for row in range(60) if row != 1], "labels": [0] * 59})
    pairs = as_answered(rows, encoded, {"both_orders": False, "max_length": 9})
    assert pairs.asked.sum() == 29 and (pairs.logits[pairs.asked] == [4, 0]).all()
    assert (pairs.logits[~pairs.asked] == [-30, 30]).all() and pairs.references.tolist() == [0, 1, 1, 1, 1, 1] * 10
    scores = pairs.metrics("test", RelationAnswers(["x", "none"], "none"))
    assert scores["test_recall"] == 100 and scores["test_precision"] == pytest.approx(100 * 10 / 29)
    assert scores["test_false_positives"] == pytest.approx(100 * 19 / 50)
    # Ten of the 29 that have a probability are right.
    assert scores["test_ece"] == pytest.approx(100 * (1 / (1 + np.exp(-4)) - 10 / 29))
    assert pairs.described("test", "none") == (
        "test: scored on all 60 ordered pairs of the entities of 10 texts; 50 have no relation. As in the pipeline, "
        "31 of other types, order or distance than in training get none."
    )
    old = as_answered(rows, Dataset.from_dict({"row": range(60), "labels": [0] * 60}), None)  # asks for all
    assert old.all_pairs and old.asked.all()
    marked = rows.filter(lambda row: row["label"] == "x")
    marked = marked.map(lambda row, at: {"id": f"{at}{':negative-1' * (at > 7)}"}, with_indices=True)
    marked.info.description = ""
    pairs = as_answered(marked, Dataset.from_dict({"row": range(10), "labels": [0] * 10}), {"both_orders": False})
    assert pairs.asked.all() and pairs.described("test", "none").startswith(
        "test: scored on the 8 pairs that the rows mark and 2 that --negative_pairs drew. It is no score of all pairs"
    )


def test_marked_pairs_are_all_answered(tmp_path):
    """As in `msattn predict`, also where they are all pairs of a text."""
    row = {"text": "a b", "label": "x"}
    spans = {"head": [0, 1], "tail": [2, 3]}
    marked = [{**row, **spans}, {**row, "head": [2, 3], "tail": [0, 1]}]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(each) + "\n" for each in marked))
    rows = read_relations(tmp_path / "a.jsonl")
    pairs = as_answered(rows, Dataset.from_dict({"row": [0, 1], "labels": [0, 0]}), {"both_orders": False})
    assert pairs.asked.all() and not pairs.all_pairs


def test_unlabelled_pairs_have_no_gold_relations(tmp_path):
    answers = RelationAnswers(["x"], "none", several=True)
    example = {"id": "1", "text": "a b", "head": [0, 1], "tail": [2, 3], "head_type": None, "tail_type": None}
    for label, labels, gold in ((None, [], None), ("none", ["none"], []), ("x", ["x"], ["x"])):
        rows = Dataset.from_list([{**example, "label": label, "labels": labels}] * 2)
        pairs = ScoredPairs(rows, np.array([[0.0], [-30.0]]), None, np.array([True, False]), True)
        write_relation_predictions(str(tmp_path), "test", pairs, answers)
        lines = [json.loads(line) for line in (tmp_path / "test_predictions.jsonl").read_text().splitlines()]
        assert lines[0]["gold"] == gold
        assert [line["probability"] for line in lines] == [[0.5], None]  # the second is not asked for


@pytest.mark.parametrize("related, both", [("x", False), ("none", True)])
def test_what_training_saw(related, both):
    rows = all_pairs()
    encoded = Dataset.from_dict({"input_ids": [[0] * 9] * 58 + [[0] * 12] * 2})
    # Of pairs that have a relation, the head comes first.
    negative = "none" if related == "x" else "x"
    expected = {"both_orders": both, "sentences": 0, "types": None, "max_length": 12}
    assert trained_pairs(rows, encoded, negative) == expected


def test_rules_are_learned_from_pairs_with_a_relation():
    text = "Ann met Bob. Eve left Rome. Bob waved."
    ann, bob, rome = [0, 3], [8, 11], [22, 26]
    pairs = [(ann, bob, "PER", "PER"), (bob, ann, "PER", "PER"), (ann, rome, "PER", "LOC"), (rome, ann, "LOC", "PER")]
    rules = PairRules.learned([text] * 4, pairs, [True, False, False, False])
    assert rules == PairRules(both_orders=False, sentences=0, types={"LOC": [], "PER": ["PER"]})
    assert [rules.keeps(text, pair) for pair in pairs] == [True, False, False, False]
    assert not rules.keeps(text, (ann, rome, None, None)) and rules.keeps(text, (ann, bob, "PER", "ORG"))
    far = PairRules.learned([text] * 2, pairs[1:3], [True, True])
    assert far == PairRules(both_orders=True, sentences=1, types={"LOC": [], "PER": ["LOC", "PER"]})
    assert PairRules.learned([text] * 100, [*pairs[:1] * 99, pairs[1]], [True] * 100).both_orders  # 1 %
    assert not PairRules.learned([text] * 101, [*pairs[:1] * 100, pairs[1]], [True] * 101).both_orders
    assert PairRules.learned([text], pairs[:1], [False]) == PairRules()
    assert PairRules.of(asdict(far)) == far and PairRules.of(None) == PairRules()


def test_false_positives_are_counted_on_sentences_without_training_examples():
    row = {"text": "the old house near the wide river", "head": [8, 13], "tail": [28, 33], "label": "x"}
    row |= {"id": "1", "head_type": None, "tail_type": None}
    data = Dataset.from_list([row])
    expected = random_pairs(data, 1)
    assert expected is not None
    several = data.add_column("labels", [["x"]])  # of --multi_label
    assert random_pairs(several, 1).to_list() == expected.to_list()
    assert untrained_pairs({"train": data, "eval": data}, "eval", 1) is None
    assert untrained_pairs({"eval": data}, "eval", 1).to_list() == expected.to_list()
    assert RelationAnswers(["x", "none"], "none").related(np.array([[2.0, 1.0], [1.0, 2.0]])) == 50


DRAWN = ["no_relation", "nothing", "works for"]


@pytest.mark.parametrize(
    ("labels", "stored", "given", "drawn", "negative"),
    [
        (["No Relation", "P1"], None, None, None, "No Relation"),
        (["No Relation", "P1"], None, "P1", None, "P1"),
        (["No Relation", "P1"], "P1", None, None, "P1"),
        (["Other", "no_relation"], None, "", None, None),
        (["P1", "NA"], "", None, None, None),
        # The label of drawn pairs, whatever the checkpoint says.
        (DRAWN, None, None, 2, "no_relation"),
        (DRAWN, "", None, 2, "no_relation"),
        (DRAWN, "no_relation", None, 2, "no_relation"),
        (DRAWN, "nothing", "no_relation", 2, "no_relation"),
    ],
)
def test_the_label_that_stands_for_no_relation(labels, stored, given, drawn, negative, caplog):
    config = SimpleNamespace(negative_label=stored)
    args = SimpleNamespace(negative_pairs=drawn, negative_label=given)
    assert choose_negative(labels, args, config) == negative and not caplog.text


@pytest.mark.parametrize("given", [{}, {"negative_pairs": 2}])
def test_a_label_file_has_a_label_for_pairs_without_a_relation(given, tmp_path):
    spans = [{"start": start, "end": start + 1} for start in (0, 2, 4)]
    rows = [
        {"text": f"a b {label}", "entities": spans, "relations": [{"head": 0, "tail": 1, "type": label}]}
        for label in "xy"
    ]
    (tmp_path / "train.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    files = {"train_file": str(tmp_path / "train.jsonl"), "label_file": str(tmp_path / "labels.json")}
    args = TrainingArguments(str(tmp_path), do_train=True, use_cpu=True, report_to=[])

    def pairs(labels, **options):
        (tmp_path / "labels.json").write_text(json.dumps(labels))
        several = options.pop("several", False)
        data = RelationDataArguments(**files, **options)
        return len(read_relation_data(data, args, MultiScaleConfig(), several)[0]["train"])

    with pytest.raises(
        UserError, match="labels.json: pairs without a relation need a label; add 'no_relation', or give --neg"
    ):
        pairs(["x", "y"], **given)
    assert pairs(["x", "y"], negative_pairs=0) == pairs(["x", "y"], negative_label="") == 2
    every = 2 * (3 if given else 6)
    assert pairs(["x", "y", "no_relation"], **given) == pairs(["x", "y"], several=True, **given) == every


@pytest.mark.parametrize("several", [False, True])
def test_test_data_without_any_relation_are_unlabelled(several, tmp_path, caplog):
    spans = [{"start": start, "end": start + 1} for start in (0, 2)]
    known = {"text": "a b", "entities": spans, "relations": [{"head": 0, "tail": 1, "type": "x"}]}
    files = {}
    for name, row in {"train": known, "test": {**known, "text": "c d", "relations": []}}.items():
        files[f"{name}_file"] = tmp_path / f"{name}.jsonl"
        files[f"{name}_file"].write_text(json.dumps(row) + "\n")
    args = TrainingArguments(str(tmp_path), do_train=True, do_predict=True, use_cpu=True, report_to=[])
    data = RelationDataArguments(**{name: str(path) for name, path in files.items()})
    test = read_relation_data(data, args, MultiScaleConfig(), several)[0]["test"]
    assert "test: no text has a relation" in caplog.text and len(test) == 2 and test[0]["label"] is None
    assert test.info.description == ALL_PAIRS and not labels_in(test)


def test_no_label_stands_for_no_relation(caplog):
    config, args = SimpleNamespace(), SimpleNamespace(negative_pairs=None, negative_label=None)
    assert choose_negative(["P1", "P2"], args, config) is None
    assert "None of the 2 labels is known to stand for no relation, so F1 counts them all; name it" in caplog.text
    args.negative_label = "none"
    with pytest.raises(UserError, match="--negative_label none: not one of the labels P1, P2"):
        choose_negative(["P1", "P2"], args, config)
    config.negative_label, args = "nothing", SimpleNamespace(negative_pairs=2, negative_label=None)
    with pytest.raises(UserError, match="'nothing' stands for no relation in the checkpoint; name one of them"):
        choose_negative(DRAWN, args, config)


def test_the_report_names_the_negative_label():
    answers, gold = ["born in", "none", "none", "works for"], ["born in", "born in", "none", "none"]
    labels, end = sorted({*answers, *gold}), "Micro-F1 without none, the label of no relation: 50.00\n"
    assert relation_report(answers, gold, labels, "none").endswith(end)
    assert relation_report(answers, gold, labels, None).endswith("No label stands for no relation.\n")


def test_the_report_ends_with_the_score_of_the_labels():
    """Where all labels that occur are those of SemEval, but the model has another one, the score is no official F1."""
    answers, gold = ["Cause-Effect(e1,e2)", "Other"], ["Cause-Effect(e1,e2)", "Cause-Effect(e2,e1)"]
    occurring = sorted({*answers, *gold})
    assert "Official macro-F1" in relation_report(answers, gold, occurring, "Other")
    assert "Micro-F1 without Other" in relation_report(answers, gold, [*occurring, "works for"], "Other")
