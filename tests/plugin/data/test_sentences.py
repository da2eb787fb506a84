"""Tables of sentences, and SST-5, MTL-16 and SNLI: small files with the peculiarities of the real ones."""

from __future__ import annotations

import json

import pyarrow as pa
import pyarrow.parquet
import pytest
from datasets import ClassLabel, Dataset, Features, Value

from msattn.data.columns import text_columns
from msattn.data.sentences import read_sentences, to_sentences
from msattn.errors import UserError

TREES = "(3 (2 It) (4 (4 (2 's) (3 fun)) (2 .)))\n(1 (1 (2 -LRB-) (0 bad\\/dull)) (2 -RRB-))\n\n(2 1\xa01/2)\n"


def snli_line(label: str) -> str:
    return json.dumps({"gold_label": label, "sentence1": "A dog.", "sentence2": "A cat\x85.", "annotator_labels": []})


def test_sentiment_trees(write):
    path = write(TREES)
    rows = read_sentences(path)
    assert rows["sentence"] == ["It 's fun .", "( bad/dull )", "1\xa01/2"]
    assert rows["label"] == ["positive", "negative", "neutral"]
    phrases = read_sentences(path, phrases=True)
    assert phrases["sentence"][:7] == ["It", "'s", "fun", "'s fun", ".", "'s fun .", "It 's fun ."]
    assert len(phrases) == 7 + 5 + 1
    assert read_sentences(path, ["text"]).column_names == ["text", "label"]


def test_reviews(write, caplog):
    """U+0085 ends no line, and what is not UTF-8 is Windows-1252."""
    long, latin = " ".join(["word"] * 5941), b"0\tclich\xe9 \x96\x85\n"
    content = f"0\tso\x85 bad\u2028 \u201cit\u201d\n0\t\n1\t{long}\n1\t a\xa0b \n".encode() + latin
    rows = read_sentences(write(content, "magazines.task.train"))
    assert rows["label"] == ["negative", "negative", "positive", "positive", "negative"]
    assert rows["sentence"] == ["so\x85 bad\u2028 \u201cit\u201d", "", long, "a\xa0b", "clich\u00e9 \u2013\u2026"]
    assert "the line is read as of MTL-16: 0 is negative and 1 positive; other data need a header" in caplog.text


@pytest.mark.parametrize("content", [snli_line("neutral"), "A dog.\tA cat\x85.\t1\n"])
def test_snli(write, content, caplog):
    path = write(content)
    assert read_sentences(path).to_list() == [{"premise": "A dog.", "hypothesis": "A cat\x85.", "label": "neutral"}]
    assert ("the line is read as of SNLI: 0 is entailment, 1 neutral" in caplog.text) == ("gold_label" not in content)
    assert read_sentences(path, ["a", "b"]).column_names == ["a", "b", "label"]
    with pytest.raises(UserError, match="the file has premise and hypothesis, and not sentence"):
        read_sentences(path, ["sentence"])
    with pytest.raises(UserError, match="only the trees of SST-5 have phrases"):
        read_sentences(path, phrases=True)


def test_snli_pairs_without_a_label_are_counted(write, caplog):
    path = write("\n".join(map(snli_line, ("neutral", "-", "contradiction", "-", "entailment"))))
    assert read_sentences(path)["label"] == ["neutral", "contradiction", "entailment"]
    assert f"{path}: 2 pairs have the label - and were left out" in caplog.text
    with pytest.raises(UserError, match="there is no example in it"):
        read_sentences(write(snli_line("-")))


def test_a_table_of_one_line_lacks_its_names(write):
    with pytest.raises(UserError, match="data.csv:1: there is no example below the names of columns, 'bad film,neg'"):
        read_sentences(write("bad film,neg\n", "data.csv"))


def test_numbers_before_a_text_are_no_premises(write):
    """They are a table, without its header."""
    with pytest.raises(UserError, match="'17', 'a good film', '1' look like data"):
        read_sentences(write("17\ta good film\t1\n18\ta bad film\t0\n"))


@pytest.mark.parametrize(
    ("first", "line", "message"),
    [
        ("(2 fine)", "(3 (2 a) (2 b)", "lacks 1 closing brackets"),
        ("(2 fine)", "(3 (2 a)) (2 b)", r"'\(' stands after the end"),
        ("(2 fine)", "(3 a))", r"'\)' stands after the end"),
        ("(2 fine)", "(5 a)", "a label from 0 to 4 has to follow an opening bracket, not '5'"),
        ("(2 fine)", "(3 (2) (2 b))", "a node of the tree has no word"),
        ("(2 fine)", "3\tfine", "has to begin with the bracket of a tree, not with '3'"),
        ("1\tgood", "2\tgood", "has to be 0 or 1, a tab and the review"),
        ("1\tgood", "good", "has to be 0 or 1, a tab and the review"),
        ("1\tgood", b"1\t\xe9\x81", "neither UTF-8 nor cp1252"),
        (snli_line("neutral"), snli_line("maybe"), "has to be a JSON object with sentence1"),
        (
            snli_line("neutral"),
            '{"gold_label": "neutral", "sentence1": "a"}',
            "has to be a JSON object with sentence1",
        ),
        (snli_line("neutral"), '{"gold_label": ', "not a JSON object"),
        (snli_line("neutral"), "a\tb\t7", "or premise, hypothesis and 0, 1 or 2"),
        ("text,label\na,1", "b,", "the example has no label, unlike those before it"),
        ("text,label\na,1", "b,nan", "the label is 'nan', as pandas writes empty cells"),
        ("text,label\na,1", 'b,"x\ty"', "has a tab or a line end"),
        ('{"text": "a", "label": 1}', '{"text": 3, "label": 1}', "the row has no text in 'text'"),
        ('{"text": "a", "label": 1}', '{"text": "b", "label": [1]}', r"must be a string or a number, not \[1\]"),
    ],
)
def test_errors_name_the_line(write, first, line, message):
    content = first.encode() + b"\n" + (line if isinstance(line, bytes) else line.encode()) + b"\n"
    number = content.count(b"\n")
    with pytest.raises(UserError, match=rf"data\.\w+:{number}: .*{message}"):
        read_sentences(write(content, "data.csv" if first.startswith("text") else "data.txt"))


@pytest.mark.parametrize(
    ("row", "columns"),
    [
        ({"text": "Dogs sleep.", "label": 1, "label_text": "positive"}, ["text"]),
        ({"id": "a7", "gold_label": "yes", "text": "A dog.", "hypothesis": "A cat."}, ["text", "hypothesis"]),
        ({"text": "Dogs sleep.", "Gold": "yes"}, ["text"]),
        ({"pair_ID": "b1", "sentence_A": "A dog.", "sentence_B": "A cat."}, ["sentence_A", "sentence_B"]),
        ({"": "0", "text": "Dogs sleep.", "stars": " 4.5 "}, ["text"]),
        ({"": "0", "text": "1984"}, ["text"]),
        ({"sentence": "A dog.", "question": "A cat?"}, ["question", "sentence"]),
        ({"text": "A dog.", "annotator": "Ann"}, ["text"]),
        ({"date": "2024-01-01", "author": "Ann", "text": "A dog.", "split": "train", "lang": "en"}, ["text"]),
        ({"author": "Ann", "Review ": "A dog.", "url": "https://example.org/a/long/path"}, ["Review "]),
        ({"lang": "en", "abstract": "A dog sleeps.", "source": "web"}, ["abstract"]),
        ({"Text_A": "A dog.", "Text_B": "A cat.", "notes": "none of this is read"}, ["Text_A", "Text_B"]),
        ({"text": "A dog.", "text_pair": "A cat."}, ["text", "text_pair"]),
    ],
)
def test_the_columns_of_texts(row, columns):
    assert text_columns("file:1", [row]) == columns


def test_the_label_column_is_no_text():
    row = {"question": "Do dogs sleep?", "passage": "Dogs sleep a lot.", "answer": "yes"}
    assert text_columns("file:1", [row], "answer") == ["passage"]


def test_further_columns_are_ignored_and_named(write, caplog):
    path = write("text,annotator,label\nDogs sleep.,Ann,x\nCats run.,Bob,y\n", "rows.csv")
    rows = read_sentences(path)
    assert rows.column_names == ["text", "label"]
    assert caplog.messages == [
        f"{path}: the text is read from text; ignored: annotator (--text_column_names takes others)."
    ]


@pytest.mark.parametrize(
    "content",
    [
        "Text, Label\nA dog.,x\nA cat.,y\n",
        "text;label\nA dog.;x\nA cat.;y\n",
        "sep=;\ntext;label\nA dog.;x\nA cat.;y\n",
        "text|label\nA dog.|x\nA cat.|y\n",
        "text\tlabel\nA dog.\tx\nA cat.\ty\n",
        ",text,label\n0,A dog.,x\n1,A cat.,y\n",
        "label,text,,,\nx,A dog.,,,\ny,A cat.,,,\n,,,,\n,,,,\n",
        "\ufefftext,label\r\nA dog.,x\r\nA cat.,y\r\n",
    ],
)
@pytest.mark.parametrize("gzipped", [False, True])
def test_dialects_of_csv(write, content, gzipped):
    rows = read_sentences(write(content, "a.csv.gz" if gzipped else "a.csv"), ["text"])
    assert rows["text"] == ["A dog.", "A cat."] and rows["label"] == ["x", "y"]


def test_quotation_marks_of_tsv(write):
    lines = ['"He said ""no"" to me"\tx', 'He said "no"\ty', '"no"\ty']
    rows = read_sentences(write("\n".join(["text\tlabel", *lines]) + "\n", "a.tsv"))
    assert rows["text"] == ['He said "no" to me', 'He said "no"', '"no"']


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('text,label\na,x\n"b,y\nc,x\n', r"a\.csv:3: the row that starts here is not CSV"),
        ("text,label\na,x\nb,y,z\n", r"a\.csv:3: the row has 3 fields, but the header names 2"),
        ("body,label\na,x\n", r"a\.csv:2: there is no column 'text' of text; there are body, label"),
    ],
)
def test_what_is_wrong_with_a_table(write, content, message):
    with pytest.raises(UserError, match=message):
        read_sentences(write(content, "a.csv"), ["text"])


@pytest.mark.parametrize(
    ("header", "message"),
    [
        ("text,sentiment", r"no labels in 'label'; the columns are text, sentiment \(--label_column_name sentiment\)"),
        ("text,a,b", r"the columns are text, a, b \(--label_column_name\)"),
        ("A cat runs.,x", "'A cat runs.', 'x' look like data; the first line has to be a header, such as text,label"),
        ("gj04,1,The sailors rode the breeze", "look like data; the first line has to be a header"),
    ],
)
def test_headers(write, header, message):
    path = write(f"{header}\n{','.join(['A dog sleeps.'] * (header.count(',') + 1))}\n", "a.csv")
    with pytest.raises(UserError, match=rf"a\.csv:2: .*{message}"):
        read_sentences(path, labelled=True)


@pytest.mark.parametrize(
    "content",
    [
        {"text": ["A dog.", "A cat."], "label": ["x", "y"]},
        {"text": {"0": "A dog.", "1": "A cat."}, "label": {"0": "x", "1": "y"}},
        {"0": {"text": "A dog.", "label": "x"}, "1": {"text": "A cat.", "label": "y"}},
        {"version": 1, "data": [{"text": "A dog.", "label": "x"}, {"text": "A cat.", "label": "y"}]},
    ],
)
@pytest.mark.parametrize("indent", [None, 1])
def test_json_of_columns(write, content, indent):
    rows = read_sentences(write(json.dumps(content, indent=indent), "a.json"))
    assert rows.to_list() == [{"text": "A dog.", "label": "x"}, {"text": "A cat.", "label": "y"}]


@pytest.mark.parametrize("name", ["a.csv", "a.jsonl", "a.parquet"])
def test_rows_without_a_text(tmp_path, name, caplog):
    """They are left out for training; for prediction, which numbers the rows, they are an error."""
    path, rows = tmp_path / name, Dataset.from_dict({"text": [" ", "A cat.", ""], "label": ["x", "y", "x"]})
    {"csv": rows.to_csv, "jsonl": rows.to_json, "parquet": rows.to_parquet}[name[2:]](path)
    first = {"a.csv": ":2", "a.jsonl": ":1", "a.parquet": ", row 1"}[name]
    assert read_sentences(path, labelled=True).to_list() == [{"text": "A cat.", "label": "y"}]
    assert f"{path}: 2 rows have no text and are left out, the first of them {path}{first}." in caplog.text
    with pytest.raises(UserError, match=f"{first}: the row has no text in 'text'"):
        read_sentences(path)


def test_a_struct_with_two_fields_of_a_name(tmp_path):
    struct = pyarrow.StructArray.from_arrays([pyarrow.array([1]), pyarrow.array([2])], names=["a", "a"])
    for column in (struct, pyarrow.ListArray.from_arrays([0, 1], struct)):
        pyarrow.parquet.write_table(pyarrow.table({"text": ["A dog."], "label": column}), tmp_path / "a.parquet")
        with pytest.raises(UserError, match="a.parquet: .*duplicate field names"):
            read_sentences(tmp_path / "a.parquet")


def test_labels_are_stripped_and_whole_numbers_have_one_form(write):
    labels = [" good", "good ", "1.0", "+1", "1", "-1.00", "01", "1.5"]
    path = write("\n".join(["text,label", *(f"dog,{label}" for label in labels)]) + "\n", "rows.csv")
    assert read_sentences(path)["label"] == ["good", "good", "1", "1", "1", "-1", "01", "1.5"]


NAMED = Features({"text": Value("string"), "label": ClassLabel(names=["bad", "good"])})


@pytest.mark.parametrize(
    ("labels", "features", "expected"),
    [
        ([1, 0, 1], NAMED, ["good", "bad", "good"]),
        ([-1, None, -1], NAMED, None),
        ([1.0, 0.5, 2.0], None, ["1", "0.5", "2"]),
        ([" a", "b", "a "], None, ["a", "b", "a"]),
        (["", None, ""], None, None),
    ],
)
def test_columns_of_a_dataset(labels, features, expected, tmp_path):
    dataset = Dataset.from_dict({"text": ["x", "y", "z"], "label": labels}, features=features)
    dataset.to_parquet(tmp_path / "a.parquet")
    for rows in (to_sentences(dataset), to_sentences(dataset.to_iterable_dataset())):
        assert rows["text"] == ["x", "y", "z"]
        assert (rows["label"] if expected else rows.column_names) == (expected or ["text"])
    if features is None:
        assert read_sentences(tmp_path / "a.parquet").to_list() == rows.to_list()


def test_examples_of_no_class_are_left_out(caplog, tmp_path):
    rows = Dataset.from_dict({"premise": [*"abc"], "hypothesis": [*"xyz"], "label": [1, -1, 0]})
    rows = rows.cast_column("label", ClassLabel(names=["yes", "no"]))
    assert to_sentences(rows, "snli").to_dict() == {
        "premise": ["a", "c"],
        "hypothesis": ["x", "z"],
        "label": ["no", "yes"],
    }
    assert "snli: 1 examples of no class (-1) are left out." in caplog.text
    rows.to_parquet(tmp_path / "snli.parquet")
    assert read_sentences(tmp_path / "snli.parquet", labelled=True).to_list() == to_sentences(rows).to_list()


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ({"text": ["a", None], "label": ["x", "y"]}, "row 2: the row has no text in 'text'"),
        ({"text": ["a", "b"], "label": ["x", None]}, "row 2: the example has no label, unlike those before it"),
        ({"text": ["a", "b"], "label": [1.5, float("nan")]}, "row 2: the label is nan"),
        ({"text": ["a", "b"], "label": ["x", "y\nz"]}, "row 2: the label .* has a tab or a line end"),
        ({"number": [1, 2]}, "row 1: there is no column of text beside label among number"),
    ],
)
def test_errors_name_the_row(rows, message, tmp_path):
    with pytest.raises(UserError, match=f"^hub, {message}"):
        to_sentences(Dataset.from_dict(rows), "hub")
    pa.parquet.write_table(pa.table(rows), tmp_path / "a.parquet")
    with pytest.raises(UserError, match=rf"a\.parquet, {message}"):
        read_sentences(tmp_path / "a.parquet")
