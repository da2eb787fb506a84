"""Sentences and documents with several entities, in the forms in which corpora are published."""

from __future__ import annotations

import json

import pytest
from datasets import Dataset

from msattn.data import read_relations
from msattn.data.negatives import Negatives, random_pairs, with_entity_pairs
from msattn.data.relation_rows import relation_row
from msattn.data.relations import RELATION_FEATURES
from msattn.errors import UserError
from msattn.pipelines.relation_inputs import read_input

TACRED = {
    "id": "e779865fb91c",
    "relation": "org:top_members/employees",
    "token": ["Ahmed", "Rashid", "leads", "the", "Acme", "Corp", "."],
    "subj_start": 4,
    "subj_end": 5,
    "obj_start": 0,
    "obj_end": 1,
    "subj_type": "ORGANIZATION",
    "obj_type": "PERSON",
    "stanford_pos": ["NNP"] * 7,
}
SPERT = {
    "tokens": ["John", "lives", "in", "New", "York", "near", "Ann"],
    "entities": [
        {"type": "Peop", "start": 0, "end": 1},
        {"type": "Loc", "start": 3, "end": 5},
        {"type": "Peop", "start": 6, "end": 7},
    ],
    "relations": [{"type": "Live_In", "head": 0, "tail": 1}],
    "orig_id": 17,
}
DOCRED = {
    "title": "Ann",
    "sents": [["Ann", "was", "born", "."], ["She", "lives", "in", "Rome", ",", "Italy", "."]],
    "vertexSet": [
        [{"name": "Ann", "sent_id": 0, "pos": [0, 1], "type": "PER"}, {"sent_id": 1, "pos": [0, 1], "type": "PER"}],
        [{"name": "Rome", "sent_id": 1, "pos": [3, 4], "type": "LOC"}],
        [{"name": "Italy", "sent_id": 1, "pos": [5, 6], "type": "LOC"}],
    ],
    "labels": [
        {"h": 0, "t": 1, "r": "P551", "evidence": [1]},
        {"h": 1, "t": 2, "r": "P17", "evidence": [1]},
        {"h": 1, "t": 2, "r": "P131", "evidence": [1]},
    ],
}


@pytest.fixture
def read(write):
    return lambda *rows, **options: read_relations(write(json.dumps(rows), "data.json"), **options)


def triples(rows):
    texts = [[row["text"][slice(*row[role])] for role in ("head", "tail")] for row in rows]
    return [
        (head, row["label"], tail, row["head_type"], row["tail_type"])
        for row, (head, tail) in zip(rows, texts, strict=True)
    ]


def test_tacred_ends_are_inclusive(read):
    rows = read(TACRED)
    assert triples(rows) == [("Acme Corp", "org:top_members/employees", "Ahmed Rashid", "ORGANIZATION", "PERSON")]
    assert rows["id"] == ["e779865fb91c"]
    with pytest.raises(UserError, match=r"the tail span \[0, 8\) is wrong"):
        read({**TACRED, "obj_end": 7})


def test_spert_relations_are_rows(read):
    rows = read(SPERT)
    assert triples(rows) == [("John", "Live_In", "New York", "Peop", "Loc")]
    assert rows["id"] == ["17:0-1"]
    text = {"text": "Ann naps.", "entities": [{"start": 0, "end": 3, "label": "PER"}, {"start": 4, "end": 8}]}
    rows = read({**text, "relations": [{"head": 0, "tail": 1, "label": "does"}]})
    assert triples(rows) == [("Ann", "does", "naps", "PER", None)]


def test_without_relations_all_pairs_are_unlabelled_rows(read):
    rows = read({name: value for name, value in SPERT.items() if name != "relations"})
    assert len(rows) == 6 and set(rows["label"]) == {None}


def test_docred_marks_the_nearest_mentions(read, caplog):
    rows = read(DOCRED)
    assert triples(rows) == [
        ("She", "P551", "Rome", "PER", "LOC"),
        ("Rome", "P17", "Italy", "LOC", "LOC"),
        ("Rome", "P131", "Italy", "LOC", "LOC"),
    ]
    assert "1 of 3 rows give their pair of entities another label" in caplog.text
    apart = {**DOCRED, "vertexSet": [DOCRED["vertexSet"][0][:1], *DOCRED["vertexSet"][1:]]}
    assert triples(read(apart))[0][0] == "Ann"  # in another sentence


def test_the_nearest_mentions_are_those_of_the_pipeline(read):
    tokens = "Ann knows old Bob well . Ann left .".split()
    entities = [[{"start": 0, "end": 1}, {"start": 6, "end": 7}], {"start": 3, "end": 4}]
    (row,) = read({"tokens": tokens, "entities": entities, "relations": [{"head": 0, "tail": 1, "type": "x"}]})
    found = read_input({"tokens": tokens, "entities": entities})
    assert row["head"] == found.spans[found.pairs[0][0]] == [25, 28]


def test_the_nearest_mentions_are_found_with_inclusive_ends(read):
    tokens = ["Internationalization", "Bob", "said", "that", "he"]
    entities = [[{"start": 0, "end": 0}, {"start": 4, "end": 4}], {"start": 1, "end": 1}]
    relations = [{"head": 0, "tail": 1, "type": "x"}]
    (row,) = read({"tokens": tokens, "entities": entities, "relations": relations}, span_ends="inclusive")
    assert row["head"] == [0, 20]


def test_relations_of_one_span_are_skipped_and_counted(read, caplog):
    entities = [*SPERT["entities"], {"type": "Org", "start": 0, "end": 1}]
    relations = [*SPERT["relations"], {"type": "Is", "head": 0, "tail": 3}]
    assert len(read({**SPERT, "entities": entities, "relations": relations})) == 1
    assert "1 relations were skipped: both entities have the same span." in caplog.text


def test_labels_get_names(read):
    rows = read(DOCRED, label_names={"P17": "country", "P131": "located in"}, labels=["P551", "country", "located in"])
    assert rows["label"] == ["P551", "country", "located in"]


def test_negative_pairs_are_unrelated_and_seeded(read):
    rows = read(SPERT, SPERT, negatives=Negatives(2, "none", seed=1))
    assert rows["label"] == ["Live_In", "none", "none"] * 2
    for row in rows:
        assert (row["label"] == "Live_In") == (row["id"] == "17:0-1")
    assert rows.to_list() == read(SPERT, SPERT, negatives=Negatives(2, "none", seed=1)).to_list()
    assert rows.to_list() != read(SPERT, SPERT, negatives=Negatives(2, "none", seed=2)).to_list()
    every = read(SPERT, negatives=Negatives(None, "none", seed=1))
    assert len(set(every["id"])) == len(every) == 6


TEXTS = ["Ann works for Acme in Rome near the river", "Bob left Rome", "The river near Oslo froze when Eve met Ann"]


def marked(typed, *extra):
    """A pair in each text, and more; Rome and the river are marked in one text and not in another."""
    pairs = [(0, "Ann", "Acme"), (1, "Bob", "Rome"), (2, "river", "Oslo"), *extra]
    kinds = {"Ann": "PER", "Bob": "PER", "Acme": "ORG", "Rome": "LOC", "river": "LOC", "Oslo": "LOC"}
    rows = []
    for text, *names in pairs:
        ends = {role: TEXTS[text].index(name) for role, name in zip(("head", "tail"), names, strict=True)}
        spans = {role: [at, at + len(name)] for (role, at), name in zip(ends.items(), names, strict=True)}
        types = {f"{role}_type": kinds[name] if typed else None for role, name in zip(ends, names, strict=True)}
        rows.append({"id": str(len(rows)), "text": TEXTS[text], **spans, **types, "label": "x"})
    return Dataset.from_list(rows, RELATION_FEATURES)


@pytest.mark.parametrize("typed", [True, False])
def test_drawn_pairs_are_of_entities(typed):
    rows = with_entity_pairs(marked(typed), Negatives(None, "none", seed=1, pairs=200))
    drawn = [row for row in rows if row["label"] == "none"]
    inside = [row for row in drawn if row["text"] in TEXTS]
    found = {frozenset(row["text"][slice(*row[role])] for role in ("head", "tail")) for row in inside}
    # Words that are marked elsewhere; the two of a marked pair are not drawn.
    expected = {frozenset(pair) for pair in (("Ann", "Rome"), ("Ann", "river"), ("Acme", "Rome"), ("Acme", "river"))}
    expected |= {frozenset(pair) for pair in (("Rome", "river"), ("river", "Ann"), ("Oslo", "Ann"))}
    if not typed:
        words = {row["text"][slice(*row[role])] for row in inside for role in ("head", "tail")} - {"left"}
        assert words <= {"Ann", "Acme", "Rome", "river", "Oslo", "Bob"}  # "left": nothing else is like an entity there
        found = {pair for pair in found if "left" not in pair}
    assert found == expected
    for row in drawn:
        assert (row["head_type"] is not None) == (row["tail_type"] is not None) == typed
    across = [row for row in drawn if row["text"] not in TEXTS]
    assert across and all(any(row["text"] == f"{a} {b}" for a in TEXTS for b in TEXTS if a != b) for row in across)
    for row in across:
        entities = {row["text"][slice(*row[role])] for role in ("head", "tail")}
        assert entities <= {"Ann", "Acme", "Bob", "Rome", "river", "Oslo"}
    assert {row["head"] < row["tail"] for row in across} == {True, False}
    again = with_entity_pairs(marked(typed), Negatives(None, "none", seed=1, pairs=200))
    assert rows.to_list() == again.to_list() and len(set(rows["id"])) == len(rows)
    assert len(with_entity_pairs(marked(typed), Negatives(None, "none", seed=1, pairs=2))) <= 9


def test_entities_of_one_text_are_not_drawn_against_each_other(read):
    rows = marked(True, (0, "Ann", "Rome"))
    drawn = with_entity_pairs(rows, Negatives(None, "none", seed=1, pairs=200))
    inside = [row for row in drawn if row["text"] == TEXTS[0] and row["label"] == "none"]
    names = {frozenset(row["text"][slice(*row[role])] for role in ("head", "tail")) for row in inside}
    assert names == {frozenset((name, "river")) for name in ("Ann", "Acme", "Rome")}


@pytest.mark.parametrize(
    "text, names, words",
    [
        ("सीता भारत के प्रधानमंत्री से मिली।", ("सीता", "भारत"), {"के", "प्रधानमंत्री", "से", "मिली"}),
        ("张三生于罗马，后来移居美国。", ("张三", "罗马"), set()),
    ],
    ids=["Hindi", "Chinese"],
)
def test_drawn_words_are_whole_words(read, text, names, words):
    ends = dict(zip(("head", "tail"), names, strict=True))
    rows = with_entity_pairs(read({"text": text, **ends, "label": "x"}), Negatives(None, "none", seed=1, pairs=200))
    drawn = {row["text"][slice(*row[role])] for row in rows for role in ends if row["label"] == "none"}
    assert drawn == ({*names} | words if words else set())
    spans = random_pairs(rows.select([0]), seed=1)
    assert (spans is not None) == bool(words)


def test_random_pairs_share_nothing_with_entities_nor_with_drawn_words(read):
    text = "Ann saw the old house of her friend near the river and went home"
    row = {"text": text, "head": [0, 3], "tail": [16, 21], "label": "x"}
    rows = read(*[row] * 20, TACRED)
    found = random_pairs(rows, seed=1)
    assert len(found) == 20 and found.column_names == rows.column_names
    for pair in found:
        for role in ("head", "tail"):
            start, end = pair[role]
            assert text[start:end].count(" ") == 1 and "Ann" not in text[start:end] and "house" not in text[start:end]
    assert len({(*pair["head"], *pair["tail"]) for pair in found}) > 3
    assert found.to_list() == random_pairs(rows, seed=1).to_list()
    assert random_pairs(rows, seed=1, most=3).to_list() == found.to_list()[:3]
    assert random_pairs(read(TACRED), seed=1) is None


@pytest.mark.parametrize(
    "row, message",
    [
        ({**SPERT, "tokens": None}, 'needs "text" or "sentence"'),
        ({**SPERT, "entities": [[0, 1]]}, '"entities" must be objects with "start"'),
        ({**SPERT, "entities": [{"type": "Loc"}]}, '"entities" must be objects .*KeyError..start'),
        ({**SPERT, "relations": [{"type": "x", "head": 0, "tail": 3}]}, "two of the 3 entities, .* not 0 and 3"),
        ({**SPERT, "entities": [{"start": 0, "end": 9}, *SPERT["entities"][1:]]}, "entities 0 and 1: the head span"),
        ({**DOCRED, "sents": ["Ann"]}, "the form of DocRED; there is TypeError"),
        ({**DOCRED, "vertexSet": [[{"sent_id": 9, "pos": [0, 1]}]]}, "the form of DocRED; there is IndexError"),
        ({**DOCRED, "labels": [{"h": 0, "t": 0, "r": "P17"}]}, "two of the 3 entities, .* not 0 and 0"),
    ],
)
def test_bad_rows_name_the_example(read, row, message):
    with pytest.raises(UserError, match=message) as raised:
        read(SPERT, row)
    assert "data.json, example 2" in str(raised.value)


@pytest.mark.parametrize(
    "row, message",
    [
        (
            {"token": ["New", "York", "hired", "Ann"], "h": {"name": "New York", "pos": [0, 1]}},
            r"the head span \[0, 1\) is 'New', but its name is 'New York'; its end is the last one inside, .* 2",
        ),
        ({"text": "\u0926\u0940, X", "h": {"text": "\u0926\u0940", "start": 0, "end": 1}}, "last one inside, .* 2"),
        ({"text": "We know Ann", "h": {"text": "Ann", "start": 7, "end": 10}}, "is ' An', .* 'Ann'; count again"),
        ({"text": "\U0001f600 Ann naps", "h": {"word": "Ann", "start": 3, "end": 6}}, "count units of UTF-16"),
        ({"text": "NEW-Yo\u0308rk, Ann", "h": {"name": "new y\u00f6rk", "start": 0, "end": 9}}, None),
    ],
    ids=["inclusive", "vowel sign", "shifted", "utf-16", "other spelling"],
)
def test_names_are_those_of_their_spans(row, message):
    tail = [3, 4] if "token" in row else [len(row["text"]) - 1, len(row["text"])]
    if message is None:
        assert relation_row({**row, "t": tail}, "file:1")["head"] == [0, 9]
        return
    with pytest.raises(UserError, match=message):
        relation_row({**row, "t": tail}, "file:1")
