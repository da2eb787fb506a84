from __future__ import annotations

import pytest

from msattn.app import build_page
from msattn.app.panels import answered

TEXT = "the author wrote a book ."


@pytest.fixture
def open_page(load):
    """The function that reads a text, and what it answers by the titles of the panels."""

    def open_page(*names: str):
        page = build_page(load(*names))
        blocks = [block for block in page.blocks.values()]
        functions = {function.name: function.fn for function in page.fns.values()}
        return blocks, functions

    return open_page


def notes(values) -> list[str]:
    return [value for part, value in values.items() if value and "note" in (part.elem_classes or ())]


def values_of(values, kind: str) -> list:
    return [value for part, value in values.items() if part.get_block_name() == kind]


def test_the_page_has_a_panel_for_what_its_checkpoints_find(open_page):
    def titles(*names):
        blocks, _ = open_page(*names)
        texts = (block.value for block in blocks if block.get_block_name() == "markdown" and block.value)
        return [text.removeprefix("## ") for text in texts if text.startswith("## ")]

    assert titles("encoder") == ["How far the heads look"]
    assert titles("words", "parser") == ["Words and their tags", "Dependency trees", "How far the heads look"]
    assert titles("relations", "entities", "classes") == [
        *("Relations", "Class", "Fused attention", "How far the heads look")
    ]


def test_marked_entities_are_read(open_page):
    _, functions = open_page("relations", "parser")
    state = ("", [])
    for span in ((4, 10), (19, 22)):
        (state,) = values_of(functions["on_mark"](TEXT, "", state, span), "state")
    assert [one["text"] for one in state[1]] == ["author", "book"]
    values = functions["read"](TEXT, "", state)
    (shown,) = values_of(values, "highlightedtext")
    assert [(one["start"], one["end"]) for one in shown["entities"]] == [(4, 10), (19, 23)]
    pictures = values_of(values, "html")
    assert sum("<svg" in (picture or "") for picture in pictures) >= 1 and any("srcdoc" in (p or "") for p in pictures)
    (state,) = values_of(functions["on_unmark"](TEXT, state, (5, 5)), "state")
    assert [one["text"] for one in state[1]] == ["book"]
    (note,) = notes(functions["on_mark"](TEXT, "", state, (3, 3)))
    assert "Select the words of an entity" in note


@pytest.mark.parametrize("name", ["typed", "pairs"])
def test_models_that_ask_for_types_and_models_of_pairs_show_their_relations(name, open_page):
    blocks, functions = open_page(name)
    (types,) = [block for block in blocks if getattr(block, "label", None) == "Type of the entity to mark"]
    assert types.visible is (name == "typed")
    state = ("", [])
    for span, label in (((4, 10), " person "), ((19, 23), "work")):
        (state,) = values_of(functions["on_mark"](TEXT, label, state, span), "state")
    assert [one["label"] for one in state[1]] == ["person", "work"]
    values = functions["read"](TEXT, "", state)
    assert not notes(values)
    assert any("author" in picture and "book" in picture for picture in values_of(values, "html") if picture)
    # No probability is above 1.
    assert notes(functions["read"](TEXT, "", state, 1.1))[0].count("with a probability of 1.1 or more.") == 1


def test_a_tagger_reads_a_text_once_until_it_changes(open_page):
    _, functions = open_page("entities")
    # A visitor has unmarked what it found.
    assert values_of(functions["read"](TEXT, "", (TEXT, [])), "state") == [(TEXT, [])]
    first = values_of(functions["read"](TEXT, "", ("", [])), "state")
    (state,) = values_of(functions["on_mark"]("a dog", "", first[0], (2, 5)), "state")
    assert [one["text"] for one in state[1]] == ["dog"]
    assert values_of(functions["read"](TEXT, "", state), "state") == first


@pytest.mark.parametrize(
    ("names", "text", "sentences"),
    [
        (("relations", "parser"), " ", ["There is no text"]),
        (("relations", "parser"), "a" * 6000, ["The text has 6,000 characters"]),
        (("relations",), TEXT, ["There is no entity in the text", "There is no entity in the text"]),
        (("classes",), "dog " * 100, ["The text has 102 tokens"]),
        (("bilstm",), TEXT, ["bilstm: "]),
    ],
)
def test_what_cannot_be_shown_is_a_sentence(open_page, names, text, sentences):
    _, functions = open_page(*names)
    found = notes(functions["read"](text, "", ("", [])))
    assert len(found) == len(sentences)
    assert all(sentence in note for sentence, note in zip(sentences, found, strict=True))


def test_the_limit_holds_for_every_text(open_page):
    _, functions = open_page("classes")
    state, long = (TEXT, []), "a" * 6000
    for values in (
        functions["read"](TEXT, long, state),
        functions["on_mark"](TEXT, long, state, (2, 5)),
        functions["on_unmark"](long, state, (2, 5)),
    ):
        assert "The text has 6,000 characters" in notes(values)[0]


def test_a_failure_is_a_sentence_too():
    def fail():
        raise RuntimeError("secret")

    assert "secret" not in answered(fail, "note")["note"] and "Something went wrong" in answered(fail, "note")["note"]
