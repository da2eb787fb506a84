"""Texts with any number of entities, and the windows around pairs of them."""

from __future__ import annotations

import pytest
import torch

from msattn.data.inputs.entity_pieces import EntityPiecesCollator, encode_entities, encode_unmarked, window_start
from tests.tiny_models import tiny_tokenizer

TEXT = "The unpayers of a dog ."
UNPAYERS, DOG = [4, 12], [18, 21]


def test_pieces_share_a_character_with_their_entity():
    found = encode_entities(tiny_tokenizer(), TEXT, [UNPAYERS, DOG, [0, 21]])
    assert found.pieces == [[1, 2, 3], [6], [*range(7)]]


@pytest.mark.parametrize("length", [5, 16, 17, 40])
def test_a_window_shows_both_entities_near_its_middle(length):
    starts = set()
    for first in range(length):
        for last in range(first + 1, length + 1):
            start = window_start(length, 16, first, last)
            if last - first > 16:
                assert start is None
                continue
            starts.add(start)
            assert 0 <= start <= first and last <= start + 16 <= max(length, 16)
            if last - first <= 8 and 8 <= first and last <= length - 8:
                assert first - start >= 2 and start + 16 - last >= 2
    assert length > 16 or starts == {0}


def test_pairs_share_windows():
    starts = {window_start(400, 40, first, first + 10) for first in range(390)}
    assert len(starts) <= 4 * 400 / 40


def test_encoded_pairs_share_windows():
    tokenizer = tiny_tokenizer()
    text = " ".join(["the dog"] * 40)
    ids = encode_entities(tokenizer, text, []).ids
    spans = [[8 * at, 8 * at + 3] for at in range(40)]
    for head, tail in ((0, 3), (17, 19), (20, 18), (35, 39)):
        encoded = encode_unmarked(tokenizer, [text], [spans[head]], [spans[tail]], 22, shared=True)
        first, *_, last = sorted((2 * head, 2 * tail))
        start = window_start(80, 20, first, last + 1)
        assert encoded["input_ids"] == [[tokenizer.cls_token_id, *ids[start : start + 20], tokenizer.sep_token_id]]
        assert encoded["entity_pieces"] == [[[1 + 2 * at - start] for at in (head, tail)]]


def test_pieces_of_both_entities_in_either_order():
    tokenizer = tiny_tokenizer()
    bare = encode_unmarked(tokenizer, [TEXT, TEXT], [UNPAYERS, DOG], [DOG, UNPAYERS], words=True)
    tokens = "[CLS] the un ##payer ##s of a dog . [SEP]".split()
    for ids, mask, owners in zip(bare["input_ids"], bare["attention_mask"], bare["word_ids"], strict=True):
        assert tokenizer.convert_ids_to_tokens(ids) == tokens and mask == [1] * 10
        assert owners == [None, 0, 1, 1, 1, 2, 3, 4, 5, None]
    assert bare["entity_pieces"] == [[[2, 3, 4], [7]], [[7], [2, 3, 4]]]
    assert "entity_starts" not in bare


def test_a_batch_is_padded():
    tokenizer = tiny_tokenizer()
    bare = encode_unmarked(tokenizer, [TEXT, "a dog"], [UNPAYERS, [0, 1]], [DOG, [2, 5]]) | {"labels": [1, 0]}
    features = [dict(zip(bare, row, strict=True)) for row in zip(*bare.values(), strict=True)]
    batch = EntityPiecesCollator(tokenizer)(features)
    assert batch["entity_pieces"].tolist() == [[[2, 3, 4], [7, -1, -1]], [[1, -1, -1], [2, -1, -1]]]
    assert batch["input_ids"].shape == (2, 10) and isinstance(batch["input_ids"], torch.Tensor)

    back = {**features[0], "entity_pieces": features[0]["entity_pieces"][::-1], "labels": 2}
    batch = EntityPiecesCollator(tokenizer)([*features, back])
    assert batch["input_ids"].shape == (2, 10) and next(iter(batch)) == "entity_pairs"
    assert batch["entity_pairs"].tolist() == [[0, 1], [0, 1], [1, 0]] and batch["entity_texts"].tolist() == [0, 1, 0]
    assert batch["labels"].tolist() == [1, 0, 2]
    assert EntityPiecesCollator(tokenizer, shares=False)([*features, back])["input_ids"].shape == (3, 10)
