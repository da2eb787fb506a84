from __future__ import annotations

import re

import pytest
import torch
from transformers import AutoModel, AutoTokenizer

from msattn.data import read_relations
from msattn.data.demo_corpus import DEMO_SENTENCE, TEST, TRAIN, VALIDATION, write_demo


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
