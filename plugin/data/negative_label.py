"""Recognises the label that stands for no relation."""

from __future__ import annotations

import re
from collections.abc import Iterable

from msattn.errors import UserError

# In lower case, without spaces and punctuation.
NEGATIVE_NAMES = frozenset(
    (
        *("none", "noneoftheabove", "null", "nil"),
        *("norel", "norelation", "norelations", "norelationship", "noedge"),
        *("notrelated", "nonrelated", "unrelated"),
        *("other", "others", "otherrelation"),
    )
)
# As likely "not applicable" as "not annotated", sodium or Namibia.
UNCLEAR = "na"


def find_negative_label(labels: Iterable[str]) -> str | None:
    """
    The label that stands for no relation, whatever its spelling: `Other`, `no_relation`, `No Relation`, `NONE`, ...

    Args:
        labels (`Iterable[str]`): All labels.

    Returns:
        `str` or `None`: The label; `None` if no label has such a meaning.

    Raises:
        UserError: More than one label may have this meaning, or only a bare `NA` may.
    """
    found = {label: re.sub(r"[\W_]", "", label.lower()) for label in labels}
    candidates = [label for label, name in found.items() if name in NEGATIVE_NAMES or name == UNCLEAR]
    if not candidates or (len(candidates) == 1 and found[candidates[0]] != UNCLEAR):
        return candidates[0] if candidates else None
    doubt = (
        f"the label {candidates[0]!r} may stand for no relation, or not"
        if len(candidates) == 1
        else f"each of the labels {', '.join(map(repr, candidates))} may stand for no relation"
    )
    raise UserError(f'{doubt}; name the right one with --negative_label, or give --negative_label "" if none does.')
