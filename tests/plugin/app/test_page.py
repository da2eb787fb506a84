from __future__ import annotations

import re

import pytest

from msattn.app import build_page
from msattn.app.page import EXAMPLES, heading

TEXT = "the author wrote a book ."


@pytest.fixture
def open_page(load):
    """The components of a page, and its functions by their names, whose values are by the names of components."""

    def open_page(*names: str):
        page = build_page(load(*names))

        def named(function):
            def run(*arguments):
                return {
                    part.elem_classes[0] if part.elem_classes else part.get_block_name(): value
                    for part, value in function(*arguments).items()
                }

            return run

        functions = {function.name: named(function.fn) for function in page.fns.values()}
        return list(page.blocks.values()), functions

    return open_page


def spans(shown) -> list[tuple[str, str]]:
    """The entities that are shown."""
    pieces = [(one["class_or_confidence"], one["token"]) for one in shown.value]
    return [(label, text) for label, text in pieces if label]


def titles(values) -> list[str]:
    return re.findall("<h2>(.*?)</h2>", values["answers"])


def sentences(values) -> list[str]:
    return re.findall('role="alert">(.*?)<', values["answers"])


def test_the_page_has_a_section_for_what_its_checkpoints_find(open_page, load):
    def sections(*names):
        return titles(open_page(*names)[1]["read"](TEXT, "", ("", [])))

    assert sections("encoder") == []
    assert sections("words", "parser") == ["Words and their tags", "Dependency trees"]
    assert sections("relations", "entities", "classes") == ["Relations", "Class", "Fused attention"]
    assert heading(load("relations", "entities", "parser")) == "Entities, relations and dependency trees"
    assert heading(load("words")) == "Tags of words"


def test_marked_entities_are_read(open_page):
    _, functions = open_page("relations", "parser")
    state = ("", [])
    for span in ((4, 10), (19, 22)):
        state = functions["on_mark"](TEXT, "", state, span)["state"]
    assert [one["text"] for one in state[1]] == ["author", "book"]
    values = functions["read"](TEXT, "", state)
    assert spans(values["tags"]) == [("entity", "author"), ("entity", "book")]
    assert titles(values) == ["Relations", "Dependency trees", "Fused attention"] and not sentences(values)
    state = functions["on_unmark"](TEXT, state, (5, 5))["state"]
    assert [one["text"] for one in state[1]] == ["book"]
    assert "Select the words of an entity" in sentences(functions["on_mark"](TEXT, "", state, (3, 3)))[0]


@pytest.mark.parametrize("name", ["typed", "pairs"])
def test_models_that_ask_for_types_and_models_of_pairs_show_their_relations(name, open_page):
    blocks, functions = open_page(name)
    (types,) = [block for block in blocks if getattr(block, "label", None) == "Type of the entity to mark"]
    assert types.visible is (name == "typed")
    state = ("", [])
    for span, label in (((4, 10), " person "), ((19, 23), "work")):
        state = functions["on_mark"](TEXT, label, state, span)["state"]
    assert [one["label"] for one in state[1]] == ["person", "work"]
    values = functions["read"](TEXT, "", state)
    assert not sentences(values) and "author" in values["answers"] and "book" in values["answers"]


def test_a_tagger_reads_a_text_once_until_it_changes(open_page):
    _, functions = open_page("entities")
    # A visitor has unmarked what it found.
    assert functions["read"](TEXT, "", (TEXT, []))["state"] == (TEXT, [])
    first = functions["read"](TEXT, "", ("", []))
    name, _ = spans(first["tags"])[0]
    assert re.fullmatch(r"animal [01]\.\d\d", name)
    state = functions["on_mark"]("a dog", "", first["state"], (2, 5))["state"]
    assert [one["text"] for one in state[1]] == ["dog"]
    assert functions["read"](TEXT, "", state)["state"] == first["state"]


@pytest.mark.parametrize("names", [("relations",), ("typed",), ("entities",), ("classes",)])
def test_every_example_is_read(open_page, names):
    _, functions = open_page(*names)
    for number, (text, second, marked) in enumerate(EXAMPLES):
        values = functions["on_example"](number)
        assert [one["text"] for one in values["state"][1]] == (list(marked) if names == ("relations",) else [])
        values = functions["read"](text, second, values["state"])
        assert len(sentences(values)) == (2 if names == ("typed",) else 0), values


@pytest.mark.parametrize(
    ("columns", "visible", "filled"), [(None, True, False), (["text"], False, False), (["text", "other"], True, True)]
)
def test_a_second_text_is_for_models_of_pairs(columns, visible, filled, open_page, load, monkeypatch):
    config = load("classes")["text-classification"].model.config
    monkeypatch.setattr(config, "text_columns", columns, raising=False)
    blocks, functions = open_page("classes")
    (second,) = [block for block in blocks if str(getattr(block, "label", "")).startswith("Second")]
    assert second.visible is visible and bool(functions["on_example"](0)["textbox"]) is filled


def test_examples_for_a_ranker_are_pairs(open_page):
    _, functions = open_page("score")
    assert functions["on_example"](0)["textbox"]


def test_texts_that_cannot_be_read(open_page):
    _, functions = open_page("classes")
    state, long = (TEXT, []), "a" * 6000
    for values in (
        functions["read"](TEXT, long, state),
        functions["on_mark"](TEXT, long, state, (2, 5)),
        functions["on_unmark"](long, state, (2, 5)),
    ):
        assert "The text has 6,000 characters" in sentences(values)[0]
    assert "There is no text" in sentences(functions["read"](" ", "", state))[0]
