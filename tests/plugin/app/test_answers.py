from __future__ import annotations

import base64
import html
import json
import re
from xml.etree import ElementTree

import pytest

from msattn.app import answers
from msattn.app.answers import Reading
from msattn.app.entities import mark
from msattn.errors import UserError
from msattn.plots import attention_distances
from msattn.plots.encoders import encoder_of

TEXT = "the author wrote a book in the house ."
PAIR = mark(TEXT, mark(TEXT, [], (4, 10)), (19, 23))


def saved(page: str, file: str) -> str:
    """What a link of the page saves."""
    (data,) = re.findall(rf'download="{file}" href="data:application/octet-stream;base64,([^"]*)"', page)
    return base64.b64decode(data).decode()


def rows(page: str) -> list[list[str]]:
    (table,) = re.findall("<table>.*?</table>", page, re.S)
    return [[cell.text for cell in row] for row in ElementTree.fromstring(table).iter("tr")]


def test_relations_are_those_of_the_pipeline(load):
    extract = load("relations")["relation-extraction"].run
    reading = Reading(TEXT, entities=PAIR)
    page = answers.relations(extract, reading)
    spans = [{"start": 4, "end": 10, "label": "entity"}, {"start": 19, "end": 23, "label": "entity"}]
    assert reading.found["relations"] == extract({"text": TEXT, "entities": spans})
    _, *found = rows(page)
    assert {(row[0], row[2]) for row in found} == {("author", "book"), ("book", "author")}
    assert all(row[1] == "Product-Producer(e2,e1)" and float(row[3]) > 0.9 for row in found)
    assert "author" in "".join(ElementTree.fromstring(saved(page, "relations.svg")).itertext())
    with pytest.raises(UserError, match="no relation between these entities with a probability of 1.1 or more"):
        answers.relations(extract, Reading(TEXT, entities=PAIR, least=1.1))


def test_a_pair_that_is_too_far_apart_costs_only_itself(load):
    extract = load("relations")["relation-extraction"].run
    text = f"{TEXT} {'the house . ' * 40}the cat"
    far = mark(text, PAIR, (len(text) - 3, len(text)))
    page = answers.relations(extract, Reading(text, entities=far))
    assert {(row[0], row[2]) for row in rows(page)[1:]} == {("author", "book"), ("book", "author")}
    assert "4 pairs are not read; the first: the two entities and what lies between them do not" in page
    with pytest.raises(UserError, match="do not fit in"):
        answers.relations(extract, Reading(text, entities=far[1:]))


@pytest.mark.parametrize(("entities", "message"), [([], "There is no entity"), (PAIR * 11, "There are 22 entities")])
def test_too_few_and_too_many_entities_are_a_sentence(load, entities, message):
    with pytest.raises(UserError, match=message):
        answers.relations(load("relations")["relation-extraction"].run, Reading(TEXT, entities=entities))


def test_trees(load):
    page = answers.trees(load("parser")["dependency-parsing"].run, Reading("the dog wrote . <b> & a cat"))
    assert "".join(ElementTree.fromstring(saved(page, "trees.svg")).itertext()).split()[-1] == "cat"
    conllu = saved(page, "trees.conllu")
    assert [line.split("\t")[1] for line in conllu.splitlines() if line[:1].isdigit()][:2] == ["the", "dog"]
    assert html.unescape(re.search("<pre>(.*)</pre>", page, re.S)[1]) == conllu


def test_classes(load):
    classify = load("classes")["text-classification"].run

    def scores(*texts):
        reading = Reading(*texts)
        page = answers.classes(classify, reading)
        assert {row[0] for row in rows(page)[1:]} == set(reading.found["classes"]) == {"bad", "good"}
        return reading.found["classes"]

    assert sum(scores("the dog .").values()) == pytest.approx(1)
    assert scores("the dog .", " ") == scores("the dog .") != scores("the dog .", "a cat")
    with pytest.raises(UserError, match="The text has 103 tokens, and the model reads 64"):
        scores("dog " * 50, "cat " * 50)
    rank = load("score")["text-classification"].run
    single = answers.classes(rank, Reading("the dog", "cat"))
    assert rows(single)[0] == ["class", "score"] and rows(single)[1][0] == "relevant"
    with pytest.raises(UserError, match="The model compares two texts: type the second one"):
        answers.classes(rank, Reading("the dog"))


def test_fused_attention_is_the_interactive_page(load):
    frame = answers.fused_attention(load("relations")["relation-extraction"], Reading(TEXT, entities=PAIR))
    page = html.unescape(re.search(r'srcdoc="([^"]*)"', frame)[1])
    (data,) = json.loads(re.search(r'<script type="application/json" id="examples">(.*?)</script>', page, re.S)[1])
    assert data["tokens"][1:5] == ["the", "[E1]", "author", "[/E1]"] and len(data["entities"]) == 2
    assert 'sandbox="allow-scripts"' in frame


def test_fused_attention_is_that_of_the_window_which_is_answered(load, monkeypatch):
    checkpoint = load("relations")["relation-extraction"]
    monkeypatch.setattr(checkpoint.run, "trained", {"max_length": 16})
    frame = answers.fused_attention(checkpoint, Reading(TEXT * 4, entities=PAIR))
    data = re.search(r'id="examples">(.*?)</script>', html.unescape(frame), re.S)
    assert len(json.loads(data[1])[0]["tokens"]) == 16


def test_fused_attention_is_that_of_the_relations_if_there_are_some(load):
    for names, title in {("fused",): "Fused attention", ("fused", "relations"): "Product-Producer(e2,e1)"}.items():
        page = answers.sections(load(*names), Reading(TEXT, entities=PAIR))
        assert f"<title>{title}</title>" in html.unescape(page)


def test_fused_attention_of_a_classifier_of_pairs_is_that_of_both_texts(load):
    page = answers.sections(load("compare"), Reading("the dog .", "a cat"))
    found = json.loads(saved(page, "answers.json"))
    assert (found["text"], found["text_pair"]) == ("the dog .", "a cat")
    frame = html.unescape(re.search(r'srcdoc="([^"]*)"', page)[1])
    assert f"<title>{max(found['classes'], key=found['classes'].get)}</title>" in frame
    assert '"[CLS]","the","dog",".","[SEP]","a","cat","[SEP]"' in frame
    assert answers.sections(load("compare"), Reading("the dog .")).count("type the second one, too") == 2


def test_head_reach_is_measured_without_the_heads_and_names_who_has_none(load):
    loaded = load("words", "relations", "bilstm", "encoder")
    page = answers.head_reach(list(loaded.values()), TEXT)
    found = attention_distances(encoder_of(loaded["encoder"].model), loaded["encoder"].tokenizer, [(TEXT,)])
    assert rows(page[page.rindex("<table>") :])[1] == ["layer 0", *(f"{scale:.1f}" for scale in found.scales[0])]
    assert page.count("<table>") == 3 and 'role="alert">bilstm: ' in page and "<caption>words: mean" in page
    assert 'role="alert">encoder: ' in answers.head_reach([loaded["encoder"]], "dog")


def test_all_is_saved_as_json_and_markup_is_text(load):
    checkpoints = load("relations", "words")
    text = "the <b>dog</b> wrote"
    entities = mark(text, mark(text, [], (3, 9), "<i>"), (15, 20))
    page = answers.sections(checkpoints, Reading(text, entities=entities))
    found = json.loads(saved(page, "answers.json"))
    assert found["text"] == text and found["entities"] == entities and found["relations"] and found["tags"]
    assert "<b>" not in re.sub(r'"[^"]*"', "", page)
    assert re.findall("<h2>(.*?)</h2>", page) == ["Words and their tags", "Relations", "Fused attention"]
    assert page.count("<rt>") == len(found["tags"])


def test_a_failure_is_a_sentence():
    def fail():
        raise RuntimeError("secret")

    assert "Something went wrong" in answers.answered(fail) and "secret" not in answers.answered(fail)
