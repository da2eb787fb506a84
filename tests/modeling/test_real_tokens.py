from __future__ import annotations

import pytest
import torch

from msattn.modeling.real_tokens import ask_once, checked_mask, first_token, real_tokens_first

# Padding on the right, on the left, in the middle, none, and nothing but padding.
MASK = torch.tensor([[1, 1, 0, 0], [0, 0, 1, 1], [0, 1, 0, 1], [1, 1, 1, 1], [0, 0, 0, 0]])


def test_mask_of_the_inputs():
    input_ids, vectors = torch.ones(5, 4, dtype=torch.long), torch.ones(5, 4, 2)
    assert checked_mask(input_ids, None, MASK) is MASK
    for inputs in ((input_ids, None), (None, vectors)):
        mask = checked_mask(*inputs, None)
        assert mask.tolist() == [[1] * 4] * 5 and mask.dtype == torch.long


@pytest.mark.parametrize(
    ("inputs", "mask", "message"),
    [
        ((True, True), None, "exactly one of input_ids or inputs_embeds"),
        ((False, False), None, "exactly one of input_ids or inputs_embeds"),
        ((True, False), MASK[:, :3], r"attention_mask must be \(batch, tokens\) = \(5, 4\), got \(5, 3\)"),
        ((False, True), MASK[:, None], r"attention_mask must be \(batch, tokens\) = \(5, 4\), got \(5, 1, 4\)"),
    ],
)
def test_inputs_that_do_not_fit(inputs, mask, message):
    tensors = (torch.ones(5, 4, dtype=torch.long), torch.ones(5, 4, 2))
    with pytest.raises(ValueError, match=message):
        checked_mask(*(tensor if given else None for tensor, given in zip(tensors, inputs, strict=True)), mask)


def test_one_true_stands_for_texts_without_padding_only():
    """Layers see it by a stride of 0, which a mask of other origin may have, too."""
    empty = torch.tensor([[False], [True]]).expand(2, 4)
    for mask in (MASK, empty, empty[:, :1]):
        assert ask_once(mask).stride(-1) == 1 and torch.equal(ask_once(mask), mask.bool())
    for mask in (MASK[3:4], torch.ones(2, 4), torch.ones(2, 4).T):
        assert ask_once(mask).stride(-1) == 0 and ask_once(mask).shape == mask.shape and ask_once(mask).all()


def test_first_token():
    expected = [[1, 0, 0, 0], [0, 0, 1, 0], [0, 1, 0, 0], [1, 0, 0, 0], [0, 0, 0, 0]]
    assert first_token(MASK).tolist() == [[bool(token) for token in row] for row in expected]


def test_real_tokens_first():
    expected = [[0, 1, 2, 3], [2, 3, 0, 1], [1, 3, 0, 2], [0, 1, 2, 3], [0, 1, 2, 3]]
    assert real_tokens_first(MASK.bool()).tolist() == expected
