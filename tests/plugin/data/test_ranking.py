from __future__ import annotations

import gzip
import json

import pytest

from msattn.data.ranking import RankingData, read_ranking, read_trec_ranking, sample_negatives
from msattn.errors import UserError

ROW = {"query": "a cat", "candidates": [{"text": "the cat", "label": 1}, {"text": "a dog", "label": 0}]}


def rows(data: RankingData) -> list[tuple]:
    names = ("query_id", "candidate_id", "query", "text", "label")
    return [tuple(row.get(name) for name in names) for row in data.pairs]


def test_json_lines(write):
    named = {
        "id": "q7",
        "query": "rain",
        "candidates": [{"id": 3.0, "text": "it rained", "label": True}, {"id": "s", "text": "sun", "label": 0}],
    }
    data = read_ranking(write([ROW, named], "a.jsonl"))
    (_, cat, *_), (_, dog, *_), *others = rows(data)
    assert others == [("q7", "3", "rain", "it rained", 1), ("q7", "s", "rain", "sun", 0)]
    assert data.relevant() == {"1": {cat}, "q7": {"3"}}
    # Called by its text, a candidate does not tell where it stood.
    assert rows(read_ranking(write([{**ROW, "candidates": ROW["candidates"][::-1]}], "b.jsonl"))) == [
        ("1", dog, "a cat", "a dog", 0),
        ("1", cat, "a cat", "the cat", 1),
    ]


def test_other_names_of_ids(write):
    row = {"Query_ID": "q7", "query": "rain", "candidates": [{"docid": 3, "text": "it rained", "label": 1}]}
    assert rows(read_ranking(write([row], "a.jsonl"))) == [("q7", "3", "rain", "it rained", 1)]
    triplets = [{"qid": "q7", "query": "rain", "positive": text} for text in ("it rained", "it pours")]
    assert read_ranking(write(triplets, "b.jsonl")).pairs["query_id"][:] == ["q7", "q7"]


def test_other_forms(write):
    expected = rows(read_ranking(write([ROW], "a.jsonl")))
    lists = {"query": "a cat", "positive": "the cat", "negative": ["a dog"]}
    assert rows(read_ranking(write([lists], "b.jsonl"))) == expected
    assert rows(read_ranking(write(json.dumps([ROW], indent=1), "c.json"))) == expected
    read_ranking(write([ROW], "a.jsonl")).pairs.from_list([ROW]).to_parquet(write("", "d.parquet"))
    assert rows(read_ranking(write("", "a.jsonl").with_name("d.parquet"))) == expected


def test_rows_with_a_positive_share_their_query(write, caplog):
    expected = rows(
        read_ranking(write([{**ROW, "candidates": [*ROW["candidates"], {"text": "x", "label": 0}]}], "a.jsonl"))
    )
    triplets = [{"query": "a cat", "positive": "the cat", "negative": text} for text in ("a dog", "x", "the cat")]
    assert rows(read_ranking(write(triplets, "b.jsonl"))) == expected
    assert "b.jsonl:3: a text is positive and negative for the query; 1 such are left out" in caplog.text
    assert len(read_ranking(write([{**row, "id": at} for at, row in enumerate(triplets[:2])], "c.jsonl"))) == 2


@pytest.mark.parametrize(
    ("row", "named"),
    [
        (
            {"Query": "q", "title": "t", "passage": "a", "label": 1, "url": "u"},
            "Query, passage, label; ignored: title, url",
        ),
        ({"query": "q", "pos": ["a"], "neg": [], "pos_scores": [1]}, "query, pos, neg; ignored: pos_scores"),
        ({"question": "q", "candidates": [{"text": "a"}], "topic": 1}, "question, candidates; ignored: topic"),
        ({"qid": 1, "query": "q", "text": "a", "score": 2.5, "rank": 1}, "query, qid, text; ignored: score, rank"),
    ],
)
def test_ignored_columns_are_named(write, caplog, row, named):
    read_ranking(write([row], "a.jsonl"))
    assert f"a.jsonl: read are {named}." in caplog.text


def test_columns_of_retrievers(write):
    found = {"qid": "q1", "query": "a cat", "docno": "D7", "text": "the cat", "score": 12.31, "rank": 1}
    assert rows(read_ranking(write([found], "a.jsonl"))) == [("q1", "D7", "a cat", "the cat", None)]
    judged = {"query": "a cat", "document": "d1", "text": "the cat", "relevant": 1}
    assert rows(read_ranking(write([judged], "b.jsonl")))[0][3:] == ("the cat", 1)


def test_without_labels(write):
    data = read_ranking(write([{"query": "a cat", "candidates": [{"text": "the cat"}]}], "a.jsonl"))
    assert not data.labelled and "label" not in data.pairs.column_names


def with_candidates(*candidates) -> dict:
    return {"query": "a cat", "candidates": list(candidates)}


WRONG_ROWS = {
    "half a record": ('{"query": "a cat", "candi', "is not"),
    "no query": ({"candidates": ROW["candidates"]}, 'no text in "query"'),
    "empty query": ({**ROW, "query": " "}, 'no text in "query"'),
    "no candidates": ({"query": "a cat"}, 'the row needs "candidates"'),
    "candidate without text": (with_candidates({"label": 1}), 'candidate 1 has no text in "text"'),
    "negatives of another type": ({"query": "a", "positive": "b", "negative": 3}, '"negative" must be a string or a'),
    "label out of range": (
        with_candidates({"text": "b", "label": -1}),
        "candidate 1 must be 0, 1 or another",
    ),
    "label no grade": (with_candidates({"text": "b", "label": 0.7}), "whole number (a grade), not 0.7"),
    "label a word": ({"query": "a", "document": "b", "label": "yes"}, "whole number (a grade), not 'yes'"),
    "pair without a label": ({"query": "a", "document": "b"}, "the example has no label, unlike those before it"),
    "columns of other names": ({"query": "a", "url": "b"}, '"document" and "label"; there are query, url'),
    "label missing": (with_candidates({"text": "b"}), "the example has no label, unlike those before it"),
    "two labels": (
        with_candidates({"text": "b", "label": 1}, {"text": "b", "label": 0}),
        "candidate 2 comes twice, with different texts or labels",
    ),
    "space in an id": ({**ROW, "id": "a b"}, "the id 'a b' must be a number, or a string without white space"),
}


@pytest.mark.parametrize(("row", "message"), WRONG_ROWS.values(), ids=WRONG_ROWS)
def test_wrong_rows(write, row, message):
    line = row if isinstance(row, str) else json.dumps(row)
    path = write(f"{json.dumps(ROW)}\n{line}\n", "a.jsonl")
    with pytest.raises(UserError, match=r"a\.jsonl:2[:,] ") as error:
        read_ranking(path)
    assert message in str(error.value)


def test_wrong_files(write):
    with pytest.raises(UserError, match=r":2: the query id 'x' is also that of .*:1\."):
        read_ranking(write([{**ROW, "id": "x"}] * 2, "a.jsonl"))
    with pytest.raises(UserError, match="the file is empty"):
        read_ranking(write("\n", "a.jsonl"))
    with pytest.raises(UserError, match=r":1: expected JSON .* needs --queries_file and --collection_file"):
        read_ranking(write("q1 Q0 d1 1 0.5 bm25\n", "a.trec"))


RUN = "q1 Q0 d1 1 9.5 bm25\nq1 Q0 d2 2 9.1 bm25\nq2 Q0 d1 1 8 bm25\nq2 Q0 d3 2 7 bm25\n"
QUERIES = "q1\ta cat\nq2\ta dog\nq3\tunused\n"
COLLECTION = "d1\tthe cat\nd2\tthe house\nd3\tthe dog\nd4\tanother cat\nd5\t\n"
QRELS = "q1 0 d1 2\nq1 0 d4 1\nq2 0 d3 1\nq2 0 d1 0\nq3 0 d5 1\n"


@pytest.fixture
def read(write):
    def read(run=RUN, queries=QUERIES, collection=COLLECTION, qrels=QRELS, **options) -> RankingData:
        return read_trec_ranking(
            write(run, "run.trec"),
            [write(queries, "queries.tsv")],
            [write(collection, "collection.tsv")],
            [write(qrels, "qrels.txt")] if qrels else (),
            **options,
        )

    return read


def test_trec_files(read):
    data = read()
    assert rows(data) == [
        ("q1", "d1", "a cat", "the cat", 1),
        ("q1", "d2", "a cat", "the house", 0),
        ("q2", "d1", "a dog", "the cat", 0),
        ("q2", "d3", "a dog", "the dog", 1),
    ]
    assert data.relevant() == {"q1": {"d1", "d4"}, "q2": {"d3"}}
    assert data.of_queries({"q2"}).relevant().keys() == {"q2"}


def test_trec_training_gets_the_relevant_documents_that_the_run_lacks(read):
    data = read(add_relevant=True)
    assert ("q1", "d4", "a cat", "another cat", 1) in rows(data) and not any(data.missed.values())


def test_beir_files(read, write):
    files = {
        "queries.jsonl": [{"_id": "q1", "text": "a cat"}, {"_id": "q2", "text": "a dog", "metadata": {}}],
        "corpus.jsonl": [{"_id": f"d{number}", "title": "on pets", "text": "or not"} for number in (1, 2)]
        + [{"_id": "d3", "title": "", "text": "the dog"}],
    }
    queries, corpus = (write(content, name) for name, content in files.items())
    qrels = write("query-id\tcorpus-id\tscore\nq1\td1\t1\n", "test.tsv")
    data = read_trec_ranking(write(RUN, "run.trec"), [queries], [corpus], [qrels])
    assert rows(data)[0] == ("q1", "d1", "a cat", "on pets or not", 1)
    zipped = corpus.with_name("corpus.JSONL.gz")
    zipped.write_bytes(gzip.compress(corpus.read_bytes()))
    assert rows(read_trec_ranking(corpus.with_name("run.trec"), [queries], [zipped], [qrels])) == rows(data)
    assert rows(data)[3] == ("q2", "d3", "a dog", "the dog", 0)


WRONG_FILES = {
    "twice in the run": ({"run": RUN + "q1 Q0 d1 3 1 x\n"}, "run.trec:5: the query q1 has the document d1 twice"),
    "empty run": ({"run": ""}, "run.trec: there is no example in it"),
    "unknown document": ({"run": "q1 Q0 d9 1 1 x\n"}, "run.trec:1: the document d9 is not in "),
    "document without text": ({"run": "q1 Q0 d5 1 1 x\n"}, "collection.tsv:5: the document d5 has no text"),
    "two texts": ({"queries": QUERIES + "q1\tb\n"}, "queries.tsv:4: the query q1 is there twice, with different"),
    "relevance in words": ({"qrels": "q1 0 d1 high\n"}, "qrels.txt:1: the relevance 'high' is not a whole number"),
    "two judgements": ({"qrels": "q1 0 d1 1\nq1 0 d1 0\n"}, "qrels.txt:2: the query q1 has the document d1 twice"),
    "unknown relevant document": (
        {"qrels": "q1 0 d9 1\n", "add_relevant": True},
        "qrels.txt:1: the document d9 is not in ",
    ),
}


def test_judgements_of_other_queries(read, caplog):
    assert not read(qrels="1 0 d1 1\n").labelled
    assert "run.trec, such as 'q1', so it has no labels; are the ids the same?" in caplog.text


@pytest.mark.parametrize(("changes", "message"), WRONG_FILES.values(), ids=WRONG_FILES)
def test_wrong_trec_files(read, changes, message):
    with pytest.raises(UserError) as error:
        read(**changes)
    assert message in str(error.value)


def test_negatives_are_drawn_with_a_seed(write):
    candidates = [{"text": f"text {number}", "label": int(number == 30)} for number in range(60)]
    data = read_ranking(write([{"query": "a", "candidates": candidates}, ROW], "a.jsonl"))
    one, same, other = (sample_negatives(data, 5, seed) for seed in (1, 1, 2))
    assert one.pairs["label"] == [*one.pairs["label"][:6], 1, 0] and sum(one.pairs["label"][:6]) == 1
    assert rows(one) == rows(same) != rows(other)


TRIPLETS = [("q", "a", 1), ("q", "b", 0), ("q", "c", 0), ("r", "a", 0), ("r", "d", 1)]
TABLES = {
    "triplets": (
        "a.jsonl",
        '{"anchor": "q", "positive": "a", "negative": ["b", "c"]}\n'
        '{"anchor": "r", "positive": "d", "negative": "a"}\n',
    ),
    "negatives in columns": ("a.csv", "Query,positive,negative_1,negative_2\nq,a,b,c\nr,d,a,\n"),
    "short names": (
        "a.jsonl",
        '{"query": "q", "pos": ["a"], "neg": ["b", "c"], "pos_scores": [1]}\n'
        '{"query": "r", "pos": ["d"], "neg": ["a"]}\n',
    ),
    "pairs": ("a.csv", "query,document,label\nq,a,1\nq,b,0\nq,c,0\nr,a,0\nr,d,1\n"),
    "shuffled pairs": ("a.tsv", "label\tquery\ttext\n0\tr\ta\n1\tq\ta\n1\tr\td\n0\tq\tc\n0\tq\tb\n0\tq\tb\n"),
    "pairs of JSON": ("a.json", json.dumps([{"question": q, "answer": d, "relevance": g} for q, d, g in TRIPLETS])),
    "columns of JSON": (
        "a.json",
        json.dumps({k: [row[n] for row in TRIPLETS] for n, k in enumerate(("query", "passage", "label"))}),
    ),
    "grades": ("a.csv", "query,document,grade\nq,a,3\nq,b,1\nq,c,0\nr,a,1.0\nr,d,2\n"),
}


@pytest.mark.parametrize(("name", "content"), TABLES.values(), ids=TABLES)
def test_tables(write, name, content, caplog):
    level = 2 if "grade" in content else 1
    data = read_ranking(write(content, name), level)
    found = zip(*(data.pairs[column] for column in ("query", "text", "label")), strict=True)
    assert sorted(found) == sorted(TRIPLETS) and len(data) == 2
    assert ("grades from 0 to 3; relevant are those from 2 on (--relevance_level)" in caplog.text) == (level == 2)


def test_pairs_with_ids(write):
    pairs = "query_id,query,document_id,document,label\nq7,q,d1,a,1\nq8,q,d1,a,0\nq7,q,d2,b,0\n"
    assert [row[:2] for row in rows(read_ranking(write(pairs, "a.csv")))] == [("q7", "d1"), ("q8", "d1"), ("q7", "d2")]
    with pytest.raises(UserError, match=r":5: the query id 'q7' is also that of .*:2\."):
        read_ranking(write(f"{pairs}q7,r,d3,c,0\n", "a.csv"))


def test_lists_and_pairs_in_one_file(write):
    pairs = [{"query": query, "document": "b", "label": 0} for query in ("q", "r")]
    data = read_ranking(write([pairs[0], ROW, pairs[1]], "a.jsonl"))
    assert [row[::2][:2] for row in rows(data)] == [("1", "q"), *[("2", "a cat")] * 2, ("3", "r")]
