from __future__ import annotations

import numpy as np
import pytest
import torch

from msattn.modeling.word_attention import word_attention, word_members, word_states

# [CLS], a word of one piece, of three, of two, [SEP]; and a shorter sentence, whose word 2 has no piece.
WORD_INDEX = torch.tensor([[0, 1, 2, 2, 2, 3, 3, -1], [0, 1, 1, 3, -1, -1, -1, -1]])


def attention(seed=0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(2, 3, 8, 8, generator=generator, dtype=torch.float64).softmax(dim=-1)


def words_of_attention(attention: np.ndarray, word_index: list[int], words: int) -> np.ndarray:
    """One map, element by element: a mean over the pieces that attend, a sum over those attended to."""
    found = np.zeros((words + 1, words + 1))
    for i in range(words + 1):
        rows = [row for row, word in enumerate(word_index) if word == i]
        for j in range(words + 1):
            columns = [column for column, word in enumerate(word_index) if word == j]
            for row in rows:
                for column in columns:
                    found[i, j] += attention[row, column] / len(rows)
    return found


@pytest.mark.parametrize("num_words", [None, 3, 5])
def test_attention_from_the_definition(num_words):
    pieces = attention()
    found = word_attention(pieces, WORD_INDEX, num_words)
    words = num_words or 3
    for sentence in range(2):
        for head in range(3):
            expected = words_of_attention(pieces[sentence, head].numpy(), WORD_INDEX[sentence].tolist(), words)
            np.testing.assert_allclose(found[sentence, head].numpy(), expected, atol=1e-15)


def test_states():
    states = torch.arange(32.0).view(2, 8, 2)
    members = word_members(WORD_INDEX)
    assert word_states(states, members, "first")[..., 0].tolist() == [[0, 2, 4, 10], [16, 18, 0, 22]]
    assert word_states(states, members, "mean")[..., 0].tolist() == [[0, 2, 6, 11], [16, 19, 0, 22]]


def test_a_batch_without_words():
    members = word_members(torch.tensor([[0, -1]]))
    assert members.tolist() == [[[True, False]]]
