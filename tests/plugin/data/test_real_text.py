"""Every row of the public corpora for sentences and tags, against the figures of their makers."""

from __future__ import annotations

import os
from collections import Counter
from itertools import chain
from pathlib import Path

import pytest

from msattn.data.files.word_vectors import read_word_vectors
from msattn.data.formats.mtl16 import MTL16_DOMAINS, read_mtl16
from msattn.data.formats.sentiment_trees import read_sentiment_trees
from msattn.data.formats.snli import read_snli
from msattn.data.inputs.tagging_inputs import encode_tagged_words
from msattn.data.inputs.word_tokenizer import train_word_tokenizer
from msattn.data.tagged_words import read_tagged_words

pytestmark = pytest.mark.slow

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
TREEBANKS = {
    "ud_english_ewt/en_ewt-ud-train.conllu.gz": (12544, 204577),
    "ud_english_ewt/en_ewt-ud-dev.conllu": (2001, 25147),
    "ud_english_ewt/en_ewt-ud-test.conllu": (2077, 25094),
    "ud_english_partut/en_partut-ud-train.conllu": (1781, 43504),
    "ud_english_partut/en_partut-ud-dev.conllu": (156, 2722),
    "ud_english_partut/en_partut-ud-test.conllu": (153, 3408),
}


@pytest.fixture(scope="module")
def data() -> Path:
    if "MSATTN_DATA" not in os.environ:
        pytest.skip("MSATTN_DATA does not name the folder of the corpora")
    return Path(os.environ["MSATTN_DATA"])


@pytest.mark.parametrize("split", SST5)
def test_sst5(data, split):
    rows = read_sentiment_trees(data / "sst5" / f"{split}.txt")
    counts = Counter(rows["label"])
    assert [counts[label] for label in range(5)] == SST5[split]
    # A tree of n words has 2n - 1 phrases.
    words = sum(len(sentence.split(" ")) for sentence in rows["sentence"])
    phrases = read_sentiment_trees(data / "sst5" / f"{split}.txt", phrases=True)
    assert len(phrases) == 2 * words - len(rows)
    text = " ".join(rows["sentence"])
    assert not any(escape in text for escape in ("-LRB-", "-RRB-", "\\/"))
    if split == "train":
        assert sum("\xa0" in sentence for sentence in rows["sentence"]) == 3


def test_mtl16(data, caplog):
    assert set(MTL16) == set(MTL16_DOMAINS)
    sizes, longest = {}, 0
    for domain in MTL16_DOMAINS:
        caplog.clear()
        parts = read_mtl16(data / "mtl16", domain)
        assert len(parts["test"]) == 400
        shared = sum(parts["test"]["in_train"])
        sizes[domain] = len(parts["train"]), shared
        assert (f"{domain}: {shared} of the 400" in caplog.text) == (shared > 0)
        texts = [*parts["train"]["sentence"], *parts["test"]["sentence"]]
        longest = max(longest, *(len(text.split()) for text in texts))
        assert texts.count("") == (domain == "sports_outdoors")
        if domain == "sports_outdoors":
            assert parts["train"]["sentence"][1120] == ""
        if domain in ("MR", "dvd"):
            assert not any(0x80 <= ord(sign) < 0xA0 for text in texts for sign in text)
    assert sizes == MTL16
    # The makers' 5,941 count the label.
    assert longest == 5940


def test_snli(data, caplog):
    files = data / "snli/original_format_subset"
    assert len(read_snli(files / "snli_1.0_dev.partA.jsonl")) == 1289 - 16
    assert len(read_snli(files / "snli_1.0_dev.partB.jsonl")) == 1277 - 23
    assert "16 pairs have the label -" in caplog.text and "23 pairs have the label -" in caplog.text
    assert len(read_snli(data / "snli/re2_format/dev.txt")) == 9842
    assert len(read_snli(data / "snli/re2_format/test.txt")) == 9824


@pytest.mark.parametrize("name", WNUT17)
def test_wnut17(data, name):
    rows = read_tagged_words(data / "wnut17" / name)
    tags = [*chain(*rows["tags"])]
    assert (len(rows), len(tags), sum(tag.startswith("B-") for tag in tags)) == WNUT17[name]
    assert len(set(tags)) == 13
    if name == "emerging.test.annotated":
        assert max(map(len, rows["words"])) == 105


@pytest.mark.parametrize("name", TREEBANKS)
def test_treebanks(data, name):
    rows = read_tagged_words(data / name)
    tags = [*chain(*rows["tags"])]
    assert (len(rows), len(tags)) == TREEBANKS[name]
    assert len(set(tags)) == 17 or "partut" in name
    if name.endswith("train.conllu.gz"):
        assert [*chain(*rows["words"])].count("_") == 5
        assert len({*chain(*read_tagged_words(data / name, tag_column="xpos")["tags"])}) == 49


def test_every_word_of_wnut17_has_one_token_and_a_label(data):
    rows = read_tagged_words(data / "wnut17/wnut17train.conll")
    tokenizer = train_word_tokenizer(rows["words"], lower_case=True)
    labels = {tag: number for number, tag in enumerate(sorted({*chain(*rows["tags"])}))}
    encoded, cut = encode_tagged_words(rows, tokenizer, labels)
    assert cut == 0
    for row, ids, starts in zip(rows, encoded["input_ids"], encoded["word_starts"], strict=True):
        assert len(ids) == len(row["words"]) + 2 and starts == [*range(1, len(row["words"]) + 1)]
    assert sum(ids.count(tokenizer.unk_token_id) for ids in encoded["input_ids"]) == 0


def test_glove_covers_sst5(data, caplog):
    tokenizer = train_word_tokenizer(read_sentiment_trees(data / "sst5/train.txt")["sentence"], min_frequency=2)
    path = data / "glove/glove.6B.50d.first9k.txt"
    vocabulary = tokenizer.get_vocab()
    matrix = read_word_vectors(path, vocabulary)
    assert matrix.shape == (len(vocabulary), 50)
    assert matrix[vocabulary["the"]][:2] == pytest.approx([0.418, 0.24968])
    assert "vectors of" in caplog.text
    # The most frequent words are all there.
    frequent = sorted(vocabulary, key=vocabulary.__getitem__)[4:54]
    known = {line.split(" ", 1)[0] for line in path.read_text(encoding="utf-8").split("\n")}
    assert set(frequent) <= known
