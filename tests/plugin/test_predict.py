from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys

import pytest
import torch
from datasets import Dataset
from safetensors.torch import load_file, save_file
from transformers import (
    BertConfig,
    BertForMaskedLM,
    BertForSequenceClassification,
    BertForTokenClassification,
    GPT2Config,
    GPT2ForSequenceClassification,
    pipeline,
)

from msattn import PairwiseConfig, PairwiseParser
from msattn.errors import UserError
from msattn.predict import main
from tests.tiny_models import SIZES, labelled, saved_model, tiny_relation_extractor, tiny_tokenizer

CONLLU = (
    "# sent_id = a\n1\tThe\tthe\tDET\t_\t_\t0\troot\t_\tX=1\n2-3\tdogcat\t_\t_\t_\t_\t_\t_\t_\t_\n"
    "2\tdog\t_\t_\t_\t_\t1\tdep\t_\t_\n3\tcat\t_\t_\t_\t_\t1\tdep\t_\t_\n\n1\twrote\t_\t_\t_\t_\t0\troot\t_\t_\n\n"
)


def build(model_class, *labels: str, **config):
    torch.manual_seed(0)
    return model_class(BertConfig(pad_token_id=0, **SIZES, **labelled(*labels), **config)).eval()


@pytest.fixture(scope="module")
def checkpoints(tmp_path_factory):
    torch.manual_seed(0)
    encoder = BertConfig(**SIZES)
    models = {
        "relations": tiny_relation_extractor()[0],
        "parser": PairwiseParser(
            PairwiseConfig(encoder=encoder, word_tags={"upos": ["DET", "NOUN"]}, **labelled("root", "nsubj", "dep"))
        ),
        "tagger": build(BertForTokenClassification, "DET", "NOUN", "VERB"),
        "classes": build(BertForSequenceClassification, "bad", "good"),
        "topics": build(BertForSequenceClassification, "art", "law", "war", problem_type="multi_label_classification"),
        "score": build(BertForSequenceClassification, "LABEL_0", problem_type="regression"),
        "one": build(BertForSequenceClassification, "LABEL_0"),
        "ranking": build(BertForSequenceClassification, "relevant"),
        "words": build(BertForMaskedLM),
    }
    folder = tmp_path_factory.mktemp("checkpoints")
    for name, model in models.items():
        if hasattr(model, "classifier"):  # answers that are far from each other
            torch.nn.init.normal_(model.classifier.weight)
        saved_model(folder / name, model)
        models[name] = model.eval()
    return folder, models


@pytest.fixture
def predict(checkpoints, tmp_path):
    def predict(name: str, content: str, *options: str, suffix: str = "txt", encoding: str = "utf-8") -> list:
        file, output = tmp_path / f"input.{suffix}", tmp_path / "output"
        file.write_text(content, encoding=encoding)
        main([str(checkpoints[0] / name), str(file), "--output", str(output), *options])
        written = output.read_text()
        return written if name == "parser" else [json.loads(line) for line in written.splitlines()]

    return predict


def logits_of(model, *texts):
    with torch.no_grad():
        return model(**tiny_tokenizer()(*texts, return_tensors="pt")).logits[0]


def test_options_and_ids_of_relations(predict, checkpoints):
    entities = [{"start": 2, "end": 5, "label": "PET"}, {"start": 13, "end": 18, "label": "LOC"}]
    several = {"orig_id": "x1", "text": "a dog in the house", "entities": entities}
    marked = {"id": 7, "text": "a dog .", "head": [0, 1], "tail": [2, 5]}
    extract = pipeline("relation-extraction", model=str(checkpoints[0] / "relations"))
    content = json.dumps(several) + "\n"
    options = ("--threshold", "0", "--negative", "keep", "--order", "both")
    (found,) = predict("relations", content, *options, "--pairs", "PET:LOC")
    (expected,) = extract(several, threshold=0, pairs=[("PET", "LOC")])
    (relation,) = found["relations"]
    assert found["id"] == "x1" and (relation["head"], relation["tail"]) == (expected["head"], expected["tail"])
    (one,) = predict("relations", json.dumps(marked) + "\n", "--order", "both")
    assert one["id"] == 7 and one["label"] == extract(marked)["label"]
    (merged,) = predict("relations", content, *options, "--pairs", "all", "--merge", "--same_sentence")
    assert len(merged["relations"]) == 1
    (narrow,) = predict("relations", content, *options, "--pairs", "all", "--max_length", "5")
    assert all("error" in pair for pair in narrow["relations"])
    with pytest.raises(UserError, match="--pairs PET: give types as HEAD:TAIL"):
        predict("relations", content, "--pairs", "PET")


@pytest.mark.parametrize("batch_size", ["1", "2"])
def test_relations(predict, checkpoints, batch_size):
    marked, spans = "the <e1>author</e1> of a <e2>book</e2> .", {"text": "a dog .", "head": [0, 1], "tail": [2, 5]}
    several = {"text": "a dog in the house", "entities": [{"start": 2, "end": 5}, {"start": 13, "end": 18}]}
    inputs = [marked, spans, several]
    found = predict(
        "relations", f"{marked}\n\n{json.dumps(spans)}\n{json.dumps(several)}\n", "--batch_size", batch_size
    )
    expected = pipeline("relation-extraction", model=str(checkpoints[0] / "relations"))(inputs)
    for results in (found, expected):
        for relation in (*results[:2], *results[2]):
            relation["score"] = round(relation["score"], 5)
    assert found == expected and found[0]["head"] == {"start": 4, "end": 10, "text": "author"}


def test_relations_of_the_files_that_train_them(predict, checkpoints, tmp_path):
    marked = "the <e1>author</e1> of a <e2>book</e2> ."
    (expected,) = predict("relations", f"{marked}\n")
    for suffix, content in [
        ("TXT", f'7\t"{marked}"\nwrites\nComment: clear\n\n'),
        ("TXT", f'7\t"{marked}"\n'),
        ("csv", f"ID,text,relation\n7,{marked},writes\n"),
        ("tsv", f"id\ttext\n7\t{marked}\n"),
        ("json", json.dumps([{"id": 7, "text": marked}])),
    ]:
        (found,) = predict("relations", content, suffix=suffix)
        assert {**found, "id": int(found["id"])} == {"id": 7, **expected}
    (found,) = predict("relations", json.dumps({"writes": [{"text": marked}]}), suffix="json")
    assert found == expected
    Dataset.from_dict({"id": [7], "text": [marked]}).to_parquet(tmp_path / "rows.parquet")
    main([str(checkpoints[0] / "relations"), str(tmp_path / "rows.parquet"), "--output", str(tmp_path / "found")])
    assert json.loads((tmp_path / "found").read_text()) == {"id": 7, **expected}
    mentions = [[{"sent_id": 0, "pos": [1, 2]}], [{"sent_id": 1, "pos": [0, 1]}, {"sent_id": 1, "pos": [2, 3]}]]
    document = {"title": "Books", "sents": [["a", "dog", "."], ["the", "house", "author"]], "vertexSet": mentions}
    (found,) = predict("relations", json.dumps([document]), "--negative", "keep", "--order", "both", suffix="json")
    heads = [relation["head"]["text"] for relation in found["relations"]]
    assert found["id"] == "Books" and {*heads} == {"dog", "the"}


@pytest.mark.parametrize("suffix", ["conllu", "CONLLU"])
def test_trees_of_conllu_keep_its_lines(predict, checkpoints, suffix):
    parse = pipeline("dependency-parsing", model=str(checkpoints[0] / "parser"))
    first, second = parse([{"words": ["The", "dog", "cat"]}, {"words": ["wrote"]}])
    expected = CONLLU.split("\n")
    for line, word in ((1, first[0]), (3, first[1]), (4, first[2]), (6, second[0])):
        cells = expected[line].split("\t")
        cells[3], cells[6:8] = word["upos"], (str(word["head"]), word["relation"])
        expected[line] = "\t".join(cells)
    assert predict("parser", CONLLU, suffix=suffix) == "\n".join(expected)


def test_trees_of_texts_are_numbered(predict, checkpoints):
    lines = ["the dog wrote . a cat wrote .", "", "  the taxi", '{"words": ["a", "b."]}']
    inputs = [lines[0], lines[2], {"words": ["a", "b."]}]
    parse = pipeline("dependency-parsing", model=str(checkpoints[0] / "parser"))
    assert predict("parser", "\n".join(lines)) == parse.to_conllu(parse(inputs))
    assert "# sent_id = 2-1\n" in parse.to_conllu(parse(inputs)) and "SpacesBefore=\\s\\s\n" in parse.to_conllu(
        parse(inputs)
    )


def test_a_long_sentence_is_tagged_in_parts(predict):
    words = ["dog", "cat"] * 50
    (found,) = predict("tagger", json.dumps({"words": words}))
    assert found["words"] == words and len(found["tags"]) == 100


def test_classes_and_scores(predict, checkpoints, capsys):
    (single, pair) = (
        predict("classes", "the dog .\n")[0],
        predict("classes", '{"premise": "the dog .", "hypothesis": "a cat", "label": "x"}\n')[0],
    )
    assert "The text is read from premise and hypothesis." in capsys.readouterr().err
    for found, texts in ((single, ["the dog ."]), (pair, ["the dog .", "a cat"])):
        probabilities = logits_of(checkpoints[1]["classes"], *texts).softmax(dim=-1)
        assert found["label"] == ("bad", "good")[int(probabilities.argmax())]
        assert found["score"] == pytest.approx(float(probabilities.max()), abs=1e-6)
    (topics,) = predict("topics", "the dog .\n")
    expected = pipeline("text-classification", model=str(checkpoints[0] / "topics"))("the dog .", top_k=None)
    assert topics == [{"label": one["label"], "score": pytest.approx(one["score"], abs=1e-6)} for one in expected]
    assert len(topics) == 3
    (found,) = predict("score", "the dog .\n")
    assert found == {"score": pytest.approx(logits_of(checkpoints[1]["score"], "the dog .").item(), abs=1e-6)}
    # As cross-encoders of others are stored.
    (found,) = predict("one", "the dog .\n")
    assert found == {"score": pytest.approx(logits_of(checkpoints[1]["one"], "the dog .").sigmoid().item(), abs=1e-6)}


def test_rankings(predict, checkpoints):
    candidates = [{"id": str(number), "text": text} for number, text in enumerate(["a dog", "the house .", "book"])]
    row = {"id": "q7", "query": "a cat", "candidates": candidates}
    (found,) = predict("ranking", json.dumps(row), "--batch_size", "2")
    logits = {text["id"]: logits_of(checkpoints[1]["ranking"], "a cat", text["text"]) for text in candidates}
    assert (found["id"], found["query"]) == ("q7", "a cat")
    assert [text["id"] for text in found["candidates"]] == sorted(logits, key=lambda key: -logits[key].item())
    assert {text["id"]: text["score"] for text in found["candidates"]} == {
        key: pytest.approx(value.sigmoid().item(), abs=1e-6) for key, value in logits.items()
    }
    logits = {text["id"]: logits_of(checkpoints[1]["one"], "a cat", text["text"]) for text in candidates}
    (found,) = predict("one", json.dumps(row))
    assert [text["id"] for text in found["candidates"]] == sorted(logits, key=lambda key: -logits[key].item())
    (found,) = predict("score", json.dumps(row))
    logit = logits_of(checkpoints[1]["score"], "a cat", found["candidates"][0]["text"])
    assert found["candidates"][0]["score"] == pytest.approx(logit.item(), abs=1e-6)
    with pytest.raises(UserError, match=":1: candidates are ranked by a model with one output"):
        predict("classes", json.dumps(row))


def test_rankings_of_pairs(predict):
    rows = [
        {"query": "a dog", "candidates": [{"text": "the house"}, {"text": "a cat ."}]},
        {"query": "a cat", "candidates": [{"text": "a dog"}]},
    ]
    table = "query,document\na dog,the house\na dog,a cat .\na cat,a dog\n"
    expected = predict("ranking", "".join(json.dumps(row) + "\n" for row in rows))
    assert predict("ranking", table, suffix="csv") == expected and len(expected) == 2
    table = "query,qid,document\na dog,4,the house\na dog,4,a cat .\na cat,9,a dog\n"
    named = [{"id": number, **row} for number, row in zip("49", expected, strict=True)]
    assert predict("ranking", table, suffix="csv") == named


def test_too_long_texts_are_counted(predict, caplog):
    assert len(predict("classes", f"{'dog ' * 100}\na dog\n")) == 2
    assert "1 of 2 inputs are longer than 64 tokens and were truncated" in caplog.text


@pytest.mark.parametrize(
    ("name", "content", "options", "message"),
    [
        ("relations", "a <e1>dog</e1> <e2>cat</e2>\na dog\n", (), r"input\.txt:2: "),
        ("tagger", '{"words": []}\n', (), r"input\.txt:1: a sentence is a text, or"),
        ("parser", 'a dog\n{"word": ["a"]}\n', (), r"input\.txt:2: a sentence is a text, or"),
        ("parser", '{"words": []}\n', (), r"input\.txt:1: a sentence is a text, or"),
        ("parser", '{"words": ["dog"]}\n{"words": ["a\\tcat"]}\n', (), r"input\.txt:2: the word 'a\\tcat' has a tab"),
        ("classes", '{"label": "x"}\n', (), r"input\.txt:1: there is no column of text"),
        ("classes", '{"a": "x", "b": "y"}\n{"b": "x"}\n', (), r"input\.txt:2: the input has no text in 'a'"),
        ("classes", '[\n{"text": "a"}\n]\n', (), r"input\.txt:1: a list of objects; give one object"),
        ("classes", '[{"text": "a"}, {"text": "b"}]\n', (), r"input\.txt:1: a list of objects; give one object"),
        ("classes", "{x\n", (), r"input\.txt:1: the line is not a JSON object"),
        (
            "ranking",
            "".join(json.dumps({"query": query, "document": "a cat"}) + "\n" for query in ("a dog", "a cow", "a dog")),
            (),
            r"input\.txt:3: the query 'a dog' comes again after others; sort the pairs by query",
        ),
        ("ranking", "a dog\n", (), r"input\.txt:1: a row must be an object with a query"),
        ("words", "a dog\n", (), "a BertForMaskedLM predicts nothing; give a checkpoint that msattn train"),
        ("tagger", "a dog\n", ("--batch_size", "0"), "--batch_size 0: give 1 or more"),
        ("classes", "a dog\n", ("--lang", "en"), "--lang: .* is a BertForSequenceClassification, which has no use"),
        ("classes", "a dog\n", ("--device", "gpu"), "device string: gpu"),
        ("classes", "a dog\n", ("--device", "cuda:99"), "(?i)cuda|nvidia"),
        ("parser", "1\tThe\tthe\tDET\n", (), r"input\.txt:1: the line is a row of CoNLL"),
    ],
)
def test_mistakes_name_the_line(predict, name, content, options, message):
    with pytest.raises(UserError, match=message):
        predict(name, content, *options)


@pytest.mark.parametrize("name", ["relations", "parser", "tagger", "classes", "ranking"])
def test_a_checkpoint_without_its_classifier_answers_nothing(checkpoints, tmp_path, name):
    shutil.copytree(checkpoints[0] / name, tmp_path / name)
    weights = load_file(tmp_path / name / "model.safetensors")
    missing = [weight for weight in weights if weight.startswith(("classifier", "relations.states.head"))]
    kept = {weight: weights[weight] for weight in weights if weight not in missing}
    save_file(kept, tmp_path / name / "model.safetensors", {"format": "pt"})
    with pytest.raises(UserError, match=f"{name}: {min(missing)} and .* missing"):
        main([str(tmp_path / name), str(tmp_path / "none.txt")])
    if name in ("relations", "parser"):
        task = {"relations": "relation-extraction", "parser": "dependency-parsing"}[name]
        with pytest.raises(UserError, match=f"{name}: {min(missing)} and .* missing"):
            pipeline(task, model=str(tmp_path / name))
        # Training gives them values.
        model = type(checkpoints[1][name]).from_pretrained(tmp_path / name).train().eval()
        pipeline(task, model=model, tokenizer=tiny_tokenizer())


def test_a_tokenizer_of_another_model_is_refused(checkpoints, tmp_path):
    shutil.copytree(checkpoints[0] / "classes", tmp_path / "classes")
    tokenizer = tiny_tokenizer()
    tokenizer.add_tokens(["unseen"])
    tokenizer.save_pretrained(tmp_path / "classes")
    with pytest.raises(UserError, match="embeddings of tokens and .* missing"):
        main([str(tmp_path / "classes"), str(tmp_path / "none.txt")])


@pytest.mark.parametrize("name, option", [("parser", ("--lang", "en")), ("tagger", ("--word_tokenizer", "spacy:en"))])
def test_what_splits_given_words_is_refused(predict, name, option):
    with pytest.raises(
        UserError, match=rf"{option[0]} splits texts into words, and the words of .*\.conllu are given"
    ):
        predict(name, CONLLU, *option, suffix="conllu")


def test_a_half_annotated_file_is_completed(predict):
    rows = [
        f"{number}\tw\t_\t_\t_\t_\t{head}\t{name}\t_\t_"
        for number, head, name in ((1, "_", "_"), (2, "3", "mine"), (3, "_", "_"), (4, "2", "_"))
    ]
    whole = "1\tdog\t_\t_\t_\t_\t0\tmine\t_\t_\n2\tcat\t_\t_\t_\t_\t0\tmine\t_\t_"
    written = predict("parser", "\n".join(rows) + "\n\n" + whole + "\n\n", suffix="conllu")
    cells = [line.split("\t") for line in written.split("\n") if line]
    assert [cells[1][6:8], cells[3][6]] == [["3", "mine"], "2"] and cells[3][7] in ("root", "nsubj", "dep")
    assert "_" not in (cells[0][6], cells[2][6]) and "mine" not in [row[7] for row in cells[4:]]


def test_raw_text_is_split_by_a_named_tokenizer(predict):
    pytest.importorskip("spacy")
    written = predict("parser", "don't stop\n", "--word_tokenizer", "spacy:en")
    assert [line.split("\t")[1] for line in written.split("\n") if "\t" in line] == ["do", "n't", "stop"]
    for suffix, content in (("txt", "don't stop\n"), ("json", '[{"text": "don\'t stop"}]')):
        (tagged,) = predict("tagger", content, "--word_tokenizer", "spacy:en", suffix=suffix)
        assert tagged["words"] == ["do", "n't", "stop"]
    with_ranges = predict("parser", "don't stop\n", "--lang", "en")
    assert [line.split("\t")[0] for line in with_ranges.split("\n") if "\t" in line] == ["1-2", "1", "2", "3"]


def test_a_parser_splits_the_texts_of_objects(predict):
    texts = ["I don't know. It is late.", "a dog"]
    lines = "".join(json.dumps({"id": number, "text": text}) + "\n" for number, text in enumerate(texts))
    assert predict("parser", lines, "--lang", "en") == predict("parser", "\n".join(texts), "--lang", "en")


def test_a_dash_is_the_standard_output(predict, checkpoints, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    written = predict("classes", "a dog\n")
    main([str(checkpoints[0] / "classes"), "input.txt", "--output", "-"])
    assert [json.loads(line) for line in capsys.readouterr().out.splitlines()] == written


@pytest.mark.parametrize("output", ["./input.txt", "link.txt"])
def test_the_file_that_is_read_is_not_overwritten(predict, tmp_path, output):
    (tmp_path / "input.txt").touch()
    os.link(tmp_path / "input.txt", tmp_path / "link.txt")
    with pytest.raises(UserError, match="--output .*: that is the file that is read"):
        predict("classes", "a dog\n", "--output", f"{tmp_path}/{output}")
    assert (tmp_path / "input.txt").read_text() == "a dog\n"


WORDS = [["a", "dog", "sleeps"], ["the", "house"]]
CONLLU_ROWS = "\t_\t_\t_\t_\t_\t_\t_\t_\n"


@pytest.mark.parametrize(
    ("suffix", "content"),
    [
        ("jsonl", "".join(json.dumps({"tokens": words, "ner_tags": ["O"] * len(words)}) + "\n" for words in WORDS)),
        ("jsonl", '{"text": "a dog sleeps"}\n{"text": "the house"}\n'),
        ("jsonl", "".join(json.dumps({"text": " ".join(words), "tokens": [{"id": 0}]}) + "\n" for words in WORDS)),
        ("json", json.dumps([{"words": words} for words in WORDS])),
        ("jsonl", "".join(json.dumps({"words": ["x"], "tokens": words, "tags": None}) + "\n" for words in WORDS)),
        ("jsonl", '[["a dog sleeps", {"entities": [[2, 5, "PET"]]}], ["the house", {"entities": []}]]\n'),
        ("jsonl", '{"doc_key": "a", "sentences": ' + json.dumps(WORDS) + ', "ner": [[], [[3, 4, "X"]]]}\n'),
        ("csv", "by,Text,label\nAnn,a dog sleeps,x\nBob,the house,y\n"),
        ("csv", "Sentence #,Word,Tag\nSentence: 1,a,O\n,dog,O\n,sleeps,O\nSentence: 2,the,O\n,house,O\n"),
        ("csv", "sentence_id,word\n1,a\n1,dog\n1,sleeps\n2,the\n2,house\n"),
        ("tsv", "text\tid\na dog sleeps\t1\nthe house\t2\n"),
        ("tsv", "a\tO\ndog\tO\nsleeps\tO\n\nthe\tO\nhouse\tO\n"),
        ("conll", "a O\ndog O\nsleeps O\n\nthe O\nhouse O\n"),
        ("bio", "a\ndog\nsleeps\n\nthe\nhouse\n"),
        ("txt", "-DOCSTART- -X- O\n\na DT O\ndog NN B-pet\nsleeps VB O\n\nthe DT O\nhouse NN O\n"),
        ("test", "a\tDET\ndog\tNOUN\nsleeps\tVERB\n\nthe\tDET\nhouse\tNOUN\n"),
        ("tsv", "Sentence #\tWord\tTag\n1\ta\tO\n1\tdog\tO\n1\tsleeps\tO\n2\tthe\tO\n2\thouse\tO\n"),
        ("tsv", "sentence\tword\n1\ta\n1\tdog\n1\tsleeps\n2\tthe\n2\thouse\n"),
        (
            "conllu",
            "".join("".join(f"{n}\t{w}{CONLLU_ROWS}" for n, w in enumerate(words, 1)) + "\n" for words in WORDS),
        ),
    ],
)
def test_taggers_read_every_format(predict, suffix, content):
    expected = predict("tagger", "a dog sleeps\nthe house\n")
    assert [line["words"] for line in expected] == WORDS
    assert predict("tagger", content, suffix=suffix) == expected


def test_a_tagger_reads_a_folder_of_brat(predict, checkpoints, tmp_path):
    expected = predict("tagger", "a dog\n")
    (tmp_path / "brat").mkdir()
    (tmp_path / "brat" / "1.txt").write_text("a dog")
    (tmp_path / "brat" / "1.ann").write_text("T1\tPET 2 5\tdog\n")
    main([str(checkpoints[0] / "tagger"), str(tmp_path / "brat"), "--output", str(tmp_path / "tags")])
    assert [json.loads((tmp_path / "tags").read_text())] == expected


@pytest.mark.parametrize("name", ["tagger", "parser"])
def test_a_no_break_space_is_a_word(predict, name):
    found = predict(name, json.dumps({"words": ["a", "\xa0", "dog"]}) + "\n")
    words = (
        [line.split("\t")[1] for line in found.splitlines() if "\t" in line] if name == "parser" else found[0]["words"]
    )
    assert words == ["a", "\xa0", "dog"]


@pytest.mark.parametrize("content", ["a dog .\nthe house .\n", "a dog\tO\n", "a DET\nthe big house\n"])
def test_texts_are_no_columns(predict, content):
    assert [line["words"] for line in predict("tagger", content)] == [line.split() for line in content.splitlines()]


@pytest.fixture
def of_reviews(checkpoints, tmp_path):
    """A classifier that was trained on the column `review`."""
    folder = tmp_path / "trained"
    shutil.copytree(checkpoints[0] / "classes", folder)
    config = json.loads((folder / "config.json").read_text()) | {"text_columns": ["review"]}
    (folder / "config.json").write_text(json.dumps(config))
    return folder


def test_classifiers_read_the_files_that_train_them(predict, of_reviews):
    expected = predict("classes", "the dog .\na cat\n")
    for content in (
        "text\tlabel\nthe dog .\tgood\na cat\tbad\n",
        "1\tthe dog .\n0\ta cat\n",
        "(3 (2 (2 the) (2 dog)) (2 .))\n(2 (2 a) (2 cat))\n",
    ):
        assert predict("classes", content) == expected
    assert predict(of_reviews, content) == predict(of_reviews, "Review\tby\nthe dog .\tAnn\na cat\tBob\n") == expected
    assert len(predict("classes", "(3 stars) a dog\n(1 star) a cat\n")) == 2


def test_the_table_that_trained_a_model_is_predicted(predict, of_reviews):
    rows = [{"Review": "the dog .", "by": "Ann"}, {"Review": "a cat", "by": "Bob"}]
    expected = predict("classes", "the dog .\na cat\n")
    table = "by,Review\n" + "".join(f"{row['by']},{row['Review']}\n" for row in rows)
    for suffix, content in (
        ("csv", table),
        ("tsv", table.replace(",", "\t")),
        ("json", json.dumps(rows)),
        ("jsonl", "".join(json.dumps(row) + "\n" for row in rows)),
        ("jsonl", '{"text": "the dog ."}\n{"text": "a cat"}\n'),
        ("txt", "the dog .\na cat\n"),
    ):
        assert predict(of_reviews, content, suffix=suffix) == expected
    assert predict(of_reviews, table, "--encoding", "utf-16", suffix="csv", encoding="utf-16") == expected
    with pytest.raises(UserError, match=r"input\.csv:2: the model was trained on review, and there are body, by"):
        predict(of_reviews, "body,by\na dog,Ann\n", suffix="csv")


@pytest.mark.slow
@pytest.mark.heavy
def test_the_standard_input_is_answered_line_by_line(checkpoints):
    """With batches of one, before the next line is there."""
    code = "from msattn.predict import main; import sys; main(sys.argv[1:])"
    command = [sys.executable, "-c", code, str(checkpoints[0] / "classes"), "-", "--batch_size", "1"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        for line in ("a dog\n", "the house .\n"):
            process.stdin.write(line)
            process.stdin.flush()
            assert json.loads(process.stdout.readline())["label"] in ("bad", "good")
        process.stdin.close()
        assert process.wait(60) == 0


def test_another_configuration_is_another_run(checkpoints, tmp_path, monkeypatch, caplog):
    folder, file, keys = tmp_path / "relations", tmp_path / "input.txt", []
    shutil.copytree(checkpoints[0] / "relations", folder)
    shutil.copytree(checkpoints[0] / "tagger", tmp_path / "tagger")
    file.write_text("A <e1>dog</e1> in a <e2>house</e2>.\n")
    monkeypatch.setattr("msattn.predict.predict_stream", lambda *others: keys.append(others[-1]))
    config, tokenizer, tagger = folder / "config.json", folder / "tokenizer.json", tmp_path / "tagger" / "config.json"
    changes = (
        lambda: None,
        lambda: config.write_text(json.dumps({**json.loads(config.read_text()), "span_ends": "inclusive"})),
        lambda: tokenizer.write_text(tokenizer.read_text().replace("##payer", "##players")),
        lambda: tagger.write_text(f"{tagger.read_text()} "),
        lambda: monkeypatch.setattr("msattn.predict.version", lambda package: "9.9"),
    )
    for change in changes:
        change()
        for _ in range(2):
            main([str(folder), str(file), "--output", str(tmp_path / "out"), "--entities", str(tagger.parent)])
    assert keys[::2] == keys[1::2] and len(set(keys)) == len(changes)
    assert "Trained with --span_ends inclusive: give exclusive ends here" in caplog.text


def test_a_tagger_finds_the_entities_as_in_the_pipeline(predict, checkpoints):
    text, tagger = "the dog wrote a book in the house .", str(checkpoints[0] / "tagger")
    extract = pipeline("relation-extraction", model=str(checkpoints[0] / "relations"), device="cpu")
    expected = extract(text, entities=tagger, lang="en", threshold=0, pairs="all")
    options = ("--entities", tagger, "--threshold", "0", "--pairs", "all", "--lang", "en")
    assert predict("relations", f"{text}\n", *options) == [json.loads(json.dumps(expected))] and expected
    with pytest.raises(UserError, match="a BertForSequenceClassification does not find entities"):
        predict("relations", "the dog .\n", "--entities", str(checkpoints[0] / "classes"))


def test_a_tagger_finds_the_entities_of_objects(predict, checkpoints):
    tagger = str(checkpoints[0] / "tagger")
    text = "the dog wrote a book in the house ."
    plain = predict("relations", f"{text}\n", "--entities", tagger, "--threshold", "0", "--pairs", "all")
    rows = f'{{"id": 7, "text": "{text}", "source": "a book"}}\n'
    rows += f'{{"id": 8, "data": {{"text": "{text}"}}, "annotations": []}}\n'  # a task of Label Studio
    found = predict("relations", rows, "--entities", tagger, "--threshold", "0", "--pairs", "all")
    assert plain[0] and found == [{"id": number, "relations": plain[0]} for number in (7, 8)]


def test_a_classifier_of_a_decoder_answers_batches(tmp_path):
    torch.manual_seed(0)
    config = GPT2Config(vocab_size=25, n_embd=16, n_layer=1, n_head=2, n_positions=64, **labelled("bad", "good"))
    model = GPT2ForSequenceClassification(config).eval()
    saved_model(tmp_path / "gpt2", model)
    file, output = tmp_path / "input.txt", tmp_path / "output.jsonl"
    texts = ["the dog .", "the author of a book ."]
    file.write_text("\n".join(texts))
    main([str(tmp_path / "gpt2"), str(file), "--output", str(output)])
    for text, line in zip(texts, output.read_text().splitlines(), strict=True):
        logits = model(**tiny_tokenizer()(text, return_tensors="pt")).logits
        assert json.loads(line)["score"] == pytest.approx(logits.softmax(-1).max().item(), abs=1e-6)
