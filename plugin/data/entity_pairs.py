"""Turns sentences and documents with several entities into one row a pair."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import accumulate, permutations, product
from typing import Any

from transformers.utils import logging

from msattn.data.files.arrow_tables import Located
from msattn.data.formats.annotation_tools import doccano_rows, label_studio_rows, prodigy_rows
from msattn.data.formats.docred import docred_rows
from msattn.data.formats.scierc import scierc_rows
from msattn.data.negatives import Negatives
from msattn.data.relation_rows import NAMES, first_of, one_sequence
from msattn.data.spans import distance, whole
from msattn.errors import UserError

logger = logging.get_logger(__name__)

# A mention of an entity: `start`, `end`, `type` and `name`, the last two of which may be `None`.
Mention = dict[str, Any]


def _spert_rows(row: Mapping, dropped: Counter) -> Iterable[dict[str, Any]]:
    entities = row["entities"]
    doccano = bool(entities) and isinstance(entities[0], Mapping) and "start_offset" in entities[0]
    return doccano_rows(row, dropped) if doccano else [{"id": row.get("orig_id"), **row}]


# By the field that tells a form: what reads a row of it, and which tools write it.
FORMS: dict[str, tuple[Callable[[Mapping, Counter], Iterable[dict[str, Any]]], str]] = {
    "vertexSet": (docred_rows, "DocRED"),
    "ner": (scierc_rows, "SciERC or CrossRE"),
    "predicted_ner": (scierc_rows, "DyGIE++"),
    "annotations": (label_studio_rows, "Label Studio"),
    "spans": (prodigy_rows, "Prodigy"),
    "entities": (_spert_rows, "SpERT or doccano"),
}


def has_entities(row: Any) -> bool:
    """Returns true if a row lists its entities, as in SpERT and DocRED, and does not mark one pair."""
    return isinstance(row, Mapping) and not FORMS.keys().isdisjoint(row)


def text_rows(rows: Located) -> Iterator[tuple[str, Any]]:
    """
    Rows with several entities as one row a text, with `entities` and perhaps `relations`, whatever their form.

    Raises:
        UserError: A field is missing or has another form.
    """
    dropped: Counter = Counter()
    for where, row in rows:
        if not has_entities(row):
            yield where, row
            continue
        form, tools = next(form for name, form in FORMS.items() if name in row)
        try:
            found = list(form(row, dropped))
        except (LookupError, TypeError, AttributeError, ValueError) as error:
            missing = isinstance(error, KeyError) and f"there is no {error.args[0]!r}"
            problem = error if isinstance(error, ValueError) else missing or f"there is {error!r}"
            raise UserError(f"{where}: the row is not in the form of {tools}; {problem}.") from None
        several = len(found) > 1
        yield from ((f"{where}, text {at}" if several else where, each) for at, each in enumerate(found))
    _warn(dropped)


def _warn(dropped: Counter) -> None:
    for what, count in (+dropped).items():
        logger.warning(f"{count} {what}.")


def pair_rows(rows: Located, negatives: Negatives | None = None, inclusive: bool = False) -> Located:
    """
    Expands rows with several entities to rows of [`~msattn.data.relation_rows.relation_row`].

    - SpERT, CoNLL-04: `tokens` or `text`, `entities` (`{"start", "end", "type"}`, the end exclusive, or a list of such
      mentions) and `relations` (`{"head", "tail", "type"}`, numbers of entities);
    - DocRED: see [`~msattn.data.formats.docred.docred_rows`]. The text is all sentences;
    - SciERC, DyGIE++, CrossRE: see [`~msattn.data.formats.scierc.scierc_rows`];
    - doccano, Label Studio and Prodigy: see `msattn.data.formats.annotation_tools`.

    An entity is marked at the mention that is nearest to one of the other entity. A pair with several relations yields
    a row for each. Without the field of relations, all ordered pairs are rows without a label. Rows that mark one pair
    pass unchanged.

    Args:
        rows (`Located`): Locations and rows.
        negatives (`Negatives`, *optional*): Also yield pairs without a relation.
        inclusive (`bool`, *optional*, defaults to `False`): Whether the end of a span is the last one inside.

    Yields:
        `tuple[str, Any]`: The location, with the numbers of both entities, and the row.

    Raises:
        UserError: A field is missing or has another form, or a relation names an entity that is not there.
    """
    draw = random.Random(negatives.seed if negatives else 0)
    dropped: Counter = Counter()

    for where, row in text_rows(rows):
        if not has_entities(row):
            yield where, row
            continue
        row = one_sequence(row)  # once for all pairs of the text
        entities, relations = _entities_and_relations(row, where)
        pairs = list(permutations(range(len(entities)), 2))
        related = [(pair, None) for pair in pairs] if relations is None else relations
        if negatives:
            rest = sorted(set(pairs) - {pair for pair, _ in related})
            chosen = rest if negatives.count is None else draw.sample(rest, min(negatives.count, len(rest)))
            related = [*related, *((pair, negatives.label) for pair in chosen)]
        text = {name: row.get(name) for name in ("tokens", "token", "text", "sentence")}
        tokens = first_of(row, "tokens", "token")
        starts = [0, *accumulate(len(str(each)) + 1 for each in tokens)] if isinstance(tokens, list) else None
        name = row.get("id")
        for (head, tail), label in related:
            nearest = _nearest(entities[head], entities[tail], starts, inclusive)
            if nearest is not None:
                ids = {"id": None if name is None else f"{name}:{head}-{tail}", "label": label}
                yield f"{where}, entities {head} and {tail}", {**text, **ids, "head": nearest[0], "tail": nearest[1]}
            elif label is not None and label != (negatives and negatives.label):
                dropped["relations were skipped: both entities have the same span"] += 1
    _warn(dropped)


def _entities_and_relations(
    row: Mapping, where: str
) -> tuple[list[list[Mention]], list[tuple[tuple[int, int], str | None]] | None]:
    """The mentions of each entity, and the relations between their numbers."""
    try:
        entities = [[_mention(each) for each in _as_list(entity)] for entity in row["entities"]]
        if row.get("relations") is None:
            return entities, None
        relations = [
            ((each["head"], each["tail"]), each.get("type", each.get("label", each.get("relation"))))
            for each in row["relations"]
        ]
    except (KeyError, TypeError, AttributeError) as error:
        raise UserError(
            f'{where}: "entities" must be objects with "start", "end" and "type", and "relations" objects with '
            f'"head", "tail" and "type"; there is {error!r}.'
        ) from None
    for pair, label in relations:
        if label in (None, ""):
            raise UserError(f"{where}: the relation of the entities {pair[0]!r} and {pair[1]!r} has no label.")
        if not all(type(number) is int and 0 <= number < len(entities) for number in pair) or pair[0] == pair[1]:
            raise UserError(
                f"{where}: the head and tail of a relation must be two of the {len(entities)} entities, counted from "
                f"0, not {pair[0]!r} and {pair[1]!r}."
            )
    return entities, relations


def _mention(entity: Mapping) -> Mention:
    of = entity.get("type", entity.get("label"))
    return {"start": entity["start"], "end": entity["end"], "name": first_of(entity, *NAMES), "type": of}


def _as_list(entity: Any) -> list:
    return entity if isinstance(entity, list) else [entity]


def _nearest(
    heads: list[Mention], tails: list[Mention], starts: list[int] | None, inclusive: bool
) -> tuple[Mention, Mention] | None:
    """The mentions of two entities that are nearest in characters; `None` if they share their only span."""
    pairs = [(head, tail) for head, tail in product(heads, tails) if _bounds(head) != _bounds(tail)]
    if len(pairs) < 2:
        return pairs[0] if pairs else None
    return min(pairs, key=lambda pair: distance(*(_characters(mention, starts, inclusive) for mention in pair)))


def _characters(mention: Mention, starts: list[int] | None, inclusive: bool) -> tuple[int, int]:
    try:
        start, end = map(whole, _bounds(mention))
        end += inclusive
        return (start, end) if starts is None else (starts[start], starts[end] - 1)
    except (TypeError, ValueError, LookupError, OverflowError):
        return 0, 0  # whoever reads the span says what is wrong


def _bounds(mention: Mention) -> tuple[Any, Any]:
    return mention["start"], mention["end"]
