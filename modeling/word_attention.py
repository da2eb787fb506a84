"""Hidden states and attention of words, computed from those of their pieces."""

from __future__ import annotations

import torch


def count_words(word_index: torch.Tensor) -> int:
    """
    The number of words in the longest sentence of a batch, without [CLS], which stands for ROOT.

    Compiled code interrupts its graph to read the numbers.

    Args:
        word_index (`torch.LongTensor` of shape `(batch, pieces)`): See [`word_members`].
    """
    return max(int(word_index.max()), 0)


def word_members(word_index: torch.Tensor, num_words: int | None = None) -> torch.Tensor:
    """
    The pieces of each word, as a matrix.

    Args:
        word_index (`torch.LongTensor` of shape `(batch, pieces)`):
            The word of each piece: 0 for [CLS], which stands for ROOT, then 1, 2, ...; -1 for pieces of no word.
        num_words (`int`, *optional*): Number of words W in the result; that of the longest sentence if `None`.

    Returns:
        `torch.BoolTensor` of shape `(batch, W + 1, pieces)`
    """
    words = count_words(word_index) if num_words is None else num_words
    return word_index.unsqueeze(-2) == torch.arange(words + 1, device=word_index.device).unsqueeze(-1)


def piece_mean(members: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """
    The weights of a mean over the pieces of each word, all zero for a word without pieces.

    Args:
        members (`torch.BoolTensor` of shape `(batch, words, pieces)`): See [`word_members`].
        dtype (`torch.dtype`): That of the result.

    Returns:
        `torch.Tensor` of shape `(batch, words, pieces)`
    """
    return members.to(dtype) / members.sum(dim=-1, keepdim=True).clamp_min(1).to(dtype)


def word_states(hidden_states: torch.Tensor, members: torch.Tensor, mode: str = "first") -> torch.Tensor:
    """
    Hidden states of words.

    Args:
        hidden_states (`torch.Tensor` of shape `(batch, pieces, width)`): Hidden states of pieces.
        members (`torch.BoolTensor` of shape `(batch, words, pieces)`): See [`word_members`].
        mode (`str`, *optional*, defaults to `"first"`): The `"first"` piece of a word, or the `"mean"` of its pieces.

    Returns:
        `torch.Tensor` of shape `(batch, words, width)`: Zero for a word without pieces.
    """
    if mode == "mean":
        return piece_mean(members, hidden_states.dtype) @ hidden_states
    first = members.int().argmax(dim=-1).unsqueeze(-1).expand(-1, -1, hidden_states.shape[-1])
    return hidden_states.gather(1, first).masked_fill_(~members.any(dim=-1, keepdim=True), 0)


def word_attention(attention: torch.Tensor, word_index: torch.Tensor, num_words: int | None = None) -> torch.Tensor:
    """
    Attention between words: the mean over the pieces of the word that attends, and the sum over the pieces of the
    other word ("What Does BERT Look At?", Clark et al. 2019).

    Args:
        attention (`torch.Tensor` of shape `(batch, heads, pieces, pieces)`): Rows attend to columns.
        word_index (`torch.LongTensor` of shape `(batch, pieces)`): See [`word_members`].
        num_words (`int`, *optional*): Number of words W in the result; that of the longest sentence if `None`.

    Returns:
        `torch.Tensor` of shape `(batch, heads, W + 1, W + 1)`: The row of a word sums to 1, minus the attention to
        pieces of no word, such as [SEP].
    """
    members = word_members(word_index, num_words).unsqueeze(1)
    return piece_mean(members, attention.dtype) @ attention @ members.to(attention.dtype).mT
