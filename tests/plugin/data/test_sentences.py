"""SST-5, MTL-16 and SNLI: small files with the peculiarities of the real ones."""

from __future__ import annotations

import json

import pytest

from msattn.data.formats.mtl16 import MTL16_DOMAINS, read_mtl16
from msattn.data.formats.sentiment_trees import SENTIMENTS, read_sentiment_trees
from msattn.data.formats.snli import read_snli
from msattn.data.sentences import read_sentences, text_columns
from msattn.errors import UserError

TREES = r"""(3 (2 It) (4 (4 (2 's) (3 fun)) (2 .)))
(1 (1 (2 -LRB-) (0 bad\/dull)) (2 -RRB-))

(2 1\xa01/2)
""".replace(r"\xa0", "\xa0")


@pytest.fixture
def trees(tmp_path):
    path = tmp_path / "trees.txt"
    path.write_text(TREES, encoding="utf-8")
    return path


def test_sentences_of_trees(trees):
    rows = read_sentiment_trees(trees)
    assert rows["sentence"][:] == ["It 's fun .", "( bad/dull )", "1\xa01/2"]
    assert rows["label"][:] == [3, 1, 2]
    assert rows.features["label"].names == list(SENTIMENTS)


def test_phrases_of_trees(trees):
    rows = read_sentiment_trees(trees, phrases=True)
    phrases = list(zip(rows["sentence"], rows["label"], strict=True))
    assert phrases[:7] == [
        ("It", 2),
        ("'s", 2),
        ("fun", 3),
        ("'s fun", 4),
        (".", 2),
        ("'s fun .", 4),
        ("It 's fun .", 3),
    ]
    assert len(phrases) == 7 + 5 + 1


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("(3 (2 a) (2 b)", "lacks 1 closing brackets"),
        ("(3 (2 a)) (2 b)", r"'\(' stands after the end"),
        ("(3 a))", r"'\)' stands after the end"),
        ("(5 a)", "a label from 0 to 4 has to follow an opening bracket, not '5'"),
        ("(3 (2) (2 b))", "a node of the tree has no word"),
        ("3\tfine", "has to begin with the bracket of a tree, not with '3'"),
    ],
)
def test_broken_trees(tmp_path, line, message):
    path = tmp_path / "trees.txt"
    path.write_text(f"(2 fine)\n{line}\n")
    with pytest.raises(UserError, match=f"trees.txt:2: .*{message}"):
        read_sentiment_trees(path)


def test_no_trees(tmp_path):
    (tmp_path / "trees.txt").write_text("\n")
    with pytest.raises(UserError, match="no tree in it"):
        read_sentiment_trees(tmp_path / "trees.txt")


@pytest.fixture
def reviews(tmp_path):
    def write(train: bytes, test: bytes = b"1\tgood .\n", domain: str = "magazines"):
        (tmp_path / f"{domain}.task.train").write_bytes(train)
        (tmp_path / f"{domain}.task.test").write_bytes(test)
        return tmp_path

    return write


def test_reviews(reviews):
    long = " ".join(["word"] * 5941)
    train = f"0\tso\x85 bad\u2028 \u201cit\u201d\n0\t\n1\t{long}\n1\t a\xa0b \n".encode()
    rows = read_mtl16(reviews(train), "magazines")["train"]
    assert rows["label"][:] == [0, 0, 1, 1]
    assert rows["sentence"][:] == ["so\x85 bad\u2028 \u201cit\u201d", "", long, "a\xa0b"]
    assert rows.features["label"].names == ["negative", "positive"]


def test_reviews_in_windows_1252(reviews):
    rows = read_mtl16(reviews("1\tna\u00efve\n".encode() + b"0\tclich\xe9 \x96 again\x85 no\n"), "magazines")["train"]
    assert rows["sentence"][:] == ["na\u00efve", "clich\u00e9 \u2013 again\u2026 no"]


def test_reviews_of_both_parts_are_reported(reviews, caplog):
    train = b"1\tgood .\n0\tbad .\n0\tdull\n1\tgood .\n"
    data = read_mtl16(reviews(train, b"1\tgood .\n0\tnew\n1\tdull\n0\tbad .\n"), "magazines")
    assert data["test"]["in_train"][:] == [True, False, False, True]
    assert data["train"].column_names == ["sentence", "label"]
    assert "magazines: 2 of the 4 test reviews are in the training data, too" in caplog.text
    caplog.clear()
    assert not any(read_mtl16(reviews(b"0\tbad\n", domain="books"), "books")["test"]["in_train"])
    assert not caplog.text


def test_broken_reviews(reviews, tmp_path):
    assert len(set(MTL16_DOMAINS)) == 16
    with pytest.raises(UserError, match="domain must be one of books, .*not 'book'"):
        read_mtl16(tmp_path, "book")
    with pytest.raises(UserError, match="books.task.train: the file cannot be read"):
        read_mtl16(tmp_path, "books")
    for line in (b"2\tgood", b"good", b"1 good"):
        with pytest.raises(UserError, match="magazines.task.train:2: the line has to be 0 or 1, a tab and the review"):
            read_mtl16(reviews(b"1\tgood\n" + line + b"\n"), "magazines")
    with pytest.raises(UserError, match="train:1: the line is neither UTF-8 nor cp1252"):
        read_mtl16(reviews(b"1\t\xe9\x81\n"), "magazines")
    with pytest.raises(UserError, match="test: there is no review"):
        read_mtl16(reviews(b"1\tgood\n", b""), "magazines")


def snli_line(label: str) -> str:
    return json.dumps({"gold_label": label, "sentence1": "A dog.", "sentence2": "A cat\x85.", "annotator_labels": []})


def test_snli(tmp_path, caplog):
    path = tmp_path / "snli.jsonl"
    path.write_text("\n".join(map(snli_line, ("neutral", "-", "contradiction", "-", "entailment"))))
    rows = read_snli(path)
    assert rows["label"][:] == [1, 2, 0]
    assert rows[0] == {"premise": "A dog.", "hypothesis": "A cat\x85.", "label": 1}
    assert rows.features["label"].names == ["entailment", "neutral", "contradiction"]
    assert f"{path}: 2 pairs have the label - and were left out" in caplog.text


def test_snli_as_a_table(tmp_path):
    path = tmp_path / "dev.txt"
    path.write_text("two women hug\tsisters hug\t1\na man\ta dog\t2\n")
    assert read_snli(path)[1] == {"premise": "a man", "hypothesis": "a dog", "label": 2}
    assert read_sentences(path).column_names == ["premise", "hypothesis", "label"]
    path.with_suffix(".tsv").write_text("17\ta good film\t1\n18\ta bad film\t0\n")  # ids are no premises
    assert "premise" not in read_sentences(path.with_suffix(".tsv")).column_names


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (snli_line("maybe"), "'maybe' is not a label of SNLI"),
        ('{"gold_label": "neutral", "sentence1": "a"}', "must have the strings sentence1, sentence2 and gold_label"),
        ('{"gold_label": ', "not a JSON object"),
        ("a\tb\tneutral", "has to be a JSON object, or premise, hypothesis and 0, 1 or 2"),
    ],
)
def test_broken_snli(tmp_path, line, message):
    path = tmp_path / "snli.jsonl"
    path.write_text(f"{snli_line('neutral')}\n{line}\n")
    with pytest.raises(UserError, match=f"snli.jsonl:2: .*{message}"):
        read_snli(path)


def test_snli_without_a_label(tmp_path):
    path = tmp_path / "snli.jsonl"
    path.write_text(snli_line("-"))
    with pytest.raises(UserError, match="no labelled pair"):
        read_snli(path)


def test_a_table_may_be_one_of_these_corpora(trees, reviews, tmp_path):
    sentences = read_sentences(trees)
    assert sentences.column_names == ["sentence", "label"]
    assert sentences["label"][:] == ["positive", "negative", "neutral"]
    assert len(read_sentences(trees, phrases=True)) == 13
    assert read_sentences(trees, ["text"]).column_names == ["text", "label"]

    folder = reviews(b"0\t\n1\tso\x85 \xe9\n")
    train = read_sentences(folder / "magazines.task.train")
    assert train.to_list() == [{"sentence": "", "label": "negative"}, {"sentence": "so… é", "label": "positive"}]

    for name, content in {"snli.jsonl": snli_line("neutral"), "snli.txt": "A dog.\tA cat\x85.\t1\n"}.items():
        (tmp_path / name).write_text(content, encoding="utf-8")
        pair = {"premise": "A dog.", "hypothesis": "A cat\x85.", "label": "neutral"}
        assert read_sentences(tmp_path / name).to_list() == [pair]
        assert read_sentences(tmp_path / name, ["a", "b"]).column_names == ["a", "b", "label"]
        with pytest.raises(UserError, match="the file has premise and hypothesis, and not sentence"):
            read_sentences(tmp_path / name, ["sentence"])
        with pytest.raises(UserError, match="only the trees of SST-5 have phrases"):
            read_sentences(tmp_path / name, phrases=True)


@pytest.mark.parametrize(
    ("row", "columns"),
    [
        ({"text": "Dogs sleep.", "label": 1, "label_text": "positive"}, ["text"]),
        ({"id": "a7", "gold_label": "yes", "text": "A dog.", "hypothesis": "A cat."}, ["text", "hypothesis"]),
        ({"text": "Dogs sleep.", "Gold": "yes"}, ["text"]),
        ({"pair_ID": "b1", "sentence_A": "A dog.", "sentence_B": "A cat."}, ["sentence_A", "sentence_B"]),
        ({"pairID": "b1", "uid": "a", "prompt": "A dog.", "valid": "A cat."}, ["prompt", "valid"]),
        ({"": "0", "text": "Dogs sleep.", "stars": " 4.5 "}, ["text"]),
        ({"": "0", "text": "1984"}, ["", "text"]),
    ],
)
def test_ids_numbers_and_what_tells_the_label_are_no_texts(row, columns):
    assert text_columns("file:1", row) == columns


def test_labels_are_stripped_and_whole_numbers_have_one_form(tmp_path):
    labels = [" good", "good ", "1.0", "+1", "1", "-1.00", "01", "1.5"]
    path = tmp_path / "rows.csv"
    path.write_text("\n".join(["text,label", *(f"dog,{label}" for label in labels)]) + "\n")
    assert read_sentences(path)["label"][:] == ["good", "good", "1", "1", "1", "-1", "01", "1.5"]
