from __future__ import annotations

import html
import json
import re
from xml.etree import ElementTree

import pytest

from msattn.app import answers
from msattn.app.entities import mark
from msattn.errors import UserError
from msattn.plots import attention_distances
from msattn.plots.encoders import encoder_of

TEXT = "the author wrote a book in the house ."
PAIR = mark(TEXT, mark(TEXT, [], (4, 10)), (19, 23))


def test_relations_are_those_of_the_pipeline(load):
    extract = load("relations")["relation-extraction"].run
    found = answers.relations(extract, TEXT, PAIR)
    spans = [{"start": 4, "end": 10, "label": "entity"}, {"start": 19, "end": 23, "label": "entity"}]
    assert found == extract({"text": TEXT, "entities": spans})
    table = ElementTree.fromstring(answers.relation_table([{**found[0], "label": "<a>"}, *found]))
    (_, escaped, *rows) = [[cell.text for cell in row] for row in table.iter("tr")]
    assert escaped[1] == "<a>"
    assert {(row[0], row[2]) for row in rows} == {("author", "book"), ("book", "author")}
    assert all(row[1] == "Product-Producer(e2,e1)" and float(row[3]) > 0.9 for row in rows)
    picture = ElementTree.fromstring(answers.relation_picture(found))
    assert picture.get("tabindex") == "0" and "author" in "".join(picture.itertext())


@pytest.mark.parametrize(("entities", "message"), [([], "There is no entity"), (PAIR * 11, "There are 22 entities")])
def test_too_few_and_too_many_entities_are_a_sentence(load, entities, message):
    with pytest.raises(UserError, match=message):
        answers.relations(load("relations")["relation-extraction"].run, TEXT, entities)


def test_trees(load):
    picture, conllu = answers.trees(load("parser")["dependency-parsing"].run, "the dog wrote . <b> & a cat")
    assert "".join(ElementTree.fromstring(picture).itertext()).split()[-1] == "cat"
    assert [line.split("\t")[1] for line in conllu.splitlines() if line[:1].isdigit()][:2] == ["the", "dog"]


def test_classes(load):
    classify = load("classes")["text-classification"].run
    scores = answers.classes(classify, "the dog .")
    assert set(scores) == {"bad", "good"} and sum(scores.values()) == pytest.approx(1)
    assert answers.classes(classify, "the dog .", " ") == scores
    assert answers.classes(classify, "the dog .", "a cat") != scores
    with pytest.raises(UserError, match="The text has 103 tokens, and the model reads 64"):
        answers.classes(classify, "dog " * 50, "cat " * 50)
    assert set(answers.classes(load("score")["text-classification"].run, "the dog", "cat")) == {"relevant"}


def test_fused_attention_is_the_interactive_page(load):
    checkpoint = load("relations")["relation-extraction"]
    frame = answers.fused_attention(checkpoint, TEXT, PAIR)
    page = html.unescape(re.search(r'srcdoc="([^"]*)"', frame)[1])
    (data,) = json.loads(re.search(r'<script type="application/json" id="examples">(.*?)</script>', page, re.S)[1])
    assert data["tokens"][1:5] == ["the", "[E1]", "author", "[/E1]"] and len(data["entities"]) == 2
    assert 'sandbox="allow-scripts"' in frame


def test_head_reach_is_measured_without_the_heads_and_names_who_has_none(load):
    loaded = load("words", "relations", "bilstm", "encoder")
    picture, table, refused = answers.head_reach(list(loaded.values()), TEXT)
    expected = attention_distances(
        encoder_of(loaded["encoder"].model), loaded["encoder"].tokenizer, [(TEXT,)]
    ).scales.mean()
    assert f"| encoder: 0 | {expected:.2f} |" in table and "| words: 0 |" in table and "bilstm" not in table
    assert refused.startswith("bilstm: ") and "data:image/svg+xml;base64," in picture
    with pytest.raises(UserError, match="two tokens"):
        answers.head_reach([loaded["encoder"]], "dog")
