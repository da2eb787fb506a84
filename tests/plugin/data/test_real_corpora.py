"""Every row of the public corpora. MSATTN_DATA names their folder, MSATTN_ENCODER a BERT checkpoint."""

from __future__ import annotations

import json
import os
from collections import Counter
from itertools import chain
from pathlib import Path

import pytest
from transformers import AutoTokenizer

from msattn.data import (
    ENTITY_MARKERS,
    add_entity_markers,
    encode_relation_dataset,
    encode_relations,
    encode_tagged_words,
    read_glue,
    read_relations,
    read_sentences,
    read_tagged_words,
    read_word_vectors,
    relation_labels,
    train_word_tokenizer,
)
from msattn.data.formats.sentiment_trees import SENTIMENTS
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

SST5 = {
    "train": [1092, 2218, 1624, 2322, 1288],
    "dev": [139, 289, 229, 279, 165],
    "test": [279, 633, 389, 510, 399],
}
# Training reviews, and how many of the 400 test reviews are among them.
MTL16 = {
    "MR": (1600, 0),
    "apparel": (1600, 6),
    "baby": (1500, 14),
    "books": (1600, 7),
    "camera_photo": (1597, 72),
    "dvd": (1600, 14),
    "electronics": (1598, 12),
    "health_personal_care": (1600, 30),
    "imdb": (1600, 0),
    "kitchen_housewares": (1600, 9),
    "magazines": (1570, 169),
    "music": (1600, 9),
    "software": (1515, 62),
    "sports_outdoors": (1600, 28),
    "toys_games": (1600, 8),
    "video": (1600, 99),
}
# Sentences and words, and entities of WNUT.
WNUT17 = {
    "wnut17train.conll": (3394, 62730, 1975),
    "emerging.dev.conll": (1009, 15733, 836),
    "emerging.test.annotated": (1287, 23394, 1079),
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
    with pytest.raises(UserError, match="train.tsv: the file cannot be read"):
        read_glue("qnli", data / "glue", splits=["train", "validation"])


@pytest.mark.parametrize("split", SST5)
def test_sst5(data, split):
    rows = read_sentences(data / "sst5" / f"{split}.txt")
    counts = Counter(rows["label"])
    assert [counts[label] for label in SENTIMENTS] == SST5[split]
    # A tree of n words has 2n - 1 phrases.
    words = sum(len(sentence.split(" ")) for sentence in rows["sentence"])
    assert len(read_sentences(data / "sst5" / f"{split}.txt", phrases=True)) == 2 * words - len(rows)
    text = " ".join(rows["sentence"])
    assert not any(escape in text for escape in ("-LRB-", "-RRB-", "\\/"))
    assert split != "train" or sum("\xa0" in sentence for sentence in rows["sentence"]) == 3


@pytest.mark.parametrize("domain", MTL16)
def test_mtl16(data, domain):
    train, test = (read_sentences(data / "mtl16" / f"{domain}.task.{part}").to_list() for part in ("train", "test"))
    assert len(test) == 400
    reviews = {(row["sentence"], row["label"]) for row in train}
    assert (len(train), sum((row["sentence"], row["label"]) in reviews for row in test)) == MTL16[domain]
    texts = [row["sentence"] for row in (*train, *test)]
    assert texts.count("") == (domain == "sports_outdoors")
    if domain in ("MR", "dvd"):
        assert not any(0x80 <= ord(sign) < 0xA0 for text in texts for sign in text)
    if domain == "books":  # the makers' 5,941 count the label
        assert max(len(text.split()) for text in texts) == 5940


def test_snli(data, caplog):
    files = data / "snli/original_format_subset"
    assert len(read_sentences(files / "snli_1.0_dev.partA.jsonl")) == 1289 - 16
    assert len(read_sentences(files / "snli_1.0_dev.partB.jsonl")) == 1277 - 23
    assert "16 pairs have the label -" in caplog.text and "23 pairs have the label -" in caplog.text
    assert len(read_sentences(data / "snli/re2_format/dev.txt")) == 9842
    assert len(read_sentences(data / "snli/re2_format/test.txt")) == 9824


@pytest.mark.parametrize("name", WNUT17)
def test_wnut17(data, name):
    rows = read_tagged_words(data / "wnut17" / name)
    tags = [*chain(*rows["tags"])]
    assert (len(rows), len(tags), sum(tag.startswith("B-") for tag in tags)) == WNUT17[name]
    assert len(set(tags)) == 13


def test_tags_of_a_treebank(data):
    path = data / "ud_english_ewt/en_ewt-ud-train.conllu.gz"
    rows = read_tagged_words(path)
    assert len({*chain(*rows["tags"])}) == 17 and [*chain(*rows["words"])].count("_") == 5
    assert len({*chain(*read_tagged_words(path, tag_column="xpos")["tags"])}) == 49


def test_every_word_of_wnut17_has_one_token_and_a_label(data):
    rows = read_tagged_words(data / "wnut17/wnut17train.conll")
    tokenizer = train_word_tokenizer(rows["words"], lower_case=True)
    labels = {tag: number for number, tag in enumerate(sorted({*chain(*rows["tags"])}))}
    encoded, cut = encode_tagged_words(rows, tokenizer, labels)
    assert cut == 0
    for row, ids, starts in zip(rows, encoded["input_ids"], encoded["word_starts"], strict=True):
        assert len(ids) == len(row["words"]) + 2 and starts == [*range(1, len(row["words"]) + 1)]
    assert sum(ids.count(tokenizer.unk_token_id) for ids in encoded["input_ids"]) == 0


def test_glove_covers_sst5(data):
    tokenizer = train_word_tokenizer(read_sentences(data / "sst5/train.txt")["sentence"], min_frequency=2)
    path = data / "glove/glove.6B.50d.first9k.txt"
    vocabulary = tokenizer.get_vocab()
    matrix = read_word_vectors(path, vocabulary)
    assert matrix.shape == (len(vocabulary), 50)
    assert matrix[vocabulary["the"]][:2] == pytest.approx([0.418, 0.24968])
    # The most frequent words are all there.
    known = {line.split(" ", 1)[0] for line in path.read_text(encoding="utf-8").split("\n")}
    assert set(sorted(vocabulary, key=vocabulary.__getitem__)[4:54]) <= known
