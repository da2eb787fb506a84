"""`run_parsing.py --tag`, from its arguments to the pipeline and spaCy."""

from __future__ import annotations

import io
import json
import os
from pathlib import Path

import pytest
from huggingface_hub import ModelCard
from transformers import pipeline

import run_parsing
from msattn.data.files.conllu_lines import tag_columns

SCRIPT = run_parsing
TAGS = ["upos", "xpos", "feats", "lemma"]
HEADS = {"max_steps": 150, "learning_rate": 1e-2, "per_device_train_batch_size": 16, "objective": "head_select"}
# Form, lemma, UPOS, XPOS, FEATS, HEAD and DEPREL, all of which can be learned from the words alone.
SENTENCES = [
    [
        "The the DET DT Definite=Def|PronType=Art 2 det",
        "authors author NOUN NNS Number=Plur 3 nsubj",
        "wrote write VERB VBD Mood=Ind|Tense=Past|VerbForm=Fin 0 root",
        "a a DET DT Definite=Ind|PronType=Art 5 det",
        "book book NOUN NN Number=Sing 3 obj",
        ". . PUNCT . _ 3 punct",
    ],
    [
        "A a DET DT Definite=Ind|PronType=Art 2 det",
        "cat cat NOUN NN Number=Sing 3 nsubj",
        "wrote write VERB VBD Mood=Ind|Tense=Past|VerbForm=Fin 0 root",
        ". . PUNCT . _ 3 punct",
    ],
    ["Dogs dog NOUN NNS Number=Plur 2 nsubj", "wrote write VERB VBD Mood=Ind|Tense=Past|VerbForm=Fin 0 root"],
]


def conllu(sentences: list[list[str]] = SENTENCES, empty: tuple[str, ...] = ()) -> str:
    text = ""
    for number, sentence in enumerate(sentences):
        words = [
            dict(zip(("form", "lemma", "upos", "xpos", "feats", "head", "relation"), line.split(" "), strict=True))
            for line in sentence
        ]
        text += f"# sent_id = {number}\n# text = {' '.join(word['form'] for word in words)}\n"
        for index, word in enumerate(words, start=1):
            word |= dict.fromkeys(empty, "_")
            text += "\t".join([str(index), *word.values(), "_", "_"]) + "\n"
        text += "\n"
    return text


def invalid(path: Path) -> set[str]:
    """What the validator of Universal Dependencies says of a file at level 2."""
    found = io.StringIO()
    pytest.importorskip("udtools").Validator(level=2, lang="ud", output=found).validate_files([str(path)])
    return {line.partition("]")[2] for line in found.getvalue().splitlines()}


def test_tags_are_learned_saved_and_used(run, write, tmp_path):
    train, blind = write(conllu(), "train.conllu"), write(conllu(empty=(*TAGS, "head", "relation")), "blind.conllu")
    files = {"train_file": train, "validation_file": train, "test_file": blind}
    results = run("do_train", "do_eval", "do_predict", tag=TAGS, **files, **HEADS)
    names = ("las", "upos", "xpos", "ufeats", "alltags", "lemmas", "clas", "mlas", "blex")
    assert {results[f"eval_{name}"] for name in names} == {100}
    assert not any(f"test_{name}" in results for name in names)
    out = tmp_path / "out"
    for prefix in ("eval", "test"):
        assert (out / f"{prefix}_predictions.conllu").read_text(encoding="utf-8") == conllu()
    assert not invalid(out / "test_predictions.conllu")
    card = ModelCard.load(out / "README.md")
    assert {result.metric_type for result in card.data.eval_results} >= set(names)
    assert "UFeats | 100" in card.text and "It also tags upos, xpos, feats, lemma." in card.text

    config = json.loads((out / "config.json").read_text(encoding="utf-8"))["word_tags"]
    assert config["upos"] == ["DET", "NOUN", "PUNCT", "VERB"] and set(config) == set(TAGS)
    parse = pipeline("dependency-parsing", model=str(out), device="cpu")
    expected = [line.split(" ")[:5] for line in SENTENCES[0]]
    columns = ("word", "lemma", "upos", "xpos", "feats")
    (sentence,) = parse("The authors wrote a book.")
    assert [[word[name] for name in columns] for word in sentence] == expected
    for tree in parse({"words": [line[0] for line in expected]}, k=2, marginals=True):
        assert [[word[name] for name in columns] for word in tree["words"]] == expected
    (tmp_path / "text.conllu").write_text(parse.to_conllu(parse("The authors wrote a book. Dogs wrote")))
    assert not invalid(tmp_path / "text.conllu")

    # From the checkpoint alone: all that it tags, or some of it.
    again = run("do_eval", "do_predict", **{**files, "model_name_or_path": out}, output_dir=tmp_path / "again")
    assert again["eval_blex"] == again["eval_mlas"] == 100
    some = run("do_eval", **{**files, "model_name_or_path": out}, tag=["lemma"], output_dir=tmp_path / "some")
    assert some["eval_lemmas"] == 100 and "eval_upos" not in some
    spoiled = conllu().replace("DET", "X").replace("book\tbook", "book\tbooking")
    other = run("do_eval", model_name_or_path=out, validation_file=write(spoiled, "x"), output_dir=tmp_path / "other")
    # Labels that the parser does not know are wrong.
    assert other["eval_upos"] == pytest.approx(100 * 9 / 12) and other["eval_lemmas"] == pytest.approx(100 * 11 / 12)


def test_windows_and_other_families(run, write, tmp_path):
    train = write(conllu(), "train.conllu")
    options = {"train_file": train, "validation_file": train, "tag": ["upos", "lemma"], "max_seq_length": 5}
    run("do_train", "do_eval", features="emb", **options)
    text = (tmp_path / "out" / "eval_predictions.conllu").read_text(encoding="utf-8")
    # Each word of a sentence that is read in windows has its tags; the other columns stay.
    columns = tag_columns(text.splitlines(keepends=True), TAGS)
    gold = tag_columns(conllu().splitlines(keepends=True), TAGS)
    assert [columns[name] for name in ("xpos", "feats")] == [gold[name] for name in ("xpos", "feats")]
    assert set(columns["upos"]) <= set(gold["upos"]) and "_" not in columns["lemma"]


def test_missing_tags(run, fails, write, tmp_path):
    # Half of the sentences have no tags: the others are learned.
    half = write(conllu(SENTENCES) + conllu(SENTENCES[:2], empty=("upos", "feats", "lemma")), "half.conllu")
    files = {"train_file": half, "validation_file": half}
    results = run("do_train", "do_eval", tag=["upos", "feats", "lemma"], **files, **HEADS)
    labels = json.loads((tmp_path / "out" / "config.json").read_text(encoding="utf-8"))["word_tags"]
    assert labels["upos"] == ["DET", "NOUN", "PUNCT", "VERB"] and len(labels["feats"]) == 6
    text = (tmp_path / "out" / "eval_predictions.conllu").read_text(encoding="utf-8")
    assert [line.split("\t")[3] for line in text.splitlines() if line[:1].isdigit()].count("_") == 0
    # As in the evaluation of the shared task, `_` is a tag that the parser missed, but no lemma.
    assert results["eval_upos"] == pytest.approx(100 * 12 / 22) and results["eval_lemmas"] == 100

    none = write(conllu(empty=("xpos",)), "none.conllu")
    assert fails("do_train", train_file=none, tag=["upos", "xpos"], output_dir=tmp_path / "none") == (
        f"error: {none}: the column XPOS is empty throughout, so --tag xpos has no examples."
    )
    assert "--tag xpos: the labels are not known; give training data" in fails(
        "do_eval",
        model_name_or_path=tmp_path / "out",
        validation_file=half,
        tag=["upos", "xpos"],
        output_dir=tmp_path / "b",
    )
    assert "invalid choice: 'pos'" in fails("do_train", train_file=half, tag=["pos"], output_dir=tmp_path / "c")


@pytest.mark.slow
def test_a_real_treebank(run, tmp_path):
    """An epoch teaches trees. What is written is valid, and has the scores that the shared task's evaluation finds."""
    if not {"MSATTN_DATA", "MSATTN_ENCODER"} <= os.environ.keys():
        pytest.skip("MSATTN_DATA and MSATTN_ENCODER do not name the folders of the corpora and of an encoder")
    udeval = pytest.importorskip("udtools.udeval")
    treebank = Path(os.environ["MSATTN_DATA"]) / "ud_english_partut"
    dev = treebank / "en_partut-ud-dev.conllu"
    results = run(
        "do_train",
        "do_eval",
        model_name_or_path=os.environ["MSATTN_ENCODER"],
        train_file=treebank / "en_partut-ud-train.conllu",
        validation_file=dev,
        tag=TAGS,
        objective="head_select",
        config_overrides="scorer=biaffine",
        max_steps=-1,
        num_train_epochs=1,
        per_device_train_batch_size=32,
        learning_rate=1e-4,
        new_layers_learning_rate=2e-3,
        train_sampling_strategy="group_by_length",
    )
    found = tmp_path / "out" / "eval_predictions.conllu"
    # The treebank's own comments are as they were.
    assert invalid(found) <= invalid(dev)
    read = []
    for path in (dev, found):
        with open(path, encoding="utf-8") as file:
            read.append(udeval.load_conllu(file, str(path), {}))
    expected = udeval.evaluate(*read)
    names = {"uas": "UAS", "las": "LAS", "clas": "CLAS", "upos": "UPOS", "xpos": "XPOS", "ufeats": "UFeats"}
    names |= {"alltags": "AllTags", "lemmas": "Lemmas", "mlas": "MLAS", "blex": "BLEX"}
    scores = {name: results[f"eval_{name}"] for name in names}
    assert scores == pytest.approx({ours: 100 * expected[theirs].f1 for ours, theirs in names.items()}, rel=1e-9)
    # The next word as the head of each has 29.
    assert scores["uas"] > 65 and scores["las"] > 55 and scores["lemmas"] > 50
