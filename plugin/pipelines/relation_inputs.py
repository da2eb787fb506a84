"""The forms of input of the pipeline `"relation-extraction"`: text with marked entities, or with a list of them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, permutations
from numbers import Integral
from typing import Any

from transformers.utils import logging

from msattn.data.files.checked_text import check_text
from msattn.data.relation_rows import TAG, relation_row, string_cell
from msattn.data.spans import character_span, check_name, cuts_word
from msattn.errors import UserError, shown

logger = logging.get_logger(__name__)

WHERE = "the input"


@dataclass
class Sentence:
    """
    A text with its entities and the pairs of them to classify.

    Args:
        text (`str`): The text.
        spans (`list[list[int]]`): The entities, `[start, end)` in characters.
        types (`list[str | None]`): Their types.
        given (`list[dict[str, Any]]`):
            The entities as results show them: `start`, `end` (in the unit of the input), `text` and maybe `label`.
        pairs (`list[tuple[int, int]]`): Head and tail of each pair.
        marked (`bool`): Whether the input is one marked pair, whose result is no list.
        bad (`dict[int, UserError]`): What is wrong with entities that cannot be read; their spans are the whole text.
    """

    text: str
    spans: list[list[int]]
    types: list[str | None]
    given: list[dict[str, Any]]
    pairs: list[tuple[int, int]]
    marked: bool = False
    bad: dict[int, UserError] = field(default_factory=dict)

    def entities(self, head: int, tail: int) -> dict[str, dict[str, Any]]:
        """Two entities as a result shows them. They are copies, as a caller may change a result, such as its spans."""
        return {"head": dict(self.given[head]), "tail": dict(self.given[tail])}


def read_input(inputs: Any, pairs: Sequence | None = None, both_orders: bool = True) -> Sentence:
    """
    Reads an input of the pipeline.

    Args:
        inputs (`Any`):
            A text with tags, a row of [`~msattn.data.relation_rows.relation_row`], `{"text" or "tokens",
            "entities"}` or a spaCy `Doc` or `Span`, whose offsets count from its start.
        pairs (`Sequence`, *optional*):
            Pairs of entities: numbers, from 0, or types. Default: all pairs of different spans.
        both_orders (`bool`, *optional*, defaults to `True`):
            Whether a tail may come before its head in the text. Pairs of numbers may in any case.

    Raises:
        UserError: The text is not a string, an entity is empty or out of range or cuts a word, or a pair names an
            entity that is not there.
    """
    if hasattr(inputs, "ents") and hasattr(inputs, "text"):
        start = getattr(inputs, "start_char", 0)  # a `Span` has the text of its own, and offsets of its document
        entities = [
            {"start": ent.start_char - start, "end": ent.end_char - start, "label": ent.label_} for ent in inputs.ents
        ]
        inputs = {"text": inputs.text, "entities": entities}
    if isinstance(inputs, Mapping) and inputs.get("entities") is not None:
        return _several(inputs, inputs.get("pairs", pairs), both_orders)
    if pairs is not None:
        raise UserError('the input marks one pair; pairs= needs {"text": ..., "entities": [...]}.')
    return _marked_pair(inputs)


def is_plain_text(inputs: Any) -> bool:
    """Whether an input is a text without tags."""
    return isinstance(inputs, str) and not TAG.search(_with_tags(inputs))


def _with_tags(text: str) -> str:
    return re.sub(r"\[(/?)E([12])\]", r"<\1e\2>", text)


def _marked_pair(inputs: Any) -> Sentence:
    if not isinstance(inputs, (str, Mapping)):
        raise UserError(f"{WHERE} must be an object with named fields, or a text, not {type(inputs).__name__}.")
    if isinstance(inputs, str) and is_plain_text(inputs):
        raise UserError(
            f"{WHERE}: the tag <e1> is missing; mark two entities as <e1>...</e1> and <e2>...</e2>, give "
            '{"text": ..., "entities": [...]}, or name a model that finds them, entities=. '
            f"The text there: {around(inputs, 0, 0)!r}."
        )
    row = {"text": _with_tags(inputs)} if isinstance(inputs, str) else inputs
    try:
        example = relation_row(row, WHERE)
    except UserError as error:
        raise UserError(f"{error}{_quoted(row, str(error))}") from None
    text, units, given = example["text"], sequence_of(row), []
    for role in ("head", "tail"):
        if units == text:
            _check_border(text, example[role], role)
        given.append(_shown(text, example[role], units, example[f"{role}_type"]))
    types = [example["head_type"], example["tail_type"]]
    return Sentence(text, [example["head"], example["tail"]], types, given, [(0, 1)], marked=True)


def _several(row: Mapping, pairs: Sequence | None, both_orders: bool) -> Sentence:
    units, entities = sequence_of(row), row["entities"]
    tokens = None
    if isinstance(units, (list, tuple)):
        tokens = list(units)
        if not all(isinstance(token, str) for token in tokens):
            raise UserError(f"{WHERE}: the tokens must be a list of strings.")
        text = " ".join(tokens)
    elif isinstance(units, str):
        text = units
    else:
        raise UserError(f'{WHERE} needs "text" (a string) or "tokens" (a list) beside its entities, not {units!r}.')
    if not isinstance(entities, (list, tuple)) or not all(isinstance(entity, Mapping) for entity in entities):
        raise UserError(f'{WHERE}: the entities must be a list of {{"start", "end", "label"}}.')
    check_text(text, WHERE)
    spans, types, given, bad = [], [], [], {}
    for number, entity in enumerate(_merged(entities)):
        try:
            span = _span(entity, f"entity {number}", tokens, text)
        except UserError as error:
            span, bad[number] = [0, len(text)], error
        spans.append(span)
        of = next((entity[name] for name in ("label", "type", "entity_group", "entity") if entity.get(name)), None)
        types.append(string_cell(of, f"label of entity {number}", WHERE))
        shown_entity = _shown(text, span, tokens if tokens is not None else text, types[-1])
        given.append(shown_entity if number not in bad else {"start": entity.get("start"), "end": entity.get("end")})
    return Sentence(text, spans, types, given, _pairs(pairs, spans, types, both_orders), bad=bad)


def _span(entity: Mapping, what: str, tokens: list[str] | None, text: str) -> list[int]:
    """The checked span of an entity, in characters."""
    bounds = [entity.get("start"), entity.get("end")]
    span = character_span(bounds, what, tokens, text, WHERE)
    if tokens is None and "score" not in entity:  # a tagger may cut words
        _check_border(text, span, what)
    # The "word" of a tagger is made of its sub-words.
    check_name(entity.get("text", entity.get("name")), bounds, text if tokens is None else tokens, what, WHERE)
    return span


def _merged(entities: Sequence[Mapping]) -> list[dict[str, Any]]:
    """Joins the tokens of a token-classification pipeline that does not aggregate: B-PER, I-PER to PER."""
    merged: list[dict[str, Any]] = []
    for entity in entities:
        tag = entity.get("entity")
        if not isinstance(tag, str) or "index" not in entity:
            merged.append(dict(entity))
            continue
        prefix, name = (tag[0], tag[2:]) if tag[1:2] == "-" and tag[0] in "BIESLU" else ("", tag)
        last = merged[-1] if merged else {}
        follows = last.get("index") == entity["index"] - 1 and last.get("entity") == name
        if follows and (prefix not in tuple("BSU") or last["end"] == entity["start"]):
            last.update(end=entity["end"], index=entity["index"])
        else:
            merged.append({**entity, "entity": name})
    return merged


def _pairs(
    pairs: Sequence | None, spans: list[list[int]], types: list[str | None], both_orders: bool
) -> list[tuple[int, int]]:
    known = {(head, tail) for head, tail in permutations(range(len(spans)), 2) if spans[head] != spans[tail]}
    every = [(head, tail) for head, tail in sorted(known) if both_orders or spans[head] < spans[tail]]
    if pairs is None:
        return every
    numbers, allowed = [], set()
    for pair in pairs:
        if not isinstance(pair, (tuple, list)) or len(pair) != 2 or len({type(part) for part in pair}) != 1:
            raise UserError(f"pairs must be of two numbers of entities or of two types, not {pair!r}.")
        if isinstance(pair[0], str):
            allowed.add(tuple(pair))
        elif isinstance(pair[0], Integral) and tuple(pair) in known:
            numbers.append((int(pair[0]), int(pair[1])))
        else:
            raise UserError(f"the pair {shown(pair)} is not of two different ones of the {len(spans)} entities.")
    for of in {of for pair in allowed for of in pair}.difference(types) if types else ():
        logger.warning_once(f"pairs: no entity of a text has the type {of!r}, so it has no such pair; is it spelt so?")
    further = known.difference(numbers)
    return [*numbers, *(pair for pair in every if (types[pair[0]], types[pair[1]]) in allowed and pair in further)]


def _shown(text: str, span: list[int], units: Any, of: str | None) -> dict[str, Any]:
    """An entity as results show it."""
    start, end = span
    shown = {"start": start, "end": end, "text": text[start:end]}
    if isinstance(units, list):
        starts = [0, *accumulate(len(token) + 1 for token in units)]
        shown |= {"start": starts.index(start), "end": starts.index(end + 1)}
    return shown if of is None else {**shown, "label": of}


def sequence_of(row: Any) -> str | Sequence | None:
    """The sequence that the spans of an input index: its tokens or its text."""
    return next((row[name] for name in ("token", "tokens", "text", "sentence") if row.get(name) is not None), None)


def _check_border(text: str, span: Sequence[int], what: str) -> None:
    """Raises `UserError` if a span boundary cuts a word."""
    start, end = span
    if cuts_word(text, start) or cuts_word(text, end):
        raise UserError(
            f"{WHERE}: the {what} span [{start}, {end}) cuts a word, {text[start:end]!r} in "
            f"{around(text, start, end)!r}; count its characters again, or mark it as <e1>...</e1> if meant."
        )


def _quoted(row: Any, message: str) -> str:
    """The end of an error message: the text around the span that it is about."""
    units = sequence_of(row) if isinstance(row, Mapping) else None
    if not isinstance(units, (str, list)):
        return ""
    role = "tail" if "the tail" in message else "head"
    span = row.get(role, row.get(role[0]))
    if not (isinstance(span, (list, tuple)) and len(span) == 2 and all(isinstance(bound, int) for bound in span)):
        span = (0, 0)
    return f" The text there: {around(units, *span)!r}."


def around(units: str | Sequence, start: int, end: int) -> str:
    """A span with its context: 40 characters or 8 tokens on each side."""
    reach = 40 if isinstance(units, str) else 8
    first = max(0, min(start, len(units)) - reach)
    last = max(0, min(end, len(units))) + reach
    cut = units[first:last]
    words = cut if isinstance(cut, str) else " ".join(map(str, cut))
    return f"{'...' if first else ''}{words}{'...' if last < len(units) else ''}"
