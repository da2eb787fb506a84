from __future__ import annotations

import json

import pytest
from datasets import ClassLabel, Dataset, Features, Value
from datasets import Sequence as SequenceFeature

from msattn.data.inputs.tagging_inputs import encode_tagged_words
from msattn.data.inputs.word_pieces import NO_LABEL
from msattn.data.inputs.word_tokenizer import train_word_tokenizer
from msattn.data.tagged_words import read_tagged_words, to_tagged_words
from msattn.errors import UserError
from tests.tiny_models import tiny_tokenizer

# A tab alone between sentences, two empty lines, a word that looks like a comment, and words that are white space.
WNUT = "#photo\tO\nEmpire\tB-location\nState\tI-location\n\t\nat\xa0once\tO\n\xa0\tO\n\n\nlast\x85\tO"
CONLL_2003 = "-DOCSTART- -X- -X- O\n\nEU NNP  B-NP B-ORG\nrejects VBZ B-VP O\n\n"
CONLLU = """# text = I don't.
1\tI\tI\tPRON\tPRP\t_\t2\tnsubj\t_\t_
2-3\tdon't\t_\t_\t_\t_\t_\t_\t_\t_
2\tdo\tdo\tAUX\tVBP\t_\t0\troot\t_\t_
3\tn't\tnot\tPART\tRB\t_\t2\tadvmod\t_\t_
3.1\tgo\tgo\tVERB\tVB\t_\t_\t_\t_\t_

1\t_\t_\tPUNCT\tNFP\t_\t0\troot\t_\t_
"""


def test_columns_with_odd_separators(write):
    assert read_tagged_words(write(WNUT)).to_list() == [
        {"words": ["#photo", "Empire", "State"], "tags": ["O", "B-location", "I-location"]},
        {"words": ["at\xa0once", "\xa0"], "tags": ["O", "O"]},
        {"words": ["last\x85"], "tags": ["O"]},
    ]


def test_columns_with_spaces(write):
    path = write(CONLL_2003)
    assert read_tagged_words(path).to_list() == [{"words": ["EU", "rejects"], "tags": ["B-ORG", "O"]}]
    assert read_tagged_words(path, tag_column="2")["tags"][:] == [["NNP", "VBZ"]]
    assert read_tagged_words(path, word_column="3", tag_column="1")["words"][:] == [["B-NP", "B-VP"]]


@pytest.mark.parametrize(
    "before",
    ["# id 52-39 domain=en", "# id 52-39\tdomain=en", "# id 52", "# text = EU # O", "Word POS Chunk ner_tags"]
    + ["# newdoc id = a-1", "# newpar"],
)
def test_comments_and_headings(write, before):
    rows = read_tagged_words(write(f"{before}\nEU _ _ B-ORG\n# _ _ O\n\n# _ _ X\n")).to_list()
    assert rows == [{"words": ["EU", "#"], "tags": ["B-ORG", "O"]}, {"words": ["#"], "tags": ["X"]}]


@pytest.mark.parametrize("heading", ["Id\tWord\tTag", "pos\ttoken\tlabel"])
def test_a_heading_names_the_words(write, heading):
    path = write(f"{heading}\n1\tAnn\tB-PER\n2\tleft\tO\n3\tus\tO\n\n1\tBob\tB-PER\n")
    assert read_tagged_words(path)["words"][:] == [["Ann", "left", "us"], ["Bob"]]
    assert read_tagged_words(path, tag_column="1")["tags"][1] == ["1"]


def test_a_table_in_columns_numbers_its_sentences(write):
    path = write("Sentence #\tWord\tTag\ns1\tAnn\tB-PER\ns1\tleft\tO\ns2\tBob\tB-PER\n")
    found = read_tagged_words(path)
    assert found["words"][:] == [["Ann", "left"], ["Bob"]] and found["tags"][1] == ["B-PER"]


def test_germeval(write, caplog):
    sentence = "#\thttp://de.wikipedia.org/wiki/Manfred [2010-01-17]\n1\tIm\tO\tO\n2\tBerliner\tB-ORGpart\tB-LOC\n"
    path = write(f"{sentence}\n{sentence}", "NER-de-train.tsv")
    assert read_tagged_words(path).to_list() == [{"words": ["Im", "Berliner"], "tags": ["O", "B-ORGpart"]}] * 2
    assert "the outer tags of GermEval 2014 are read" in caplog.text
    assert read_tagged_words(path, tag_column="4")["tags"][:] == [["O", "B-LOC"]] * 2


@pytest.mark.parametrize("name", ["train.conllu", "train.conllu.gz", "TRAIN.CONLLU"])
def test_conllu(write, name):
    path = write(CONLLU, name)
    assert read_tagged_words(path).to_list() == [
        {"words": ["I", "do", "n't"], "tags": ["PRON", "AUX", "PART"]},
        {"words": ["_"], "tags": ["PUNCT"]},
    ]
    assert read_tagged_words(path, tag_column="xpos")["tags"][:] == [["PRP", "VBP", "RB"], ["NFP"]]
    untagged = "1\tI\t_\t_\t_\t_\t_\t_\t_\t_\n\n"
    assert read_tagged_words(write(untagged, name)).to_list() == [{"words": ["I"]}]
    assert read_tagged_words(write(CONLLU + "\n" + untagged, name))["tags"][-1] == [None]


def test_ten_columns_of_another_name_are_conllu(write):
    expected = read_tagged_words(write(CONLLU, "a.conllu")).to_list()
    for name in ("a.conll", "a.conllx", "a.conll.gz"):
        assert read_tagged_words(write(CONLLU, name)).to_list() == expected
    assert read_tagged_words(write(CONLL_2003, "b.conll"))["tags"][:] == [["B-ORG", "O"]]
    assert read_tagged_words(write("0\tAnn\tB-PER\n1\tis\tO\n", "b.conllu"), "2")["words"][:] == [["Ann", "is"]]


def test_rows_of_several_widths_have_the_columns_that_are_named(write):
    path = write("# newdoc id = a\n1\tAnn\tB-PER\t-\tann\n2\tis\tO\n")
    assert read_tagged_words(path, "2", "3").to_list() == [{"words": ["Ann", "is"], "tags": ["B-PER", "O"]}]
    with pytest.raises(UserError, match=":3: there is no column 4; the line has 3"):
        read_tagged_words(path, "2", "4")


@pytest.mark.parametrize(
    ("content", "options", "message"),
    [
        ("a\tO\nb\n", {}, ":2: the line has 1 columns, unlike the 2 of those before it"),
        ("a\tO\n\tO\n", {}, ":2: the line has no word"),
        ("a\tO\nb\t \n", {}, ":2: the line has no tag"),
        ("a\tO\n", {"tag_column": "3"}, ":1: there is no column 3; the line has 2"),
        ("a\tO\n", {"word_column": "0"}, "a column of a CoNLL file is a number from 1 on, not '0'"),
        ("1\ta\tO\n2\tb\tO\n3\tc\tO\n", {}, "the first column counts the words of a sentence; name the column"),
        ("0\ta\tO\n1\tb\tO\n2\tc\tO\n", {}, "the first column counts the words of a sentence; name the column"),
        ("\n\t\n", {}, "there is no example in it"),
    ],
)
def test_broken_columns(write, content, options, message):
    with pytest.raises(UserError, match=message):
        read_tagged_words(write(content), **options)


def test_broken_conllu(write):
    with pytest.raises(UserError, match="tags of CoNLL-U are upos or xpos, not 'deprel'"):
        read_tagged_words(write(CONLLU, "a.conllu"), tag_column="deprel")
    with pytest.raises(UserError, match="leave --word_column out"):
        read_tagged_words(write(CONLLU, "a.conllu"), word_column="2")


ENTITY = {"words": ["Sarah", "sleeps"], "tags": ["B-PER", "O"]}


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.jsonl", '{"tokens": ["Sarah", "sleeps"], "ner_tags": ["B-PER", "O"]}'),
        ("a.txt", '{"id": 1, "words": ["Sarah", "sleeps"], "tags": ["B-PER", "O"]}'),
        ("a.json", '[{"tokens": ["Sarah", "sleeps"], "labels": ["B-PER\u00a0", "O"]}]'),
        ("a.txt", "Sarah\tB-PER\u3000\nsleeps\tO\n"),
        ("doccano.jsonl", '{"text": "Sarah sleeps", "label": [[0, 5, "PER"]]}'),
        (
            "doccano.jsonl",
            '{"text": "Sarah sleeps", "entities": [{"id": 3, "start_offset": 0, "end_offset": 5, "label": "PER"}], '
            '"relations": []}',
        ),
        ("spacy.json", '[["Sarah sleeps", {"entities": [[0, 5, "PER"]]}]]'),
        (
            "prodigy.jsonl",
            '{"text": "Sarah sleeps", "tokens": [{"text": "x"}], "spans": [{"start": 0, "end": 5, "label": "PER"}]}\n'
            '{"text": "Sarah sleeps", "spans": [], "answer": "reject"}',
        ),
        (
            "spacy_doc.json",
            '{"text": "Sarah sleeps", "ents": [{"start": 0, "end": 5, "label": "PER"}], "tokens": [{}]}',
        ),
        ("a.jsonl", '{"text": "Sarah sleeps", "entities": [[0, 5, "PER"]], "tokens": [{}], "tags": ["news"]}'),
        (
            "studio.json",  # a text that is not the first field, a cancelled annotation, and a relation
            '[{"data": {"url": "http://x.org/sarah", "text": "Sarah sleeps"}, "annotations": ['
            '{"was_cancelled": true, "result": []}, {"result": [{"id": "a", "type": "labels", "value": {"start": 0, '
            '"end": 5, "labels": ["PER"]}}, {"type": "relation", "from_id": "a", "to_id": "a", "labels": []}]}]}]',
        ),
        (
            "scierc.jsonl",
            '{"doc_key": "a", "sentences": [["Sarah", "sleeps"]], "ner": [[[0, 0, "PER"]]], "relations": [[]]}',
        ),
        ("kaggle.csv", "Sentence #,Word,POS,Tag\nSentence: 1,Sarah,NNP,B-PER\n,sleeps,VBZ,O\n"),
        (
            "spert.json",
            '[{"tokens": ["Sarah", "sleeps"], "entities": [{"type": "PER", "start": 0, "end": 1}], "relations": []}]',
        ),
    ],
)
def test_records(write, name, content):
    assert read_tagged_words(write(content + "\n", name)).to_list() == [ENTITY]


def test_rejected_examples_are_counted(write, caplog):
    rows = [{"text": "Ann", "spans": [], "answer": answer} for answer in ("accept", "reject", "ignore")]
    path = write(json.dumps(rows), "prodigy.json")
    assert len(read_tagged_words(path)) == 1
    assert f"{path}, example 2: the example was rejected or ignored; 2 such are left out." in caplog.text


def test_a_file_of_words_may_have_a_no_break_space(write):
    assert read_tagged_words(write("Sarah\n\xa0\n", "a.txt"))["words"][:] == [["Sarah", "\xa0"]]


def test_sentences_that_are_numbered_in_each_document(write):
    rows = "doc_id,sentence_id,token,label\na,0,Sarah,B-PER\na,,sleeps,O\nb,0,Ann,B-PER\nb,1,Bob,B-PER\n"
    assert read_tagged_words(write(rows, "a.csv"))["words"][:] == [["Sarah", "sleeps"], ["Ann"], ["Bob"]]


def test_spans_of_chinese_are_characters(write):
    (row,) = read_tagged_words(
        write('{"text": "张三住在 Rome。", "entities": [[0, 2, "PER"], [5, 9, "LOC"]]}', "a.jsonl")
    )
    assert row["words"] == ["张", "三", "住", "在", "Rome", "。"]
    assert row["tags"] == ["B-PER", "I-PER", "O", "O", "B-LOC", "O"]


@pytest.mark.parametrize(
    "text, spans, hint",
    [
        ("김철수는 서울에서 일한다.", [[0, 3, "PER"], [5, 7, "LOC"]], "check its offsets"),
        ("\U0001f600\U0001f600 Ann met Bob today", [[5, 8, "PER"], [13, 16, "PER"]], "if they count units of UTF-16"),
        ("Ann met Bob", [[0, 2, "PER"], [8, 10, "PER"]], "are the last characters inside: add 1"),
    ],
)
def test_spans_that_cut_words_are_counted(write, caplog, text, spans, hint):
    read_tagged_words(write([{"text": text, "entities": spans}], "a.jsonl"))
    (message,) = [record.getMessage() for record in caplog.records if record.name == "msattn.data.tag_records"]
    assert "cuts a word, as 2 of 2 spans do" in message and hint in message


def test_named_fields_of_json_lines(write):
    row = {"form": ENTITY["words"], "ner": ENTITY["tags"]}
    for count in (1, 2):
        assert read_tagged_words(write([row] * count, "a.jsonl"), "form", "ner").to_list() == [ENTITY] * count
    with pytest.raises(UserError, match=":1: there is no field 'pos'; there are words, tags"):
        read_tagged_words(write([ENTITY], "a.jsonl"), tag_column="pos")
    with pytest.raises(UserError, match=":1: there is no field 'forms'; there are words, tags"):
        read_tagged_words(write([ENTITY], "a.jsonl"), word_column="forms")
    spans = {"text": "Sarah sleeps", "entities": [[0, 5, "PER"]]}  # a file of columns may stand beside it
    assert read_tagged_words(write([spans], "a.jsonl"), word_column="2").to_list() == [ENTITY]


@pytest.mark.parametrize("row", ['{"text": "Sarah sleeps"}', '{"data": {"text": "Sarah sleeps"}, "annotations": []}'])
def test_texts_that_nobody_annotated_have_no_tags(write, row):
    assert read_tagged_words(write(row, "a.jsonl")).to_list() == [{"words": ENTITY["words"]}]
    with pytest.raises(UserError, match=":2: the example has no tags, unlike those before it"):
        read_tagged_words(write('{"text": "Ann", "label": []}\n' + row, "a.jsonl"))


def test_a_folder_of_brat_and_the_longest_of_spans_that_share_a_word(write, tmp_path, caplog):
    write("Sarah Lee sleeps", "1.txt")
    write("T1\tGENE 0 5\tSarah\nT2\tPER 0 9\tSarah Lee\nT3\tX 0 5;10 16\tSarah sleeps\n", "1.ann")
    expected = [{"words": ["Sarah", "Lee", "sleeps"], "tags": ["B-PER", "I-PER", "O"]}]
    assert read_tagged_words(tmp_path).to_list() == expected
    assert (
        f"{tmp_path / '1.ann'}: a span shares a word with a longer one" in caplog.text
        and "; 1 such spans" in caplog.text
    )
    assert "1 entities of several parts" in caplog.text


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.jsonl", '{"sentence": "Sarah"}', r':1: the row needs "tokens" and "ner_tags".* there are sentence'),
        ("a.jsonl", '{"text": "Sarah", "entities": [[0, 9, "PER"]]}', ":1: the span 0 to 9 is not on words"),
        (
            "a.jsonl",
            '{"text": "\U0001f642 Sarah sleeps", "spans": [{"start": 3, "end": 8, "text": "Sarah", "label": "PER"}]}',
            ":1: the PER span .3, 8. is 'arah ', but its name is 'Sarah'; its offsets count units of UTF-16",
        ),
        ("a.jsonl", '{"text": "Sarah", "entities": [[0, "PER"]]}', r":1: a span is \[start, end, label\]"),
        ("a.csv", "word,tag\nSarah,B-PER\n", ":2: there is no column sentence # or .*; there are word, tag"),
        ("a.csv", "sentence,word,tag\n1,Sarah, \n", ":2: the row has no tag"),
    ],
)
def test_broken_records(write, name, content, message):
    with pytest.raises(UserError, match=message):
        read_tagged_words(write(content + "\n", name))


def hub_rows(**columns: list) -> Dataset:
    features = {"tokens": SequenceFeature(Value("string"))}
    for name, names in (("pos_tags", ["NN", "VB"]), ("ner_tags", ["O", "B-x"])):
        if name in columns:
            features[name] = SequenceFeature(ClassLabel(names=names))
    return Dataset.from_dict(columns, features=Features(features))


def test_rows_of_the_hub(caplog):
    rows = hub_rows(tokens=[["a", "b"], []], ner_tags=[[0, 1], []])
    assert to_tagged_words(rows, "wnut").to_list() == [{"words": ["a", "b"], "tags": ["O", "B-x"]}]
    assert "wnut, row 2: the row has no words; 1 such rows are left out" in caplog.text
    with pytest.raises(UserError, match="wnut, row 1: word 2 is empty; leave it out, with its tag"):
        to_tagged_words(hub_rows(tokens=[["a", ""]], ner_tags=[[0, 1]]), "wnut")
    both = hub_rows(tokens=[["a"]], ner_tags=[[0]], pos_tags=[[1]])
    with pytest.raises(UserError, match="wnut: the column of the tags has to be named; there are ner_tags, pos_tags"):
        to_tagged_words(both.select_columns(["tokens", "ner_tags", "pos_tags"]), "wnut")
    assert to_tagged_words(both, tag_column="pos_tags")["tags"][:] == [["VB"]]
    strings = Dataset.from_dict({"words": [["a"]], "upos": [["X"]]})
    for named in ("upos", None):
        assert to_tagged_words(strings, tag_column=named).to_list() == [{"words": ["a"], "tags": ["X"]}]
        assert to_tagged_words(strings.to_iterable_dataset(), tag_column=named)["tags"][:] == [["X"]]
    assert to_tagged_words(strings.remove_columns("upos")).to_list() == [{"words": ["a"]}]


@pytest.mark.parametrize("missing", [-1, None])
def test_a_missing_tag_is_not_the_last_class(missing):
    def rows(*tags: list) -> Dataset:
        return hub_rows(tokens=[["Dogs", "sleep"]] * len(tags), ner_tags=list(tags))

    assert to_tagged_words(rows([missing, missing], [missing, missing])).column_names == ["words"]
    with pytest.raises(UserError, match="^dataset, row 2: word 2 has the tag None; every word needs one"):
        to_tagged_words(rows([0, 1], [0, missing]))
    with pytest.raises(UserError, match="^dataset, row 2: the example has no tags, unlike those before it"):
        to_tagged_words(rows([0, 1], [missing, missing]))


def test_broken_rows_of_the_hub():
    with pytest.raises(UserError, match="wnut: there is no column 'tags'; there are tokens"):
        to_tagged_words(hub_rows(tokens=[["a"]]), "wnut", tag_column="tags")
    with pytest.raises(UserError, match="wnut, row 2: 'ner_tags' does not hold a tag for each of the 1 words"):
        to_tagged_words(hub_rows(tokens=[["a"], ["b"]], ner_tags=[[0], [0, 1]]), "wnut")
    with pytest.raises(UserError, match="wnut, row 1: 'tokens' is not a list of words"):
        to_tagged_words(Dataset.from_dict({"tokens": ["a b"], "tags": [["O"]]}), "wnut")


def test_a_word_may_be_a_line_end(write):
    (row,) = read_tagged_words(write([{"words": ["Dogs", "\n\n", "sleep"], "tags": ["B-x", "O", "O"]}], "a.jsonl"))
    assert row["words"] == ["Dogs", "  ", "sleep"]
    encoded, _ = encode_tagged_words(Dataset.from_list([row]), tiny_tokenizer(), LABELS)
    assert [encoded[0]["labels"][start] for start in encoded[0]["word_starts"]] == [1, 0, 0]


LABELS = {"O": 0, "B-x": 1}


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (
            tiny_tokenizer,
            "[CLS] the un ##payer dog ##s [UNK] [UNK] in [SEP]".split(),
        ),
        (
            lambda: train_word_tokenizer(["the unpayer dogs in \xa0"]),
            ["[CLS]", "the", "unpayer", "dogs", "\xa0", "[UNK]", "in", "[SEP]"],
        ),
    ],
)
def test_first_pieces_have_the_labels(make, expected):
    tokenizer = make()
    # A no-break space and a sign that BERT's tokenizers leave out are words, too.
    words = ["The", "unpayer", "dogs", "\xa0", "\u200d", "in"]
    tags = ["O", "B-x", "O", "B-x", "B-x", "O"]
    rows = Dataset.from_dict({"words": [words, ["dog"]], "tags": [tags, ["B-x"]]})
    encoded, cut = encode_tagged_words(rows, tokenizer, LABELS, words=True)
    assert cut == 0 and len(encoded) == 2
    row = encoded[0]
    assert tokenizer.convert_ids_to_tokens(row["input_ids"]) == expected
    assert len(row["labels"]) == len(row["attention_mask"]) == len(row["token_type_ids"]) == len(expected)
    assert [row["labels"][start] for start in row["word_starts"]] == [LABELS[tag] for tag in tags]
    assert sum(label != NO_LABEL for label in row["labels"]) == len(words)
    assert row["words"] == [words] and row["word_ids"][0] is None and row["word_ids"][-2] == 5
    plain, _ = encode_tagged_words(rows.remove_columns("tags"), tokenizer, {})
    assert set(plain.column_names) == {*tokenizer.model_input_names, "sentence", "word_starts"}
    assert plain["input_ids"][:] == encoded["input_ids"][:]


def test_words_without_a_tag_have_no_label():
    sentences = Dataset.from_list([{"words": ["the", "dog"], "tags": [None, "X"]}])
    encoded, _ = encode_tagged_words(sentences, tiny_tokenizer(), {"X": 3})
    assert [encoded["labels"][0][start] for start in encoded["word_starts"][0]] == [NO_LABEL, 3]


@pytest.mark.parametrize("max_length", [3, 4, 5, 8])
def test_long_sentences_become_rows(max_length):
    tokenizer = tiny_tokenizer()
    words = ["the", "dogs", "in", "unpayer", "a", "house", "unpayers"]
    tags = ["O", "B-x", "O", "B-x", "O", "O", "B-x"]
    rows = Dataset.from_dict({"words": [["dog"], words], "tags": [["O"], tags]})
    encoded, cut = encode_tagged_words(rows, tokenizer, LABELS, max_length, words=True)
    # In the shortest rows there is room for one piece of a word that has two or three.
    assert cut == {3: 3, 4: 1, 5: 0, 8: 0}[max_length]
    assert all(len(ids) <= max_length for ids in encoded["input_ids"])
    parts = [row for row in encoded.to_list() if row["sentence"] == 1]
    assert [word for part in parts for word in part["words"][0]] == words
    found = [part["labels"][start] for part in parts for start in part["word_starts"]]
    assert found == [LABELS[tag] for tag in tags]
