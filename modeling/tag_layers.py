"""Tags of words: a linear layer on their hidden states for each column."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import nn

from .word_attention import word_members, word_states


class TagLayers(nn.Module):
    """
    The scores W T_i + b of the labels of each word i, where T are the hidden states of words.

    Args:
        sizes (`Mapping[str, int]`): The number of labels by column.
        hidden_size (`int`): Width of the hidden states.
        dropout (`float`, *optional*, defaults to 0.0): Dropout of the hidden states.
        word_state (`str`, *optional*, defaults to `"first"`): See [`word_states`].
    """

    def __init__(self, sizes: Mapping[str, int], hidden_size: int, dropout: float = 0.0, word_state: str = "first"):
        super().__init__()
        self.word_state = word_state
        self.dropout = nn.Dropout(dropout)
        self.columns = nn.ModuleDict({name: nn.Linear(hidden_size, size) for name, size in sizes.items()})

    def forward(
        self, hidden_states: torch.Tensor, word_index: torch.Tensor, num_words: int | None = None
    ) -> dict[str, torch.Tensor]:
        """
        The scores of all labels.

        Args:
            hidden_states (`torch.Tensor` of shape `(batch, pieces, hidden_size)`): Hidden states of pieces.
            word_index (`torch.LongTensor` of shape `(batch, pieces)`): See [`word_members`].
            num_words (`int`, *optional*): Number of words W; that of the longest sentence if `None`.

        Returns:
            `dict[str, torch.Tensor]` of shape `(batch, W, labels)`: By column.
        """
        members = word_members(word_index, num_words)[:, 1:]  # without ROOT
        words = self.dropout(word_states(hidden_states, members, self.word_state))
        return {name: layer(words) for name, layer in self.columns.items()}
