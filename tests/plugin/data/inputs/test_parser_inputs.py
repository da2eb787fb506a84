"""Words to pieces to words: none is lost, and none changes places."""

from __future__ import annotations

import random

import pytest
import torch
from datasets import Dataset

from msattn.data.files.conllu_lines import conllu_lines, with_tree
from msattn.data.inputs.parser_inputs import WINDOW_COLUMNS, encode_treebank
from msattn.data.inputs.parser_windows import ParserCollator, sentence_windows
from msattn.data.inputs.word_pieces import NO_LABEL
from msattn.errors import UserError
from tests.tiny_models import tiny_tokenizer

SENTENCE = ["The", "unpayers", "\u200d", "dog", "taxi-cat", "."]


@pytest.fixture(scope="module")
def tokenizer():
    return tiny_tokenizer()


def test_pieces_know_their_words(tokenizer):
    ((window,),) = sentence_windows(tokenizer, [SENTENCE])
    tokens = tokenizer.convert_ids_to_tokens(window.inputs["input_ids"])
    assert tokens == "[CLS] the un ##payer ##s [UNK] dog taxi [UNK] cat . [SEP]".split()
    assert window.inputs["word_index"] == [0, 1, 2, 2, 2, 3, 4, 5, 5, 5, 6, -1]
    assert (window.first, window.words, window.kept, window.cut) == (0, 6, (0, 6), False)
    assert window.inputs["attention_mask"] == [1] * 12


def test_no_vocabulary_is_hashed(tokenizer, monkeypatch):
    monkeypatch.setattr("datasets.arrow_dataset.update_fingerprint", lambda *_: pytest.fail("the tokenizer is hashed"))
    rows = encode_treebank(Dataset.from_dict({"words": [SENTENCE], "lines": [[]]}), tokenizer, {})
    assert rows["input_ids"][0] == sentence_windows(tokenizer, [SENTENCE])[0][0].inputs["input_ids"]


@pytest.mark.parametrize("max_length", [5, 8, 13, 64])
def test_windows_hold_every_word_once(tokenizer, max_length):
    generator = random.Random(max_length)
    sentences = [
        generator.choices(["dog", "unpayers", "\u200d", "taxi-cat"], k=generator.randrange(1, 40)) for _ in range(30)
    ]

    def pieces(window):
        owned = [*zip(window.inputs["word_index"], window.inputs["input_ids"], strict=True)]
        assert owned[0][0] == 0 and owned[-1][0] == -1
        return [[piece for owner, piece in owned if owner == word] for word in range(1, window.words + 1)]

    split, whole = (sentence_windows(tokenizer, sentences, limit) for limit in (max_length, None))
    for windows, (complete,) in zip(split, whole, strict=True):
        kept = [window.first + word for window in windows for word in range(*window.kept)]
        assert kept == list(range(complete.words))
        for window in windows:
            assert len(window.inputs["input_ids"]) <= max_length
            expected = pieces(complete)[window.first : window.first + window.words]
            assert pieces(window) == [of_word[: max_length - 2] for of_word in expected]
        for before, after in zip(windows, windows[1:], strict=False):
            assert before.first < after.first <= before.first + before.words
    if max_length == 64:
        assert any(len(windows) > 1 for windows in sentence_windows(tokenizer, sentences, 63))


def test_a_word_longer_than_a_window_is_read_as_far_as_it_goes(tokenizer):
    (windows,) = sentence_windows(tokenizer, [["dog", "unpayers", "cat"]], 4)
    assert [(window.first, window.words, window.cut) for window in windows] == [
        (0, 1, False),
        (1, 1, True),
        (2, 1, False),
    ]
    with pytest.raises(UserError, match="2 tokens leave no room for a word"):
        sentence_windows(tokenizer, [["dog"]], 2)


def test_encoded_trees(tokenizer):
    words = [["dog"] * 9, ["unpayers", "cat"]]
    heads = [[0, 1, 2, 9, 4, 5, 6, 7, 1], [2, 0]]
    relations = [["root", *["dep"] * 7, "new"], ["dep", "root"]]
    trees = Dataset.from_dict({"words": words, "heads": heads, "relations": relations})
    rows = encode_treebank(trees, tokenizer, {"root": 0, "dep": 1}, max_length=8)
    assert rows["sentence"][:] == [0, 0, 1]
    assert [row[name] for row in rows for name in ("first", "start", "stop")] == [0, 0, 5, 3, 2, 6, 0, 0, 2]
    # The heads of words 4 and 9 lie outside of the windows that count for them.
    assert rows["heads"][:] == [
        [0, 1, 2, NO_LABEL, 4, NO_LABEL],
        [NO_LABEL, NO_LABEL, 2, 3, 4, NO_LABEL],
        [2, 0],
    ]
    assert rows["relations"][:2] == [[0, 1, 1, NO_LABEL, 1, NO_LABEL], [NO_LABEL, NO_LABEL, 1, 1, 1, NO_LABEL]]
    assert rows["relations"][2] == [1, 0]


def test_encoded_tags(tokenizer):
    words = [["dog"] * 9, ["unpayers", "cat"]]
    tags = [[*"ABCDABCDA"], ["_", "E"]]
    columns = {"heads": [[0, *[1] * 8], [2, 0]], "relations": [["dep"] * 9, ["dep"] * 2]}
    lines = [
        with_tree(conllu_lines(row), [1] * len(row), row, upos=upos) for row, upos in zip(words, tags, strict=True)
    ]
    trees = Dataset.from_dict({"words": words, "lines": [text.splitlines(keepends=True) for text in lines], **columns})
    rows = encode_treebank(trees, tokenizer, {"dep": 0}, max_length=8, tags={"upos": [*"ABCD"]})
    # Each word has its tag in one window, also where its head is outside. Missing and unknown ones have none.
    assert rows["upos"][:] == [
        [0, 1, 2, 3, 0, NO_LABEL],
        [NO_LABEL, NO_LABEL, 1, 2, 3, 0],
        [NO_LABEL, NO_LABEL],
    ]
    batch = ParserCollator(tokenizer)(list(rows.remove_columns(WINDOW_COLUMNS)))
    assert batch["upos"].tolist() == [*rows["upos"][:2], [NO_LABEL] * 6]
    blind = encode_treebank(trees.remove_columns([*columns]), tokenizer, {}, tags={"upos": ["A"]})
    assert "upos" not in blind.column_names


def test_a_batch_is_padded(tokenizer):
    trees = Dataset.from_dict(
        {"words": [["dog"], ["unpayers", "cat"]], "heads": [[0], [2, 0]], "relations": [["a"], ["b", "a"]]}
    )
    rows = encode_treebank(trees, tokenizer, {"a": 0}).remove_columns(WINDOW_COLUMNS)
    batch = ParserCollator(tokenizer, pad_to_multiple_of=8)(list(rows))
    assert batch["input_ids"].shape == (2, 8) and batch["input_ids"][0, 3:].tolist() == [tokenizer.pad_token_id] * 5
    assert batch["word_index"].tolist() == [[0, 1, *[-1] * 6], [0, 1, 1, 1, 2, -1, -1, -1]]
    assert batch["heads"].tolist() == [[0, NO_LABEL], [2, 0]]
    assert batch["relations"].tolist() == [[0, NO_LABEL], [NO_LABEL, 0]]
    assert batch["attention_mask"].sum(dim=1).tolist() == [3, 6]
    assert all(column.dtype == torch.int64 for column in batch.values())
