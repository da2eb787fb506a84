"""Files of rows: what is wrong with them is said with file and line."""

from __future__ import annotations

import gzip

import pyarrow as pa
import pyarrow.parquet
import pytest

from msattn import UserError
from msattn.data import read_ranking, read_relations, read_sentences, read_tagged_words, read_treebank
from msattn.data.files.records import parse_json
from msattn.data.files.text_lines import files_in, text_lines


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[" * 100_000, "not a JSON object"),
        ("9" * 5000, "not a JSON object"),
        (r'{"a": "\ud800"}', "a lone surrogate"),
        ('{"a": ', "not a JSON object (Expecting value"),
    ],
    ids=lambda text: text[:12],
)
def test_no_json(text, message):
    with pytest.raises(UserError) as error:
        parse_json(text, "a.jsonl:3")
    assert str(error.value).startswith("a.jsonl:3: ") and message in str(error.value)


def test_a_pair_of_surrogates_is_a_character():
    assert parse_json(r'"\ud83d\ude00"', "a") == "\U0001f600"


@pytest.mark.parametrize(("suffix", "sign"), [("csv", ","), ("tsv", "\t")])
def test_tables(suffix, sign, write):
    name = f"a.{suffix}"
    with pytest.raises(UserError, match=rf"a\.{suffix}:1: two columns have the name 'label'"):
        read_sentences(write(f"text{sign}label{sign}label\na{sign}b{sign}c\n", name))
    # The csv module reads 131,072 characters by itself.
    text = "word " * 100_000
    assert read_sentences(write(f"text{sign}label\n{text}{sign}x\n", name))["text"] == [text]


@pytest.mark.parametrize("damage", ["first page", "last page", "footer"])
def test_a_parquet_file_that_breaks_off_inside(damage, tmp_path):
    path = tmp_path / "a.parquet"
    table = pa.table({"text": [f"text {number}" * 40 for number in range(5000)], "label": ["x"] * 5000})
    pa.parquet.write_table(table, path, compression="snappy", row_group_size=1000, use_dictionary=False)
    data = bytearray(path.read_bytes())
    start = {"first page": 4, "last page": len(data) * 3 // 4, "footer": len(data) - 60}[damage]
    data[start : start + 40] = b"\xff" * 40
    path.write_bytes(data)
    with pytest.raises(UserError, match=r"a\.parquet: the Parquet file cannot be read"):
        read_sentences(path)


def test_parquet_that_no_dataset_can_hold(tmp_path):
    path = tmp_path / "a.parquet"
    texts = pa.array([b"a", b"\xff"], pa.binary())
    texts = pa.Array.from_buffers(pa.string(), 2, texts.buffers())
    for table in (
        pa.table({"text": texts, "label": ["x", "y"]}),
        pa.Table.from_arrays([pa.array(["a"]), pa.array(["b"])], ["text", "text"]),
    ):
        pa.parquet.write_table(table, path)
        with pytest.raises(UserError, match=r"a\.parquet: the Parquet file cannot be read"):
            read_sentences(path)


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be"])
@pytest.mark.parametrize("reader", [read_sentences, read_relations, read_tagged_words, read_treebank, read_ranking])
def test_utf_16(encoding, reader, write):
    path = write("sentence\tlabel\ngood\tx\nbad\ty\n".encode(encoding), "a.tsv")
    with pytest.raises(UserError, match=r"a\.tsv:1: .*--encoding utf-16"):
        reader(path)


@pytest.mark.parametrize(
    ("content", "kind"),
    [
        (b"<?xml version='1.0'?>\n<a/>\n", "XML or HTML; give text, CSV"),
        (b"<!DOCTYPE html>\n", "XML or HTML; give text, CSV"),
        (b"PK\x03\x04\x14\x00", "an Excel workbook or a ZIP archive; export it as CSV"),
        (b"\xd0\xcf\x11\xe0\xa1\xb1", "an Excel workbook or a ZIP archive; export it as CSV"),
        (gzip.compress(b"text,label", mtime=0), "gzipped; let its name end in .gz"),
        (b"PAR1\x15", "Parquet; let its name end in .parquet"),
        (b"%PDF-1.7\n", "a PDF"),
        (b"version https://git-lfs.github.com/spec/v1\n", "a pointer of Git LFS"),
        (b"x\x9c\xbd\x91", "compressed, as spaCy's DocBin is"),
    ],
)
@pytest.mark.parametrize("reader", [read_ranking, read_relations, read_sentences, read_tagged_words, read_treebank])
@pytest.mark.parametrize("suffix", ["csv", "txt"])
def test_what_holds_no_lines_is_named(content, kind, reader, suffix, write):
    with pytest.raises(UserError, match=rf"a\.{suffix}:1: the file is {kind}"):
        reader(write(content, f"a.{suffix}"))


TABLE = "text,label\nCaf\xe9 \u2013 good.,x\nbad,y\n"
JSONL = '{"text": "Caf\xe9 \u2013 good.", "label": "x"}\n{"text": "bad", "label": "y"}\n'


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "cp1252", "utf-8", "UTF-8-SIG"])
@pytest.mark.parametrize(
    ("name", "content"), [("a.csv", TABLE), ("a.tsv.gz", TABLE.replace(",", "\t")), ("a.jsonl", JSONL)]
)
def test_encodings(name, content, encoding, write):
    with files_in(encoding):
        assert read_sentences(write(content.encode(encoding), name))["text"] == ["Caf\xe9 \u2013 good.", "bad"]


@pytest.mark.parametrize(
    ("content", "encoding", "message"),
    [
        (b"text,label\ncaf\xe9,x\n", "utf-8", r":2: the line is not UTF-8; .* such as --encoding cp1252"),
        (b"text,label\ncaf\x81,x\n", "cp1252", r":2: the line is not CP1252; .* such as --encoding utf-8"),
        (b"\xff\xfea\x00b", "utf-16", r"a\.csv: the file is not utf-16"),
        (b"text,label\n", "utf-61", "--encoding utf-61: there is no such encoding"),
        (b"text,label\n", "base64", "--encoding base64: there is no such encoding"),
    ],
)
def test_wrong_encodings(content, encoding, message, write):
    with pytest.raises(UserError, match=message), files_in(encoding):
        read_sentences(write(content, "a.csv"))


def test_text_lines(write):
    path = write("\ufeffone\r\ntwo\x85\u2028\rthree", "a.txt.gz")
    assert [*text_lines(path)] == [(f"{path}:1", "one\n"), (f"{path}:2", "two\x85\u2028\n"), (f"{path}:3", "three")]
    assert [line for _, line in text_lines(path, newline="")] == ["one\r\n", "two\x85\u2028\r", "three"]
    for content in (gzip.compress(b"text " * 1000)[:-20], b"no gzip"):
        path.write_bytes(content)
        with pytest.raises(UserError, match=r"a\.txt\.gz: the file cannot be read"):
            [*text_lines(path)]
