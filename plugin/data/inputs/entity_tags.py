"""Tags that mark entities: IOB, IOBES and BILOU."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

ENTITY_TAG = re.compile(r"O|[BIESLU]-.+")
# The last and the only word of an entity in BILOU, by their names in IOBES.
BILOU = {"L": "E", "U": "S"}


def marks_entities(tags: Iterable[str]) -> bool:
    """Returns true if tags mark entities in IOB, IOBES or BILOU, such as `B-location` and `O`."""
    tags = set(tags) - {"O"}
    return bool(tags) and all(map(ENTITY_TAG.fullmatch, tags))


def entity_spans(tags: Sequence[str]) -> Iterator[tuple[int, int, str]]:
    """
    Finds the entities of a sentence as conlleval does, which takes an I of another type for a B.

    Args:
        tags (`Sequence[str]`): The tag of each word, in IOB, IOBES or BILOU.

    Yields:
        `tuple[int, int, str]`: The first word, the word behind the last one, and the type.
    """
    start, before, kind = 0, "O", ""
    for place, tag in enumerate([*tags, "O"]):
        sign, of = BILOU.get(tag[0], tag[0]), tag[2:]
        begins = sign != "O" and (sign in "BS" or before in "ESO" or of != kind)
        if before != "O" and (begins or sign == "O"):
            yield start, place, kind
        start = place if begins else start
        before, kind = sign, of
