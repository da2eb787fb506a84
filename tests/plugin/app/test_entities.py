from __future__ import annotations

from types import SimpleNamespace

import pytest

from msattn.app.entities import finds_entities, found, mark, unmark
from msattn.errors import UserError
from tests.tiny_models import tiny_tokenizer

TEXT = "the unsdog wrote a book ."


def spans(entities):
    return [(one["start"], one["end"], one["label"]) for one in entities]


class Tagger:
    """A pipeline with these answers."""

    def __init__(self, answers, *labels):
        self.answers, self.tokenizer = answers, tiny_tokenizer()
        self.model = SimpleNamespace(config=SimpleNamespace(id2label=dict(enumerate(labels))))

    def __call__(self, text, **options):
        return self.answers


def test_a_word_cut_by_a_tagger_is_whole_and_of_its_first_part():
    groups = [
        {"start": 4, "end": 6, "entity_group": "animal", "score": 0.5},
        {"start": 6, "end": 10, "entity_group": "thing", "score": 0.5},
        {"start": 18, "end": 23, "entity_group": "thing", "score": 0.5},
    ]
    tagger = Tagger(groups, "B-animal", "O")
    assert finds_entities(tagger)
    assert spans(found(tagger, TEXT)) == [(4, 10, "animal"), (19, 23, "thing")]


def test_a_word_has_the_tag_of_its_first_piece():
    pieces = [(0, 3, "DET"), (4, 6, "NOUN"), (6, 10, "VERB"), (11, 16, "VERB")]
    tagger = Tagger([dict(zip(("start", "end", "entity"), piece, strict=True)) for piece in pieces], "DET", "NOUN")
    assert not finds_entities(tagger)
    assert spans(found(tagger, TEXT)) == [(0, 3, "DET"), (4, 10, "NOUN"), (11, 16, "VERB")]


def test_a_selection_is_marked_as_whole_words_and_replaces_what_it_overlaps():
    entities = mark(TEXT, [], (5, 8))
    assert spans(entities) == [(4, 10, "entity")]
    entities = mark(TEXT, entities, (16, 24), "work")
    assert spans(entities) == [(4, 10, "entity"), (17, 23, "work")]
    assert entities[1]["text"] == "a book"
    assert spans(mark(TEXT, entities, (8, 20))) == [(4, 23, "entity")]
    # Scripts without case do not separate words.
    assert spans(mark("東京に住む", [], (0, 2))) == [(0, 2, "entity")]


@pytest.mark.parametrize("span", [(3, 4), (7, 7), (90, 99)])
def test_nothing_selected_is_a_sentence(span):
    with pytest.raises(UserError, match="Select the words of an entity"):
        mark(TEXT, [], span)


def test_unmark_takes_what_the_cursor_touches():
    entities = mark(TEXT, mark(TEXT, [], (4, 10)), (19, 23))
    assert spans(unmark(entities, (10, 10))) == [(19, 23, "entity")]
    assert unmark(entities, (0, 25)) == []
    with pytest.raises(UserError, match="Put the cursor into an entity"):
        unmark(entities, (13, 15))
