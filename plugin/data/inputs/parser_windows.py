"""Encodes sentences as parser inputs, with windows for long ones."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from transformers import PreTrainedTokenizerBase

from msattn.data.files.conllu_lines import TAG_CELLS
from msattn.data.inputs.word_pieces import NO_LABEL, WordPieces, inputs_of, word_pieces
from msattn.errors import UserError

# The word index of [SEP] and padding.
NO_WORD = -1
TREE_LABELS = ("heads", "relations")
WORD_LABELS = (*TREE_LABELS, *TAG_CELLS)


class Window(NamedTuple):
    """
    A sentence, or a window of a long one.

    Args:
        inputs (`dict[str, list[int]]`):
            The model inputs: `input_ids` and so on, and `word_index`, the index of each token's word in the window,
            from 1. It is 0 for the leading special token, which represents the root, and -1 for other special tokens.
        first (`int`): Number of words of the sentence before the window.
        words (`int`): Number of words in the window.
        kept (`tuple[int, int]`):
            Words `[start, end)` of the window whose heads are used. Those of the others come from a neighbouring
            window.
        cut (`bool`): Whether the window is a single word with too many sub-words, of which the last are dropped.
    """

    inputs: dict[str, list[int]]
    first: int
    words: int
    kept: tuple[int, int]
    cut: bool


def sentence_windows(
    tokenizer: PreTrainedTokenizerBase, sentences: Sequence[Sequence[str]], max_length: int | None = None
) -> list[list[Window]]:
    """
    Encodes sentences as parser inputs.

    Words that the tokenizer would drop become its unknown token. Sentences longer than `max_length` are split into
    windows that overlap by half.

    Args:
        tokenizer (`PreTrainedTokenizerBase`):
            A fast tokenizer. If it starts each text with a special token, such as `[CLS]`, that token stands for the
            root; see [`has_root`].
        sentences (`Sequence[Sequence[str]]`): The words of each sentence.
        max_length (`int`, *optional*): Maximum number of tokens per window. Default: no limit.

    Returns:
        `list[list[Window]]`: The windows of each sentence, in order.

    Raises:
        UserError: The tokenizer drops a word without having an unknown token, or `max_length` leaves no room for a
            word.
    """
    return [
        _windows(tokenizer, pieces, max_length) if words else []
        for words, pieces in zip(sentences, word_pieces(tokenizer, sentences), strict=True)
    ]


def has_root(tokenizer: PreTrainedTokenizerBase) -> bool:
    """Returns true if the tokenizer starts a text with a special token, which can stand for the root."""
    return tokenizer("a").encodings[0].special_tokens_mask[0] == 1


def _windows(tokenizer: PreTrainedTokenizerBase, pieces: WordPieces, max_length: int | None) -> list[Window]:
    encoding, owners, starts = pieces
    special = encoding.special_tokens_mask
    before, after = special.index(0), len(special) - special[::-1].index(0)
    room = after if max_length is None else max_length - before - (len(special) - after)
    if room < 1:
        raise UserError(f"{max_length} tokens leave no room for a word.")
    # The first token of each word, and the end of the last word.
    bounds = [*starts, after]
    spans = [*_spans(np.diff(bounds).tolist(), room)]
    # Split overlaps in the middle: each word is used from the window that has more context for it.
    seams = [0, *((first + end + 1) // 2 for (_, end), (first, _) in zip(spans, spans[1:], strict=False)), len(starts)]
    columns = inputs_of(encoding, tokenizer)
    windows = []
    for (first, end), start, stop in zip(spans, seams, seams[1:], strict=False):
        own = slice(bounds[first], min(bounds[end], bounds[first] + room))
        inputs = {name: column[:before] + column[own] + column[after:] for name, column in columns.items()}
        word_index = [NO_WORD if owner is None else owner - first + 1 for owner in owners[:before] + owners[own]]
        if before:
            word_index[0] = 0
        inputs["word_index"] = word_index + [NO_WORD] * (len(special) - after)
        windows.append(
            Window(inputs, first, end - first, (start - first, stop - first), bounds[end] - bounds[first] > room)
        )
    return windows


def _spans(sizes: Sequence[int], room: int) -> Iterator[tuple[int, int]]:
    """The words of each window, `[first, end)`, given the number of tokens of each word."""
    first = end = filled = 0
    while end < len(sizes):
        while end < len(sizes) and (end == first or filled + sizes[end] <= room):
            filled += sizes[end]
            end += 1
        yield first, end
        # Overlap by half, or by less if the first new word needs more room.
        while end < len(sizes) and first < end and (filled > room // 2 or filled + sizes[end] > room):
            filled -= sizes[first]
            first += 1


def window_labels(window: Window, heads: Sequence[int], relations: Sequence[int]) -> dict[str, list[int]]:
    """
    The heads and relations of a window.

    Args:
        window (`Window`): The window.
        heads (`Sequence[int]`): The head of each word of the sentence, from 1; 0 for the root.
        relations (`Sequence[int]`): The relation id of each word of the sentence.

    Returns:
        `dict[str, list[int]]`: `heads` and `relations` of each word, counted within the window. They are -100 for
        words that are not kept or whose head is outside the window.
    """
    start, stop = window.kept
    labels: dict[str, list[int]] = {name: [] for name in TREE_LABELS}
    for word in range(window.words):
        head = heads[window.first + word]
        inside = 0 if head == 0 else head - window.first
        counts = start <= word < stop and (head == 0 or 1 <= inside <= window.words)
        labels["heads"].append(inside if counts else NO_LABEL)
        labels["relations"].append(relations[window.first + word] if counts else NO_LABEL)
    return labels


def window_tags(window: Window, labels: Sequence[int]) -> list[int]:
    """The labels of the words of a window from those of its sentence; -100 for words that are not kept."""
    start, stop = window.kept
    return [labels[window.first + word] if start <= word < stop else NO_LABEL for word in range(window.words)]


class ParserCollator:
    """
    Pads parser inputs and their labels, if any, to a batch of tensors.

    Args:
        tokenizer (`PreTrainedTokenizerBase`): Has the padding ids.
        pad_to_multiple_of (`int`, *optional*): Pads the number of tokens to a multiple of this.
    """

    def __init__(self, tokenizer: PreTrainedTokenizerBase, pad_to_multiple_of: int | None = None):
        self.multiple = pad_to_multiple_of or 1
        self.padding = {
            "input_ids": tokenizer.pad_token_id,
            "token_type_ids": tokenizer.pad_token_type_id,
            "attention_mask": 0,
            "word_index": NO_WORD,
            **dict.fromkeys(WORD_LABELS, NO_LABEL),
        }

    def __call__(self, rows: Sequence[Mapping[str, Any]]) -> dict[str, torch.Tensor]:
        batch = {}
        for name in rows[0]:
            lengths = [len(row[name]) for row in rows]
            multiple = 1 if name in WORD_LABELS else self.multiple
            width = -(-max(lengths) // multiple) * multiple
            padded = np.full((len(rows), width), self.padding.get(name, 0))
            for number, (row, length) in enumerate(zip(rows, lengths, strict=True)):
                padded[number, :length] = row[name]
            batch[name] = torch.from_numpy(padded)
        return batch
