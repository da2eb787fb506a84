"""The forms of input of the pipeline `"relation-extraction"`: text with marked entities, or with a list of them."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate, permutations, product
from numbers import Integral
from typing import Any

from transformers.utils import logging

from msattn.data.files.checked_text import check_text
from msattn.data.pair_rules import PairRules
from msattn.data.relation_rows import NAMES, TAG, first_of, marks_pair, one_sequence, relation_row, string_cell
from msattn.data.spans import character_span, check_name, cuts_word, distance, name_places, without_space
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


def read_input(inputs: Any, pairs: Sequence | str | None = None, rules: PairRules | None = None) -> Sentence:
    """
    Reads an input of the pipeline.

    Args:
        inputs (`Any`):
            A text with tags, a row of [`~msattn.data.relation_rows.relation_row`], `{"text" or "tokens",
            "entities"}` or a spaCy `Doc` or `Span`, whose offsets count from its start, and whose sentences hold if it
            has any.
        pairs (`Sequence` or `"all"`, *optional*):
            Pairs of entities: numbers, from 0, or types. Default: all pairs that the rules keep; with `"all"`, of any
            types.
        rules (`PairRules`, *optional*): Pairs that are kept. Pairs of numbers are in any case. Default: all.

    Raises:
        UserError: The text is not a string, an entity is empty or out of range or cuts a word, or a pair names an
            entity that is not there.
    """
    starts = None
    if hasattr(inputs, "ents") and hasattr(inputs, "text"):
        start = getattr(inputs, "start_char", 0)  # a `Span` has the text of its own, and offsets of its document
        entities = [
            {"start": ent.start_char - start, "end": ent.end_char - start, "label": ent.label_} for ent in inputs.ents
        ]
        if getattr(inputs, "doc", inputs).has_annotation("SENT_START"):
            starts = [sentence.start_char - start for sentence in inputs.sents]
        inputs = {"text": inputs.text, "entities": entities}
    inputs = one_sequence(inputs) if isinstance(inputs, Mapping) else inputs
    if isinstance(inputs, Mapping) and inputs.get("entities") is not None:
        own = inputs.get("pairs")
        return _several(inputs, pairs if own is None else own, rules or PairRules(), starts)
    if pairs not in (None, "all"):
        raise UserError('the input marks one pair; pairs= needs {"text": ..., "entities": [...]}.')
    return _marked_pair(inputs)


def is_plain_text(inputs: Any) -> bool:
    """Whether an input is a text without tags."""
    return isinstance(inputs, str) and not TAG.search(_with_tags(inputs))


def text_alone(inputs: Any) -> str | None:
    """The text of an input that says nothing of entities; `None` for others."""
    names = ("entities", "pairs", "spans", "annotations")  # the last two are those of annotation tools
    if isinstance(inputs, Mapping) and first_of(inputs, *names) is None and not marks_pair(inputs):
        inputs = first_of(inputs, "text", "sentence")
    return inputs if is_plain_text(inputs) else None


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
        raise UserError(f"{error}{'' if 'The text: ' in str(error) else _quoted(row, str(error))}") from None
    text, units, given = example["text"], sequence_of(row), []
    for role in ("head", "tail"):
        if units == text:
            _check_border(text, example[role], role)
        given.append(_shown(text, example[role], units, example[f"{role}_type"]))
    types = [example["head_type"], example["tail_type"]]
    return Sentence(text, [example["head"], example["tail"]], types, given, [(0, 1)], marked=True)


def _several(row: Mapping, pairs: Sequence | str | None, rules: PairRules, starts: Sequence[int] | None) -> Sentence:
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
    if not isinstance(entities, (list, tuple)):
        raise UserError(f'{WHERE}: the entities must be a list of {{"start", "end", "label"}} or names.')
    check_text(text, WHERE)
    spans: list[list[int]] = []
    types, given, bad, owners = [], [], {}, []
    for number, of_text in enumerate(_merged(entities, text)):
        for entity in _mentions(of_text, text if tokens is None else tokens):
            of = next((entity[name] for name in ("label", "type", "entity_group", "entity") if entity.get(name)), None)
            try:
                span = _span(entity, f"entity {number}", tokens, text)
                types.append(string_cell(of, f"label of entity {number}", WHERE))
            except UserError as error:
                span, bad[len(spans)] = [0, len(text)], error
                types.append(None)
            shown_entity = _shown(text, span, tokens if tokens is not None else text, types[-1])
            unread = {name: entity[name] for name in ("start", "end", "text") if entity.get(name) is not None}
            given.append(unread if len(spans) in bad else shown_entity)
            spans.append(span)
            owners.append(number)
    return Sentence(text, spans, types, given, _pairs(pairs, text, spans, types, owners, rules, starts), bad=bad)


def _mentions(entity: Any, units: str | list[str]) -> list[dict[str, Any]]:
    """The mentions of an entity: one, those that are given, or all places of its name."""
    if isinstance(entity, (list, tuple)) and entity and not isinstance(entity[0], Integral):
        return [mention for each in entity for mention in _mentions(each, units)]
    if isinstance(entity, (list, tuple)) and len(entity) in (2, 3):
        return [dict(zip(("start", "end", "label"), entity, strict=False))]
    if not isinstance(entity, Mapping):
        entity = {"text": entity} if isinstance(entity, str) else {"unread": entity}
    name = first_of(entity, *NAMES)
    if entity.get("start") is None and isinstance(name, str):
        return [{**entity, "text": name, "start": at, "end": end} for at, end in _named_spans(name, units)] or [
            dict(entity)
        ]
    return [dict(entity)]


def _named_spans(name: str, units: str | list[str]) -> list[tuple[int, int]]:
    """Where a text, or its tokens, have a name."""
    if isinstance(units, str):
        return [(at, at + len(name.strip())) for at in name_places(name, units)]
    words = name.split()
    return [(at, at + len(words)) for at in range(len(units)) if words and units[at : at + len(words)] == words]


def _span(entity: Mapping, what: str, tokens: list[str] | None, text: str) -> list[int]:
    """The checked span of an entity, in characters."""
    if "unread" in entity:
        raise UserError(
            f'{WHERE}: {what} is no {{"start", "end", "label"}}, span or name, but {shown(entity["unread"])}.'
        )
    bounds = [entity.get("start"), entity.get("end")]
    if bounds == [None, None] and (name := next((entity[name] for name in NAMES if entity.get(name)), None)):
        raise UserError(f"{WHERE}: {what}, {shown(name)}, is not in the text.")
    span = character_span(bounds, what, tokens, text, WHERE)
    name, word = entity.get("text", entity.get("name")), entity.get("word")
    # The "word" of a tagger is made of its sub-words, so that the text need not have it.
    if name is None and isinstance(word, str) and name_places(word, text):
        name = word
    check_name(name, bounds, text if tokens is None else tokens, what, WHERE)
    if tokens is None and "score" not in entity:  # a tagger may cut words
        _check_border(text, span, what)
    return without_space(text, *span)


def _merged(entities: Sequence, text: str) -> list[Any]:
    """Joins the tokens of a token-classification pipeline that does not aggregate: B-PER, I-PER to PER."""
    merged: list[Any] = []
    for entity in entities:
        tag = entity.get("entity") if isinstance(entity, Mapping) else None
        if not isinstance(tag, str) or "index" not in entity:
            merged.append(entity)
            continue
        prefix, name = (tag[0], tag[2:]) if tag[1:2] == "-" and tag[0] in "BIESLU" else ("", tag)
        last = merged[-1] if merged and isinstance(merged[-1], dict) else {}
        follows = last.get("index") == entity["index"] - 1 and last.get("entity") == name
        start = entity.get("start")
        in_word = start is not None and last.get("end") == start and not text[start : start + 1].isspace()
        if follows and (prefix not in tuple("BSU") or in_word):
            last.update(end=entity["end"], index=entity["index"], word=None)
        else:
            merged.append({**entity, "entity": name})
    return merged


def check_pairs(pairs: Sequence | str | None) -> None:
    """Raises `UserError` if pairs are neither all nor of two numbers or two types each."""
    for pair in () if pairs == "all" else [pairs] if isinstance(pairs, str) else pairs or ():
        if not isinstance(pair, (tuple, list)) or len(pair) != 2 or len({type(part) for part in pair}) != 1:
            raise UserError(f'pairs are "all", or of two numbers of entities or two types each, not {pair!r}.')


def _pairs(
    pairs: Sequence | str | None,
    text: str,
    spans: list[list[int]],
    types: list[str | None],
    owners: list[int],
    rules: PairRules,
    starts: Sequence[int] | None,
) -> list[tuple[int, int]]:
    """Pairs of mentions, of each pair of entities the nearest ones that the rules keep, or else the nearest."""
    asked = None if pairs is None or pairs == "all" else pairs
    if asked is not None or pairs == "all":
        rules = replace(rules, types=None)

    def keeps(pair: tuple[int, int]) -> bool:
        head, tail = pair
        return rules.keeps(text, (spans[head], spans[tail], types[head], types[tail]), starts)

    of_entities = _nearest_mentions(spans, owners, keeps)
    numbers, allowed = [], set()
    check_pairs(asked)
    for pair in asked or ():
        if isinstance(pair[0], str):
            allowed.add(tuple(pair))
        elif isinstance(pair[0], Integral) and tuple(pair) in of_entities:
            numbers.append(of_entities[tuple(pair)])
        else:
            raise UserError(f"the pair {shown(pair)} is not of two different ones of the {len({*owners})} entities.")
    for of in {of for pair in allowed for of in pair}.difference(types) if types else ():
        logger.warning_once(f"pairs: no entity of a text has the type {of!r}, so it has no such pair; is it spelt so?")
    kept = [pair for pair in of_entities.values() if keeps(pair)]
    if asked is None:
        return kept
    further = {*kept}.difference(numbers) if allowed else ()
    return [*numbers, *(pair for pair in kept if (types[pair[0]], types[pair[1]]) in allowed and pair in further)]


def _nearest_mentions(
    spans: list[list[int]], owners: list[int], keeps: Callable[[tuple[int, int]], bool]
) -> dict[tuple[int, int], tuple[int, int]]:
    """
    The nearest mentions of each two entities, by the numbers of these, without those that share their only span.
    Mentions that are kept come before nearer ones.
    """
    mentions: dict[int, list[int]] = {}
    for mention, owner in enumerate(owners):
        mentions.setdefault(owner, []).append(mention)

    def apart(pair: tuple[int, int]) -> tuple[bool, int]:
        return not keeps(pair), distance(spans[pair[0]], spans[pair[1]])

    nearest = {}
    for head, tail in permutations(mentions, 2):
        found = [pair for pair in product(mentions[head], mentions[tail]) if spans[pair[0]] != spans[pair[1]]]
        if found:
            nearest[head, tail] = found[0] if len(found) == 1 else min(found, key=apart)
    return nearest


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
    return first_of(row, "token", "tokens", "text", "sentence")


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
