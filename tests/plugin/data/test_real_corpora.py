"""Every row of the public corpora. MSATTN_DATA names their folder, MSATTN_ENCODER a BERT checkpoint."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from transformers import AutoTokenizer

from msattn.data import (
    ENTITY_MARKERS,
    add_entity_markers,
    encode_relation_dataset,
    encode_relations,
    read_glue,
    read_relations,
    relation_labels,
)
from msattn.errors import UserError

pytestmark = pytest.mark.slow

SEMEVAL = {"TRAIN_FILE.TXT": 8000, "TEST_FILE_FULL.TXT": 2717}
JSON_LINES = {
    "semeval2010_task8/opennre_format/train.txt": 6507,
    "semeval2010_task8/opennre_format/dev.txt": 1493,
    "semeval2010_task8/opennre_format/test.txt": 2717,
    "wiki80/wiki80_val.txt": 5600,
    "wiki80/re_context_or_names/train_0.1.txt": 3920,
    "wiki80/re_context_or_names/train_0.01.txt": 400,
}
GLUE = {
    "cola": (8551, 1043, 1063),
    "sst2": (67349, 872, 1821),
    "mrpc": (3668, 408, 1725),
    "stsb": (5749, 1500, 1379),
    "rte": (2490, 277, 3000),
    "wnli": (635, 71, 146),
}


@pytest.fixture(scope="module")
def data() -> Path:
    if "MSATTN_DATA" not in os.environ:
        pytest.skip("MSATTN_DATA does not name the folder of the corpora")
    return Path(os.environ["MSATTN_DATA"])


@pytest.fixture(scope="module")
def tokenizer():
    if "MSATTN_ENCODER" not in os.environ:
        pytest.skip("MSATTN_ENCODER does not name a BERT checkpoint")
    tokenizer = AutoTokenizer.from_pretrained(os.environ["MSATTN_ENCODER"])
    add_entity_markers(tokenizer)
    return tokenizer


@pytest.mark.parametrize("name", SEMEVAL)
def test_semeval_comes_back_byte_for_byte(data, name):
    path = data / "semeval2010_task8" / name
    rows = read_relations(path)
    assert len(rows) == SEMEVAL[name]
    assert rows.to_list() == read_relations(path, "semeval").to_list()

    blocks = [block.split(b"\r\n") for block in path.read_bytes().split(b"\r\n\r\n") if block]
    assert len(blocks) == len(rows)
    for row, (sentence, label, *_) in zip(rows, blocks, strict=True):
        text, (a, b), (c, d) = row["text"], row["head"], row["tail"]
        tagged = f"{text[:a]}<e1>{text[a:b]}</e1>{text[b:c]}<e2>{text[c:d]}</e2>{text[d:]}"
        assert f'{row["id"]}\t"{tagged}"'.encode() == sentence
        assert row["label"].encode() == label


def test_semeval_known_rows(data):
    train = read_relations(data / "semeval2010_task8" / "TRAIN_FILE.TXT")
    test = read_relations(data / "semeval2010_task8" / "TEST_FILE_FULL.TXT")
    odd_quotes = [sum(text.count('"') % 2 for text in rows["text"]) for rows in (train, test)]
    assert odd_quotes == [11, 6]
    key = (data / "semeval2010_task8" / "TEST_FILE_KEY.TXT").read_text().split()
    # The key file has the labels without their direction.
    assert [cell for row in test for cell in (row["id"], row["label"].split("(")[0])] == key
    assert len(relation_labels(train, test)) == len(relation_labels(train)) == 19
    with pytest.raises(UserError, match="TEST_FILE_KEY.TXT:1: "):
        read_relations(data / "semeval2010_task8" / "TEST_FILE_KEY.TXT")


@pytest.mark.parametrize("name", JSON_LINES)
def test_token_spans_are_word_exact(data, name):
    rows = read_relations(data / name)
    assert len(rows) == JSON_LINES[name]
    white = 0
    with open(data / name, encoding="utf-8") as file:
        for row, line in zip(rows, file, strict=True):
            given = json.loads(line)
            white += any(not token.strip() for token in given["token"])
            for role, key in (("head", "h"), ("tail", "t")):
                (start, end), (first, last) = row[role], given[key]["pos"]
                assert row["text"][start:end] == " ".join(given["token"][first:last])
                assert row["text"][:start] == "".join(f"{token} " for token in given["token"][:first])
            assert row["label"] == given["relation"]
    if name == "wiki80/wiki80_val.txt":
        assert white == 84


def test_labels_of_the_corpora(data):
    opennre = [
        read_relations(data / "semeval2010_task8/opennre_format" / f"{s}.txt") for s in ("train", "dev", "test")
    ]
    assert len(relation_labels(opennre[0])) == 18
    names = json.loads((data / "semeval2010_task8/opennre_format/rel2id.json").read_text())
    assert relation_labels(*opennre) == sorted(names)
    wiki80 = json.loads((data / "wiki80/wiki80_rel2id.json").read_text())
    assert relation_labels(read_relations(data / "wiki80/wiki80_val.txt", labels=list(wiki80))) == sorted(wiki80)


@pytest.mark.parametrize("name", [*(f"semeval2010_task8/{name}" for name in SEMEVAL), *JSON_LINES])
def test_encoding_keeps_every_entity(data, tokenizer, name):
    rows = read_relations(data / name)
    encoded = encode_relation_dataset(rows, tokenizer, 512)
    ids = dict(zip(ENTITY_MARKERS, tokenizer.convert_tokens_to_ids(list(ENTITY_MARKERS)), strict=True))
    assert len(encoded) == len(rows)

    for role, opening, closing, column in (("head", "[E1]", "[/E1]", 0), ("tail", "[E2]", "[/E2]", 1)):
        entities = [row["text"][slice(*row[role])] for row in rows]
        expected = tokenizer(entities, add_special_tokens=False)["input_ids"]
        for row, entity in zip(encoded, expected, strict=True):
            input_ids = row["input_ids"]
            assert input_ids.count(ids[opening]) == input_ids.count(ids[closing]) == 1
            start = row["entity_starts"][column]
            assert input_ids[start] == ids[opening]
            assert input_ids[start + 1 : input_ids.index(ids[closing])] == entity

    for row in encoded:
        assert row["input_ids"][0] == tokenizer.cls_token_id and row["input_ids"][-1] == tokenizer.sep_token_id
        assert not {tokenizer.cls_token_id, tokenizer.sep_token_id}.intersection(row["input_ids"][1:-1])


@pytest.mark.parametrize("max_length", [32, 64])
def test_windows_are_part_of_the_whole(data, tokenizer, max_length):
    rows = read_relations(data / "wiki80/wiki80_val.txt")
    columns = rows["text"], rows["head"], rows["tail"]
    whole = encode_relations(tokenizer, *columns)["input_ids"]
    windows = encode_relations(tokenizer, *columns, max_length)["input_ids"]
    markers = set(tokenizer.convert_tokens_to_ids(list(ENTITY_MARKERS)))
    for full, window in zip(whole, windows, strict=True):
        positions = [i for i, token in enumerate(full) if token in markers]
        needed = positions[-1] - positions[0] + 3
        assert (window is None) == (needed > max_length)
        if window is not None:
            assert len(window) == min(len(full), max_length)
            inner = window[1:-1]
            assert any(full[i : i + len(inner)] == inner for i in range(1, positions[0] + 1))
            assert markers <= set(inner)


@pytest.mark.parametrize("task", GLUE)
def test_glue(data, task):
    rows = read_glue(task, data / "glue")
    assert tuple(len(rows[split]) for split in ("train", "validation", "test")) == GLUE[task]
    assert rows["test"].unique("label") == [-1]
    assert -1 not in rows["train"].unique("label")
    texts = list(rows["validation"].column_names)[:-2]
    assert all(text.strip() for split in rows for column in texts for text in rows[split][column])
    assert all(list(rows[split]["idx"]) == list(range(len(rows[split]))) for split in rows)


def test_glue_qnli_has_no_training_part(data):
    rows = read_glue("qnli", data / "glue")
    assert {split: len(part) for split, part in rows.items()} == {"validation": 5463, "test": 5463}
    with pytest.raises(UserError, match="train.tsv: there is no such file"):
        read_glue("qnli", data / "glue", splits=["train", "validation"])
