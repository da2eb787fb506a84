"""Whatever a file holds, a reader gives sound data or a `UserError` that names the file."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
from datasets import Dataset
from hypothesis import given
from hypothesis import strategies as st

from msattn import UserError
from msattn.data import (
    read_glue,
    read_ranking,
    read_relations,
    read_sentences,
    read_tagged_words,
    read_trec_ranking,
    read_treebank,
    read_word_vectors,
)
from tests.fuzz.limits import fuzz
from tests.fuzz.mutations import VALUES, damaged, packed

CONLLU = (
    b"# sent_id = 1\n# text = Dogs don't sleep.\n1\tDogs\tdog\tNOUN\tNNS\t_\t4\tnsubj\t_\t_\n2-3\tdon't"
    + b"\t_" * 8
    + b"\n"
    b"2\tdo\tdo\tAUX\t_\t_\t4\taux\t_\t_\n3\tn't\tnot\tPART\t_\t_\t4\tadvmod\t_\t_\n3.1\tx" + b"\t_" * 8 + b"\n"
    b"4\tsleep\tsleep\tVERB\t_\t_\t0\troot\t_\tSpaceAfter=No\n5\t.\t.\tPUNCT\t_\t_\t4\tpunct\t_\t_\n\n"
    b"1\tHi\thi\tINTJ\t_\t_\t0\troot\t_\t_\n\n"
)
SEMEVAL = (
    b'1\t"The <e1>storm</e1> led to a <e2>leak</e2>."\nCause-Effect(e1,e2)\nComment: x\n\n'
    b'2\t"A <e2>dog</e2> in a <e1>house</e1>"\nOther\nComment:\n\n'
)
RELATIONS = [
    {"text": "a storm and a leak", "h": {"pos": [2, 7]}, "t": {"pos": [14, 18]}, "relation": "Other", "id": "a1"},
    {"token": ["a", "dog", "naps"], "h": ["dog", "Q1", [[1]]], "t": ["naps", "Q2", [[2]]], "relation": "x"},
    {"tokens": ["a", "dog"], "head_start": 0, "head_end": 1, "tail_start": 1, "tail_end": 2, "label": "y"},
]
# FewRel names the relation once, outside of its examples.
FEWREL = {"P1": [{name: RELATIONS[1][name] for name in ("token", "h", "t")}]}
QUERY = {
    "id": 1,
    "query": "storm",
    "candidates": [{"text": "rain", "label": 1, "id": "d1"}, {"text": "sun", "label": 0}],
}


def lines(*rows: Any) -> bytes:
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


def sound_relations(data: Dataset) -> None:
    for row in data:
        text, spans = row["text"], (row["head"], row["tail"])
        for start, end in spans:
            assert 0 <= start < end <= len(text)
        assert spans[0] != spans[1]
        assert row["id"] and not {"\t", "\n"} & set(row["id"] + (row["label"] or ""))


def sound_sentences(data: Dataset) -> None:
    assert len(data) and all(isinstance(cell, str) for name in data.column_names for cell in data[name])
    for label in data["label"] if "label" in data.column_names else ():
        assert label.lower() not in ("nan", "inf", "-inf") and "\t" not in label


def sound_tags(data: Dataset) -> None:
    for row in data:
        assert row["words"] and all(row["words"])
        assert "tags" not in row or (len(row["tags"]) == len(row["words"]) and None not in row["tags"])


def sound_trees(data: Dataset) -> None:
    for row in data:
        words, heads = row["words"], row.get("heads")
        assert words and sum(line.split("\t")[0].isdecimal() for line in row["lines"]) == len(words)
        if heads:
            assert heads.count(0) == 1 or (heads.count(0) == 0 and -1 in heads)
            assert all(-1 <= head <= len(words) for head in heads)


def sound_ranking(data: Any) -> None:
    if data.labelled:
        assert set(data.pairs["label"]) <= {0, 1}
    assert all(text.strip() for text in [*data.pairs["query"], *data.pairs["text"]])


def trec(path: Path) -> None:
    """The same damaged file as run, queries, collection and qrels: each in its turn beside good ones."""
    good = {"run": "1 Q0 d1 1 0.5 x\n1 Q0 d2 2 0.4 x\n", "queries": "1\tstorm\n", "docs": "d1\train\nd2\tsun\n"}
    files = {name: path.with_name(f"{name}.txt") for name in good}
    for name, text in good.items():
        files[name].write_text(text)
    qrels = path.with_name("qrels.txt")
    qrels.write_text("1 0 d1 1\n")
    kind = path.suffix[1:]
    chosen = {**files, "qrels": qrels, kind: path}
    if kind == "jsonl":
        chosen["docs"] = path
    sound_ranking(read_trec_ranking(chosen["run"], [chosen["queries"]], [chosen["docs"]], [chosen["qrels"]]))


def glue(path: Path) -> None:
    for row in read_glue("stsb", path.parents[1], ["train"])["train"]:
        assert 0 <= row["label"] <= 5


def vectors(path: Path) -> None:
    assert np.isfinite(read_word_vectors(path, {"the": 0, "Dog": 1})).all()


def sound(check: Callable[[Any], None], read: Callable[[Path], Any]) -> Callable[[Path], None]:
    return lambda path: check(read(path))


relations, sentences = sound(sound_relations, read_relations), sound(sound_sentences, read_sentences)
ranking = sound(sound_ranking, read_ranking)
tags, trees = sound(sound_tags, read_tagged_words), sound(sound_trees, read_treebank)
SNLI = {"sentence1": "a", "sentence2": "b", "gold_label": "neutral", "annotator_labels": ["neutral"]}
TAGGED = {"tokens": ["Ann", "naps"], "ner_tags": ["B-PER", "O"]}
LABELLED = {"start": 0, "end": 3, "labels": ["PER"]}
SPANS = [
    {"text": "Ann naps", "entities": [[0, 3, "PER"]]},
    {"tokens": ["Ann", "naps"], "entities": [{"start": 0, "end": 1, "type": "PER"}]},
    {"text": "Ann naps", "spans": [{"start": 0, "end": 3, "label": "PER"}], "answer": "accept"},
    {"data": {"text": "Ann"}, "annotations": [{"result": [{"id": 1, "type": "labels", "value": LABELLED}]}]},
]
# Name of the file; good contents; what reads it and checks what comes out.
SHAPES: dict[str, tuple[str, list[bytes], Callable[[Path], None]]] = {
    "semeval": ("a.txt", [SEMEVAL], relations),
    "relations": ("a.jsonl", [lines(RELATIONS[0]), lines(*RELATIONS)], relations),
    "relation json": ("a.json", [json.dumps(RELATIONS).encode(), json.dumps(FEWREL, indent=1).encode()], relations),
    "relation csv": (
        "a.csv",
        [
            b"text,relation,head_start,head_end,tail_start,tail_end\n"
            b'"a ""storm"" and, a leak",x,2,7,16,20\na b,y,0,1,2,3\n'
        ],
        relations,
    ),
    "sentence tsv": (
        "a.tsv",
        [b"sentence\tlabel\ngood film\t1\nbad film\t0\n", b"sentence1\tsentence2\tlabel\na\tb\t0.5\n"],
        sentences,
    ),
    "sentence csv": ("a.csv", [b'text,label\n"good, ""film""",pos\nbad,neg\n'], sentences),
    "sentence json": ("a.jsonl", [lines({"text": "a", "label": 1.5}, {"text": "b", "label": 2})], sentences),
    "sst": ("a.txt", [b"(3 (2 A) (3 (3 good) (2 film)))\n(1 bad)\n", b"1\tgood film\n0\tbad film\n"], sentences),
    "snli": ("a.txt", [lines(SNLI), b"a man\ta dog\t0\nb\tc\t2\n"], sentences),
    "ranking": ("a.jsonl", [lines(QUERY), lines({"query": "q", "positive": "a", "negative": ["b", "c"]})], ranking),
    "trec run": ("a.run", [b"1 Q0 d1 1 0.5 x\n1 Q0 d2 2 0.4 x\n"], trec),
    "trec qrels": ("a.qrels", [b"1 0 d1 1\n1 0 d2 0\n", b"query-id\tcorpus-id\tscore\n1\td1\t1\n"], trec),
    "beir": ("a.jsonl", [lines({"_id": "d1", "title": "a", "text": "rain"}, {"_id": "d2", "text": "sun"})], trec),
    "stsb": ("STS-B/train.tsv", [b"index\tsentence1\tsentence2\tscore\n0\ta\tb\t5.00\n1\tc\td\t0.25\n"], glue),
    "conll": ("a.txt", [b"Dogs NOUN\nsleep VERB\n. PUNCT\n\n-DOCSTART- X\n\nHi UH\n", b"a\tX\nb\tY\n"], tags),
    "conllu tags": ("a.conllu", [CONLLU], tags),
    "tag json": ("a.jsonl", [lines(TAGGED), lines(*SPANS)], tags),
    "treebank": ("a.conllu", [CONLLU], trees),
    "packed treebank": ("a.conllu.gz", [CONLLU, packed(CONLLU), packed(CONLLU + b"1\ta")], trees),
    "plain sentences": ("a.txt", ["Dogs sleep .\n\u0939\u093f \u200d\n".encode()], trees),
    "vectors": ("a.txt", [b"2 3\nthe 0.1 0.2 0.3\ndog -1 2 3e-2\n", b"the 1 2\ndog 3 4\n"], vectors),
}


def check(read: Callable[[], Any], name: str) -> None:
    """Runs a reader; the only error may be one of the user, short, that names the file."""
    try:
        read()
    except UserError as error:
        message = str(error)
        assert name in message and len(message.replace(name, "")) <= 560 and "\n" not in message.strip()


@pytest.mark.parametrize("shape", SHAPES)
def test_a_damaged_file(shape, tmp_path):
    name, originals, read = SHAPES[shape]
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    for original in originals[: 1 if name.endswith(".gz") else None]:
        path.write_bytes(packed(original) if name.endswith(".gz") else original)
        read(path)  # what is not damaged is read

    @fuzz(0.7 / len(SHAPES))
    @given(damaged(originals))
    def run(data: bytes) -> None:
        path.write_bytes(data)
        check(lambda: read(path), str(tmp_path))

    run()


PAIRS = {"text": ["good dogs"] * 2, "head": [[0, 4]] * 2, "tail": [[5, 9]] * 2}


@pytest.mark.parametrize(("columns", "read"), [({"text": ["good"] * 2}, sentences), (PAIRS, relations)])
def test_odd_values_in_a_parquet_file(columns, read, tmp_path):
    path = tmp_path / "a.parquet"

    @fuzz(0.03)
    @given(st.sampled_from(["label", *columns]), st.lists(VALUES, min_size=2, max_size=2))
    def run(name: str, values: list) -> None:
        try:
            table = pa.table({**columns, name: values})
            pa.parquet.write_table(table, path)
        except (pa.ArrowException, OverflowError, TypeError, ValueError):
            return
        if "\0" in str(table.schema):  # Arrow ends names there, so that two fields may have one
            return
        check(lambda: read(path), str(path))

    run()


@pytest.mark.parametrize("shape", ["relations", "ranking", "sentence json", "beir", "tag json"])
def test_odd_values_in_json(shape, tmp_path):
    """A right row with a wrong value somewhere, as JSON writes it."""
    _, originals, read = SHAPES[shape]
    rows = [json.loads(line) for original in originals for line in original.splitlines()]
    path = tmp_path / "a.jsonl"

    @fuzz(0.02)
    @given(st.sampled_from(rows), st.data(), VALUES)
    def run(row: dict, data: st.DataObject, value: Any) -> None:
        name = data.draw(st.sampled_from(sorted(row)))
        path.write_bytes(lines({**row, name: value}))
        check(lambda: read(path), str(tmp_path))

    run()
