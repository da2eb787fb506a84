from __future__ import annotations

import pytest
from datasets import Dataset

from msattn.data import train_word_tokenizer
from msattn.training.unknown_tokens import unknown_share, warn_of_unknown


@pytest.fixture
def tokenizer():
    return train_word_tokenizer(["a good shirt"])


def encoded(tokenizer, *texts: str) -> Dataset:
    return Dataset.from_dict(dict(tokenizer(list(texts), padding="max_length", max_length=8)))


def test_the_share_counts_words_alone(tokenizer):
    assert unknown_share(encoded(tokenizer, "a good shirt", "shirt"), tokenizer) == 0
    assert unknown_share(encoded(tokenizer, "Good shirt! (I love it.)", "a good shirt"), tokenizer) == 4 / 8
    assert unknown_share(encoded(tokenizer, ""), tokenizer) == 0


def test_many_are_told(tokenizer, caplog):
    warn_of_unknown("train", encoded(tokenizer, *["a good shirt"] * 10), tokenizer)
    assert not caplog.text
    warn_of_unknown("eval", encoded(tokenizer, "shirt!", "a good shirt"), tokenizer)
    assert "eval: 25.0% of the tokens are unknown to the model ([UNK]). Words have to be split as" in caplog.text
