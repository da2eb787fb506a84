"""Entities without their markers."""

from __future__ import annotations

import torch

from msattn.data.inputs.entity_markers import EntityPiecesCollator, encode_relations, without_markers
from tests.tiny_models import tiny_tokenizer

TEXT = "The unpayers of a dog ."
UNPAYERS, DOG = [4, 12], [18, 21]


def test_pieces_of_both_entities_in_either_order():
    tokenizer = tiny_tokenizer()
    rows = encode_relations(tokenizer, [TEXT, TEXT], [UNPAYERS, DOG], [DOG, UNPAYERS], words=True)
    bare = without_markers(rows, tokenizer)
    tokens = "[CLS] the un ##payer ##s of a dog . [SEP]".split()
    for ids, mask, owners in zip(bare["input_ids"], bare["attention_mask"], bare["word_ids"], strict=True):
        assert tokenizer.convert_ids_to_tokens(ids) == tokens and mask == [1] * 10
        assert owners == [None, 0, 1, 1, 1, 2, 3, 4, 5, None]
    assert bare["entity_pieces"] == [[[2, 3, 4], [7]], [[7], [2, 3, 4]]]
    assert "entity_starts" not in bare


def test_a_batch_is_padded():
    tokenizer = tiny_tokenizer()
    rows = encode_relations(tokenizer, [TEXT, "a dog"], [UNPAYERS, [0, 1]], [DOG, [2, 5]])
    bare = without_markers(rows, tokenizer)
    del bare["token_type_ids"]
    batch = EntityPiecesCollator(tokenizer)(
        [dict(zip(bare, row, strict=True)) for row in zip(*bare.values(), strict=True)]
    )
    assert batch["entity_pieces"].tolist() == [[[2, 3, 4], [7, -1, -1]], [[1, -1, -1], [2, -1, -1]]]
    assert batch["input_ids"].shape == (2, 10) and isinstance(batch["input_ids"], torch.Tensor)
