from __future__ import annotations

import csv
import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
from datasets import ClassLabel, Dataset, Features, Sequence, Value

from msattn import UserError
from msattn.data import (
    read_glue,
    read_ranking,
    read_relations,
    read_sentences,
    read_tagged_words,
    read_trec_ranking,
    read_treebank,
    read_word_vectors,
    to_relations,
    to_tagged_words,
)
from msattn.data.files.records import READERS, parse_json
from msattn.metrics.submissions import read_semeval_answers


def written(folder, name: str, content: bytes):
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


@pytest.mark.parametrize(
    "text, message",
    [
        ("[" * 100_000, "nested too deeply"),
        ('{"a":' * 100_000, "nested too deeply"),
        ("9" * 5000, "not a JSON object"),
        ('{"a": NaN}', "NaN is no number of JSON"),
        ('{"a": -Infinity}', "-Infinity is no number of JSON"),
        ('{"a": 1, "a": 2}', "the name 'a' is there twice"),
        (r'{"a": "\ud800"}', "a lone surrogate"),
        ('{"a": ', "not a JSON object (Expecting value, character"),
    ],
    ids=lambda text: text[:12],
)
def test_no_json(text, message):
    with pytest.raises(UserError) as error:
        parse_json(text, "a.jsonl:3")
    assert str(error.value).startswith("a.jsonl:3: ") and message in str(error.value)


def test_a_pair_of_surrogates_is_a_character():
    assert parse_json(r'"\ud83d\ude00"', "a") == "\U0001f600"


@pytest.mark.parametrize("suffix, sign", [("csv", b","), ("tsv", b"\t")])
def test_two_columns_of_the_same_name(suffix, sign, tmp_path):
    """The last one would win in silence."""
    path = written(tmp_path, f"a.{suffix}", sign.join([b"text", b"label", b"label"]) + b"\n" + sign.join([b"a"] * 3))
    with pytest.raises(UserError, match=rf"a\.{suffix}:1: two columns have the name 'label'"):
        read_sentences(path)


@pytest.mark.parametrize("suffix", ["csv", "tsv"])
def test_a_field_of_any_length(suffix, tmp_path):
    """The csv module reads 131,072 characters by itself."""
    text, sign = "word " * 100_000, {"csv": ",", "tsv": "\t"}[suffix]
    path = written(tmp_path, f"a.{suffix}", f"text{sign}label\n{text}{sign}x\n".encode())
    assert read_sentences(path)["text"] == [text]
    assert csv.field_size_limit() > 131_072


@pytest.mark.parametrize("damage", ["first page", "last page", "footer"])
def test_a_parquet_file_that_breaks_off_inside(damage, tmp_path):
    path = tmp_path / "a.parquet"
    table = pa.table({"text": [f"text {number}" * 40 for number in range(5000)], "label": ["x"] * 5000})
    pa.parquet.write_table(table, path, compression="snappy", row_group_size=1000, use_dictionary=False)
    data = bytearray(path.read_bytes())
    start = {"first page": 4, "last page": len(data) * 3 // 4, "footer": len(data) - 60}[damage]
    data[start : start + 40] = b"\xff" * 40
    path.write_bytes(data)
    with pytest.raises(UserError) as error:
        read_sentences(path)
    assert str(error.value).startswith(str(path)) and "the Parquet file cannot be read" in str(error.value)


def test_bytes_in_parquet_that_are_not_utf_8(tmp_path):
    path = tmp_path / "a.parquet"
    texts = pa.array([b"a", b"\xff"], pa.binary()).view(pa.binary())
    table = pa.table({"text": pa.Array.from_buffers(pa.string(), 2, texts.buffers()), "label": ["x", "y"]})
    pa.parquet.write_table(table, path)
    with pytest.raises(UserError, match="the Parquet file cannot be read"):
        read_sentences(path)


def test_two_columns_of_the_same_name_in_parquet(tmp_path):
    path = tmp_path / "a.parquet"
    pa.parquet.write_table(pa.Table.from_arrays([pa.array(["a"]), pa.array(["b"])], ["text", "text"]), path)
    with pytest.raises(UserError, match="two columns have the name 'text'"):
        list(READERS["parquet"](path))


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be"])
@pytest.mark.parametrize("reader", [read_sentences, read_relations, read_tagged_words, read_treebank, read_ranking])
def test_utf_16(encoding, reader, tmp_path):
    path = written(tmp_path, "a.tsv", "sentence\tlabel\ngood\tx\nbad\ty\n".encode(encoding))
    with pytest.raises(UserError, match=r"a\.tsv:1: .*(UTF-8|UTF-16)"):
        reader(path)


@pytest.mark.parametrize("label", ["nan", "NaN", "inf", "1_0", "1e39", "-Infinity"])
@pytest.mark.parametrize("form", ["csv", "jsonl"])
def test_a_label_that_only_python_reads_as_a_number(label, form, tmp_path):
    """Version 0.1 made a class `nan` of it, or a regression of 1_0."""
    rows = {
        "csv": f"text,label\na,1.5\nb,{label}\n",
        "jsonl": f'{{"text":"a","label":1.5}}\n{{"text":"b","label":"{label}"}}\n',
    }
    path = written(tmp_path, f"a.{form}", rows[form].encode())
    line = {"csv": 3, "jsonl": 2}[form]
    with pytest.raises(UserError, match=rf"a\.{form}:{line}: the label '{label}' is not a plain, finite number"):
        read_sentences(path)


def test_a_label_of_parquet_that_is_not_a_number(tmp_path):
    path = tmp_path / "a.parquet"
    pa.parquet.write_table(pa.table({"text": ["a", "b"], "label": [1.5, float("nan")]}), path)
    with pytest.raises(UserError, match=r"a\.parquet, row 2: the label 'nan' is not a plain, finite number"):
        read_sentences(path)


@pytest.mark.parametrize("score", ["nan", "inf", "1e39", "1_0", "٣", "three"])  # noqa: RUF001
def test_a_score_that_is_not_a_number(score, tmp_path):
    written(tmp_path, "STS-B/train.tsv", f"sentence1\tsentence2\tscore\na\tb\t5\nc\td\t{score}\n".encode())
    with pytest.raises(UserError, match=r"train\.tsv:3: the score .* is not a number"):
        read_glue("stsb", tmp_path, ["train"])


@pytest.mark.parametrize("score", ["-7", "99", "5.1", "-0.1"])
def test_a_score_out_of_range(score, tmp_path):
    written(tmp_path, "STS-B/train.tsv", f"sentence1\tsentence2\tscore\na\tb\t{score}\n".encode())
    with pytest.raises(UserError, match=rf"train\.tsv:2: the score {score} is out of range; STS-B has 0 to 5"):
        read_glue("stsb", tmp_path, ["train"])


TAGS = Features({"tokens": Sequence(Value("string")), "tags": Sequence(ClassLabel(names=["NOUN", "VERB"]))})


def tagged(*tags, features=TAGS) -> Dataset:
    return Dataset.from_dict({"tokens": [["Dogs", "sleep"]] * len(tags), "tags": list(tags)}, features=features)


@pytest.mark.parametrize("tag", [-1, None])
def test_a_missing_tag_is_not_the_last_class(tag):
    with pytest.raises(UserError, match=f"^dataset, row 2: word 2 has the tag {tag}; every word needs one"):
        to_tagged_words(tagged([0, 1], [0, tag]))


@pytest.mark.parametrize("tag", [-1, None])
def test_rows_without_any_tag_have_none(tag):
    assert to_tagged_words(tagged([tag, tag], [tag, tag])).column_names == ["words"]
    with pytest.raises(UserError, match="sentence 2 has no tags, unlike those before it"):
        to_tagged_words(tagged([0, 1], [tag, tag]))


def test_a_tag_of_text_that_is_missing():
    texts = Features({"tokens": Sequence(Value("string")), "tags": Sequence(Value("string"))})
    assert to_tagged_words(tagged(["A", "B"], features=texts))["tags"] == [["A", "B"]]
    with pytest.raises(UserError, match="word 1 has the tag None"):
        to_tagged_words(tagged([None, "B"], features=texts))


@pytest.mark.parametrize("row", [None, 3, "text", []])
def test_a_row_that_is_no_mapping(row):
    with pytest.raises(UserError, match="^dataset, row 1: an example must be an object with named fields"):
        to_relations([row])


@pytest.mark.parametrize("bound", ["1_0", "٣", "9" * 5000])  # noqa: RUF001
def test_a_position_that_only_python_reads(bound, tmp_path):
    row = {"text": "a storm and a leak", "h": [bound, 7], "t": [14, 18], "relation": "x"}
    path = written(tmp_path, "a.jsonl", json.dumps(row).encode())
    with pytest.raises(UserError, match="the head needs two whole numbers") as error:
        read_relations(path)
    assert len(str(error.value).replace(str(path), "")) < 300


def test_a_vector_that_only_python_reads(tmp_path):
    for numbers in ("1_0 2", "١ 2", "nan 2", "1e39 2"):  # noqa: RUF001
        path = written(tmp_path, "a.txt", f"the 1 2\ndog {numbers}\n".encode())
        with pytest.raises(UserError, match=r"a\.txt:2: the vector "):
            read_word_vectors(path, {"dog": 0})
    assert np.isfinite(read_word_vectors(written(tmp_path, "a.txt", b"dog 1 2"), {"dog": 0})).all()


@pytest.mark.parametrize("head", ["1_0", "٢", "9" * 5000, "-1"])  # noqa: RUF001
def test_a_head_that_only_python_reads(head, tmp_path):
    line = "1\tDogs\t_\tNOUN\t_\t_\t{}\tnsubj\t_\t_\n2\tsleep\t_\tVERB\t_\t_\t0\troot\t_\t_\n\n"
    path = written(tmp_path, "a.conllu", line.format(head).encode())
    with pytest.raises(UserError, match=r"a\.conllu:1: the head of word 1"):
        read_treebank(path)


def test_a_relevance_that_only_python_reads(tmp_path):
    run, qrels = written(tmp_path, "run", b"1 Q0 d1 1 0 x\n"), written(tmp_path, "qrels", b"1 0 d1 1_0\n")
    with pytest.raises(UserError, match="qrels:1: the relevance '1_0' is not a whole number"):
        read_trec_ranking(run, [], [], [qrels])


def test_answers_that_cannot_be_read(tmp_path):
    with pytest.raises(UserError, match="none: the file cannot be read"):
        read_semeval_answers(tmp_path / "none")
    with pytest.raises(UserError, match="the file cannot be read"):
        read_semeval_answers(written(tmp_path, "a", b"1\t\xff\n"))
