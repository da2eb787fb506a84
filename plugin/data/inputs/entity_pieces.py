"""Encodes a text once, with the sub-words of any number of entities."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from transformers import PreTrainedTokenizerBase

ENTITY_MARKERS = ("[E1]", "[/E1]", "[E2]", "[/E2]")
"""The tokens around the head and around the tail of a relation."""


class EntityText(NamedTuple):
    """
    A text as tokens.

    Args:
        ids (`list[int]`): Its token ids, without special tokens.
        pieces (`list[list[int]]`): The positions of the tokens of each entity among them.
        offsets (`list[tuple[int, int]]`): The span of each token in characters.
    """

    ids: list[int]
    pieces: list[list[int]]
    offsets: list[tuple[int, int]]

    def window(self, head: int, tail: int, room: int, shared: bool) -> int | None:
        """The start of the window around two entities, given by their numbers; see [`window_start`]."""
        found = [*self.pieces[head], *self.pieces[tail]]
        return window_start(len(self.ids), room, min(found, default=0), max(found, default=0) + 1, shared)


def encode_entities(tokenizer: PreTrainedTokenizerBase, text: str, spans: Sequence[Sequence[int]]) -> EntityText:
    """
    Encodes a text of any length, and finds the tokens that share a character with each entity.

    Args:
        tokenizer (`PreTrainedTokenizerBase`): A fast tokenizer.
        text (`str`): The text.
        spans (`Sequence[Sequence[int]]`): The entities, `[start, end)` in characters.
    """
    encoded = tokenizer(
        text, add_special_tokens=False, return_offsets_mapping=True, split_special_tokens=True, verbose=False
    )
    offsets = encoded["offset_mapping"]
    pieces = [[at for at, (first, last) in enumerate(offsets) if first < end and start < last] for start, end in spans]
    return EntityText(encoded["input_ids"], pieces, offsets)


def padded_pieces(pieces: Sequence[Sequence[Sequence[int]]]) -> torch.Tensor:
    """The pieces of the entities of each row, `(rows, entities, pieces)`, with -1 where there are fewer."""
    count, width = max(map(len, pieces)), max(1, *(len(entity) for row in pieces for entity in row))
    full = [[[*entity, *[-1] * (width - len(entity))] for entity in row] for row in pieces]
    return torch.tensor([[*row, *[[-1] * width] * (count - len(row))] for row in full])


def special_tokens(tokenizer: PreTrainedTokenizerBase) -> tuple[list[int], list[int]]:
    """
    The ids of the special tokens that the tokenizer puts before and after a text; `[CLS]` and `[SEP]` if it has them
    and puts none.
    """
    encoding = tokenizer("a").encodings[0]
    mask = encoding.special_tokens_mask
    first, last = mask.index(0), len(mask) - mask[::-1].index(0)
    begin, end = encoding.ids[:first], encoding.ids[last:]
    if not (begin or end) and None not in (tokenizer.cls_token_id, tokenizer.sep_token_id):
        return [tokenizer.cls_token_id], [tokenizer.sep_token_id]
    return begin, end


def window_start(length: int, room: int, first: int, last: int, shared: bool = True) -> int | None:
    """
    The start of the window that has two entities in its middle, as far as possible.

    Shared starts are multiples of a quarter of the window where these show both entities, so that pairs share windows.

    Args:
        length (`int`): Number of tokens of the text.
        room (`int`): Number of tokens of a window.
        first (`int`): The first token of both entities.
        last (`int`): The token behind the last one.
        shared (`bool`, *optional*, defaults to `True`): Whether pairs share windows; otherwise nothing is rounded.

    Returns:
        `int` or `None`: The first token of the window; `None` if no window shows both entities.
    """
    if last - first > room:
        return None
    ideal = min(max((first + last - room + 1) // 2, 0), max(length - room, 0))
    step = max(room // 4, 1)
    rounded = min(round(ideal / step) * step, max(length - room, 0))
    return rounded if shared and rounded <= first and last <= rounded + room else ideal
