from __future__ import annotations

import re
from collections import Counter

import pytest
import torch
from transformers import AutoModel, AutoTokenizer

from msattn.data import read_relations
from msattn.data.demo_corpus import DEMO_SENTENCE, TEST, TRAIN, VALIDATION, write_demo
from msattn.metrics import SEMEVAL_LABELS, score_semeval


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    return write_demo(tmp_path_factory.mktemp("a folder with spaces") / "demo")


@pytest.fixture(scope="module")
def splits(demo):
    return {
        path.stem: read_relations(path, "semeval") for path in (demo.train_file, demo.validation_file, demo.test_file)
    }


def test_files_are_in_semeval_format(splits):
    assert [len(split) for split in splits.values()] == [TRAIN, VALIDATION, TEST]
    rows = [row for split in splits.values() for row in split]
    assert [row["id"] for row in rows] == [str(number) for number in range(1, TRAIN + VALIDATION + TEST + 1)]
    for row in rows:
        head, tail = (row["text"][slice(*row[role])] for role in ("head", "tail"))
        assert re.fullmatch(r"[a-z]+", head) and re.fullmatch(r"[a-z]+", tail)
        assert re.fullmatch(r"[A-Z][a-z ,]+[a-z]\.", row["text"]), row["text"]
        assert row["head"][1] < row["tail"][0]


def test_every_label_is_in_every_split(splits):
    labels = set(splits["train"]["label"])
    assert len(labels) == 11 - 2 + 1
    assert labels < set(SEMEVAL_LABELS)
    assert set(splits["validation"]["label"]) == set(splits["test"]["label"]) == labels


def test_no_sentence_is_in_two_splits(splits):
    texts = [text for split in splits.values() for text in split["text"]]
    assert len(set(texts)) == len(texts)


def test_guessing_the_majority_fails(splits):
    references = splits["test"]["label"][:]
    for label in set(references):
        assert score_semeval([label] * len(references), references).official.macro[2] < 10


def test_nouns_do_not_give_the_relation_away(splits):
    seen: dict[str, Counter] = {}
    for row in splits["train"]:
        for role in ("head", "tail"):
            seen.setdefault(row["text"][slice(*row[role])], Counter())[row["label"]] += 1
    guesses = [
        (
            seen.get(row["text"][slice(*row["head"])], Counter())
            + seen.get(row["text"][slice(*row["tail"])], Counter())
        ).most_common(1)[0][0]
        for row in splits["test"]
    ]
    assert score_semeval(guesses, splits["test"]["label"][:]).official.macro[2] < 75


def test_encoder_is_an_ordinary_checkpoint(demo, splits):
    tokenizer = AutoTokenizer.from_pretrained(demo.encoder)
    model = AutoModel.from_pretrained(demo.encoder)
    assert model.config.model_type == "bert"
    assert len(tokenizer) == model.config.vocab_size
    assert model.num_parameters() < 1e6
    sentences = [*splits["test"]["text"], re.sub(r"</?e[12]>", "", DEMO_SENTENCE)]
    inputs = tokenizer(sentences, padding=True, return_tensors="pt")
    assert set(inputs) == {"input_ids", "token_type_ids", "attention_mask"}
    assert not (inputs["input_ids"] == tokenizer.unk_token_id).any()
    assert tokenizer.tokenize("Storm, zebra 7") == ["storm", ",", "z", "##e", "##b", "##r", "##a", "7"]
    with torch.no_grad():
        assert model(**inputs).last_hidden_state.isfinite().all()


def test_seed_decides_every_byte(demo, tmp_path):
    def contents(paths):
        files = [paths.train_file, paths.validation_file, paths.test_file, *sorted(paths.encoder.iterdir())]
        return {path.name: path.read_bytes() for path in files}

    before = torch.random.get_rng_state()
    assert contents(write_demo(tmp_path / "same")) == contents(demo)
    assert torch.equal(torch.random.get_rng_state(), before)
    other = contents(write_demo(tmp_path / "other", seed=1))
    assert other["train.txt"] != contents(demo)["train.txt"]
    assert other["model.safetensors"] != contents(demo)["model.safetensors"]


def test_demo_sentence_is_not_in_the_corpus_but_made_of_its_words(splits):
    assert re.findall(r"<e([12])>([a-z]+)</e\1>", DEMO_SENTENCE) == [("1", "leak"), ("2", "valve")]
    assert re.sub(r"</?e[12]>", "", DEMO_SENTENCE) not in splits["train"]["text"]
