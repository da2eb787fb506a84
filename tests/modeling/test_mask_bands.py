from __future__ import annotations

import pytest
import torch
from transformers import masking_utils as masks

from msattn.modeling.mask_bands import Band, band_of, decode_band, encode_band, visible_keys

TOKENS = 23
PLACES = torch.arange(TOKENS)[None]


def two_sided(before, after):
    """As some models write it."""

    def inner(batch, head, query, key):
        distance = query - key
        return ((distance >= 0) & (distance < before)) | ((distance < 0) & (-distance < after))

    return inner


BANDS = {
    "causal": masks.causal_mask_function,
    "everything": masks.bidirectional_mask_function,
    "window": masks.sliding_window_bidirectional_mask_function(3),
    "causal window": masks.sliding_window_causal_mask_function(3),
    "two-sided": two_sided(3, 5),
    "one side": two_sided(0, 4),
    "intersection": masks.and_masks(masks.sliding_window_overlay(6), two_sided(4, 9)),
    "union": masks.or_masks(masks.causal_mask_function, masks.sliding_window_bidirectional_overlay(2)),
    "union with nothing": masks.or_masks(
        two_sided(3, 2), lambda _, __, query, key: (key >= query + 5) & (key <= query + 3)
    ),
    "offsets": masks.add_offsets_to_mask_function(masks.sliding_window_causal_mask_function(4), 5, 5),
}
OTHERS = {
    "packed": masks.and_masks(masks.causal_mask_function, masks.packed_sequence_mask_function(PLACES // 7)),
    "blocks": masks.or_masks(masks.causal_mask_function, masks.blockwise_overlay(PLACES // 5)),
    "chunks": masks.chunked_causal_mask_function(4, torch.zeros(1, dtype=torch.long)),
    "padding": masks.and_masks(masks.causal_mask_function, masks.padding_mask_function(PLACES > 2)),
    "chunks without padding": lambda batch, head, query, key: key // 4 == query // 4,
    "two bands": masks.or_masks(two_sided(1, 0), lambda batch, head, query, key: key >= query + 3),
    "one row": lambda batch, head, query, key: query >= 3,
    "the other diagonal": lambda batch, head, query, key: query + key <= 9,
    "itself": lambda batch, head, query, key: query == key,
    "a chain": lambda batch, head, query, key: -3 <= key - query <= 2,
    "by head": lambda batch, head, query, key: key - query <= head,
}


@pytest.mark.parametrize("name", BANDS)
def test_a_band_is_the_mask(name):
    expected = masks.sdpa_mask(1, TOKENS, TOKENS, mask_function=BANDS[name], allow_is_causal_skip=False)[0, 0]
    band = band_of(BANDS[name])
    assert torch.equal(visible_keys(band, TOKENS, TOKENS, "cpu"), expected)
    assert torch.equal(visible_keys(band.within(TOKENS), TOKENS, TOKENS, "cpu"), expected)
    assert band.within(TOKENS).before < TOKENS and band.within(TOKENS).after < TOKENS


@pytest.mark.parametrize("name", OTHERS)
def test_what_is_no_band(name):
    assert band_of(OTHERS[name]) is None


def test_a_band_travels_as_a_mask():
    real = torch.arange(TOKENS) < torch.tensor([[TOKENS], [4]])
    mask = encode_band(Band(-3, 2), real)
    assert mask.untyped_storage().nbytes() == real.numel()
    for travelled in (mask, mask.clone(), mask.contiguous()):
        band, found = decode_band(travelled)
        assert band == Band(-3, 2) and torch.equal(found, real)
    assert decode_band(None) is None and decode_band(real[:, None, None]) is None
