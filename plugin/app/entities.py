"""The entities of a text, as a tagger finds them and as visitors of the page mark them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from transformers import Pipeline

from msattn.errors import UserError
from msattn.pipelines.relation_inputs import cuts_word
from msattn.pipelines.word_tagger import WordTagger

# `start` and `end` in characters, the `text` between, `label`, and the tagger's `score` or `marked` by a visitor.
Entity = dict[str, Any]


def finds_entities(tagger: Pipeline | WordTagger) -> bool:
    """Whether the tags are those of entities, as `B-person`, or `person` beside `O`, and not of words, as `NOUN`."""
    labels = tagger.model.config.id2label.values()
    return "O" in labels or any(label.startswith(("B-", "I-")) for label in labels)


def found(tagger: WordTagger, text: str) -> list[Entity]:
    """
    The entities of a text, or its words with their tags if the tagger is one of words.

    Args:
        tagger (`WordTagger`): The tagger.
        text (`str`): The text.
    """
    if finds_entities(tagger):
        return tagger.entities(text)
    return [{name: word[name] for name in ("start", "end", "text", "label")} for word in tagger.words(text)]


def mark(text: str, entities: Sequence[Entity], span: Sequence[int], label: str | None = None) -> list[Entity]:
    """
    Adds an entity, in place of those that it overlaps. A word that is selected in part is taken as a whole.

    Args:
        text (`str`): The text.
        entities (`Sequence[Entity]`): The entities so far.
        span (`Sequence[int]`): The selected characters, `[start, end)`.
        label (`str`, *optional*): The type of the entity.

    Raises:
        UserError: No word is selected.
    """
    if not text[slice(*span)].strip():
        raise UserError("Select the words of an entity in the text first.")
    return _put(entities, {**_entity(text, span[0], span[1], label), "marked": True})


def unmark(entities: Sequence[Entity], span: Sequence[int]) -> list[Entity]:
    """
    Removes the entities that the selection or the cursor touches.

    Args:
        entities (`Sequence[Entity]`): The entities.
        span (`Sequence[int]`): The selected characters, `[start, end)`; for a cursor, both are equal.

    Raises:
        UserError: It touches none.
    """
    kept = [entity for entity in entities if entity["end"] < span[0] or entity["start"] > span[1]]
    if len(kept) == len(entities):
        raise UserError("Put the cursor into an entity of the text first, or select some.")
    return kept


def marked_still(text: str, entities: Sequence[Entity]) -> list[Entity]:
    """The entities that a visitor has marked and that stand in the text where they stood before it changed."""
    return [one for one in entities if one.get("marked") and text[one["start"] : one["end"]] == one["text"]]


def merged(entities: Sequence[Entity], others: Sequence[Entity]) -> list[Entity]:
    """The entities and the others, which replace those that they overlap."""
    entities = list(entities)
    for other in others:
        entities = _put(entities, other)
    return entities


def _put(entities: Sequence[Entity], new: Entity) -> list[Entity]:
    apart = [one for one in entities if one["end"] <= new["start"] or one["start"] >= new["end"]]
    return sorted([*apart, new], key=lambda one: one["start"])


def _entity(text: str, start: int, end: int, label: str | None) -> Entity:
    """An entity of whole words, without the white space around them."""
    words = text[start:end]
    start += len(words) - len(words.lstrip())
    end -= len(words) - len(words.rstrip())
    while cuts_word(text, start):
        start -= 1
    while cuts_word(text, end):
        end += 1
    return {"start": start, "end": end, "text": text[start:end], "label": label or "entity"}
