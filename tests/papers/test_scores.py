"""`papers/scores.py`: what is kept of a run, and metrics as functions of sums."""

from __future__ import annotations

import json

import numpy as np
import pytest
import scores
from sklearn.metrics import matthews_corrcoef

from msattn.metrics.semeval import SEMEVAL_LABELS, score_semeval

GOLD = "1\tThe\t_\tDET\t_\t_\t2\tdet\t_\t_\n2\tend\t_\tNOUN\t_\t_\t0\troot\t_\t_\n\n"


def drawn(labels: list[str], size: int = 200) -> tuple[list[str], list[str]]:
    draw = np.random.default_rng(0)
    gold = [labels[number] for number in draw.integers(len(labels), size=size)]
    return gold, [label if draw.random() < 0.7 else labels[draw.integers(len(labels))] for label in gold]


def test_metrics_are_those_of_the_package_and_of_scikit_learn():
    gold, given = drawn(sorted(SEMEVAL_LABELS))
    assert scores.score("macro-F1", gold, given)[0] == pytest.approx(score_semeval(given, gold)["f1"])
    gold, given = drawn(["no", "yes"])
    assert scores.score("Matthews", gold, given)[0] == pytest.approx(100 * matthews_corrcoef(gold, given))
    assert scores.score("accuracy", gold, given)[0] == pytest.approx(100 * np.mean(np.equal(gold, given)))
    numbers = [str(number / 7) for number in range(9)], [str(number**2) for number in range(9)]
    assert scores.score("Pearson", *numbers)[0] == pytest.approx(100 * np.corrcoef(np.array(numbers, float))[0, 1])


def test_pseudo_values_leave_one_example_out():
    gold, given = drawn(sorted(SEMEVAL_LABELS), 60)
    whole, values = scores.score("macro-F1", gold, given)
    # Every label is left, so that the mean over labels is the same.
    without = scores.score("macro-F1", gold[:7] + gold[8:], given[:7] + given[8:])[0]
    assert values[7] == pytest.approx(60 * whole - 59 * without)
    assert scores.score("accuracy", gold, given)[1] == pytest.approx(100 * np.equal(gold, given))


def test_answers_are_kept_and_read(tmp_path):
    lines = [{"text": "a\x85b\u2028", "gold": "a", "prediction": "a"}, {"gold": "b", "prediction": "a"}]
    written = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)
    (tmp_path / "test_predictions.jsonl").write_text(written, encoding="utf-8")
    data, answers = scores.answers_of(tmp_path, {"test_file": "folder/test.txt"})
    assert (data, answers) == ("test.txt", [("a", "a"), ("b", "a")])
    path = tmp_path / "scores.csv.gz"
    scores.write_scores(path, [("one/seed-1", data, answers), ("one/seed-2", data, answers)])
    first = path.read_bytes()
    assert scores.read_scores(path)["one/seed-2"] == (["a", "b"], ["a", "a"])
    scores.write_scores(path, [("one/seed-1", data, answers), ("one/seed-2", data, answers)])
    assert path.read_bytes() == first


def test_trees_and_tags(tmp_path):
    (tmp_path / "gold.conllu").write_text(GOLD)
    (tmp_path / "test_predictions.conllu").write_text(GOLD.replace("\tdet\t", "\tamod\t"))
    given = {"test_file": str(tmp_path / "gold.conllu")}
    assert scores.answers_of(tmp_path, given) == ("gold.conllu", [("2", "2/1")])
    assert scores.score("LAS with subtypes", ["2"], ["2/1"])[0] == 50 and scores.score("UAS", ["2"], ["2/1"])[0] == 100
    (tmp_path / "gold.conllu").write_text(GOLD * 2)
    with pytest.raises(ValueError, match="test_predictions.conllu: 1 sentences, and 2 in .*gold.conllu"):
        scores.answers_of(tmp_path, given)
    assert scores.answers_of(tmp_path, {**given, "max_predict_samples": 1}) == ("gold.conllu", [("2", "2/1")])
    (tmp_path / "gold.conllu").write_text(GOLD)
    (tmp_path / "test_predictions.conllu").write_text(GOLD.replace("end", "and"))
    with pytest.raises(ValueError, match="not the sentence of"):
        scores.answers_of(tmp_path, given)
    (tmp_path / "test_predictions.conll").write_text("The\tDET\tDET\nend\tNOUN\tVERB\n\nBye\tX\tX\n\n")
    assert scores.answers_of(tmp_path, {})[1] == [("2", "1"), ("1", "1")]
