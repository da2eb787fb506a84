"""Draws pairs of entities or words that have no relation."""

from __future__ import annotations

import random
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, permutations
from typing import Any

from datasets import Dataset

from msattn.data.files.arrow_tables import Located

# A word that can stand for an entity: it has two letters at least.
WORD = re.compile(r"[^\W\d_]{2,}")
TWO_WORDS = re.compile(r"\b[^\W\d_]{2,} [^\W\d_]{2,}\b")


@dataclass(frozen=True)
class Negatives:
    """
    The number, label and seed of pairs that have no relation.

    Args:
        count (`int` or `None`):
            The number of drawn pairs of a text that lists its entities; `None` for all its pairs without a relation.
        label (`str`): Their label.
        seed (`int`): The random seed.
        words (`int`, *optional*, defaults to 0):
            The number of drawn pairs of words of a text with marked pairs, a row each, one after the other.
    """

    count: int | None
    label: str
    seed: int
    words: int = 0


def with_word_pairs(examples: Located, negatives: Negatives) -> Located:
    """
    Adds pairs of words behind the marked pairs of each text. They are not both entities of the text.

    Args:
        examples (`Located`): Locations and outputs of [`~msattn.data.relation_rows.relation_row`].
        negatives (`Negatives`): How many to draw. Fewer are drawn from short texts.
    """
    draw = random.Random(negatives.seed)
    for _, group in groupby(examples, key=lambda located: located[1]["text"]):
        marked = list(group)
        yield from marked
        where, first = marked[0]
        if first["label"] is None:
            continue
        entities = entities_of([example for _, example in marked])
        apart = _apart([list(word.span()) for word in WORD.finditer(first["text"])], entities)
        pairs = [pair for pair in permutations([*entities, *apart], 2) if pair[0] in apart or pair[1] in apart]
        chosen = draw.sample(pairs, min(negatives.words, len(pairs)))
        for number, (head, tail) in enumerate(chosen, start=1):
            name = first["id"] and f"{first['id']}:negative-{number}"
            untyped = {"head_type": None, "tail_type": None, "label": negatives.label}
            yield where, {**first, "id": name, "head": head, "tail": tail, **untyped}


def capped(rows: Dataset, negatives: Negatives) -> Dataset:
    """Rows of all pairs with at most `negatives.count` of those without a relation in each text."""
    if negatives.count is None:
        return rows
    without: dict[str, list[int]] = defaultdict(list)
    kept: list[int] = []
    for row, (text, label) in enumerate(zip(rows["text"], rows["label"], strict=True)):
        (without[text] if label == negatives.label else kept).append(row)
    draw = random.Random(negatives.seed)
    for found in without.values():
        kept += draw.sample(found, min(negatives.count, len(found)))
    return rows.select(sorted(kept))


def random_pair(
    example: Mapping[str, Any], entities: Sequence[Sequence[int]], draw: random.Random
) -> dict[str, Any] | None:
    """
    Draws a pair of spans of two words each that share nothing with the entities of a sentence: pairs which no training
    data hold, for measuring how often a model sees a relation where there is none.

    Args:
        example (`Mapping[str, Any]`): An output of [`~msattn.data.relation_rows.relation_row`].
        entities (`Sequence[Sequence[int]]`): The entities of the sentence; see [`entities_of`].
        draw (`random.Random`): The random numbers.

    Returns:
        `dict[str, Any]` or `None`: The example with `head` and `tail` replaced, and no label; `None` if the sentence
        is too short.
    """
    apart = _apart([list(words.span()) for words in TWO_WORDS.finditer(example["text"])], entities)
    if len(apart) < 2:
        return None
    head, tail = draw.sample(apart, 2)
    return {**example, "head": head, "tail": tail, "label": None}


def entities_of(examples: Sequence[Mapping[str, Any]]) -> list[list[int]]:
    """The entities of a sentence, each once, from the pairs that are marked in it."""
    spans = [tuple(example[role]) for example in examples for role in ("head", "tail")]
    return [list(span) for span in dict.fromkeys(spans)]


def _apart(spans: list[list[int]], entities: Sequence[Sequence[int]]) -> list[list[int]]:
    """The spans that share no character with an entity."""
    return [span for span in spans if all(span[1] <= start or end <= span[0] for start, end in entities)]
