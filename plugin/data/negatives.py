"""Turns sentences and documents with several entities into one row a pair, and draws pairs without a relation."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, groupby, permutations, product
from typing import Any, NamedTuple

from transformers.utils import logging

from msattn.data.files.records import Located
from msattn.data.relation_rows import relation_row
from msattn.errors import UserError

logger = logging.get_logger(__name__)

# A word that can stand for an entity: it has two letters at least.
WORD = re.compile(r"[^\W\d_]{2,}")
TWO_WORDS = re.compile(r"\b[^\W\d_]{2,} [^\W\d_]{2,}\b")


@dataclass(frozen=True)
class Negatives:
    """
    How to draw pairs of entities that have no relation.

    Args:
        count (`int`): The number of pairs a sentence or document. Fewer are drawn where there are fewer.
        label (`str`): Their label.
        seed (`int`): The random seed.
        words (`bool`, *optional*, defaults to `False`):
            Whether a text with marked pairs, a row each, one after the other, yields pairs of its words.
    """

    count: int
    label: str
    seed: int
    words: bool = False


def pair_rows(rows: Located, negatives: Negatives | None = None) -> Iterator[tuple[str, Any]]:
    """
    Expands rows with several entities to rows of [`~msattn.data.relation_rows.relation_row`].

    - SpERT, CoNLL-04: `tokens` or `text`, `entities` (`{"start", "end", "type"}`, the end exclusive) and `relations`
      (`{"head", "tail", "type"}`, numbers of entities);
    - DocRED: `sents` (lists of tokens), `vertexSet` (a list of mentions `{"sent_id", "pos", "type"}` an entity) and
      `labels` (`{"h", "t", "r"}`). The text is all sentences. An entity is marked at the mention that is nearest to
      one of the other entity.

    A pair with several relations yields a row for each. Without the field of relations, all ordered pairs are rows
    without a label. Rows that mark one pair pass unchanged.

    Args:
        rows (`Located`): Locations and rows.
        negatives (`Negatives`, *optional*): Also draw pairs without a relation.

    Yields:
        `tuple[str, Any]`: The location, with the numbers of both entities, and the row.

    Raises:
        UserError: A field is missing or has another form, or a relation names an entity that is not there.
    """
    draw = random.Random(negatives.seed if negatives else 0)
    further = same = 0
    for where, row in _with_word_pairs(rows, negatives, draw) if negatives and negatives.words else rows:
        if not _has_entities(row):
            yield where, row
            continue
        sentence = _document(row, where) if "vertexSet" in row else _sentence(row, where)
        pairs = list(permutations(range(len(sentence.entities)), 2))
        related = sentence.relations
        if related is None:
            related = [(pair, None) for pair in pairs]
        further += len(related) - len({pair for pair, _ in related})
        if negatives:
            rest = sorted(set(pairs) - {pair for pair, _ in related})
            chosen = draw.sample(rest, min(negatives.count, len(rest)))
            related = [*related, *((pair, negatives.label) for pair in chosen)]
        for (head, tail), label in related:
            spans = _nearest(sentence.entities[head], sentence.entities[tail])
            if spans is None:
                same += label is not None and label != (negatives and negatives.label)
            else:
                fields = dict(zip(("head", "tail", "head_type", "tail_type"), spans, strict=True))
                number = {"id": f"{sentence.name}:{head}-{tail}"} if sentence.name else {}
                yield f"{where}, entities {head} and {tail}", {**sentence.text, **fields, **number, "label": label}
    if further:
        logger.warning(f"{further} relations are further ones of their pair; each is an example of its own.")
    if same:
        logger.warning(f"{same} relations were skipped: both entities have the same span.")


def word_pairs(examples: Sequence[Mapping[str, Any]], count: int, draw: random.Random) -> list[dict[str, list[int]]]:
    """
    Draws pairs of words of a sentence that are not both its entities.

    Args:
        examples (`Sequence[Mapping[str, Any]]`):
            The pairs that are marked in the sentence: `text`, `head` and `tail`; see [`relation_row`].
        count (`int`): The number of pairs. Fewer are drawn from short sentences.
        draw (`random.Random`): The random numbers.

    Returns:
        `list[dict[str, list[int]]]`: `head` and `tail`, in characters.
    """
    entities = entities_of(examples)
    words = [list(word.span()) for word in WORD.finditer(examples[0]["text"])]
    apart = _apart(words, entities)
    pairs = [pair for pair in permutations([*entities, *apart], 2) if pair[0] in apart or pair[1] in apart]
    return [{"head": head, "tail": tail} for head, tail in draw.sample(pairs, min(count, len(pairs)))]


def random_pair(
    example: Mapping[str, Any], entities: Sequence[Sequence[int]], draw: random.Random
) -> dict[str, Any] | None:
    """
    Draws a pair of spans of two words each that share nothing with the entities of a sentence: pairs which no training
    data hold, for measuring how often a model sees a relation where there is none.

    Args:
        example (`Mapping[str, Any]`): See [`relation_row`].
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


def _has_entities(row: Any) -> bool:
    return isinstance(row, Mapping) and not {"entities", "vertexSet"}.isdisjoint(row)


def _with_word_pairs(rows: Located, negatives: Negatives, draw: random.Random) -> Iterator[tuple[str, Any]]:
    """The rows, and pairs of words behind the rows of each text with marked pairs."""

    def text_of(located: tuple[str, Any]) -> str | None:
        where, row = located
        return None if _has_entities(row) else relation_row(row, where)["text"]

    for text, group in groupby(rows, key=text_of):
        if text is None:
            yield from group
            continue
        marked = list(group)
        yield from marked
        where = marked[0][0]
        examples = [relation_row(row, of_row) for of_row, row in marked]
        if (first := examples[0])["label"] is not None:
            untyped = {"head_type": None, "tail_type": None, "label": negatives.label}
            for number, pair in enumerate(word_pairs(examples, negatives.count, draw), start=1):
                yield where, {**first, **pair, **untyped, "id": first["id"] and f"{first['id']}:negative-{number}"}


class _Sentence(NamedTuple):
    """Text field, entities (mentions `(span, type)` each), relations `((head, tail), label)`, and name."""

    text: dict[str, Any]
    entities: list[list[tuple[list, Any]]]
    relations: list[tuple[tuple[int, int], str | None]] | None
    name: str | None


def _sentence(row: Mapping, where: str) -> _Sentence:
    name = next((name for name in ("tokens", "token", "text", "sentence") if row.get(name) is not None), None)
    if name is None:
        raise UserError(
            f'{where}: a row with "entities" needs "tokens" or "text"; it has {", ".join(map(repr, row))}.'
        )
    entities = []
    for number, entity in enumerate(_objects(row, "entities", where)):
        if "start" not in entity or "end" not in entity:
            raise UserError(f'{where}: entity {number} needs "start" and "end"; it has {sorted(entity)}.')
        entities.append([([entity["start"], entity["end"]], entity.get("type", entity.get("label")))])
    relations = None
    if row.get("relations") is not None:
        relations = [
            (
                _numbers(relation, "head", "tail", len(entities), where),
                relation.get("type", relation.get("label", relation.get("relation"))),
            )
            for relation in _objects(row, "relations", where)
        ]
    identifier = row.get("id", row.get("orig_id"))
    return _Sentence({name: row[name]}, entities, relations, None if identifier is None else str(identifier))


def _document(row: Mapping, where: str) -> _Sentence:
    sentences = row.get("sents")
    if not isinstance(sentences, list) or not all(isinstance(sentence, list) for sentence in sentences):
        raise UserError(f'{where}: a row with "vertexSet" needs "sents", lists of tokens; it has {sorted(row)}.')
    starts = list(accumulate(map(len, sentences), initial=0))[:-1]
    try:
        entities = [
            [
                ([starts[mention["sent_id"]] + bound for bound in mention["pos"]], mention.get("type"))
                for mention in mentions
            ]
            for mentions in row["vertexSet"]
        ]
    except (KeyError, IndexError, TypeError, AttributeError):
        raise UserError(
            f'{where}: "vertexSet" has to list the mentions of each entity, with "sent_id" (0 to '
            f'{len(sentences) - 1}) and "pos" ([start, end) in the sentence).'
        ) from None
    relations = None
    if row.get("labels") is not None:
        relations = [
            (_numbers(relation, "h", "t", len(entities), where), relation.get("r"))
            for relation in _objects(row, "labels", where)
        ]
    title = row.get("title")
    return _Sentence({"tokens": sum(sentences, [])}, entities, relations, None if title is None else str(title))


def _objects(row: Mapping, name: str, where: str) -> list[Mapping]:
    found = row[name]
    if not isinstance(found, list) or not all(isinstance(item, Mapping) for item in found):
        raise UserError(f'{where}: "{name}" must be a list of objects.')
    return found


def _numbers(relation: Mapping, head: str, tail: str, entities: int, where: str) -> tuple[int, int]:
    numbers = (relation.get(head), relation.get(tail))
    if not all(type(number) is int and 0 <= number < entities for number in numbers) or numbers[0] == numbers[1]:
        raise UserError(
            f'{where}: the "{head}" and "{tail}" of a relation must be two of the {entities} entities, counted from '
            f"0, not {numbers[0]!r} and {numbers[1]!r}."
        )
    return numbers  # type: ignore[return-value]


def _nearest(heads: list, tails: list) -> tuple[list, list, Any, Any] | None:
    """The nearest mentions of two entities and their types; `None` if they share their only span."""
    pairs = [(head, tail) for head, tail in product(heads, tails) if head[0] != tail[0]]
    if not pairs:
        return None
    if len(pairs) > 1:
        pairs.sort(key=lambda pair: max(pair[0][0][0], pair[1][0][0]) - min(pair[0][0][1], pair[1][0][1]))
    (head, head_type), (tail, tail_type) = pairs[0]
    return head, tail, head_type, tail_type
