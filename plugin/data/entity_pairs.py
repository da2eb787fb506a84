"""Turns sentences and documents with several entities into one row a pair."""

from __future__ import annotations

import random
from collections.abc import Mapping
from itertools import permutations, product
from typing import Any

from transformers.utils import logging

from msattn.data.files.arrow_tables import Located
from msattn.data.formats.docred import docred_row
from msattn.data.negatives import Negatives
from msattn.errors import UserError

logger = logging.get_logger(__name__)

# A mention of an entity, `([start, end), type)`.
Mention = tuple[list, Any]


def has_entities(row: Any) -> bool:
    """Returns true if a row lists its entities, as in SpERT and DocRED, and does not mark one pair."""
    return isinstance(row, Mapping) and not {"entities", "vertexSet"}.isdisjoint(row)


def pair_rows(rows: Located, negatives: Negatives | None = None) -> Located:
    """
    Expands rows with several entities to rows of [`~msattn.data.relation_rows.relation_row`].

    - SpERT, CoNLL-04: `tokens` or `text`, `entities` (`{"start", "end", "type"}`, the end exclusive, or a list of such
      mentions) and `relations` (`{"head", "tail", "type"}`, numbers of entities);
    - DocRED: see [`~msattn.data.formats.docred.docred_row`]. The text is all sentences.

    An entity is marked at the mention that is nearest to one of the other entity. A pair with several relations yields
    a row for each. Without the field of relations, all ordered pairs are rows without a label. Rows that mark one pair
    pass unchanged.

    Args:
        rows (`Located`): Locations and rows.
        negatives (`Negatives`, *optional*): Also yield pairs without a relation.

    Yields:
        `tuple[str, Any]`: The location, with the numbers of both entities, and the row.

    Raises:
        UserError: A field is missing or has another form, or a relation names an entity that is not there.
    """
    draw = random.Random(negatives.seed if negatives else 0)
    same = 0
    for where, row in rows:
        if not has_entities(row):
            yield where, row
            continue
        row = docred_row(row, where) if "vertexSet" in row else row
        entities, relations = _entities_and_relations(row, where)
        pairs = list(permutations(range(len(entities)), 2))
        related = [(pair, None) for pair in pairs] if relations is None else relations
        if negatives:
            rest = sorted(set(pairs) - {pair for pair, _ in related})
            chosen = rest if negatives.count is None else draw.sample(rest, min(negatives.count, len(rest)))
            related = [*related, *((pair, negatives.label) for pair in chosen)]
        text = {name: row.get(name) for name in ("tokens", "token", "text", "sentence")}
        name = row.get("id", row.get("orig_id"))
        for (head, tail), label in related:
            nearest = _nearest(entities[head], entities[tail])
            if nearest is None:
                same += label is not None and label != (negatives and negatives.label)
                continue
            (head_span, head_type), (tail_span, tail_type) = nearest
            yield (
                f"{where}, entities {head} and {tail}",
                {
                    **text,
                    "id": None if name is None else f"{name}:{head}-{tail}",
                    "head": head_span,
                    "tail": tail_span,
                    "head_type": head_type,
                    "tail_type": tail_type,
                    "label": label,
                },
            )
    if same:
        logger.warning(f"{same} relations were skipped: both entities have the same span.")


def _entities_and_relations(
    row: Mapping, where: str
) -> tuple[list[list[Mention]], list[tuple[tuple[int, int], str | None]] | None]:
    """The mentions of each entity, and the relations between their numbers."""
    try:
        entities = [
            [([each["start"], each["end"]], each.get("type", each.get("label"))) for each in _as_list(entity)]
            for entity in row["entities"]
        ]
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
    for pair, _ in relations:
        if not all(type(number) is int and 0 <= number < len(entities) for number in pair) or pair[0] == pair[1]:
            raise UserError(
                f"{where}: the head and tail of a relation must be two of the {len(entities)} entities, counted from "
                f"0, not {pair[0]!r} and {pair[1]!r}."
            )
    return entities, relations


def _as_list(entity: Any) -> list:
    return entity if isinstance(entity, list) else [entity]


def _nearest(heads: list[Mention], tails: list[Mention]) -> tuple[Mention, Mention] | None:
    """The nearest mentions of two entities; `None` if they share their only span."""
    pairs = [(head, tail) for head, tail in product(heads, tails) if head[0] != tail[0]]
    if len(pairs) < 2:
        return pairs[0] if pairs else None
    return min(pairs, key=lambda pair: max(pair[0][0][0], pair[1][0][0]) - min(pair[0][0][1], pair[1][0][1]))
