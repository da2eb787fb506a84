"""Arcs that end at the right words, and do not cross where the tree does not; and graphs of relations."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import pytest

from msattn import UserError
from msattn.plots import arc_diagram, relation_graph

SVG = "{http://www.w3.org/2000/svg}"
ARC = re.compile(r"M([\d.]+) ([\d.]+)V([\d.]+)q.*?H([\d.]+)q")


def sentence(words: str, heads: list[int]) -> list[dict]:
    return [
        {"index": n, "word": word, "head": head, "relation": f"r{n}", "score": 0.5}
        for n, (word, head) in enumerate(zip(words.split(), heads, strict=True), start=1)
    ]


def words_of(picture: str) -> dict[str, float]:
    """The places of the words, from the left."""
    texts = [text for text in ElementTree.fromstring(picture).iter(f"{SVG}text") if text.get("font-size") == "15"]
    return dict(sorted(((text.text, float(text.get("x"))) for text in texts), key=lambda pair: pair[1]))


def arcs_of(picture: str) -> dict[str, tuple[str, float]]:
    """The tooltip of each label, and where its arrow points."""
    groups = [group for group in ElementTree.fromstring(picture).iter(f"{SVG}g")]
    tips = [float(re.search(r"L([\d.]+) ", group.findall(f"{SVG}path")[1].get("d"))[1]) for group in groups]
    return {
        group.find(f"{SVG}text").text: (group.find(f"{SVG}title").text, tip)
        for group, tip in zip(groups, tips, strict=True)
    }


def test_every_word_has_one_arc_with_its_relation(tmp_path):
    words = sentence("The <b>dog</b> & 猫 sleep .", [2, 5, 4, 2, 0, 5])
    picture = arc_diagram(words, tmp_path / "tree.svg")
    assert (tmp_path / "tree.svg").read_text(encoding="utf-8") == picture
    places, arcs = words_of(picture), arcs_of(picture)
    assert list(places) == [word["word"] for word in words]
    assert arcs["r1"][0] == "<b>dog</b> → The: r1 (0.50)" and arcs["r5"][0] == "ROOT → sleep: r5 (0.50)"
    for word in words:
        assert arcs[word["relation"]][1] == pytest.approx(places[word["word"]], abs=0.2)


def crossings(picture: str) -> int:
    """How often the upright part of an arc meets the level part of another."""
    spans = [tuple(map(float, found)) for found in ARC.findall(picture)]
    return sum(
        min(left, right) < foot < max(left, right) and top < level
        for left, _, level, right in spans
        for one in spans
        for foot, top in ((one[0], one[2]), (one[3], one[2]))
    )


@pytest.mark.parametrize(
    ("heads", "cross"), [([3, 1, 5, 3, 0, 7, 5], 0), ([2, 5, 5, 3, 0], 0), ([2, 0, 2, 2, 2], 0), ([3, 4, 0, 3], 1)]
)
def test_only_arcs_of_trees_that_are_not_projective_cross(heads, cross):
    assert (crossings(arc_diagram(sentence(" ".join("abcdefg"[: len(heads)]), heads))) > 0) == cross


def test_labels_have_room():
    short, long = sentence("a b", [2, 0]), sentence("a b", [2, 0])
    long[0]["relation"] = "a_very_long_relation"
    (a, b), (c, d) = (words_of(arc_diagram(words)).values() for words in (short, long))
    assert d - c > 100 > b - a
    for name in ("Ann", "آن"):
        tree = ElementTree.fromstring(relation_graph([triple(name, name, "is the manager of")]))
        _, box = tree.iter(f"{SVG}rect")
        assert 0 < float(box.get("x")) < float(tree.get("width")) - float(box.get("width"))


def test_several_sentences_are_below_each_other():
    one, other = sentence("a b c", [2, 0, 2]), sentence("d", [0])
    picture = arc_diagram([one, [], other])
    assert arc_diagram([[one], [other]]) == picture and arc_diagram([one]) == arc_diagram(one)
    height = float(ElementTree.fromstring(arc_diagram(one)).get("height"))
    lines = [float(text.get("y")) for text in ElementTree.fromstring(picture).iter(f"{SVG}text")]
    assert all(line < height for line in lines[:6]) and all(line > height for line in lines[6:])
    for words in ([], sentence("No", [0])):
        ElementTree.fromstring(arc_diagram(words))


def test_scripts_from_the_right_are_drawn_from_the_right():
    arabic = sentence("نعم ذهب الولد .", [2, 0, 2, 2])
    places, arcs = words_of(arc_diagram(arabic)), arcs_of(arc_diagram(arabic))
    assert list(places) == [word["word"] for word in arabic][::-1] and min(places.values()) > 0
    for word in arabic:
        assert arcs[word["relation"]][1] == pytest.approx(places[word["word"]], abs=0.2)


def test_signs_that_xml_has_not():
    words = sentence("a\x02b c\x7f\uffff\ud800", [2, 0])
    assert list(words_of(arc_diagram(words))) == ["a\ufffdb", "c\ufffd\ufffd\ufffd"]


def test_a_head_of_no_word_is_refused():
    for head in (3, -1):
        with pytest.raises(UserError, match=f"word 2 has the head {head}; give 0 to 2, the last word"):
            arc_diagram(sentence("Dogs sleep", [2, head]))


def test_another_suffix_is_refused(tmp_path):
    for draw in (arc_diagram, relation_graph):
        with pytest.raises(UserError, match=r"tree.png: the file must end in .svg"):
            draw([], tmp_path / "tree.png")


def triple(head, tail, label, score=0.5, start=0, end=10):
    return {
        "head": {"start": start, "text": head},
        "tail": {"start": end, "text": tail},
        "label": label,
        "score": score,
    }


TRIPLES = [
    triple("Acme", "Rome", "based in", 0.9, start=32, end=13),
    triple("Ann", "Rome", "lives in", 0.8, end=13),
    triple("Ann", "Acme", "works for", 0.7, end=32),
]


def test_entities_in_the_order_of_the_text_and_all_relations():
    picture = relation_graph(TRIPLES)
    bad = {"error": "no text"}
    far = {"head": TRIPLES[0]["head"], "tail": TRIPLES[0]["tail"], "error": "too far"}
    assert relation_graph([*TRIPLES, far, {**far, "label": None, "score": 0.1}]) == picture
    assert relation_graph([TRIPLES, bad]) == relation_graph([TRIPLES])
    places, arcs = words_of(picture), arcs_of(picture)
    assert list(places) == ["Ann", "Rome", "Acme"]
    assert {label: title for label, (title, _) in arcs.items()} == {
        "based in": "Acme → Rome: based in (0.90)",
        "lives in": "Ann → Rome: lives in (0.80)",
        "works for": "Ann → Acme: works for (0.70)",
    }
    assert all(arcs[one["label"]][1] == pytest.approx(places[one["tail"]["text"]], abs=0.2) for one in TRIPLES)


def test_several_texts_come_one_after_the_other():
    texts = [[triple("c", "b", "x", start=50, end=70)], [], [triple("a", "c", "y", start=0, end=9)]]
    assert list(words_of(relation_graph(texts))) == ["c", "b", "a"]
    assert list(words_of(relation_graph([*texts[0], *texts[2]]))) == ["a", "c", "b"]
    assert list(words_of(relation_graph([texts[0], texts[2][0]]))) == ["c", "b", "a"]  # a marked pair has no list


def test_relations_of_the_same_entities_are_at_different_heights():
    picture = relation_graph(
        [triple("a", "b", "first"), triple("a", "b", "second"), triple("b", "a", "third", 0.5, 10, 0)]
    )
    assert len({found[2] for found in ARC.findall(picture)}) == 3


def test_equal_relations_are_one_with_the_higher_score():
    again = [triple("a", "b", "x", score, start) for score, start in ((0.2, 5), (0.9, 50), (0.4, 70))]
    assert arcs_of(relation_graph(again))["x"][0] == "a → b: x (0.90)"
    assert arcs_of(relation_graph([{**again[0], "score": None}]))["x"][0] == "a → b: x"
