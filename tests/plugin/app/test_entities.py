from __future__ import annotations

import pytest
import torch
from transformers import BertConfig, BertForTokenClassification, pipeline

from msattn.app.entities import finds_entities, found, mark, unmark
from msattn.errors import UserError
from msattn.pipelines.word_tagger import WordTagger
from tests.tiny_models import SIZES, labelled, tiny_tokenizer

TEXT = "the unsdog wrote a book ."


def spans(entities):
    return [(one["start"], one["end"], one["label"]) for one in entities]


def tagger(*labels):
    torch.manual_seed(0)
    model = BertForTokenClassification(BertConfig(**SIZES, **labelled(*labels)))
    torch.nn.init.normal_(model.classifier.weight)
    return WordTagger(model, tiny_tokenizer())


@pytest.mark.parametrize("labels", [("B-animal", "I-animal", "O"), ("animal", "O")])
def test_entities_are_those_of_words(labels):
    run = tagger(*labels)
    assert finds_entities(run)
    entities = found(run, TEXT)
    assert entities == run.entities(TEXT) != []
    assert {*entities[0]} == {"start", "end", "text", "label", "score"}


def test_a_word_has_the_tag_of_its_first_piece():
    run = tagger("DET", "NOUN", "VERB")
    assert not finds_entities(run)
    stock = pipeline("token-classification", model=run.model, tokenizer=run.tokenizer, ignore_labels=[])
    pieces = {piece["start"]: piece["entity"] for piece in stock(TEXT)}
    places = [(0, 3), (4, 10), (11, 16), (17, 18), (19, 23), (24, 25)]
    assert spans(found(run, TEXT)) == [(start, end, pieces[start]) for start, end in places]


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
