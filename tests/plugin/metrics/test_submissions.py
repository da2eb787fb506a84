from __future__ import annotations

import pytest

from msattn.errors import UserError
from msattn.metrics import read_semeval_answers, write_glue_submission, write_semeval_answers


def test_semeval_answers_round_trip(tmp_path):
    path = write_semeval_answers(tmp_path / "new" / "answers.txt", [8001, "8002"], ["Other", "Entity-Origin(e2,e1)"])
    assert path.read_bytes() == b"8001\tOther\n8002\tEntity-Origin(e2,e1)\n"
    assert read_semeval_answers(path) == {"8001": "Other", "8002": "Entity-Origin(e2,e1)"}


@pytest.mark.parametrize(
    ("second", "message"),
    [
        ("2 Other", "2 Other"),
        ("2\tCause-Effect(e1, e2)", "Cause-Effect"),
        ("", "is not an id"),
        ("1\tOther", "id 1 is there twice"),
    ],
)
def test_malformed_answers_name_file_and_line(tmp_path, second, message):
    path = tmp_path / "answers.txt"
    path.write_text(f"1\tOther\n{second}\n3\tOther\n", encoding="utf-8")
    with pytest.raises(UserError, match=r"answers\.txt:2: ") as error:
        read_semeval_answers(path)
    assert message in str(error.value)


@pytest.mark.parametrize(
    ("ids", "labels"),
    [([1, 1], ["Other", "Other"]), ([1], ["Other", "Other"]), (["a"], ["Other"]), ([1], ["no_relation"])],
)
def test_semeval_answers_that_the_checker_would_refuse_are_not_written(tmp_path, ids, labels):
    with pytest.raises(UserError):
        write_semeval_answers(tmp_path / "answers.txt", ids, labels)
    assert not (tmp_path / "answers.txt").exists()


@pytest.mark.parametrize(
    ("task", "split", "predictions", "name", "rows"),
    [
        ("sst2", "test", ["1"], "SST-2.tsv", ["1"]),
        ("stsb", "test", [5.25, -0.5, 2.5], "STS-B.tsv", ["5.00000", "0.00000", "2.50000"]),
        ("mnli", "test_matched", [0, 1, 2], "MNLI-m.tsv", ["entailment", "neutral", "contradiction"]),
        ("mnli", "test_mismatched", [2], "MNLI-mm.tsv", ["contradiction"]),
        ("mnli_mismatched", "test", ["neutral"], "MNLI-mm.tsv", ["neutral"]),
        ("ax", "test", [1], "AX.tsv", ["neutral"]),
        ("qnli", "test", [0, 1], "QNLI.tsv", ["entailment", "not_entailment"]),
    ],
)
def test_glue_submission(tmp_path, task, split, predictions, name, rows):
    path = write_glue_submission(task, tmp_path / "glue", predictions, split=split)
    assert path == tmp_path / "glue" / name
    lines = ["index\tprediction", *(f"{index}\t{row}" for index, row in enumerate(rows))]
    assert path.read_text(encoding="utf-8") == "\n".join(lines) + "\n"


@pytest.mark.parametrize(
    ("task", "prediction", "message"),
    [
        ("rte", 2, "rte, prediction 0: 2"),
        ("mnli", "yes", "'yes' is not a number from 0 to 2"),
        ("stsb", float("nan"), "nan"),
        ("sst-2", 0, "not a GLUE task"),
    ],
)
def test_glue_submission_names_what_is_wrong(tmp_path, task, prediction, message):
    with pytest.raises(UserError, match=message):
        write_glue_submission(task, tmp_path, [prediction])
