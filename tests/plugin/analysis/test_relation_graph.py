"""The graph of relations: every triple once, as SVG and as DOT, whatever the texts are."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import pytest

from msattn import UserError
from msattn.analysis import relation_graph


def triple(head, tail, label, score=0.5, start=0, end=10):
    return {
        "head": {"start": start, "end": start + 1, "text": head},
        "tail": {"start": end, "end": end + 1, "text": tail},
        "label": label,
        "score": score,
    }


TRIPLES = [
    triple("Acme", "Rome", "based in", 0.9, start=32, end=13),
    triple("Ann", "Rome", "lives in", 0.8, end=13),
    triple("Ann", "Acme", "works for", 0.7, end=32),
]


def drawn(svg: str) -> tuple[list[str], list[tuple[str, str]]]:
    """The entities from left to right, and title and label of each arc."""
    shapes = list(ElementTree.fromstring(svg).iter())
    groups = [[child.text for child in node if child.text] for node in shapes if node.tag.endswith("}g")]
    words = [
        (float(node.get("x")), node.text) for node in shapes if node.tag.endswith("}text") if not node.get("fill")
    ]
    return [word for _, word in sorted(words)], [
        tuple(group) for group in groups if len(group) == 2 and "→" in group[0]
    ]


def test_entities_in_the_order_of_the_text_and_all_relations():
    words, arcs = drawn(relation_graph(TRIPLES))
    assert words == ["Ann", "Rome", "Acme"]
    assert sorted(arcs) == [
        ("Acme → Rome: based in (0.90)", "based in"),
        ("Ann → Acme: works for (0.70)", "works for"),
        ("Ann → Rome: lives in (0.80)", "lives in"),
    ]


def test_several_texts_come_one_after_the_other():
    texts = [[triple("c", "b", "x", start=50, end=70)], [], [triple("a", "c", "y", start=0, end=9)]]
    words, arcs = drawn(relation_graph(texts))
    assert words == ["c", "b", "a"] and len(arcs) == 2
    assert drawn(relation_graph([*texts[0], *texts[2]]))[0] == ["a", "c", "b"]


def tips(svg: str) -> list[float]:
    """Where the arrows point, in the order of the arcs."""
    return [float(x) for x in re.findall(r"L([\d.]+) [\d.]+z", svg)]


def test_arrows_point_at_the_tail():
    there, back = (
        tips(relation_graph([triple("a", "b", "x")])),
        tips(relation_graph([triple("b", "a", "x", 0.5, 10, 0)])),
    )
    assert there > back


def test_relations_of_the_same_entities_do_not_cross():
    svg = relation_graph([triple("a", "b", "first"), triple("a", "b", "second")])
    spans = [tuple(map(float, found)) for found in re.findall(r'd="M([\d.]+) .*?V[\d.]+q.*?H([\d.]+)q', svg)]
    (outer, inner) = sorted(spans)
    assert outer[0] < inner[0] < inner[1] < outer[1]


def test_equal_relations_are_one_with_the_higher_score():
    again = [triple("a", "b", "x", score, start) for score, start in ((0.2, 5), (0.9, 50), (0.4, 70))]
    assert drawn(relation_graph(again))[1] == [("a → b: x (0.90)", "x")]
    assert drawn(relation_graph([{**again[0], "score": None}]))[1] == [("a → b: x", "x")]


def test_dot(tmp_path):
    for name in ("graph.dot", "graph.gv"):
        graph = relation_graph(TRIPLES, tmp_path / name)
        assert (tmp_path / name).read_text(encoding="utf-8") == graph
    assert graph.splitlines() == [
        "digraph relations {",
        "  rankdir=LR;",
        "  node [shape=box, style=rounded];",
        '  0 [label="Ann"];',
        '  1 [label="Rome"];',
        '  2 [label="Acme"];',
        '  2 -> 1 [label="based in", tooltip="based in (0.90)"];',
        '  0 -> 1 [label="lives in", tooltip="lives in (0.80)"];',
        '  0 -> 2 [label="works for", tooltip="works for (0.70)"];',
        "}",
    ]


def test_texts_are_escaped(tmp_path):
    evil = [triple('a"b\\', "<b>\n&", '"];x[', end=1)]
    words, arcs = drawn(relation_graph(evil, tmp_path / "graph.svg"))
    assert words == ['a"b\\', "<b>␊&"] and arcs[0][1] == '"];x['
    assert r'0 [label="a\"b\\"];' in relation_graph(evil, tmp_path / "graph.dot")
    assert r'1 [label="<b>␊&"];' in (tmp_path / "graph.dot").read_text(encoding="utf-8")
    assert r'0 -> 1 [label="\"];x["' in (tmp_path / "graph.dot").read_text(encoding="utf-8")


def test_from_right_to_left():
    assert drawn(relation_graph([triple("הסופר", "הספר", "wrote")]))[0] == ["הספר", "הסופר"]


def test_nothing_and_a_relation_with_itself():
    assert drawn(relation_graph([])) == ([], [])
    assert drawn(relation_graph([triple("a", "a", "near")])) == (["a"], [("a → a: near (0.50)", "near")])


@pytest.mark.parametrize(
    ("triples", "path", "message"),
    [
        (TRIPLES, "graph.png", "graph.png: a graph is saved as .svg, .dot or .gv"),
        ([{"head": {}, "tail": {}, "label": "x"}], None, 'a triple needs "label"'),
        ([{**TRIPLES[0], "label": None}], None, 'a triple needs "label"'),
        (TRIPLES[0], None, "but is 'head'"),
        ([triple("\ud800", "b", "x")], None, "lone surrogate"),
    ],
)
def test_wrong_triples(triples, path, message):
    with pytest.raises(UserError, match=message):
        relation_graph(triples, path)
