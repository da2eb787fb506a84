"""
Every row of the public corpora, as version 0.2 read it; mentions of Re-DocRED are the nearest in characters.
MSATTN_DATA names their folder.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import os
from pathlib import Path

import pytest
from transformers import AutoTokenizer

from msattn import data
from msattn.data import ENTITY_MARKERS
from msattn.data.files.conllu_lines import with_tree

pytestmark = pytest.mark.slow


def with_empty(row: dict) -> dict:
    """A tag that is absent, as the file and version 0.2 have it."""
    return {"tags": [tag or "_" for tag in row["tags"]]} if "tags" in row else {}


READERS = {
    "relations": data.read_relations,
    "sentences": data.read_sentences,
    "phrases": lambda path: data.read_sentences(path, phrases=True),
    "tags": data.read_tagged_words,
    "xpos": lambda path: data.read_tagged_words(path, tag_column="xpos").map(with_empty),
    "trees": lambda path: data.read_treebank(path).remove_columns("where"),
}
# By reader and file: the number of rows, and the start of the SHA-256 of their columns as JSON.
RECORDED = json.loads(Path(__file__).with_name("real_corpora.json").read_text())


@pytest.fixture(scope="module")
def folder() -> Path:
    if "MSATTN_DATA" not in os.environ:
        pytest.skip("MSATTN_DATA does not name the folder of the corpora")
    return Path(os.environ["MSATTN_DATA"])


@pytest.mark.parametrize("name", RECORDED)
def test_every_row_is_as_it_was(folder, name):
    kind, file = name.split(" ")
    split = file.removeprefix("glue/")
    glue = kind in data.GLUE_TASKS
    rows = data.read_glue(kind, folder / "glue", [split])[split] if glue else READERS[kind](folder / file)
    content = json.dumps(rows.to_dict(), ensure_ascii=False).encode()
    assert [len(rows), hashlib.sha256(content).hexdigest()[:16]] == RECORDED[name]


@pytest.mark.parametrize("name", ["TRAIN_FILE.TXT", "TEST_FILE_FULL.TXT"])
def test_semeval_comes_back_byte_for_byte(folder, name):
    path = folder / "semeval2010_task8" / name
    blocks = [block.split(b"\r\n") for block in path.read_bytes().split(b"\r\n\r\n") if block]
    for row, (sentence, label, *_) in zip(data.read_relations(path), blocks, strict=True):
        text, (a, b), (c, d) = row["text"], row["head"], row["tail"]
        tagged = f"{text[:a]}<e1>{text[a:b]}</e1>{text[b:c]}<e2>{text[c:d]}</e2>{text[d:]}"
        assert f'{row["id"]}\t"{tagged}"'.encode() == sentence
        assert row["label"].encode() == label


@pytest.mark.parametrize("name", [name.split(" ")[1] for name in RECORDED if name.startswith("trees")])
def test_treebanks_come_back_byte_for_byte(folder, name):
    rows = data.read_treebank(folder / name)
    text = "".join(with_tree(row["lines"], row["heads"], row["relations"]) for row in rows)
    content = (folder / name).read_bytes()
    assert text.encode() == (gzip.decompress(content) if name.endswith(".gz") else content)


@pytest.mark.parametrize("name", ["semeval2010_task8/TEST_FILE_FULL.TXT", "wiki80/wiki80_val.txt"])
def test_encoding_keeps_every_entity(folder, name):
    if "MSATTN_ENCODER" not in os.environ:
        pytest.skip("MSATTN_ENCODER does not name a BERT checkpoint")
    tokenizer = AutoTokenizer.from_pretrained(os.environ["MSATTN_ENCODER"])
    data.add_entity_markers(tokenizer)
    rows = data.read_relations(folder / name)
    encoded = data.encode_relation_dataset(rows, tokenizer, 512)
    markers = tokenizer.convert_tokens_to_ids(list(ENTITY_MARKERS))
    assert len(encoded) == len(rows)
    for role, (opening, closing), column in (("head", markers[:2], 0), ("tail", markers[2:], 1)):
        entities = [row["text"][slice(*row[role])] for row in rows]
        expected = tokenizer(entities, add_special_tokens=False)["input_ids"]
        for row, entity in zip(encoded, expected, strict=True):
            input_ids = row["input_ids"]
            start = row["entity_starts"][column]
            assert input_ids[start] == opening and input_ids[start + 1 : input_ids.index(closing)] == entity
    for row in encoded:
        assert row["input_ids"][0] == tokenizer.cls_token_id and row["input_ids"][-1] == tokenizer.sep_token_id
        assert not {tokenizer.cls_token_id, tokenizer.sep_token_id}.intersection(row["input_ids"][1:-1])
