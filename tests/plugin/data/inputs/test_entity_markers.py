from __future__ import annotations

import pytest
from datasets import Dataset
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers
from transformers import AutoTokenizer, PreTrainedTokenizerFast

from msattn.data import (
    ENTITY_MARKERS,
    add_entity_markers,
    encode_relation_dataset,
    encode_relations,
    to_relations,
)
from msattn.errors import UserError

CHARACTERS = "abcdefghijklmnopqrstuvwxyz0123456789[]/.-"
# Five tokens before the head, three between, five after the tail.
TEXT, HEAD, TAIL = "a b c d e cat f g h mat i j k l m", [10, 13], [20, 23]


def make_tokenizer(**options) -> PreTrainedTokenizerFast:
    """A WordPiece tokenizer that knows every character, `cat` and `mat`."""
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *CHARACTERS, *(f"##{c}" for c in CHARACTERS), "cat", "mat"]
    backend = Tokenizer(models.WordPiece({piece: i for i, piece in enumerate(pieces)}, unk_token="[UNK]"))
    backend.normalizer = normalizers.BertNormalizer(lowercase=True)
    backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    special = {"pad_token": "[PAD]", "unk_token": "[UNK]", "cls_token": "[CLS]", "sep_token": "[SEP]"}
    names = ["input_ids", "token_type_ids", "attention_mask"]
    return PreTrainedTokenizerFast(tokenizer_object=backend, **{"model_input_names": names, **special, **options})


@pytest.fixture
def tokenizer():
    tokenizer = make_tokenizer()
    add_entity_markers(tokenizer)
    return tokenizer


def encode(tokenizer, text, head, tail, max_length=None):
    return {name: rows[0] for name, rows in encode_relations(tokenizer, [text], [head], [tail], max_length).items()}


def tokens(tokenizer, row):
    return tokenizer.convert_ids_to_tokens(row["input_ids"])


def test_markers_are_special_and_survive_saving(tmp_path):
    tokenizer = make_tokenizer(extra_special_tokens=["[X]"])
    size = len(tokenizer)
    assert add_entity_markers(tokenizer) == 4
    assert add_entity_markers(tokenizer) == 0
    assert len(tokenizer) == size + 4
    assert "[X]" in tokenizer.all_special_tokens
    tokenizer.save_pretrained(tmp_path)
    loaded = AutoTokenizer.from_pretrained(tmp_path)
    assert set(ENTITY_MARKERS) <= set(loaded.all_special_tokens)
    assert loaded.convert_tokens_to_ids(list(ENTITY_MARKERS)) == [size, size + 1, size + 2, size + 3]
    assert loaded.tokenize("cat[E1]mat") == ["cat", "[E1]", "mat"]
    assert encode(loaded, TEXT, HEAD, TAIL) == encode(tokenizer, TEXT, HEAD, TAIL)


def test_layout(tokenizer):
    row = encode(tokenizer, TEXT, HEAD, TAIL)
    expected = "[CLS] a b c d e [E1] cat [/E1] f g h [E2] mat [/E2] i j k l m [SEP]"
    assert tokens(tokenizer, row) == expected.split()
    assert row["entity_starts"] == [6, 12] and row["entity_ends"] == [8, 14]
    assert row["attention_mask"] == [1] * 21
    assert row["token_type_ids"] == [0] * 21


@pytest.mark.parametrize(
    "head, tail, expected",
    [
        ([0, 7], [4, 7], "[E1] cat [E2] mat [/E2] [/E1] a"),
        ([0, 3], [0, 7], "[E2] [E1] cat [/E1] mat [/E2] a"),
        ([0, 7], [4, 9], "[E1] cat [E2] mat [/E1] a [/E2]"),
        ([0, 9], [4, 7], "[E1] cat [E2] mat [/E2] a [/E1]"),
    ],
)
def test_entities_may_be_nested_or_overlap(tokenizer, head, tail, expected):
    row = encode(tokenizer, "cat mat a", head, tail)
    assert tokens(tokenizer, row) == ["[CLS]", *expected.split(), "[SEP]"]
    assert [tokens(tokenizer, row)[start] for start in row["entity_starts"]] == ["[E1]", "[E2]"]
    assert [tokens(tokenizer, row)[end] for end in row["entity_ends"]] == ["[/E1]", "[/E2]"]


def test_typed_markers(tokenizer):
    options = {"max_length": 64, "types": [("PER", "CITY_A")]}
    assert add_entity_markers(tokenizer, "typed", ["CITY_A", "PER"]) == 8
    row = encode_relations(tokenizer, [TEXT], [TAIL], [HEAD], style="typed", **options)
    expected = "[CLS] a b c d e [E2:CITY_A] cat [/E2:CITY_A] f g h [E1:PER] mat [/E1:PER] i j k l m [SEP]"
    assert tokenizer.convert_ids_to_tokens(row["input_ids"][0]) == expected.split()
    assert row["entity_starts"] == [[12, 6]]
    with pytest.raises(UserError, match="no markers for the type 'LOC'; it knows CITY_A, PER"):
        encode_relations(tokenizer, [TEXT], [HEAD], [TAIL], style="typed", types=[("PER", "LOC")])


def test_typed_punctuation_needs_no_new_token():
    signs = make_tokenizer()
    assert add_entity_markers(signs, "typed-punct", ["PER"]) == 0
    signs.add_tokens(list("@*#^"))
    row = encode_relations(signs, ["cat mat"], [[0, 3]], [[4, 7]], 64, style="typed-punct", types=[("CAT", "A_MAT")])
    assert signs.decode(row["input_ids"][0]) == "[CLS] @ * cat * cat @ # ^ a mat ^ mat # [SEP]"
    assert row["entity_starts"] == [[1, 7]]
    with pytest.raises(UserError, match="the tail has no type"):
        encode_relations(signs, ["cat mat"], [[0, 3]], [[4, 7]], style="typed-punct", types=[("CAT", None)])


@pytest.mark.parametrize("literal", ["[SEP]", "[E1]", "[/E2]", "[PAD]"])
def test_what_looks_like_a_special_token_is_text(tokenizer, literal):
    text = f"{literal} cat {literal} mat"
    head, tail = [0, len(literal)], [len(text) - 3, len(text)]
    row = encode(tokenizer, text, head, tail)
    markers = [token for token in tokens(tokenizer, row) if token in tokenizer.all_special_tokens]
    assert markers == ["[CLS]", *ENTITY_MARKERS, "[SEP]"]
    # The tokenizer itself reads them as before.
    assert tokenizer.tokenize("cat[SEP]") == ["cat", "[SEP]"]


@pytest.mark.parametrize("nothing", ["\u200b", " ", "\n", "\u00a0\u00ad"])
def test_entity_without_tokens(tokenizer, nothing):
    row = encode(tokenizer, f"a {nothing} cat", [2, 2 + len(nothing)], [3 + len(nothing), 6 + len(nothing)])
    assert tokens(tokenizer, row) == "[CLS] a [E1] [/E1] [E2] cat [/E2] [SEP]".split()


@pytest.mark.parametrize("before", [0, 1, 4, 30])
@pytest.mark.parametrize("after", [0, 1, 5, 30])
def test_window_keeps_both_entities_and_wastes_no_room(tokenizer, before, after):
    text = "b " * before + "cat f g h mat" + " i" * after
    head, tail = [2 * before, 2 * before + 3], [2 * before + 10, 2 * before + 13]
    for max_length in range(8, before + after + 14):
        row = encode(tokenizer, text, head, tail, max_length)
        if max_length < 11:
            assert all(value is None for value in row.values())
            continue
        found = tokens(tokenizer, row)
        left, right = found.count("b"), found.count("i")
        core = "[E1] cat [/E1] f g h [E2] mat [/E2]".split()
        assert found == ["[CLS]", *["b"] * left, *core, *["i"] * right, "[SEP]"]
        assert [found[start] for start in row["entity_starts"]] == ["[E1]", "[E2]"]
        assert len(found) == len(row["attention_mask"]) == len(row["token_type_ids"])
        assert len(found) == min(max_length, before + after + 11)
        # Each side has half the room, or all it needs.
        room = max_length - 11
        assert left == before or left >= room // 2
        assert right == after or right >= room // 2


def test_tokenizer_without_markers_or_separator():
    with pytest.raises(ValueError, match="add_entity_markers"):
        encode(make_tokenizer(), TEXT, HEAD, TAIL)
    tokenizer = make_tokenizer(sep_token=None)
    add_entity_markers(tokenizer)
    assert not {"[CLS]", "[SEP]"} & set(tokens(tokenizer, encode(tokenizer, TEXT, HEAD, TAIL)))


@pytest.fixture
def dataset():
    short = {"text": "cat mat", "head": [0, 3], "tail": [4, 7]}
    long = {"text": TEXT, "head": HEAD, "tail": TAIL}
    rows = [("one", "x", short), ("two", "y", long), ("3", "x", short)]
    return to_relations(Dataset.from_list([{"id": name, "label": label, **spans} for name, label, spans in rows]))


@pytest.mark.parametrize("num_proc", [None, 2])
def test_encode_dataset(tokenizer, dataset, num_proc):
    encoded = encode_relation_dataset(dataset, tokenizer, 64, {"x": 0, "y": 1}, num_proc=num_proc)
    assert encoded["id"] == ["one", "two", "3"]
    assert encoded["labels"] == [0, 1, 0]
    assert encoded[1] == encode(tokenizer, TEXT, HEAD, TAIL) | {"id": "two", "row": 1, "labels": 1}
    assert "labels" not in encode_relation_dataset(dataset, tokenizer).column_names


def test_entities_that_do_not_fit_are_an_error(tokenizer, dataset):
    with pytest.raises(UserError, match="^example two: .* do not fit in max_length, 10 tokens; .* The text: '"):
        encode_relation_dataset(dataset, tokenizer, 10)
    assert len(encode_relation_dataset(dataset, tokenizer, 11)) == 3


def test_entities_that_do_not_fit_are_skipped_and_counted(tokenizer, dataset, caplog):
    encoded = encode_relation_dataset(dataset, tokenizer, 10, {"x": 5, "y": 6}, on_overflow="skip")
    assert (encoded["id"], encoded["row"]) == (["one", "3"], [0, 2])
    assert encoded["labels"] == [5, 5]
    assert "1 of 3 examples were skipped: their entities do not both fit in 10 tokens." in caplog.text
    assert len(encode_relation_dataset(dataset, tokenizer, 7, on_overflow="skip")) == 0


def test_labels_that_have_no_number(tokenizer, dataset):
    with pytest.raises(UserError, match="^example two: 'y' is not a label; the labels are x"):
        encode_relation_dataset(dataset, tokenizer, label2id={"x": 0})
    unlabelled = to_relations(dataset.remove_columns("label"))
    with pytest.raises(UserError, match="^example one: None is not a label"):
        encode_relation_dataset(unlabelled, tokenizer, label2id={"x": 0})
