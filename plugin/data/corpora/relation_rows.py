"""Normalizes relation extraction examples of various formats."""

from __future__ import annotations

import operator
import re
from collections.abc import Mapping
from typing import Any

from msattn.data.files.text_lines import check_cell, check_text
from msattn.errors import UserError, shown
from msattn.plain_numbers import plain_int

TAG = re.compile(r"(</?e[12]>)")


def relation_row(row: Any, where: str) -> dict[str, Any]:
    """
    Normalizes an example.

    The text is `text` or `sentence` (a string), or `token` or `tokens` (a list, joined by spaces; spans then count
    tokens and are converted to characters). The entities are one of

    - `h` and `t`, or `head` and `tail`: `[start, end)`, `{"pos": [start, end)}` (OpenNRE, Wiki80),
      `{"indices": [[...], ...]}` (FewRel on the Hub) or `[name, id, [[...], ...]]` (FewRel). Of several mentions, the
      first one is used;
    - `head_start`, `head_end`, `tail_start` and `tail_end`;
    - the tags `<e1>...</e1>` and `<e2>...</e2>` inside the text.

    The label is `relation` or `label`; an empty or missing one becomes `None`.

    Args:
        row (`Mapping`): The example.
        where (`str`): Its location, which starts the error messages.

    Returns:
        `dict[str, Any]`: `id` (str or None), `text` (str), `head` and `tail` (`[start, end)` in characters) and
        `label` (str or None).

    Raises:
        UserError: The text is missing, an entity is missing, empty or out of range, the entities overlap, or an id or
            label is not a string.
    """
    if not isinstance(row, Mapping):
        raise UserError(f"{where}: an example must be an object with named fields, not {type(row).__name__}.")
    tokens, text = _first(row, "token", "tokens"), _first(row, "text", "sentence")
    if tokens is not None:
        if not isinstance(tokens, list) or not all(isinstance(token, str) for token in tokens):
            raise UserError(f"{where}: the tokens must be a list of strings.")
        text = " ".join(tokens)
    elif not isinstance(text, str):
        raise UserError(f'{where}: an example needs "text" or "sentence" (a string), or "token" (a list of strings).')

    head, tail = _span_field(row, "head"), _span_field(row, "tail")
    if head is None and tail is None and tokens is None:
        text, head, tail = _untag(text, where)
    head = _span(head, "head", tokens, text, where)
    tail = _span(tail, "tail", tokens, text, where)
    if head[0] < tail[1] and tail[0] < head[1]:
        raise UserError(f"{where}: the two entities overlap, at characters {head} and {tail}.")

    identifier = _string(row.get("id"), "id", where)
    label = _string(_first(row, "relation", "label"), "label", where)
    check_text(text, where)
    for name, value in (("id", identifier), ("label", label)):
        check_cell(value, name, where)
    return {"id": identifier, "text": text, "head": head, "tail": tail, "label": label}


def _first(row: Mapping, *names: str) -> Any:
    return next((row[name] for name in names if row.get(name) is not None), None)


def _string(value: Any, name: str, where: str) -> str | None:
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if value is not None and not isinstance(value, str):
        raise UserError(f"{where}: the {name} must be a string, not {shown(value)}.")
    return value or None


def _span_field(row: Mapping, role: str) -> Any:
    """The span of `"head"` or `"tail"` as `[start, end)`, unwrapped but not validated."""
    value = _first(row, role[0], role)
    if value is None and (f"{role}_start" in row or f"{role}_end" in row):
        return [row.get(f"{role}_start"), row.get(f"{role}_end")]
    if isinstance(value, Mapping):
        value = _first(value, "pos", "indices") or []
    elif isinstance(value, list) and len(value) == 3:
        value = value[2]
    if isinstance(value, list) and value and isinstance(value[0], list) and value[0]:
        first, last = value[0][0], value[0][-1]
        value = [first, last + 1 if isinstance(last, int) else last]
    return value


def _span(value: Any, role: str, tokens: list[str] | None, text: str, where: str) -> list[int]:
    """Validates a span and converts it to characters."""
    size, unit = (len(text), "characters") if tokens is None else (len(tokens), "tokens")
    try:
        if isinstance(value, str) or bool in map(type, value):
            raise TypeError
        start, end = [plain_int(bound) if isinstance(bound, str) else operator.index(bound) for bound in value]
    except (TypeError, ValueError):
        raise UserError(
            f"{where}: the {role} needs two whole numbers, [start, end), but has {shown(value)}."
        ) from None
    if not 0 <= start < end <= size:
        raise UserError(
            f"{where}: the {role} span [{start}, {end}) is wrong; it must have 0 <= start < end <= {size}, "
            f"the number of {unit}."
        )
    if tokens is not None:
        start, end = sum(map(len, tokens[:start])) + start, sum(map(len, tokens[:end])) + end - 1
        if start == end:
            raise UserError(f"{where}: the {role} is empty.")
    return [start, end]


def _untag(tagged: str, where: str) -> tuple[str, list[int], list[int]]:
    """Removes the tags of `<e1>...</e1>` and `<e2>...</e2>`, and returns the text with the spans of both entities."""
    pieces = TAG.split(tagged)
    position, bounds = 0, {}
    for piece, tag in zip(pieces[::2], pieces[1::2] + [""], strict=True):
        position += len(piece)
        if tag in bounds:
            raise UserError(f"{where}: the tag {tag} occurs twice; each of the two entities is marked once.")
        bounds[tag] = position
    for tag in ("<e1>", "</e1>", "<e2>", "</e2>"):
        if tag not in bounds:
            raise UserError(f"{where}: the tag {tag} is missing, and no field gives the entities' positions.")
    for name in ("e1", "e2"):
        if bounds[f"<{name}>"] >= bounds[f"</{name}>"]:
            raise UserError(f"{where}: the entity {name} is empty or its tags are reversed.")
    return "".join(pieces[::2]), [bounds["<e1>"], bounds["</e1>"]], [bounds["<e2>"], bounds["</e2>"]]
