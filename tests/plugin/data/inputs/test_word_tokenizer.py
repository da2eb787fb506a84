from __future__ import annotations

import json

import numpy as np
import pytest
from transformers import AutoTokenizer

import msattn  # noqa: F401
from msattn.data.files.word_vectors import read_word_vectors
from msattn.data.inputs.word_tokenizer import SPECIAL_TOKENS, add_words, train_word_tokenizer
from msattn.errors import UserError

CORPUS = ["The dog saw the dog .", ["the", "DOG", "ran"], "a\xa0cat ran\x85on ."]


def test_vocabulary_is_that_of_the_corpus():
    vocabulary = train_word_tokenizer(CORPUS).get_vocab()
    tokens = sorted(vocabulary, key=vocabulary.__getitem__)
    assert tuple(tokens[:4]) == SPECIAL_TOKENS
    # By frequency, then by spelling; neither a no-break space nor U+0085 ends a word.
    assert tokens[4:] == ["dog", "the", ".", "a\xa0cat", "ran", "ran\x85on", "saw"]


def test_texts_pairs_and_words():
    tokenizer = train_word_tokenizer(CORPUS, model_max_length=8)
    encoded = tokenizer("the dog", "ran zebra")
    tokens = tokenizer.convert_ids_to_tokens(encoded["input_ids"])
    assert tokens == ["[CLS]", "the", "dog", "[SEP]", "ran", "[UNK]", "[SEP]"]
    assert encoded["token_type_ids"] == [0, 0, 0, 0, 1, 1, 1]
    split = tokenizer(["The", "\xa0", "a\xa0cat", "x"], is_split_into_words=True)
    assert split.word_ids() == [None, 0, 1, 2, 3, None]
    padded = tokenizer(["the dog", "ran"], padding=True)
    assert padded["input_ids"][1][-1] == tokenizer.pad_token_id == 0
    assert len(tokenizer("the " * 20, truncation=True)["input_ids"]) == 8
    assert tokenizer.decode(tokenizer("the dog")["input_ids"], skip_special_tokens=True) == "the dog"


def test_raw_text_is_cut_like_a_treebank():
    text = "Don't pay 3,000.5 (the un-payer's) l’été. I'm CAN'T x_y !"
    words = ["do", "n't", "pay", "3,000.5", "(", "the", "un", "-", "payer", "'s", ")", "l", "’", "été", "."]
    tokenizer = train_word_tokenizer([text], raw_text=True)
    assert tokenizer.tokenize(text) == [*words, "i", "'m", "ca", "n't", "x_y", "!"]


@pytest.mark.parametrize("raw_text", [False, True])
def test_saved_and_loaded(tmp_path, raw_text):
    tokenizer = train_word_tokenizer(CORPUS, raw_text=raw_text, model_max_length=50)
    tokenizer.save_pretrained(tmp_path)
    # Beside a configuration of ours the Auto class asks for the tokenizer of the family first.
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "multiscale_bert"}))
    loaded = AutoTokenizer.from_pretrained(tmp_path)
    assert loaded.is_fast and loaded.model_max_length == 50
    assert loaded.get_vocab() == tokenizer.get_vocab()
    assert loaded("The dog's", "a\xa0cat").data == tokenizer("The dog's", "a\xa0cat").data
    assert loaded.special_tokens_map == tokenizer.special_tokens_map


def test_no_vocabulary():
    with pytest.raises(UserError, match="no word in the texts that occurs 9 times"):
        train_word_tokenizer(CORPUS, min_frequency=9)
    with pytest.raises(UserError, match="more than the 4 special tokens, not 4"):
        train_word_tokenizer(CORPUS, max_size=4)


VOCABULARY = {"[PAD]": 0, "dog": 1, "cat": 2, ". .": 3, "taxi": 4}
VECTORS = "dog 1 2 3\ncat -1e-1 0 .5\nhouse 0 0 0\n. . 4 5 6\n"


def test_word_vectors(write, caplog):
    # A word with spaces, a repeated one, and the spaces with which word2vec ends its lines.
    path = write(VECTORS.replace(".5\n", ".5 \n") + "dog 9 9 9\n\n", "vectors.txt")
    matrix = read_word_vectors(path, VOCABULARY)
    assert matrix.shape == (5, 3) and matrix.dtype == np.float32
    assert np.allclose(matrix[1:4], [[1, 2, 3], [-0.1, 0, 0.5], [4, 5, 6]])
    assert "3 of 5 words (60.0%)" in caplog.text and "1 repeated lines" in caplog.text
    assert np.array_equal(matrix, read_word_vectors(path, VOCABULARY))
    assert not np.allclose(matrix[0], read_word_vectors(path, VOCABULARY, seed=1)[0])


def test_a_word_that_is_missing_has_the_vector_of_its_lower_case(write, caplog):
    matrix = read_word_vectors(
        write(VECTORS + "Cat 7 8 9\n", "vectors.txt"), {"Dog": 0, "DOG": 1, "Cat": 2, "cat": 3, "Fish": 4}
    )
    assert np.allclose(matrix[:4], [[1, 2, 3], [1, 2, 3], [7, 8, 9], [-0.1, 0, 0.5]])
    assert "4 of 5 words (80.0%), 2 of them those of the lower case;" in caplog.text
    assert "repeated" not in caplog.text


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("cat -1e-1 0 .5", "cat -1e-1 0", ":2: the line has 2 numbers; by the first line it should be 3"),
        ("cat -1e-1", "cat 7 -1e-1", ":2: the line has 4 numbers; by the first line it should be 3"),
        ("dog 1 2 3", "4 2\ndog 1 2 3", ":2: the line has 3 numbers; by the first line it should be 2"),
        ("dog 1", "dog\t1", ":1: the line has to be a word and its numbers, with spaces"),
        ("cat -1e-1 0 .5", "cat -1e-1 0 five", ":2: the vector is not made of numbers"),
        ("cat -1e-1 0 .5", "cat -1e-1 0 nan", ":2: the vector has a number that is not finite"),
    ],
)
def test_malformed_vectors(write, old, new, message):
    with pytest.raises(UserError, match=f"vectors.txt{message}"):
        read_word_vectors(write(VECTORS.replace(old, new), "vectors.txt"), VOCABULARY)


def test_more_words():
    words = ["cat", "dog", "Zebra", "new york", "", "[PAD]", "x\xa0y", "cat", "owl"]

    def extended(max_size=None, **options):
        tokenizer = train_word_tokenizer(CORPUS, **options)
        add_words(tokenizer, words, max_size)
        return tokenizer

    tokenizer = extended()
    added = sorted(tokenizer.get_vocab().items(), key=lambda item: item[1])[11:]
    assert added == [("cat", 11), ("x\xa0y", 12), ("owl", 13)]
    assert tokenizer("Cat owl")["input_ids"][1:-1] == [11, 13]
    assert tokenizer.pad_token_id == 0 and tokenizer("zebra")["input_ids"] == [2, 1, 3]
    assert len(extended(12)) == 12
    assert "Zebra" in extended(lower_case=False).get_vocab()
    assert "x\xa0y" not in extended(raw_text=True).get_vocab()
