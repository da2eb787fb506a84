"""Entity markers: encodes a text with two entity spans for relation extraction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain, pairwise
from typing import Any

import torch
from datasets import Dataset
from transformers import DataCollatorWithPadding, PreTrainedTokenizerBase
from transformers.utils import logging

from msattn.data.inputs.words import WORD_COLUMNS, character_words, split_words, token_words
from msattn.errors import UserError

logger = logging.get_logger(__name__)

ENTITY_MARKERS = ("[E1]", "[/E1]", "[E2]", "[/E2]")

# A token id and the index of its word.
Token = tuple[int, "int | None"]


def add_entity_markers(tokenizer: PreTrainedTokenizerBase) -> int:
    """
    Adds the entity markers `ENTITY_MARKERS` to a tokenizer as special tokens.

    Args:
        tokenizer (`PreTrainedTokenizerBase`): The tokenizer, which is changed in place.

    Returns:
        `int`: The number of added tokens. If it is not 0, call `model.resize_token_embeddings(len(tokenizer))`.
    """
    return tokenizer.add_special_tokens(
        {"extra_special_tokens": list(ENTITY_MARKERS)}, replace_extra_special_tokens=False
    )


def encode_relations(
    tokenizer: PreTrainedTokenizerBase,
    texts: Sequence[str],
    heads: Sequence[Sequence[int]],
    tails: Sequence[Sequence[int]],
    max_length: int | None = None,
    words: bool = False,
) -> dict[str, list]:
    """
    Encodes examples as `[CLS] .. [E1] head [/E1] .. [E2] tail [/E2] .. [SEP]`. The tail may also precede the head.

    Special tokens inside a text are encoded as ordinary text. An example longer than `max_length` is cut to a window:
    the entities, everything between them, and an equal number of tokens on both sides; a side that needs less leaves
    its room to the other.

    Args:
        tokenizer (`PreTrainedTokenizerBase`): A fast tokenizer with entity markers; see [`add_entity_markers`].
        texts (`Sequence[str]`): The texts.
        heads (`Sequence[Sequence[int]]`): The character span `[start, end)` of the head entity in each text.
        tails (`Sequence[Sequence[int]]`): The character span of the tail entity.
        max_length (`int`, *optional*):
            Maximum number of tokens per example, with special tokens. Default: `tokenizer.model_max_length`.
        words (`bool`, *optional*, defaults to `False`):
            Whether to add `words` and `word_ids`; see [`~msattn.data.inputs.words.encoding_words`].

    Returns:
        `dict[str, list]`: `input_ids`, `attention_mask`, `token_type_ids` (if the model uses them) and `entity_starts`
        (the positions of `[E1]` and `[E2]`), with one list per example, or `None` for an example whose entities do not
        both fit into `max_length`.

    Raises:
        ValueError: The tokenizer lacks the markers, a classification token or a separator token.
    """
    max_length = max_length or tokenizer.model_max_length
    columns = ("input_ids", "attention_mask", "token_type_ids", "entity_starts", *(WORD_COLUMNS if words else ()))
    encoded: dict[str, list] = {name: [] for name in columns}
    marked = _marked(tokenizer, texts, heads, tails, words)
    for text, (left, core, right, starts) in zip(texts, marked, strict=True):
        room = max_length - len(core) - 2
        if room < 0:
            for column in encoded.values():
                column.append(None)
            continue
        before = min(len(left), max(room // 2, room - len(right)))
        after = min(len(right), room - before)
        window = left[len(left) - before :] + core + right[:after]
        ids, word_ids = zip(*window, strict=True)
        encoded["input_ids"].append([tokenizer.cls_token_id, *ids, tokenizer.sep_token_id])
        encoded["attention_mask"].append([1] * (len(window) + 2))
        encoded["token_type_ids"].append([0] * (len(window) + 2))
        encoded["entity_starts"].append([1 + before + start for start in starts])
        if words:
            encoded["words"].append([split_words(text)])
            encoded["word_ids"].append([None, *word_ids, None])
    if "token_type_ids" not in tokenizer.model_input_names:
        del encoded["token_type_ids"]
    return encoded


def encode_relation_dataset(
    dataset: Dataset,
    tokenizer: PreTrainedTokenizerBase,
    max_length: int | None = None,
    label2id: Mapping[str, int] | None = None,
    on_overflow: str = "error",
    num_proc: int | None = None,
    words: bool = False,
) -> Dataset:
    """
    Encodes a dataset of [`~msattn.data.corpora.relations.read_relations`] with [`encode_relations`].

    Args:
        dataset (`datasets.Dataset`): A dataset with the columns `id`, `text`, `head`, `tail` and `label`.
        tokenizer (`PreTrainedTokenizerBase`): A fast tokenizer with entity markers; see [`add_entity_markers`].
        max_length (`int`, *optional*):
            Maximum number of tokens per example. Default: `tokenizer.model_max_length`.
        label2id (`Mapping[str, int]`, *optional*): Label ids. Without it, there is no column `labels`.
        on_overflow (`str`, *optional*, defaults to `"error"`):
            Treatment of examples whose entities do not both fit into `max_length`: `"error"`, or `"skip"`, which drops
            them and logs their number.
        num_proc (`int`, *optional*): Number of processes.
        words (`bool`, *optional*, defaults to `False`): Whether to add the columns `words` and `word_ids`.

    Returns:
        `datasets.Dataset`: `id`, the columns of [`encode_relations`], and `labels` (int) if `label2id` is given.

    Raises:
        UserError: Entities do not fit and `on_overflow` is `"error"`, no example fits, a label is missing or not in
            `label2id`, or `on_overflow` is unknown.
    """
    if on_overflow not in ("error", "skip"):
        raise UserError(f'on_overflow must be "error" or "skip", not {on_overflow!r}.')
    limit = max_length or tokenizer.model_max_length

    def encode(rows: dict[str, list]) -> dict[str, list]:
        encoded = encode_relations(tokenizer, rows["text"], rows["head"], rows["tail"], limit, words)
        encoded["id"] = rows["id"]
        if label2id is not None:
            encoded["labels"] = [
                _label_id(row, label, label2id) for row, label in zip(rows["id"], rows["label"], strict=True)
            ]
        fits = [ids is not None for ids in encoded["input_ids"]]
        if on_overflow == "error" and not all(fits):
            row = fits.index(False)
            text, head, tail = (rows[name][row : row + 1] for name in ("text", "head", "tail"))
            ((_, core, _, _),) = _marked(tokenizer, text, head, tail)
            raise UserError(
                f"example {rows['id'][row]}: the two entities and what lies between need {len(core) + 2} tokens, but "
                f"max_length is {limit}; raise it, or skip such examples with on_overflow skip."
            )
        return {
            name: [value for value, fit in zip(column, fits, strict=True) if fit] for name, column in encoded.items()
        }

    encoded = dataset.map(
        encode, batched=True, remove_columns=dataset.column_names, num_proc=num_proc, desc="Encoding the examples"
    )
    if not len(encoded):
        raise UserError(f"none of the {len(dataset)} examples fits in {limit} tokens.")
    if len(encoded) < len(dataset):
        logger.warning(
            f"{len(dataset) - len(encoded)} of {len(dataset)} examples were skipped: their entities do not both fit "
            f"in {limit} tokens."
        )
    return encoded


def without_markers(rows: Mapping[str, list], tokenizer: PreTrainedTokenizerBase) -> dict[str, list]:
    """
    Removes the entity markers from the output of [`encode_relations`].

    Args:
        rows (`Mapping[str, list]`): The columns that [`encode_relations`] returns, without `None` rows.
        tokenizer (`PreTrainedTokenizerBase`): The tokenizer that encoded them.

    Returns:
        `dict[str, list]`: The columns, with `entity_pieces` instead of `entity_starts`: the positions of the sub-words
        of both entities, head first.
    """
    markers = [tokenizer.convert_tokens_to_ids(marker) for marker in ENTITY_MARKERS]
    columns: dict[str, list] = {name: [] for name in rows if name != "entity_starts"}
    pieces = []
    for row, ids in enumerate(rows["input_ids"]):
        places = [ids.index(marker) for marker in markers]
        for name, column in columns.items():
            values = rows[name][row]
            if name in ("input_ids", "attention_mask", "token_type_ids", "word_ids"):
                values = [value for position, value in enumerate(values) if position not in places]
            column.append(values)
        spans = (range(places[0] + 1, places[1]), range(places[2] + 1, places[3]))
        pieces.append([[at - sum(place < at for place in places) for at in span] for span in spans])
    return {**columns, "entity_pieces": pieces}


class EntityPiecesCollator(DataCollatorWithPadding):
    """A [`DataCollatorWithPadding`] that also pads the column `entity_pieces`, with -1, to `(batch, 2, pieces)`."""

    def __call__(self, features: list[dict[str, Any]]) -> dict[str, Any]:
        features = [dict(row) for row in features]
        pieces = [row.pop("entity_pieces") for row in features]
        batch = super().__call__(features)
        width = max(1, *(len(entity) for row in pieces for entity in row))
        padded = [[[*entity, *[-1] * (width - len(entity))] for entity in row] for row in pieces]
        batch["entity_pieces"] = torch.tensor(padded)
        return batch


def _label_id(identifier: str, label: str | None, label2id: Mapping[str, int]) -> int:
    if label is None:
        raise UserError(f"example {identifier}: it has no label.")
    if label not in label2id:
        raise UserError(f"example {identifier}: {label!r} is not a label; the labels are {', '.join(label2id)}.")
    return label2id[label]


def _marked(
    tokenizer: PreTrainedTokenizerBase,
    texts: Sequence[str],
    heads: Sequence[Sequence[int]],
    tails: Sequence[Sequence[int]],
    words: bool = False,
) -> list[tuple[list[Token], list[Token], list[Token], list[int]]]:
    """
    Splits each text into tokens before the first marker, from it to the last marker, and after it.

    The fourth item has the positions of `[E1]` and `[E2]` in the middle part.
    """
    markers = [tokenizer.convert_tokens_to_ids(marker) for marker in ENTITY_MARKERS]
    if None in markers or tokenizer.unk_token_id in markers:
        raise ValueError("the tokenizer lacks the entity markers; call add_entity_markers(tokenizer) first")
    if tokenizer.cls_token_id is None or tokenizer.sep_token_id is None:
        raise UserError("the tokenizer needs a classification and a separator token")
    if not texts:
        # The tokenizer fails on an empty batch.
        return []
    all_bounds = [
        [0, *chain.from_iterable(sorted((list(head), list(tail)))), len(text)]
        for text, head, tail in zip(texts, heads, tails, strict=True)
    ]
    segments = tokenizer(
        [text[start:end] for text, bounds in zip(texts, all_bounds, strict=True) for start, end in pairwise(bounds)],
        add_special_tokens=False,
        # Encode "[SEP]" inside a text as ordinary tokens.
        split_special_tokens=True,
        return_attention_mask=False,
        return_token_type_ids=False,
        verbose=False,
    )

    marked = []
    for row, (text, bounds, head, tail) in enumerate(zip(texts, all_bounds, heads, tails, strict=True)):
        owners = character_words(text) if words else {}
        parts = []
        for number, shift in enumerate(bounds[:-1], start=5 * row):
            ids = segments["input_ids"][number]
            word_ids = token_words(segments.encodings[number].offsets, owners, shift) if words else [None] * len(ids)
            parts.append(list(zip(ids, word_ids, strict=True)))
        left, first, between, second, right = parts
        head_first = head[0] < tail[0]
        opened, closed, opened_next, closed_next = (
            (marker, None) for marker in (markers if head_first else markers[2:] + markers[:2])
        )
        core = [opened, *first, closed, *between, opened_next, *second, closed_next]
        starts = [0, len(first) + len(between) + 2]
        marked.append((left, core, right, starts if head_first else starts[::-1]))
    return marked
