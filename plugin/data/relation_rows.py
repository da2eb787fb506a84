"""Normalizes relation extraction examples of various formats."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any
from unicodedata import category

from msattn.data.files.checked_text import check_cell, check_text
from msattn.data.spans import character_span, check_name, mention_span, whole, whole_words, without_space
from msattn.errors import UserError, shown

TAGS = ("<e1>", "</e1>", "<e2>", "</e2>")
TAG = re.compile(r"(</?e[12]>)")
BOUNDS = re.compile(r"[\[(]\s*([\d.]+)\s*,\s*([\d.]+)\s*[\])]")
# Fields of an entity that have its name.
NAMES = ("name", "text", "word")
# The names of head and tail in the fields of TACRED.
TACRED_ROLES = {"head": "subj", "tail": "obj"}


def relation_row(row: Any, where: str, span_ends: str | None = None) -> dict[str, Any]:
    """
    Normalizes an example.

    The text is `text` or `sentence` (a string), or `token` or `tokens` (a list, joined by spaces; spans then count
    tokens and are converted to characters); see [`one_sequence`] for rows that have both. The entities are one of

    - `h` and `t`, or `head` and `tail`: `[start, end)`, `[start, end, type]`, `"[start, end]"` (CSV),
      `{"start": start, "end": end}`, `{"pos": [start, end)}` (OpenNRE, Wiki80), `{"indices": [[...], ...]}` (FewRel on
      the Hub) or `[name, id, [[...], ...]]` (FewRel). Of several mentions, the first one is used;
    - `head_start`, `head_end`, `tail_start` and `tail_end`;
    - the words of `head` and `tail`, if the text has them once, or at the character `head_offset` or `tail_offset`
      (DeepKE);
    - `subj_start`, `subj_end`, `obj_start` and `obj_end` (TACRED), where `end` is the last token of the entity;
    - the tags `<e1>...</e1>` and `<e2>...</e2>` inside the text; spaces inside of them belong to no entity.

    Case and spaces around names of fields do not count. Bounds may be whole numbers, floats without a fraction, or
    strings of either. The type of an entity is `head_type` or `tail_type`, `subj_type` or `obj_type`, or the `type` or
    `label` of its object. The label is `relation` or `label`. An empty or missing type or label becomes `None`.

    Args:
        row (`Mapping`): The example.
        where (`str`): Its location, which starts the error messages.
        span_ends (`str`, *optional*):
            Whether the end of a span is `"inclusive"`, the last character or token of the entity, or `"exclusive"`,
            the first one behind it. Default: exclusive, but for TACRED.

    Returns:
        `dict[str, Any]`: `id` (str or None), `text` (str), `head` and `tail` (`[start, end)` in characters),
        `head_type`, `tail_type` and `label` (str or None).

    Raises:
        UserError: The text is missing, an entity is missing, empty or out of range or has another name than its span,
            both entities have the same span, or an id, type or label is not a string.
    """
    if not isinstance(row, Mapping):
        raise UserError(f"{where}: an example must be an object with named fields, not {type(row).__name__}.")
    row = one_sequence(_with_plain_names(row))
    tokens, text = first_of(row, "token", "tokens"), first_of(row, "text", "sentence")
    if tokens is not None:
        if not isinstance(tokens, list) or not all(isinstance(token, str) for token in tokens):
            raise UserError(f"{where}: the tokens must be a list of strings.")
        text = " ".join(tokens)
    elif not isinstance(text, str):
        raise UserError(
            f'{where}: an example needs "text" or "sentence" (a string), or "token" (a list of strings); {_seen(row)}.'
        )

    units = text if tokens is None else None
    (head, head_type), (tail, tail_type) = (_entity(row, role, span_ends, units, where) for role in ("head", "tail"))
    if head is None and tail is None and tokens is None:
        text, head, tail = _untag(text, where, row)
    elif tokens is None and {*TAGS} <= {*TAG.findall(text)}:
        raise UserError(
            f"{where}: the text marks its entities with {TAGS[0]}, and a field (head, tail, ...) gives them, too; "
            "leave out the tags or the fields."
        )
    bounds = {"head": head, "tail": tail}
    head, tail = (character_span(span, role, tokens, text, where) for role, span in bounds.items())
    for role, span in bounds.items():
        check_name(_name(row, role), span, tokens if tokens is not None else text, role, where)
    if head == tail:
        raise UserError(f"{where}: both entities are at characters {head}; a relation is between two.")
    return {
        "text": check_text(text, where),
        "head": head,
        "tail": tail,
        "id": string_cell(row.get("id"), "id", where),
        "head_type": string_cell(head_type, "head type", where),
        "tail_type": string_cell(tail_type, "tail type", where),
        "label": string_cell(first_of(row, "relation", "label"), "label", where),
    }


def marks_pair(row: Mapping) -> bool:
    """Returns true if a field of a row says where its head or its tail is."""
    row = _with_plain_names(row)
    return any(_entity(row, role, None, None, "")[0] is not None for role in TACRED_ROLES)


def _with_plain_names(row: Mapping) -> dict[str, Any]:
    """A row whose names of fields are also there without case and spaces around them."""
    return {str(name).strip().casefold(): value for name, value in row.items()} | dict(row)


def one_sequence(row: Mapping) -> Mapping:
    """
    A row without its text or without its tokens, if it has both.

    Its spans count characters if they all begin and end with words of the text and cut no token, or if one of them
    ends behind the last token; otherwise they count tokens.
    """
    tokens, text = first_of(row, "token", "tokens"), first_of(row, "text", "sentence")
    if not isinstance(tokens, list) or not isinstance(text, str) or not all(isinstance(each, str) for each in tokens):
        return row
    try:
        entities = row.get("entities")
        if entities is None:
            entities = [_entity(row, role, None, text, "")[0] for role in ("head", "tail")]
        bounds = [
            (each["start"], each["end"]) if isinstance(each, Mapping) else each[:2]
            for entity in entities
            for each in (entity if isinstance(entity, list) and isinstance(entity[0], Mapping) else [entity])
            if not isinstance(each, str)
        ]
        spans = [(whole(start), whole(end)) for start, end in bounds]
    except (UserError, LookupError, TypeError, ValueError):
        spans = []  # whoever reads the entities says what is wrong
    inside = _inside_tokens(text, tokens)
    characters = all(text[slice(*span)] and whole_words(text, span) and inside.isdisjoint(span) for span in spans)
    others = ("token", "tokens") if characters or max(end for _, end in spans) > len(tokens) else ("text", "sentence")
    return {name: value for name, value in row.items() if name not in others}


def _inside_tokens(text: str, tokens: list[str]) -> set[int]:
    """The bounds within the tokens of a text between two letters, in any script; none if the text lacks a token."""
    inside: set[int] = set()
    end = 0
    for token in tokens:
        start = text.find(token, end)
        if start < 0:
            return set()
        end = start + len(token)
        letters = [category(sign)[0] in "LM" for sign in token]
        inside.update(start + at for at in range(1, len(token)) if letters[at - 1] and letters[at])
    return inside


def _seen(row: Mapping) -> str:
    """The end of an error message: the fields of a row."""
    names = {str(name).strip().casefold(): name for name in row}
    return f"it has {', '.join(map(shown, names.values())) or 'none'}"


def first_of(row: Mapping, *names: str) -> Any:
    """The value of the first of these fields that is there and not `None`."""
    return next((row[name] for name in names if row.get(name) is not None), None)


def string_cell(value: Any, name: str, where: str) -> str | None:
    """
    A label, type or id as a string without white space around it; `None` if it is empty or missing.

    Raises:
        UserError: It is neither a string nor a whole number, or has a tab or a line end.
    """
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if value is not None and not isinstance(value, str):
        raise UserError(f"{where}: the {name} must be a string, not {shown(value)}.")
    return check_cell(value and value.strip(), name, where) or None


def _entity(row: Mapping, role: str, span_ends: str | None, text: str | None, where: str) -> tuple[Any, Any]:
    """The span of `"head"` or `"tail"`, unwrapped and with an exclusive end, but not validated, and the type."""
    value, tacred = first_of(row, role[0], role), TACRED_ROLES[role]
    kind = first_of(row, f"{role}_type", f"{tacred}_type")
    inclusive = span_ends == "inclusive"
    if value is None and f"{tacred}_start" in row:
        value, inclusive = [row[f"{tacred}_start"], row.get(f"{tacred}_end")], span_ends != "exclusive"
    elif first_of(row, f"{role}_start", f"{role}_end") is not None and not isinstance(value, (list, Mapping)):
        value = [row.get(f"{role}_start"), row.get(f"{role}_end")]
    elif isinstance(value, Mapping):
        kind = first_of(value, "type", "label") or kind
        # Without a span, the object itself goes into the error message.
        value = [value["start"], value.get("end")] if "start" in value else first_of(value, "pos", "indices") or value
    elif text is not None and isinstance(value, str) and not _is_span(value):
        place = first_of(row, f"{role}_offset")
        value, inclusive = mention_span(value, text, place, role, where), False
    elif isinstance(value, str) and (bounds := BOUNDS.fullmatch(value.strip())):
        value = list(bounds.groups())
    elif isinstance(value, list) and len(value) == 3:
        value, kind = (value[:2], value[2]) if isinstance(value[2], str) else (value[2], kind)
    if isinstance(value, list) and value and isinstance(value[0], list) and value[0]:
        value, inclusive = [value[0][0], value[0][-1]], True  # the numbers of all tokens
    return _through(*value) if inclusive and isinstance(value, list) and len(value) == 2 else value, kind


def _through(first: Any, last: Any) -> list:
    """`[start, end)` from the first and the last token."""
    try:
        return [first, whole(last) + 1]
    except (TypeError, ValueError, OverflowError):
        return [first, last]


def _name(row: Mapping, role: str) -> Any:
    """The name of an entity, if there is one: in its object, or beside its bounds."""
    value = first_of(row, role[0], role)
    return first_of(value, *NAMES) if isinstance(value, Mapping) else None if _is_span(value) else value


def _is_span(value: Any) -> bool:
    return not isinstance(value, str) or BOUNDS.fullmatch(value.strip()) is not None


def _untag(tagged: str, where: str, row: Mapping) -> tuple[str, list[int], list[int]]:
    """Removes the tags of `<e1>...</e1>` and `<e2>...</e2>`, and returns the text with the spans of both entities."""
    pieces = TAG.split(tagged)
    position, bounds = 0, {}
    for piece, tag in zip(pieces[::2], pieces[1::2] + [""], strict=True):
        position += len(piece)
        if tag in bounds:
            raise UserError(f"{where}: the tag {tag} occurs twice; each of the two entities is marked once.")
        bounds[tag] = position
    for tag in TAGS:
        if tag not in bounds:
            raise UserError(
                f"{where}: the tag {tag} is missing, and no field (head, tail, ...) gives the entities' positions; "
                f"{_seen(row)}."
            )
    for name in ("e1", "e2"):
        if bounds[f"<{name}>"] >= bounds[f"</{name}>"]:
            raise UserError(f"{where}: the entity {name} is empty or its tags are reversed.")
    text = "".join(pieces[::2])
    head, tail = (without_space(text, bounds[f"<{name}>"], bounds[f"</{name}>"]) for name in ("e1", "e2"))
    return text, head, tail
