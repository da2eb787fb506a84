"""Draws pairs of entities or words that have no relation."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, permutations
from typing import Any

import regex
from datasets import Dataset

from msattn.data.inputs.word_rules import ATTACHED, UNSPACED

# What the ids of drawn pairs have.
DRAWN = ":negative-"
WORDS = regex.compile(r"\w+(?:[-'’.&]\w+)*")
_LETTERS = r"\b[\w--\p{N}_%s]{2,}\b"
# A word that can stand for an entity. A clause of Chinese, or a word of Korean with its particles, is unlike one.
WORD = regex.compile(_LETTERS % ATTACHED, regex.VERSION1)
TWO_WORDS = regex.compile(f"{_LETTERS} {_LETTERS}" % (UNSPACED, UNSPACED), regex.VERSION1)
# Most characters between two entities of joined texts.
APART = 300


@dataclass(frozen=True)
class Negatives:
    """
    The number, label and seed of pairs that have no relation.

    Args:
        count (`int` or `None`):
            The number of drawn pairs of a text that lists its entities; `None` for all its pairs without a relation.
        label (`str`): Their label.
        seed (`int`): The random seed.
        pairs (`int`, *optional*, defaults to 0):
            The number of drawn pairs of a text with marked pairs, a row each, one after the other.
    """

    count: int | None
    label: str
    seed: int
    pairs: int = 0


def with_entity_pairs(rows: Dataset, negatives: Negatives) -> Dataset:
    """
    Adds pairs of entities without a relation behind the marked pairs of each text.

    They are of two kinds. In one, an entity of the text is paired with a span that is like one: words that are
    marked elsewhere in the data, or, if none of the data have types, any word, in scripts that separate words. In the
    other, the texts of two rows are joined, and a pair has an entity of each. Two marked entities of a text are never
    drawn, as they may have a relation.

    Args:
        rows (`datasets.Dataset`): Marked pairs, as of [`~msattn.data.relations.read_relations`].
        negatives (`Negatives`): How many to draw, `pairs`. Fewer are drawn where there are too few spans.
    """
    draw = random.Random(negatives.seed)
    types = {_text(row, role).casefold(): row[f"{role}_type"] for row in rows for role in ("head", "tail")}
    typed = any(types.values())
    groups = _by_text(rows)
    found: list[dict[str, Any]] = []
    for group in groups:
        first, ends = group[0], entities_of(group)
        known = {tuple(row[role]): row[f"{role}_type"] for row in group for role in ("head", "tail")}
        like = {tuple(span): types[name] for span, name in _named(first["text"], types, ends)}
        if not like and not typed:
            like = {
                tuple(span): None for span in _apart([[*word.span()] for word in WORD.finditer(first["text"])], ends)
            }
        spans = {**known, **like}
        inside = [pair for pair in permutations(spans, 2) if pair[0] in like or pair[1] in like]
        inside = draw.sample(inside, min((negatives.pairs + draw.randint(0, 1)) // 2, len(inside)))
        drawn = [_pair(first["text"], pair, [spans[end] for end in pair]) for pair in inside]
        for _ in range(negatives.pairs - len(inside)):
            drawn += _across(group, draw.choice(groups), draw)
        rest = {"label": negatives.label, **({"labels": [negatives.label]} if "labels" in first else {})}
        found += group
        for number, pair in enumerate(drawn, start=1):
            found.append({**first, **pair, **rest, "id": f"{first['id']}{DRAWN}{number}"})
    return Dataset.from_list(found, rows.features)


def _by_text(rows: Dataset) -> list[list[dict[str, Any]]]:
    """The examples of each text, wherever they stand."""
    found: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in rows:
        found[row["text"]].append(row)
    return [*found.values()]


def _across(group: Sequence[Mapping], others: Sequence[Mapping], draw: random.Random) -> list[dict[str, Any]]:
    """An entity of a text and one of another, in the joined text; none if they are the same text, or far apart."""
    pairs = [(draw.choice(rows), draw.choice(("head", "tail"))) for rows in (group, others)]
    (row, role), (other, other_role) = pairs
    shift = len(row["text"]) + 1
    near, far = row[role], [bound + shift for bound in other[other_role]]
    if row["text"] == other["text"] or far[0] - near[1] > APART:
        return []
    ends = [(near, row[f"{role}_type"]), (far, other[f"{other_role}_type"])]
    (head, head_type), (tail, tail_type) = ends if draw.random() < 0.5 else reversed(ends)
    return [_pair(f"{row['text']} {other['text']}", (head, tail), [head_type, tail_type])]


def _pair(text: str, ends: Sequence[Sequence[int]], types: Sequence[str | None]) -> dict[str, Any]:
    (head, tail), (head_type, tail_type) = map(list, ends), types
    return {"text": text, "head": head, "tail": tail, "head_type": head_type, "tail_type": tail_type}


def _named(text: str, names: Collection[str], taken: Sequence[Sequence[int]]) -> list[tuple[list[int], str]]:
    """The spans of up to four words that are one of the names, apart from those that are taken and from each other."""
    words = [word.span() for word in WORDS.finditer(text)]
    taken, found = [*taken], []
    for count in range(4, 0, -1):
        for first, last in zip(words, words[count - 1 :], strict=False):
            span = [first[0], last[1]]
            name = text[slice(*span)].casefold()
            if name in names and _apart([span], taken):
                taken.append(span)
                found.append((span, name))
    return found


def _text(row: Mapping[str, Any], role: str) -> str:
    return row["text"][slice(*row[role])]


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


def random_pairs(dataset: Dataset, seed: int, most: int = 1000) -> Dataset | None:
    """
    Draws pairs of spans of two words each that share nothing with the entities of their sentence: pairs which no
    training data hold, for measuring how often a model sees a relation where there is none.

    Args:
        dataset (`datasets.Dataset`): As of [`~msattn.data.relations.read_relations`].
        seed (`int`): The random seed.
        most (`int`, *optional*, defaults to 1000): The largest number of pairs.

    Returns:
        `datasets.Dataset` or `None`: Pairs without labels, one for each of the first examples whose sentence is long
        enough; `None` if no sentence is.
    """
    draw = random.Random(seed)
    marked = dataset.select_columns([name for name in dataset.column_names if name != "labels"])

    def drawn() -> Iterator[dict[str, Any]]:
        for examples in _by_text(marked):
            words = TWO_WORDS.finditer(examples[0]["text"])
            apart = _apart([list(two.span()) for two in words], entities_of(examples))
            for example in examples if len(apart) > 1 else ():
                head, tail = draw.sample(apart, 2)
                yield {**example, "head": head, "tail": tail, "label": None}

    pairs = list(islice(drawn(), most))
    return Dataset.from_list(pairs, marked.features) if pairs else None


def entities_of(examples: Sequence[Mapping[str, Any]]) -> list[list[int]]:
    """The entities of a sentence, each once, from the pairs that are marked in it."""
    spans = [tuple(example[role]) for example in examples for role in ("head", "tail")]
    return [list(span) for span in dict.fromkeys(spans)]


def _apart(spans: list[list[int]], entities: Sequence[Sequence[int]]) -> list[list[int]]:
    """The spans that share no character with an entity."""
    return [span for span in spans if all(span[1] <= start or end <= span[0] for start, end in entities)]
