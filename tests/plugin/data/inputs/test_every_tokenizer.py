"""Words, windows, markers and offsets with the tokenizers of all families: words out are words in."""

from __future__ import annotations

import pytest
from datasets import Dataset

from msattn.data.inputs.entity_markers import ENTITY_MARKERS, add_entity_markers, encode_relations
from msattn.data.inputs.entity_pieces import encode_unmarked
from msattn.data.inputs.parser_windows import has_root, sentence_windows
from msattn.data.inputs.tagging_inputs import encode_tagged_words
from msattn.data.inputs.words import encoding_words
from tests.tiny_encoders import FAMILIES
from tests.tiny_tokenizers import KINDS, tiny_tokenizer_of

SENTENCES = [
    "The author of a large book wrote in the old house .".split(),
    ["Dogs", "do", "n't", "like", "naïve", "cats", ",", "你好", "世界", "!", "3.50", "€"],
    ["a", "\u200b", "b", "\x07", "\ufe0f", "♥", "e\u0301", "🙂🙂", "a\u00a0b", "[CLS]", "</s>", "unpayers"],
    ["one"],
    ["x" * 70, "y"],
]
TEXT = "The author of a large book wrote 你好 in the café."


@pytest.fixture(params=KINDS)
def kind(request):
    return request.param


@pytest.fixture
def tokenizer(kind):
    return tiny_tokenizer_of(kind)


def test_every_family_has_a_kind():
    assert sorted(family for families in KINDS.values() for family in families) == sorted(FAMILIES)


@pytest.mark.parametrize("max_length", [None, 12])
def test_words_of_a_parser(tokenizer, kind, max_length):
    assert has_root(tokenizer) == ("without" not in kind and "alone" not in kind)
    for words, windows in zip(SENTENCES, sentence_windows(tokenizer, SENTENCES, max_length), strict=True):
        kept = []
        for window in windows:
            index = window.inputs["word_index"]
            assert max_length is None or len(index) <= max_length
            assert (index[0] == 0) == has_root(tokenizer) and 0 not in index[1:]
            assert sorted({number for number in index if number > 0}) == list(range(1, window.words + 1))
            kept += range(window.first + window.kept[0], window.first + window.kept[1])
        assert kept == list(range(len(words)))


@pytest.mark.parametrize("max_length", [None, 12])
def test_words_of_a_tagger(tokenizer, max_length):
    data = Dataset.from_dict({"words": SENTENCES, "tags": [["x"] * len(words) for words in SENTENCES]})
    encoded, _ = encode_tagged_words(data, tokenizer, {"x": 1}, max_length)
    counts = [0] * len(SENTENCES)
    for row in encoded:
        assert sum(label == 1 for label in row["labels"]) == len(row["word_starts"]) == len(set(row["word_starts"]))
        counts[row["sentence"]] += len(row["word_starts"])
    assert counts == [len(words) for words in SENTENCES]


@pytest.mark.parametrize("max_length", [None, 44])
def test_markers_stand_around_the_entities(tokenizer, kind, max_length):
    plain = tiny_tokenizer_of(kind)
    add_entity_markers(tokenizer)
    head, tail = [[TEXT.index(word), TEXT.index(word) + len(word)] for word in ("book", "你好")]
    encoded = encode_relations(tokenizer, [TEXT], [head], [tail], max_length, words=True)
    ids = encoded["input_ids"][0]
    tokens = tokenizer.convert_ids_to_tokens(ids)
    assert [tokens[start] for start in encoded["entity_starts"][0]] == ["[E1]", "[E2]"]
    if max_length is None:
        bare = [number for number, token in zip(ids, tokens, strict=True) if token not in ENTITY_MARKERS]
        assert bare == plain(TEXT)["input_ids"]  # the text without markers, special tokens included
    owners = encoded["word_ids"][0]
    words = encoded["words"][0][0]
    inside = {owners[at] for at in range(tokens.index("[E1]") + 1, tokens.index("[/E1]"))}
    (first,) = inside - {None}  # the token of a space has no word
    assert words[first] == "book"


@pytest.mark.parametrize("max_length", [None, 40])
def test_entities_without_markers(tokenizer, max_length):
    head, tail = [[TEXT.index(word), TEXT.index(word) + len(word)] for word in ("book", "你好")]
    encoded = {
        name: row for name, (row,) in encode_unmarked(tokenizer, [TEXT], [head], [tail], max_length, True).items()
    }
    ids, owners = encoded["input_ids"], encoded["word_ids"]
    assert ids == tokenizer(TEXT)["input_ids"] if max_length is None else len(ids) <= max_length
    for (start, end), found in zip((head, tail), encoded["entity_pieces"], strict=True):
        part = tokenizer.decode([ids[piece] for piece in found]).replace(" ", "")
        assert part == TEXT[start:end] or tokenizer.unk_token_id in [ids[piece] for piece in found]
    (first,) = {owners[piece] for piece in encoded["entity_pieces"][0]} - {None}  # the token of a space has no word
    assert encoded["words"][0][first] == "book"


@pytest.mark.parametrize("text, spans", [("the bookhouse .", ([4, 8], [8, 13])), ("你好世界", ([0, 2], [2, 4]))])
def test_tokens_of_a_text_without_markers_are_its_own(tokenizer, text, spans):
    encoded = encode_unmarked(tokenizer, [text], *([span] for span in spans))
    assert encoded["input_ids"] == [tokenizer(text)["input_ids"]] and all(encoded["entity_pieces"][0])


def test_entities_inside_of_a_word(tokenizer):
    add_entity_markers(tokenizer)
    head, tail = [4, 8], [8, 13]
    encoded = encode_relations(tokenizer, ["the bookhouse ."], [head], [tail])
    tokens = tokenizer.convert_ids_to_tokens(encoded["input_ids"][0])
    parts = [tokens[tokens.index(f"[E{n}]") + 1 : tokens.index(f"[/E{n}]")] for n in (1, 2)]
    for part, word in zip(parts, ("book", "house"), strict=True):
        text = "".join(piece.removeprefix("##").strip("▁Ġ") for piece in part)
        assert text == word or "[UNK]" in part or "<unk>" in part


def test_words_of_offsets(tokenizer):
    encoding = tokenizer(TEXT).encodings[0]
    words, owners = encoding_words(encoding, [TEXT])
    found = [owner for owner in owners if owner is not None]
    assert found == sorted(found) and set(found) == set(range(len(words[0])))
