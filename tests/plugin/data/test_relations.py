from __future__ import annotations

import json
from itertools import chain

import datasets
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from datasets import ClassLabel, Dataset, Features, Value, load_dataset

from msattn.data import read_relations, to_relations
from msattn.data.spans import name_places
from msattn.data.tagged_words import read_tagged_words
from msattn.errors import UserError
from msattn.pipelines.relation_inputs import read_input

SEMEVAL = (
    '1\t"The <e1>cat</e1> sat on the <e2>mat</e2>."\nOther\nComment:\n\n'
    '2\t""War" pre-<e1>war</e1> "<e2>war</e2>""\nCause-Effect(e2,e1)\nComment: a "note"\twith a tab\n\n'
)
OPENNRE = {
    "token": ["\u00a0", "B", "\n ", "in", "new", "york"],
    "h": {"name": "new york", "pos": [4, 6]},
    "t": {"name": "b", "pos": [1, 2]},
    "relation": "place of birth",
}
SPANS = {"text": "A cat naps.", "head": [2, 5], "tail": [6, 10], "label": "does"}


def entities(row):
    return tuple(row["text"][slice(*row[role])] for role in ("head", "tail"))


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("bom", ["", "\ufeff"])
def test_semeval_blocks(write, end, bom):
    rows = read_relations(write(bom + SEMEVAL.replace("\n", end)))
    assert rows["id"] == ["1", "2"]
    assert rows["label"] == ["Other", "Cause-Effect(e2,e1)"]
    assert rows["text"] == ["The cat sat on the mat.", '"War" pre-war "war"']
    assert [entities(row) for row in rows] == [("cat", "mat"), ("war", "war")]
    assert rows[1]["head"] == [10, 13]


def test_semeval_second_entity_first_and_without_labels(write):
    rows = read_relations(write('7\t"<e2>mat</e2><e1>cat</e1>"\n8\t"a <e1>b</e1>\u2028\x85<e2>c</e2>"'))
    assert [entities(row) for row in rows] == [("cat", "mat"), ("b", "c")]
    assert rows["label"] == [None, None]
    assert rows.features["label"] == Value("string")


@pytest.mark.parametrize(
    ("content", "line", "message"),
    [
        ('1\t"The <e1>cat</e1> sat."\nOther\n', 1, "<e2> is missing"),
        ('1\t"<e1>cat</e1> <e2>sat</e2> <e2>b</e2>."\nOther\n', 1, "the tag <e2> occurs twice"),
        ('1\t"The <e1></e1> sat <e2>b</e2>."\nOther\n', 1, "entity e1 is empty"),
        ('1\t"The </e1>a<e1> sat <e2>b</e2>."\nOther\n', 1, "reversed"),
        ('1\t"The <e1><e2>a</e1></e2>"\nOther\n', 1, "both entities are at"),
        (SEMEVAL + '3\t"The <e1>a</e1> <e2>b</e2>"\n', 9, "no label"),
        ('1\t"<e1>a</e1> <e2>b</e2>"\n\n2\t"<e1>a</e1> <e2>b</e2>"\nOther\n', 3, "a label, unlike"),
        (SEMEVAL + '3\t"The <e1>a</e1> <e', 9, "quotation mark"),
        (SEMEVAL + "30", 9, "found '30'"),
        ('1\t"<e1>a</e1> <e2>b</e2>"\nOther\nSome-Thing\n', 3, "found 'Some-Thing'"),
        ('1\t"<e1>a</e1> <e2>b</e2>"\n2 "<e1>a</e1> <e2>b</e2>"\n', 2, "id TAB"),
    ],
)
def test_semeval_errors_name_the_line(write, content, line, message):
    path = write(content)
    with pytest.raises(UserError) as error:
        read_relations(path)
    assert str(error.value).startswith(f"{path}:{line}: ")
    assert message in str(error.value)


def test_token_spans_become_characters_by_position(write):
    rows = read_relations(write(json.dumps(OPENNRE) + "\r\n\r\n"))
    assert rows["text"] == ["\u00a0 B \n  in new york"]
    assert entities(rows[0]) == ("new york", "B")
    assert rows["label"] == ["place of birth"]
    assert rows["id"] == ["1"]


TEXT = {"text": "A cat naps.", "label": "does"}
TOKENS = {"tokens": ["A", "cat", "naps."], "relation": "does"}
SHAPES = {
    "spans": SPANS,
    "opennre text": {**TEXT, "h": {"pos": [2, 5]}, "t": {"pos": [6, 10]}},
    "objects of floats": {**TEXT, "head": {"start": 2.0, "end": 5.0}, "tail": {"start": 6, "end": 10}},
    "strings": {**TEXT, "head": "[2, 5]", "tail": "(6.0,10.0)"},
    "flat": {**TEXT, "head_start": 2, "head_end": 5, "tail_start": 6, "tail_end": 10},
    "tags": {"sentence": "A <e1> cat</e1> <e2>naps </e2>.", "relation": "does"},
    "other case": {"Text": "A cat naps.", "Head_Start": 2, "head_end ": 5, "Tail_start": 6, "tail_End": 10}
    | {"Label": "does"},
    "tacred of pandas": {**TOKENS, "subj_start": 1.0, "subj_end": "1", "obj_start": 2.0, "obj_end": 2.0},
    "fewrel hub": {**TOKENS, "head": {"text": "cat", "indices": [[1], [2]]}, "tail": {"indices": [[2]]}},
}


@pytest.mark.parametrize("row", SHAPES.values(), ids=SHAPES)
@pytest.mark.parametrize("file_format", ["jsonl", "json", "parquet"])
def test_row_shapes_in_every_container(write, tmp_path, row, file_format):
    path = tmp_path / f"data.{file_format}"
    if file_format == "jsonl":
        write(json.dumps(row) + "\n" + json.dumps(row), path.name)
    elif file_format == "json":
        write("\ufeff" + json.dumps([row, row], indent=1), path.name)
    else:
        pq.write_table(pa.Table.from_pylist([row, row]), path)
    for given in ("auto", file_format):
        rows = read_relations(path, given)
        assert rows["id"] == ["1", "2"]
        assert rows["label"] == ["does", "does"]
        assert entities(rows[1])[0] == "cat"
        assert entities(rows[1])[1].startswith("naps")


@pytest.mark.parametrize(
    ("head", "tail", "text"),
    [
        ([0, 3], [13, 17], "Ann lives in Rome."),  # behind the last token
        ([0, 3], [4, 9], "Ann lives in Rome."),  # words of the text, though there are so many tokens
        ([0, 1], [3, 4], "Ann lives in Rome . So does Bob ."),
        ("Ann", "Rome", "Ann lives in Rome."),
    ],
)
def test_spans_of_rows_with_text_and_tokens(write, head, tail, text):
    tokens = ["Ann", "lives", "in", "Rome", ".", "So", "does", "Bob", "."]
    row = {"text": "Ann lives in Rome.", "tokens": tokens, "head": head, "tail": tail, "label": "does"}
    (found,) = read_relations(write(json.dumps(row), "data.jsonl"))
    assert found["text"] == text
    assert entities(found) in (("Ann", "Rome"), ("Ann", "lives"))


def test_all_entities_of_a_row_with_text_and_tokens_count_the_same(write):
    text = "Ann met Bob in Rome , and then they all went on to see how it is to live near by with Carl Lund ."
    names = ["Ann ", "Bob", "Rome", "Carl Lund"]  # with a space, Ann alone could be four tokens
    spans = [{"start": text.index(name), "end": text.index(name) + len(name), "type": "X"} for name in names]
    mentions = [spans[:1], *spans[1:]]
    for row in ({"entities": spans}, {"entities": mentions}):
        row |= {"text": text, "tokens": text.split()}
        path = write(json.dumps(row), "data.jsonl")
        assert {*chain(*map(entities, read_relations(path)))} == {*names}
        assert [entity["text"] for entity in read_input(row).given] == [name.strip() for name in names]
    (tagged,) = read_tagged_words(write(json.dumps(row | {"entities": spans}), "data.jsonl"))
    words = [word for word, tag in zip(tagged["words"], tagged["tags"], strict=True) if tag != "O"]
    assert words == " ".join(names).split()
    row = {"text": "Don't go", "tokens": ["Do", "n't", "go"], "entities": []}
    (tagged,) = read_tagged_words(write(json.dumps(row), "data.jsonl"))
    assert tagged["words"] == row["tokens"]


@pytest.mark.parametrize(("head", "tail"), [([0, 1], [1, 2]), ([0, 3], [4, 7])])
def test_spans_of_letters_without_case(head, tail):
    """Nothing but the tokens says where words of Hebrew end."""
    tokens = ["\u05d3\u05e0\u05d4", "\u05d2\u05e8\u05d4", "\u05e4\u05d4", "\u05e8\u05d5\u05de\u05d0"]
    row = {"text": " ".join(tokens) + ".", "tokens": [*tokens, *"."], "head": head, "tail": tail, "label": "does"}
    (found,) = to_relations(Dataset.from_list([row]))
    assert entities(found) == (tokens[0], tokens[1])


@pytest.mark.parametrize(
    "name, text, places",
    [
        ("דן", "דן גר ליד ירדן", [0]),
        ("דן", "לדן יש", [1]),
        ("张三", "张三住在罗马，张三", [0, 7]),
        ("수", "수는 이수", [0, 4]),
    ],
    ids=["in another word", "behind a prefix", "Chinese", "Korean"],
)
def test_places_of_names_in_scripts_without_case(name, text, places):
    assert name_places(name, text) == places


@pytest.mark.parametrize("indent", [None, 0, 4])
def test_fewrel_file(write, indent):
    example = {"tokens": ["A", "cat", "naps"], "h": ["cat", "Q1", [[1]]], "t": ["naps", "Q2", [[2]]]}
    rows = read_relations(write(json.dumps({"P1": [example, example], "P2": [example]}, indent=indent)))
    assert rows["label"] == ["P1", "P1", "P2"]
    assert entities(rows[2]) == ("cat", "naps")
    with pytest.raises(UserError, match=", example 2 of P2: the head span"):
        read_relations(write(json.dumps({"P1": [example], "P2": [example, {**example, "h": [9, 10]}]}, indent=indent)))


def test_types_beside_objects(write):
    row = {**SPANS, "head": {"start": 2, "end": 5}, "tail": {"start": 6, "end": 10, "type": "DEED"}}
    (found,) = read_relations(write([{**row, "head_type": "CAT", "tail_type": "X"}], "rows.jsonl"))
    assert (found["head_type"], found["tail_type"]) == ("CAT", "DEED")


@pytest.mark.parametrize(
    "content",
    [
        {name: {"0": value, "1": value} for name, value in SPANS.items()},  # pandas' to_json
        {name: [value, value] for name, value in SPANS.items()},
    ],
)
def test_json_of_columns(write, content):
    rows = read_relations(write(json.dumps(content), "a.json"))
    assert rows.to_list() == read_relations(write([SPANS, SPANS], "b.jsonl")).to_list()


@pytest.mark.parametrize("indent", [0, 4])
def test_indented_json(write, indent):
    assert read_relations(write(json.dumps([SPANS, SPANS], indent=indent)))["label"] == ["does", "does"]
    one = json.dumps(SPANS, indent=indent)
    assert entities(read_relations(write(one))[0]) == ("cat", "naps")
    with pytest.raises(UserError, match="nor one object a line .Extra data"):
        read_relations(write(f"{one}\n{one}\n"))


def test_csv(write):
    header = "text,head_start,head_end,tail_start,tail_end,label,id\r\n"
    rows = read_relations(write("\ufeff" + header + '"A ""cat"", it\r\nnaps",3,6,13,17,does,x\r\n', "data.csv"))
    assert rows["id"] == ["x"]
    assert entities(rows[0]) == ("cat", "naps")
    semicolons = header.replace(",", ";") + '"A ""cat""; it\r\nnaps";3;6;13;17;does;x\r\n'
    assert entities(read_relations(write(semicolons, "data.csv"))[0]) == ("cat", "naps")
    strings = 'text,head,tail,label\r\nA cat naps.,"[2, 5]","[6, 10]",does\r\n'
    assert entities(read_relations(write(strings, "data.csv"))[0]) == ("cat", "naps")
    rows = read_relations(write("text,label\n<e1>a</e1><e2>b</e2>,\n\n", "tags.CSV"))
    assert rows["label"] == [None]
    assert entities(rows[0]) == ("a", "b")


def test_tsv(write):
    content = 'label\tsentence\r\ndoes\t"A" <e1>5" cat</e1>, it <e2>naps</e2>"\r\n'
    path = write(content, "data.tsv")
    assert read_relations(write(content, "data.tsv.gz")).to_list() == read_relations(path).to_list()
    rows = read_relations(path)
    assert (rows["text"], rows["label"]) == (['"A" 5" cat, it naps"'], ["does"])
    assert entities(rows[0]) == ('5" cat', "naps")
    assert read_relations(write(content, "data.txt")).to_list() == rows.to_list()
    assert read_relations(write(SEMEVAL, "data.tsv"))["label"] == ["Other", "Cause-Effect(e2,e1)"]
    with pytest.raises(UserError, match="data.tsv: there is no example"):
        read_relations(write("", "data.tsv"))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"head": [5, 2]}, "0 <= start < end <= 11, the number of characters"),
        ({"tail": [6, 12]}, "0 <= start < end <= 11"),
        ({"tail": [2, 5]}, "both entities are at characters"),
        ({"tail": [6.0, 10.5]}, "two whole numbers"),
        ({"tail": {"name": "cat"}}, "two whole numbers, [start, end), but has {'name': 'cat'}"),
        ({"tail": [True, 10]}, "two whole numbers"),
        ({"tail": None}, "two whole numbers"),
        ({"head": None, "tail": None}, "<e1> is missing"),
        (
            {"text": None, "token": ["A", "cat"], "head": None, "tail": None}
            | {"subj_start": 0, "subj_end": 1, "obj_start": 1, "obj_end": 2},
            "the number of tokens (if the ends of TACRED's fields are exclusive: run_re.py --span_ends exclusive)",
        ),
        ({"text": None}, "list of strings); it has 'text', 'head', 'tail', 'label'."),
        ({"token": ["A", 1]}, "list of strings"),
        ({"token": ["A", "", "c"], "head": [1, 2], "tail": [2, 3]}, "the head is empty"),
        ({"token": ["A", "\u200b", "c"], "head": [1, 2], "tail": [2, 3]}, "the head is empty"),
        ({"text": "A cat naps\ud800"}, "a lone surrogate"),
        ({"text": "A <e1>cat</e1> <e2>naps</e2>"}, "the text marks its entities with <e1>, and a field"),
        ({"label": ["does"]}, "the label must be a string"),
        ({"label": "did"}, "unknown label 'did'; the known ones are does"),
        ({"label": ""}, "no label"),
        ({"label": "a\tb"}, "has a tab or a line end"),
        ({"label": "nan"}, "the label is 'nan', as pandas writes empty cells; leave it empty"),
        ({"head_type": "NaN"}, "the head type is 'NaN'"),
    ],
)
def test_bad_rows_name_the_line(write, change, message):
    path = write(json.dumps(SPANS) + "\n\n" + json.dumps({**SPANS, **change}) + "\n")
    with pytest.raises(UserError) as error:
        read_relations(path, labels=["does"])
    assert str(error.value).startswith(f"{path}:3: ")
    assert message in str(error.value)


@pytest.mark.parametrize(
    ("content", "name", "place", "message"),
    [
        (b"", "data.txt", "", "empty"),
        (b"", "data.csv", "", "no example"),
        (b"text,label\n", "data.csv", ":1", "no example"),
        (b"Hello.\n", "data.txt", ":1", "give file_format, one of semeval"),
        (
            b'{"text": "a"}\n{}\n{"te',
            "data.jsonl",
            ":1",
            "<e1> is missing, and no field (head, tail, ...) gives the entities' positions; it has",
        ),
        (b"[1]\n[1, 2", "data.json", "", "neither one JSON array"),
        (b'["a"]', "data.json", ", example 1", "not str"),
        (b'{"train": [{"label": "x"}]}', "data.json", ":1, example 1 of train", "it has a label of its own"),
        (b'1\t"caf\xe9 <e1>a</e1> <e2>b</e2>"\n', "data.txt", ":1", "not UTF-8"),
        (b"PAR1", "data.parquet", "", "Parquet"),
    ],
)
def test_bad_files(write, content, name, place, message):
    path = write(content, name)
    with pytest.raises(UserError) as error:
        read_relations(path)
    assert str(error.value).startswith(f"{path}{place}: ")
    assert message in str(error.value)


def test_to_relations_takes_rows_as_the_hub_has_them():
    features = Features({"sentence": Value("string"), "relation": ClassLabel(names=["Other", "Cause-Effect(e1,e2)"])})
    data = Dataset.from_dict(
        {"sentence": ["<e1>a</e1> <e2>b</e2>", "c <e1>d</e1> <e2>e</e2>"], "relation": [1, 0]}, features=features
    )
    rows = to_relations(data, "hub")
    assert rows["label"] == ["Cause-Effect(e1,e2)", "Other"]
    assert entities(rows[1]) == ("d", "e")
    assert to_relations(rows).to_list() == rows.to_list()
    unlabelled = data.map(lambda row: {"relation": -1})
    assert to_relations(unlabelled)["label"] == [None, None]
    with pytest.raises(UserError, match="hub, row 1: unknown label"):
        to_relations(data, "hub", labels=["Other"])


@pytest.mark.skipif(not hasattr(datasets, "Json"), reason="datasets reads no fields of several types")
def test_fields_of_several_types_are_decoded(write, tmp_path):
    """The reader of datasets makes Arrow's JSON of them."""
    path = write([{**SPANS, "head": [2, 5, "CAT"]}], "rows.jsonl")
    data = load_dataset("json", data_files=str(path), split="train", cache_dir=str(tmp_path))
    data.to_parquet(tmp_path / "rows.parquet")
    for rows in (to_relations(data), read_relations(tmp_path / "rows.parquet")):
        assert (rows["head"][:], rows["head_type"][:]) == ([[2, 5]], ["CAT"])


def test_classes_within_structs_are_named():
    entity = {"start": Value("int64"), "end": Value("int64"), "type": ClassLabel(names=["CAT", "DEED"])}
    features = Features({"text": Value("string"), "label": Value("string"), "head": entity, "tail": entity})
    row = {**SPANS, "head": {"start": 2, "end": 5, "type": 0}, "tail": {"start": 6, "end": 10, "type": 1}}
    assert to_relations(Dataset.from_list([row], features=features))["tail_type"] == ["DEED"]


def test_labels_have_no_spaces_around_them(write):
    rows = [{**SPANS, "label": label} for label in ("does", " does", "does\u00a0")]
    assert to_relations(Dataset.from_list(rows)).unique("label") == ["does"]
    numbered = to_relations(Dataset.from_list([{**row, "label": 0} for row in rows]))
    assert numbered.unique("label") == ["0"]
    assert read_relations(write("\n".join(map(json.dumps, rows)), "rows.jsonl")).unique("label") == ["does"]
