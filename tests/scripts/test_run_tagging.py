"""`run_tagging.py` from its arguments to the files that it leaves behind."""

from __future__ import annotations

import json
import math

import datasets
import pytest
from huggingface_hub import ModelCard
from transformers import AutoModelForTokenClassification, AutoTokenizer, PreTrainedConfig, pipeline

import run_tagging
from msattn.data.tagged_words import read_tagged_words
from msattn.predict import main as predict
from msattn.training import splits, tagging

SCRIPT = run_tagging
WORDS = {"the": "DET", "a": "DET", "dog": "NOUN", "cats": "NOUN", "wrote": "VERB", "in": "ADP", ".": "PUNCT"}
UNTAGGED = "\n1\tdog" + 8 * "\t_" + "\n\n"
SENTENCES = ["the dog wrote a cats .", "a cats in the dog", "dog wrote \u200d .", "in the cats ."]
STEPS = {"max_steps": 150, "learning_rate": 1e-2, "per_device_train_batch_size": 16}


def conllu(sentences: list[str]) -> str:
    lines = []
    for sentence in sentences:
        for number, word in enumerate(sentence.split(" "), start=1):
            lines.append(f"{number}\t{word}\t_\t{WORDS.get(word, 'SYM')}\tX\t_\t{number - 1}\tdep\t_\t_\n")
        lines.append("\n")
    return "".join(lines)


def conll(sentences: list[str]) -> str:
    """A noun after an article is an entity of two words."""
    blocks = []
    for sentence in sentences:
        words = sentence.split(" ")
        kinds = [WORDS.get(word) for word in words]
        tags = ["O"] * len(words)
        for at in range(1, len(words)):
            if kinds[at - 1 : at + 1] == ["DET", "NOUN"]:
                tags[at - 1 : at + 1] = "B-thing", "I-thing"
        blocks.append("".join(f"{word}\t{tag}\n" for word, tag in zip(words, tags, strict=True)))
    return "\t\n".join(blocks)


def test_parts_of_speech_are_learned_saved_and_used(run, write, tmp_path, capsys):
    train = write(conllu(SENTENCES * 4), "train.conllu")
    files = {"train_file": train, "validation_file": write(conllu(SENTENCES * 4) + UNTAGGED, "dev.conllu")}
    files["test_file"] = write("the\ncats\n\ndog\n", "test.txt")
    results = run("do_train", "do_eval", "do_predict", **files, **STEPS)
    assert results["eval_accuracy"] == 100 and "eval_f1" not in results and "test_accuracy" not in results
    assert (results["train_samples"], results["test_samples"]) == (16, 2) and math.isfinite(results["eval_loss"])

    out = tmp_path / "out"
    rows = (out / "eval_predictions.conll").read_text().split("\n\n")
    assert rows[2] == "dog\tNOUN\tNOUN\nwrote\tVERB\tVERB\n\u200d\tSYM\tSYM\n.\tPUNCT\tPUNCT"
    assert rows[-2] == "dog\t_\tNOUN"
    assert (out / "test_predictions.conll").read_text() == "the\tDET\ncats\tNOUN\n\ndog\tNOUN\n\n"
    report = (out / "eval_report.txt").read_text()
    assert "PUNCT" in report and "_" not in report.split() and report in capsys.readouterr().out

    card = ModelCard.load(out / "README.md")
    assert card.data.pipeline_tag == "token-classification" and "part-of-speech" in card.data.tags
    assert {result.metric_type for result in card.data.eval_results} == {"accuracy"}
    assert "With Transformers alone" in card.text and "import msattn" not in card.text

    tag = pipeline("token-classification", model=str(out), device="cpu")
    assert [token["entity"] for token in tag("the dog wrote")] == ["DET", "NOUN", "VERB"]
    again = run("do_eval", model_name_or_path=out, validation_file=train, output_dir=tmp_path / "again")
    assert again["eval_accuracy"] == 100


def test_sentences_without_tags_do_not_stop_the_training(run, write):
    train = write(conllu(SENTENCES[:1]) + UNTAGGED, "train.conllu")
    assert run("do_train", train_file=train, per_device_train_batch_size=1, logging_steps=1)["train_loss"] > 0


@pytest.mark.parametrize(
    ("family", "overrides"),
    [
        ("ms_transformer", ["num_hidden_layers=1", "num_attention_heads=2", "scales=[1,3]", "alpha=1.0"]),
        pytest.param("bilstm", ["num_hidden_layers=1"], marks=pytest.mark.slow),
        ("bilstm", ["num_hidden_layers=1", "crf=true"]),
        ("bert", ["num_hidden_layers=1", "num_attention_heads=2", "intermediate_size=32"]),
    ],
)
def test_from_scratch(run, write, tmp_path, family, overrides):
    """A word is one token, known or not, and what is saved is a checkpoint like others."""
    words = ["the", "z\u0085br\u00a0a", "wrote", "[SEP]", "\u200b\u2028x", "Dog's", "."]
    sentences = [words, ["\u3000"], ["10 000", "dog"]]
    files = {
        "train_file": write(conllu(SENTENCES * 4), "train.conllu"),
        "validation_file": write(conllu(SENTENCES), "dev.conllu"),
        "test_file": write("\n\n".join("\tSYM\n".join([*words, ""]) for words in sentences), "test.txt"),
        "word_vectors": write("".join(f"{word} {'0.5 ' * 16}\n" for word in ("cats", "house")), "vectors.txt"),
    }
    options = {"model_name_or_path": None, "model_type": family, "config_overrides": ["hidden_size=16", *overrides]}
    flags = "do_train", "do_eval", "do_predict", "pretokenized"
    results = run(*flags, **options, **files, max_steps=150, learning_rate=1e-2)
    assert results["eval_accuracy"] == 100

    out = tmp_path / "out"
    tokenizer = AutoTokenizer.from_pretrained(out)
    assert len(tokenizer(" ".join(words))["input_ids"]) == len(words) + tokenizer.num_special_tokens_to_add()
    assert "house" in tokenizer.get_vocab() and tokenizer("zebra", add_special_tokens=False)["input_ids"] == [1]
    assert read_tagged_words(out / "test_predictions.conll")["words"][:] == sentences
    again = run("do_eval", model_name_or_path=out, validation_file=files["train_file"], output_dir=tmp_path / "again")
    assert again["eval_accuracy"] == 100
    card = ModelCard.load(out / "README.md").text
    assert "- num_hidden_layers: 1" in card and ("needs the package pytorch-crf" in card) == ("crf=true" in overrides)


def test_entities_are_learned(run, write, tmp_path):
    train = write(conll(SENTENCES * 4), "train.conll")
    results = run("do_train", "do_eval", train_file=train, validation_file=train, **STEPS)
    measures = {f"eval_{name}" for name in ("accuracy", "precision", "recall", "f1")}
    assert {name: results[name] for name in measures} == dict.fromkeys(measures, 100.0)
    assert "thing" in (tmp_path / "out" / "eval_report.txt").read_text()
    config = AutoModelForTokenClassification.from_pretrained(tmp_path / "out").config
    assert config.label2id == {"B-thing": 0, "I-thing": 1, "O": 2}
    assert 'aggregation_strategy="first"' in (tmp_path / "out" / "README.md").read_text()


def test_parts_of_the_data_and_guiding(run, write, tmp_path):
    train = write(conllu(SENTENCES * 4), "train.conllu")
    data = {"train_file": train, "validation_file": train, "validation_split_percentage": 25, "max_eval_samples": 3}
    patterns = {
        "patterns": ["pmi", "dependency"],
        "dependency_files": [train],
        "guiding_kwargs": '{"pattern_heads": 1}',
    }
    weights = {"mdg_weight": 0.1, "pattern_weight": 0.1, "logging_steps": 1}
    results = run("do_train", "do_eval", **data, **patterns, **weights)
    assert (results["train_samples"], results["eval_samples"], results["dev_samples"]) == (12, 3, 3)
    log = json.loads((tmp_path / "out" / "trainer_state.json").read_text())["log_history"]
    assert log[0]["pattern_loss"] > 0 and log[0]["mdg_loss"] > 0
    card = ModelCard.load(tmp_path / "out" / "README.md")
    assert {result.dataset_split for result in card.data.eval_results} == {"held out of train", "validation"}
    assert "- pattern_weight: 0.1" in card.text


def test_long_sentences_are_tagged_in_parts(run, write, tmp_path, caplog):
    sentences = [" ".join(SENTENCES * 8), "dog"]
    train = write(conll(sentences), "train.conll")
    results = run("do_train", "do_eval", train_file=train, validation_file=train, max_seq_length=20)
    assert results["eval_samples"] > 2
    assert "eval: 2 sentences were cut between words into" in caplog.text
    rows = read_tagged_words(tmp_path / "out" / "eval_predictions.conll", tag_column="2")
    assert rows.to_list() == read_tagged_words(train).to_list()
    # The checkpoint keeps --max_seq_length.
    texts = write(json.dumps({"words": rows[0]["words"]}), "texts.txt")
    predict([str(tmp_path / "out"), str(texts), "--output", str(tmp_path / "tags.jsonl")])
    assert (
        json.loads((tmp_path / "tags.jsonl").read_text())["tags"]
        == read_tagged_words(tmp_path / "out" / "eval_predictions.conll")[0]["tags"]
    )
    assert AutoTokenizer.from_pretrained(tmp_path / "out").model_max_length == 20

    # A word of three pieces, in rows with room for one.
    words = write("unpayers\tB-x\ndog\tO\n", "words.conll")
    other = {"train_file": words, "validation_file": words, "output_dir": tmp_path / "other"}
    run("do_train", "do_eval", max_seq_length=3, **other)
    assert "and 1 words were truncated (--max_seq_length)" in caplog.text


def test_the_word_column_is_kept(run, write, tmp_path):
    train = write("x the O\ny dog B-pet\n\nx a O\n", "train.conll")
    run("do_train", train_file=train, word_column="2")
    output = tmp_path / "tags.jsonl"

    def words(file) -> list[list[str]]:
        predict([str(tmp_path / "out"), str(file), "--output", str(output)])
        return [json.loads(line)["words"] for line in output.read_text().splitlines()]

    assert words(train) == [["the", "dog"], ["a"]]
    assert words(write('[{"tokens": ["the", "dog"]}]', "a.json")) == [["the", "dog"]]
    assert words(write("sentence_id\ttoken\ttag\n1\tthe\tO\n1\tdog\tO\n", "table.tsv")) == [["the", "dog"]]
    assert words(write('{"words": ["the", "\\n"]}\n', "a.jsonl")) == [["the", "\n"]]
    config = json.loads((tmp_path / "out" / "config.json").read_text())
    (tmp_path / "out" / "config.json").write_text(json.dumps({**config, "word_column": "Form"}))
    assert words(write("sentence_id,word,form\n1,x,the\n1,y,dog\n", "a.csv")) == [["the", "dog"]]
    assert words(write("sentence_id,word\n1,the\n1,dog\n", "b.csv")) == [["the", "dog"]]
    assert words(write("id,Form\n1,the dog\n", "texts.csv")) == [["the", "dog"]]
    assert words(write([{"tokens": ["x"], "Form": ["the", "dog"]}], "b.jsonl")) == [["the", "dog"]]
    assert words(write('{"tokens": ["x"], "Form": ["the", "dog"]}\n', "lines.txt")) == [["the", "dog"]]


def test_warnings(run, write, tmp_path, caplog):
    train = write("the\tO\ncaf\xe9\tB-place\ncat\tM-animal\n".encode("cp1252"), "train.conll")
    files = {"train_file": train, "validation_file": train, "test_file": train}
    run("do_train", "do_eval", "do_predict", encoding="cp1252", **files)
    assert "caf\xe9\tB-place" in (tmp_path / "out" / "test_predictions.conll").read_text(encoding="utf-8")
    assert "scored word by word, not as entities: 'M-animal' is neither O nor like B-person" in caplog.text
    assert "--validation_file and --test_file are the same file" in caplog.text


@pytest.mark.parametrize(
    ("tags", "message"),
    [
        (["b-per", "o"], "'b-per' is neither O nor like B-person"),
        (["B_PER", "O"], "'B_PER' is neither O nor like B-person"),
        (["B-Per", "B-PER", "O"], "The labels 'B-PER' and 'B-Per' differ in case only: write them one way."),
        (["0", "1"], "The tags are numbers: words are scored one by one"),
        (["NOUN", "VERB"], ""),
        (["B-PER", "O"], ""),
    ],
)
def test_tags_of_entities_in_another_writing(tags, message, caplog):
    tagging.find_tags({"train": datasets.Dataset.from_dict({"tags": [tags]})}, PreTrainedConfig(), training=True)
    assert message in caplog.text if message else not caplog.text


def test_a_data_set_of_the_hub(run, fails, monkeypatch):
    tags = datasets.Sequence(datasets.ClassLabel(names=["O", "B-x"]))
    split = datasets.Dataset.from_dict({"tokens": [["a", "dog"]] * 4, "ner_tags": [[0, 1]] * 4})
    split = split.cast_column("ner_tags", tags)
    asked = []

    def load_dataset(*names, **options):
        asked.append(names)
        if names[0] == "none":
            raise ConnectionError("offline")
        return datasets.DatasetDict({"train": split, "validation": split})

    monkeypatch.setattr(splits, "load_dataset", load_dataset)
    results = run("do_train", "do_eval", dataset_name="wnut_17", dataset_config_name="plain")
    assert asked == [("wnut_17", "plain")] and "eval_f1" in results
    assert "ConnectionError: offline" in fails("do_train", dataset_name="none")


def test_mistakes(run, fails, write, tmp_path):
    train = write(conll(SENTENCES), "train.conll")
    bare = write("dog\n", "bare.conll")
    same = write("dog\tO\n", "same.conll")
    other = write("dog\tB-person\ncats\tO\n", "other.conll")
    assert "give --train_file or --dataset_name." in fails("do_train")
    assert f"{bare}: the words have no tags" in fails("do_train", train_file=bare)
    assert "more than one tag, and every word has 'O'" in fails("do_train", train_file=same)
    assert "the tags are not known" in fails("do_eval", validation_file=train)
    assert "there is no column 4; the line has 2" in fails("do_train", train_file=train, tag_column=4)
    crf = {"model_name_or_path": None, "model_type": "bilstm", "config_overrides": ["crf=true"]}
    assert "smoothing_factor is for labels" in fails("do_train", train_file=train, label_smoothing_factor=0.1, **crf)
    run("do_train", train_file=train)
    error = fails("do_eval", model_name_or_path=tmp_path / "out", validation_file=other)
    where = "eval data, sentence 1, 'dog cats'"
    assert error == f"error: {where}: the tag 'B-person' is not one of the model's: B-thing, I-thing, O."
