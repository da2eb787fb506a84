from __future__ import annotations

import torch

from msattn.modeling.classification_node import classification_node, split_pairs


def test_node_reads_real_tokens_only():
    states = torch.arange(20.0).view(2, 5, 2) - 30
    mask = torch.tensor([[0, 1, 1, 1, 0], [0, 0, 1, 0, 0]])
    assert classification_node(states, mask).tolist() == [[-28, -27, -24, -23], [-16, -15, 0, 0]]
    assert not classification_node(states, torch.zeros(2, 5)).any()


def test_node_without_a_mask():
    states = torch.arange(20.0).view(2, 5, 2) - 30
    assert classification_node(states).tolist() == [[-30, -29, -22, -21], [-20, -19, -12, -11]]


def test_split():
    input_ids = torch.tensor([[2, 7, 3, 8, 9], [2, 6, 5, 3, 0]])
    mask, types = torch.tensor([[1] * 5, [1, 1, 1, 1, 0]]), torch.tensor([[0, 0, 0, 1, 1], [0, 1, 1, 1, 0]])
    ids, _, real = split_pairs(input_ids, None, mask, types)
    assert (ids * real).tolist() == [[2, 7, 3, 0], [2, 8, 9, 0], [2, 0, 0, 0], [2, 6, 5, 3]]
    assert real.tolist() == [[1, 1, 1, 0], [1, 1, 1, 0], [1, 0, 0, 0], [1, 1, 1, 1]]
    none, vectors, same = split_pairs(None, input_ids.unsqueeze(-1), mask, types)
    assert none is None and torch.equal(vectors.squeeze(-1), ids) and torch.equal(same, real)
