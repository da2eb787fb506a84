"""Texts with entities and relations as annotation tools and published corpora write them."""

from __future__ import annotations

import json

import pytest
from datasets import Dataset

from msattn.data import read_relations, to_relations
from msattn.errors import UserError

TEXT = "Ann Lee lives in Rome. Acme hired her."
TOKENS = TEXT.replace(".", " .").split()
EXPECTED = [("Ann Lee", "PER", "lives in", "Rome", "LOC"), ("Acme", "ORG", "hired", "her", "PER")]
SPANS = {(0, 7): "PER", (17, 21): "LOC", (23, 27): "ORG", (34, 37): "PER"}
RELATIONS = [((0, 7), (17, 21), "lives in"), ((23, 27), (34, 37), "hired")]


def region(span, label):
    value = {"start": span[0], "end": span[1], "text": TEXT[slice(*span)], "labels": [label]}
    return {"value": value, "id": str(span), "from_name": "label", "to_name": "text", "type": "labels"}


def arc(start, end, direction, label):
    ends = {"from_id": str(start), "to_id": str(end)}
    return {**ends, "type": "relation", "direction": direction, "labels": [label]}


def token_span(span, label):
    numbers = {(0, 7): (0, 1), (17, 21): (4, 4), (23, 27): (6, 6), (34, 37): (8, 8)}[span]
    ends = {"token_start": numbers[0], "token_end": numbers[1]}
    return {"start": span[0], "end": span[1], **ends, "label": label}


DOCCANO = {
    "id": 7,
    "text": TEXT,
    "entities": [{"id": 90 + s, "label": of, "start_offset": s, "end_offset": e} for (s, e), of in SPANS.items()],
    "relations": [
        {"id": 3 + h[0], "from_id": 90 + h[0], "to_id": 90 + t[0], "type": label} for h, t, label in RELATIONS
    ],
    "Comments": [],
}
LABEL_STUDIO = {
    "id": 7,
    "data": {"text": TEXT, "ref": "report-1"},
    "annotations": [
        {"id": 1, "was_cancelled": True, "result": []},
        {
            "id": 2,
            "was_cancelled": False,
            "ground_truth": False,
            "result": [
                *(region(span, of) for span, of in SPANS.items()),
                arc((0, 7), (17, 21), "right", "lives in"),
                arc((34, 37), (23, 27), "left", "hired"),
            ],
        },
    ],
    "predictions": [],
}
PRODIGY = {
    "text": TEXT,
    "tokens": [{"text": token, "id": number, "ws": True} for number, token in enumerate(TOKENS)],
    "spans": [token_span(span, of) for span, of in SPANS.items()],
    "relations": [
        {"head_span": token_span(h, SPANS[h]), "child_span": token_span(t, SPANS[t]), "label": label, "color": "#d9"}
        for h, t, label in RELATIONS
    ],
    "answer": "accept",
    "_view_id": "relations",
}
SCIERC = {
    "doc_key": "A1",
    "sentences": [TOKENS[:6], TOKENS[6:]],
    "ner": [[[0, 1, "PER"], [4, 4, "LOC"]], [[6, 6, "ORG"], [8, 8, "PER"]]],
    "relations": [[[0, 1, 4, 4, "lives in"]], [[6, 6, 8, 8, "hired"]]],
    "clusters": [],
}
CROSSRE = {
    "doc_key": "news-1",
    "sentence": TOKENS,
    "ner": [[0, 1, "PER"], [4, 4, "LOC"], [6, 6, "ORG"], [8, 8, "PER"]],
    "relations": [[0, 1, 4, 4, "lives in", "", False, False], [6, 6, 8, 8, "hired", "", False, False]],
}
BRAT = (
    "T1\tPER 0 7\tAnn Lee\nT2\tLOC 17 21\tRome\nR1\tlives in Arg1:T1 Arg2:T2\n".replace("lives in", "lives_in")
    + "T3\tORG 23 27\tAcme\nT4\tPER 34 37\ther\nR2\thired Arg1:T3 Arg2:T4\t\n"
    + "T5\tPER 0 3;34 37\tAnn her\nR3\thired Arg1:T3 Arg2:T5\nE1\tJob:T3\n#1\tNote T1\tsure\n*\tEquiv T1 T4\n"
)


def triples(rows):
    def entity(row, role):
        return row["text"][slice(*row[role])], row[f"{role}_type"]

    return [(*entity(row, "head"), row["label"], *entity(row, "tail")) for row in rows]


EXPORTS = {"doccano": DOCCANO, "label studio": LABEL_STUDIO, "prodigy": PRODIGY, "scierc": SCIERC, "crossre": CROSSRE}


@pytest.mark.parametrize("row", EXPORTS.values(), ids=EXPORTS)
@pytest.mark.parametrize("name", ["data.jsonl", "data.json"])
def test_exports(write, row, name):
    assert triples(read_relations(write(json.dumps([row] if name == "data.json" else row), name))) == EXPECTED


@pytest.mark.parametrize(
    "row, message",
    [
        ({**PRODIGY, "answer": "reject"}, ":1: the example was rejected or ignored; 1 such are left out."),
        ({**LABEL_STUDIO, "annotations": []}, "1 texts have no accepted annotation and were left out."),
    ],
)
def test_texts_without_annotation_are_counted(write, caplog, row, message):
    rows = read_relations(write(json.dumps(row) + "\n" + json.dumps(PRODIGY)))
    assert triples(rows) == EXPECTED
    assert message in caplog.text


def test_rejected_rows_of_a_dataset_are_counted(caplog):
    rows = to_relations(Dataset.from_list([{**PRODIGY, "answer": "ignore"}, PRODIGY]))
    assert triples(rows) == EXPECTED
    assert "1 texts have no accepted annotation and were left out." in caplog.text


def test_a_document_needs_no_name(write):
    sentences = {name: SCIERC[name] for name in ("sentences", "ner", "relations")}
    assert triples(read_relations(write(json.dumps(sentences)))) == EXPECTED


@pytest.mark.parametrize(
    "row, message",
    [
        (
            {**DOCCANO, "relations": [{"from_id": 1, "to_id": 90, "type": "x"}]},
            "SpERT or doccano; there is no 1",
        ),
        (
            {**LABEL_STUDIO, "annotations": [{"result": [{"type": "relation"}]}]},
            "Label Studio; there is no ",
        ),
        ({**PRODIGY, "relations": [{"head": 1, "child": 2}]}, "Prodigy; there is no "),
        (
            {**DOCCANO, "entities": [{**each, "id": 1} for each in DOCCANO["entities"]]},
            "SpERT or doccano; two entities have the same id",
        ),
        ({**SCIERC, "relations": [[[0, 1, 4]], []]}, "SciERC or CrossRE; "),
        (
            {**SCIERC, "relations": [[[0, 1, 6, 6, "x"]], []]},
            r"SciERC or CrossRE; \[6, 6\] is not in sentence 0, tokens 0 to 5",
        ),
        ({"vertexSet": [], "labels": []}, "DocRED; there is no "),
    ],
)
def test_other_forms_are_refused_by_name(write, row, message):
    with pytest.raises(UserError, match=f":1: the row is not in the form of {message}"):
        read_relations(write(json.dumps(row)))


def test_a_relation_has_a_label(write):
    with pytest.raises(UserError, match=":1: the relation of the entities 0 and 1 has no label"):
        read_relations(write(json.dumps(LABEL_STUDIO).replace('["lives in"]', "[]")))


def test_what_else_is_said_of_an_entity_makes_no_other(write, caplog):
    """A choice for a region of Label Studio has the region's id; SciERC's spans may have several types."""
    task = json.loads(json.dumps(LABEL_STUDIO))
    results = task["annotations"][1]["result"]
    results.append({**results[0], "type": "choices", "value": {"start": 0, "end": 7, "choices": ["sure"]}})
    results[0]["value"]["labels"].append("ARTIST")
    assert triples(read_relations(write(json.dumps(task)))) == EXPECTED
    assert "1 further labels of a region were not read." in caplog.text
    document = {**SCIERC, "ner": [[*SCIERC["ner"][0], [0, 1, "ARTIST"]], SCIERC["ner"][1]]}
    assert triples(read_relations(write(json.dumps(document)))) == EXPECTED
    assert "1 entities were skipped: another one has the same span." in caplog.text


def test_the_text_of_a_task_has_the_words_of_its_regions(write):
    task = {**LABEL_STUDIO, "data": {"report": TEXT, "title": TEXT.upper() * 2}}
    assert triples(read_relations(write(json.dumps(task)))) == EXPECTED
    task = json.loads(json.dumps(task).replace("Ann Lee", r"Ann\nLee").replace("ANN LEE", r"ANN\nLEE"))
    task["annotations"][1]["result"][0]["value"]["text"] = r"Ann\nLee"  # a backslash, as its editor writes it
    assert triples(read_relations(write(json.dumps(task))))[0] == ("Ann\nLee", *EXPECTED[0][1:])


def test_outputs_of_taggers_have_no_relations(write):
    scored = [[[*each, 9.5, 0.9] for each in sentence] for sentence in SCIERC["ner"]]
    dygie = {"doc_key": "A1", "dataset": "x", "sentences": SCIERC["sentences"], "predicted_ner": scored}
    for row in (dygie, {name: value for name, value in PRODIGY.items() if name != "relations"}):
        assert read_relations(write(json.dumps(row))).unique("label") == [None]


def test_names_of_exports_are_checked(write):
    moved = json.loads(json.dumps(LABEL_STUDIO).replace('"start": 17, "end": 21', '"start": 16, "end": 20'))
    with pytest.raises(UserError, match="is ' Rom', but its name is 'Rome'; count again"):
        read_relations(write(json.dumps(moved)))


def test_brat(write, tmp_path, caplog):
    for name in ("a", "b"):
        write(TEXT, f"{name}.txt")
        write(BRAT, f"{name}.ann")
    expected = [(*each[:2], each[2].replace(" ", "_"), *each[3:]) for each in EXPECTED]
    rows = read_relations(tmp_path)
    assert triples(rows) == expected * 2 and rows["id"][0] == "a:0-1"
    counts = "2 entities of several parts, 2 events, 2 equivalences, 2 relations of such."
    assert f"left out are {counts}" in caplog.text
    assert triples(read_relations(tmp_path / "a.ann")) == expected
    split = write("T1\tPER 0 3;4 7\tAnn Lee\nT2\tLOC 17 21\tRome\nR1\tx Arg2:T2 Arg1:T1\n", "a.ann")
    assert triples(read_relations(split)) == [("Ann Lee", "PER", "x", "Rome", "LOC")]
    for line, message in [
        ("T1\tPER 0\tAnn", "the line is neither `T1"),
        ("R1\tx Arg1:T1 Arg2:T2 Arg3:T3", "the line is neither `T1"),
        ("T2\tPER 0 3\tAnn\nT2\tPER 4 7\tLee", "T2 is there twice"),
        ("T2\tPER 0 3\tAnn\nR1\tx Arg1:T2 Arg2:T9", "the relation names T9, which is not in the file"),
    ]:
        write(line, "a.ann")
        with pytest.raises(UserError, match=rf"a.ann:[12]: {message}"):
            read_relations(tmp_path)
    (tmp_path / "empty").mkdir()
    with pytest.raises(UserError, match="no file that ends in .ann"):
        read_relations(tmp_path / "empty")


@pytest.mark.parametrize(
    "row, message",
    [
        ("Ann lives in Rome.,Ann,Rome,,", None),
        ("Ann lives in Annapolis. Ann?,Ann,Annapolis,24,13", None),
        ("Ann met Ann. Rome?,Ann,Rome,8.0,13.0", None),  # pandas writes floats beside missing ones
        ("Ann met Ann and Rome.,Ann,Rome,,", "the head 'Ann' is at characters 0 and 8; say which, with head_start"),
        ("Anna lives in Rome.,Ann,Rome,,", "the head 'Ann' is not there. The text: 'Anna lives in Rome.'"),
        ("Ann lives in Rome.,Ann,Rome,0,14", "the tail 'Rome' is not at character 14, but at 13"),
        ("Ann lives in Rome.,Ann,Rome,0,x", "the tail 'Rome' is not at character x, but at 13"),
        ("Ann lives in Rome.,,Rome,,", "the head '' is not there"),
    ],
)
def test_entities_by_their_words(write, row, message):
    path = write(f"sentence,head,tail,head_offset,tail_offset,relation\n{row},lives in\n", "data.csv")
    if message is None:
        assert triples(read_relations(path))[0][::2] == ("Ann", "lives in", None)
    else:
        with pytest.raises(UserError, match=f"data.csv:2: {message}"):
            read_relations(path)


def test_names_beside_bounds_are_checked(write):
    header = "text,head,head_start,head_end,tail,tail_start,tail_end,relation\n"
    rows = read_relations(write(header + "Ann met Ann.,Ann,0,3,Ann,8,11,met\n", "data.csv"))
    assert (rows[0]["head"], rows[0]["tail"]) == ([0, 3], [8, 11])
    with pytest.raises(UserError, match="the tail span .7, 10. is ' An', but its name is 'Ann'"):
        read_relations(write(header + "Ann met Ann.,Ann,0,3,Ann,7,10,met\n", "data.csv"))
