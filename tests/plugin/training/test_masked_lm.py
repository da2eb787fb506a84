from __future__ import annotations

import pytest
from transformers import AutoTokenizer, TrainingArguments

from msattn.errors import UserError
from msattn.training.arguments import ModelArguments
from msattn.training.masked_lm import MaskedLMArguments, train_masked_lm
from tests.tiny_models import saved_encoder


@pytest.fixture
def train(tmp_path):
    encoder = str(saved_encoder(tmp_path / "encoder", layers=1))

    def run(words, **given):
        options = {"use_cpu": True, "report_to": "none", "disable_tqdm": True, "logging_steps": 1}
        args = TrainingArguments(str(tmp_path / "out"), per_device_train_batch_size=1, **options)
        tokenizer = AutoTokenizer.from_pretrained(encoder)
        return train_masked_lm(ModelArguments(encoder), tokenizer, words, MaskedLMArguments(**given), args)

    return run


def test_batches_without_a_masked_token_do_not_end_the_training(train, tmp_path):
    trained = train([["dog"]] * 8, mlm_epochs=1)  # of which 15% are masked
    assert trained.model_name_or_path == str(tmp_path / "out" / "mlm")


def test_a_training_that_diverges_ends(train):
    with pytest.raises(UserError, match="^step [1-9]: a weight is NaN or infinite"):
        train([["dog"] * 20] * 20, mlm_epochs=1, mlm_learning_rate=1e38)
