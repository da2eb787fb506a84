"""Arcs that end at the right words, and do not cross where the tree does not."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import pytest

from msattn.analysis.arc_diagram import _arcs, _centers, _feet, _levels, arc_diagram
from msattn.errors import UserError

SVG = "{http://www.w3.org/2000/svg}"


def sentence(words: str, heads: list[int]) -> list[dict]:
    return [
        {"index": n, "word": word, "head": head, "relation": f"r{n}", "score": 0.5}
        for n, (word, head) in enumerate(zip(words.split(), heads, strict=True), start=1)
    ]


def test_every_word_has_one_arc_with_its_relation(tmp_path):
    words = sentence("The <b>dog</b> & 猫 sleep .", [2, 5, 4, 2, 0, 5])
    picture = arc_diagram(words, tmp_path / "tree.svg")
    assert (tmp_path / "tree.svg").read_text(encoding="utf-8") == picture
    root = ElementTree.fromstring(picture)
    assert [text.text for text in root.iter(f"{SVG}text")][-6:] == [word["word"] for word in words]
    groups = {
        group.find(f"{SVG}text").text: group for group in root.iter(f"{SVG}g") if group.find(f"{SVG}title") is not None
    }
    assert set(groups) == {word["relation"] for word in words}
    assert groups["r1"].find(f"{SVG}title").text == "<b>dog</b> → The: r1 (0.50)"
    assert groups["r5"].find(f"{SVG}title").text == "ROOT → sleep: r5 (0.50)"
    places = {text.text: float(text.get("x")) for text in root.iter(f"{SVG}text")}
    for word in words:
        _, arrow = groups[word["relation"]].findall(f"{SVG}path")
        tip = float(re.search(r"L([\d.]+) ", arrow.get("d"))[1])
        assert abs(tip - places[word["word"]]) < 30


def crossings(words: list[dict]) -> int:
    """How often the upright part of an arc meets the level part of another."""
    arcs = _arcs(words)
    feet = _feet(arcs)
    centers = _centers([word["word"] for word in words], arcs, feet)
    spans = {arc: tuple(centers[end] + feet[arc, end] for end in (arc.left, arc.right)) for arc in arcs}
    levels = _levels(arcs, spans)
    return sum(
        levels[arc] > levels[other] and left < foot < right
        for other, (left, right) in spans.items()
        for arc, ends in spans.items()
        for foot in ends
        if arc is not other
    )


def test_only_arcs_of_trees_that_are_not_projective_cross():
    assert crossings(sentence("a b c d e f g", [3, 1, 5, 3, 0, 7, 5])) == 0
    assert crossings(sentence("a b c d e", [2, 5, 5, 3, 0])) == 0
    assert crossings(sentence("a b c d", [3, 4, 0, 3])) > 0


def test_labels_have_room():
    words = sentence("a b", [2, 0])
    words[0]["relation"] = "a_very_long_relation"
    arcs = _arcs(words)
    feet = _feet(arcs)
    wide, narrow = (
        _centers(["a", "b"], arcs, feet),
        _centers(["a", "b"], _arcs(sentence("a b", [2, 0])), _feet(_arcs(sentence("a b", [2, 0])))),
    )
    assert wide[1] - wide[0] > 100 > narrow[1] - narrow[0]


def test_a_picture_of_nothing_and_of_one_word():
    for words in ([], sentence("No", [0])):
        ElementTree.fromstring(arc_diagram(words))


def positions(picture: str) -> dict[str, float]:
    """The place of each text that has no size of its own: the words."""
    return {
        text.text: float(text.get("x"))
        for text in ElementTree.fromstring(picture).iter(f"{SVG}text")
        if text.get("font-size") is None
    }


def test_several_sentences_are_below_each_other():
    one, other = sentence("a b c", [2, 0, 2]), sentence("d", [0])
    picture = arc_diagram([one, [], other])
    assert arc_diagram([[one], [other]]) == picture
    assert list(positions(picture)) == ["a", "b", "c", "d"]
    first, second = (group for group in ElementTree.fromstring(picture).findall(f"{SVG}g"))
    height = float(ElementTree.fromstring(arc_diagram(one)).get("height"))
    assert first.get("transform") is None and second.get("transform") == f"translate(0.0 {height:.1f})"
    assert arc_diagram([one]) == arc_diagram(one)


def test_scripts_from_the_right_are_drawn_from_the_right():
    arabic = sentence("نعم ذهب الولد .", [2, 0, 2, 2])
    picture = arc_diagram(arabic)
    places = [*positions(picture).values()]
    assert places == sorted(places, reverse=True)
    root = ElementTree.fromstring(picture)
    assert root.find(f"{SVG}g").get("direction") == "rtl"
    assert all(0 < place < float(root.get("width")) for place in places)
    for group in root.iter(f"{SVG}g"):
        if group.find(f"{SVG}title") is not None:
            _, arrow = group.findall(f"{SVG}path")
            dependent = arabic[int(group.find(f"{SVG}text").text[1:]) - 1]["word"]
            assert abs(float(re.search(r"L([\d.]+) ", arrow.get("d"))[1]) - positions(picture)[dependent]) < 30
    # The sentence of fewer words starts at the right, too.
    both = ElementTree.fromstring(arc_diagram([arabic, sentence("نعم", [0])]))
    assert float(re.search(r"translate\(([\d.]+)", both.findall(f"{SVG}g")[1].get("transform"))[1]) > 0


def test_signs_that_xml_has_not():
    words = sentence("a\x02b c\x7f\uffff", [2, 0])
    assert list(positions(arc_diagram(words))) == ["a␂b", "c\ufffd\ufffd"]
    with pytest.raises(UserError, match="character 1 is the lone surrogate"):
        arc_diagram(sentence("a\ud800", [0]))


def test_another_suffix_is_refused(tmp_path):
    with pytest.raises(UserError, match="tree.png: an arc diagram is saved as .svg"):
        arc_diagram([], tmp_path / "tree.png")
