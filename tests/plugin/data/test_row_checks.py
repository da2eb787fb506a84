"""What the rows of a file say together: inclusive ends, spans that cut words, pairs with two labels."""

from __future__ import annotations

import pytest
from datasets import Dataset

from msattn.data import read_relations, to_relations
from msattn.errors import UserError

TOKENS = ["New", "York", "hired", "Ann", "Lee", "."]


def named(head, tail, **names):
    return {"token": TOKENS, "h": {"pos": head, **names}, "t": {"pos": tail}, "relation": "hired"}


def test_errors_say_that_ends_are_inclusive(write):
    hint = "if all ends are inclusive: run_re.py --span_ends inclusive"
    path = write([named([0, 1], [3, 4], name="New York"), named([2, 2], [0, 1])])
    with pytest.raises(UserError, match=f"behind, 2 .{hint}"):
        read_relations(path)
    rows = read_relations(path, span_ends="inclusive")
    assert [row["text"][slice(*row["head"])] for row in rows] == ["New York", "hired"]
    with pytest.raises(UserError, match=f"the number of tokens .{hint}"):
        read_relations(write([named([2, 2], [0, 1])]))
    path = write([{"token": TOKENS, "subj_start": 0, "subj_end": 2, "obj_start": 3, "obj_end": 5}])
    assert read_relations(path, span_ends="exclusive")[0]["head"] == [0, 8]


@pytest.mark.parametrize(
    "change, cause",
    [
        (lambda at: (at[0], at[1] - 1), "are the last characters inside: add 1 (run_re.py: --span_ends inclusive)"),
        (lambda at: (at[0] - 1, at[1] - 1), "count their characters again"),
        (lambda at: (at[0] + 1, at[1] + 1), "if they count units of UTF-16: count characters"),
        (lambda at: at, None),
    ],
    ids=["inclusive", "shifted", "utf-16", "right"],
)
@pytest.mark.parametrize("columns", [False, True])
def test_spans_that_cut_words_are_counted(write, caplog, change, cause, columns):
    text = "\U0001f600 Ann Lee hired Bob today"
    row = {"text": text, "head": change((2, 9)), "tail": change((16, 19)), "label": "x"}
    if columns:
        to_relations(Dataset.from_list([row, row]), "file")
    else:
        read_relations(write([row, row]))
    messages = [record.getMessage() for record in caplog.records]
    assert len(messages) == (cause is not None)
    assert all("the spans of 2 of 2 rows cut words; " in message and cause in message for message in messages)


def test_tags_may_cut_words(write, caplog):
    read_relations(write("text,label\n<e1>un</e1>tied <e2>shoe</e2>s,x\n", "tags.csv"))
    assert not caplog.records


def test_a_pair_with_two_labels_is_a_warning(write, caplog):
    row = {"text": "Ann met Bob", "head": [0, 3], "tail": [8, 11]}
    path = write([{**row, "label": label} for label in "xxy"])
    assert len(read_relations(path)) == 3
    (message,) = [record.getMessage() for record in caplog.records]
    assert "1 of 3 rows give their pair of entities another label than a row before. " in message
    assert message.endswith(f"The first: {path}:3.")
