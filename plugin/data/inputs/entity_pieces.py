"""Encodes texts without markers, with the sub-words of any number of entities."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from transformers import BatchEncoding, DataCollatorWithPadding, PreTrainedTokenizerBase

from msattn.data.inputs.words import character_words, split_words, token_words


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


def encode_unmarked(
    tokenizer: PreTrainedTokenizerBase,
    texts: Sequence[str],
    heads: Sequence[Sequence[int]],
    tails: Sequence[Sequence[int]],
    max_length: int | None = None,
    words: bool = False,
    shared: bool = False,
) -> dict[str, list]:
    """
    Encodes examples without markers, and finds the sub-words of both entities.

    The tokens are those of the whole text, wherever an entity begins or ends, as in the pipeline: pairs share them.

    Args:
        tokenizer (`PreTrainedTokenizerBase`): A fast tokenizer.
        texts, heads, tails, max_length, words: As in [`~msattn.data.inputs.entity_markers.encode_relations`].
        shared (`bool`, *optional*, defaults to `False`):
            Whether pairs share windows; see [`window_start`].

    Returns:
        `dict[str, list]`: As there, with `entity_pieces`, the positions of the sub-words of both
        entities, head first, in place of those of the markers.
    """
    begin, end = special_tokens(tokenizer)
    room = (max_length or tokenizer.model_max_length) - len(begin) - len(end)
    spans: dict[str, dict[tuple[int, ...], int]] = {text: {} for text in texts}
    pairs = [
        [spans[text].setdefault(tuple(span), len(spans[text])) for span in pair]
        for text, *pair in zip(texts, heads, tails, strict=True)
    ]
    read = {text: encode_entities(tokenizer, text, [*of_text]) for text, of_text in spans.items()}
    words_of = {text: (split_words(text), character_words(text)) for text in spans} if words else {}
    rows: list[dict[str, list] | None] = []
    for text, (head, tail) in zip(texts, pairs, strict=True):
        found = read[text]
        start = found.window(head, tail, room, shared)
        if start is None:
            rows.append(None)
            continue
        row: dict[str, list] = model_inputs(tokenizer, [*begin, *found.ids[start : start + room], *end])
        row["entity_pieces"] = [[len(begin) + at - start for at in found.pieces[entity]] for entity in (head, tail)]
        if words:
            split, owners = words_of[text]
            word_ids = token_words(found.offsets[start : start + room], owners)
            row |= {"words": [split], "word_ids": [*[None] * len(begin), *word_ids, *[None] * len(end)]}
        rows.append(row)
    return columns_of(rows)


def model_inputs(tokenizer: PreTrainedTokenizerBase, ids: list[int]) -> dict[str, list]:
    """The inputs of a model for one text, by its ids."""
    row = {"input_ids": ids, "attention_mask": [1] * len(ids)}
    return {**row, "token_type_ids": [0] * len(ids)} if "token_type_ids" in tokenizer.model_input_names else row


def columns_of(rows: Sequence[dict[str, list] | None]) -> dict[str, list]:
    """The columns of rows, with `None` in each for a row that is `None`."""
    names: Iterable[str] = next(filter(None, rows), ("input_ids",))
    return {name: [row and row[name] for row in rows] for name in names}


@dataclass
class EntityPiecesCollator(DataCollatorWithPadding):
    """
    A [`DataCollatorWithPadding`] of pairs, which encodes a text with several pairs once.

    `entity_pieces` are padded with -1, to `(batch, 2, pieces)`; or, if pairs share a text, to `(texts, entities,
    pieces)`, beside `entity_pairs` and `entity_texts`.
    """

    #: Whether pairs share a text. Otherwise each tensor has a row a pair.
    shares: bool = True

    def __call__(self, features: list[dict[str, Any]]) -> Any:
        texts: dict[tuple[int, ...], int] = {}
        of_pair = [texts.setdefault(tuple(row["input_ids"]), len(texts)) for row in features]
        pieces = [row["entity_pieces"] for row in features]
        rest = [{name: value for name, value in row.items() if name != "entity_pieces"} for row in features]
        if len(texts) == len(features) or not self.shares:
            return BatchEncoding({**super().__call__(rest), "entity_pieces": padded_pieces(pieces)})
        labels = [row.pop("labels") for row in rest if "labels" in row]
        entities: list[dict[tuple[int, ...], int]] = [{} for _ in texts]
        pairs = [
            [entities[text].setdefault(tuple(entity), len(entities[text])) for entity in pair]
            for text, pair in zip(of_pair, pieces, strict=True)
        ]
        # The first tensor has a row a pair: the Trainer takes its length for that of the batch.
        return BatchEncoding(
            {
                "entity_pairs": torch.tensor(pairs),
                "entity_texts": torch.tensor(of_pair),
                "entity_pieces": padded_pieces([[*found] for found in entities]),
                **({"labels": torch.tensor(labels)} if labels else {}),
                **super().__call__([rest[of_pair.index(text)] for text in range(len(texts))]),
            }
        )


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
