from __future__ import annotations

import pytest
from transformers import AutoModel, AutoTokenizer, TrainingArguments

from msattn.errors import UserError
from msattn.training.arguments import ModelArguments
from msattn.training.masked_lm import MaskedLMArguments, train_masked_lm
from tests.tiny_models import saved_encoder


@pytest.fixture
def train(tmp_path):
    encoder = str(saved_encoder(tmp_path / "encoder", layers=1))

    def run(words, embedding_learning_rate=None, **given):
        options = {"use_cpu": True, "report_to": "none", "disable_tqdm": True, "logging_steps": 1}
        args = TrainingArguments(str(tmp_path / "out"), per_device_train_batch_size=1, **options)
        tokenizer = AutoTokenizer.from_pretrained(encoder)
        model_args = ModelArguments(encoder, embedding_learning_rate=embedding_learning_rate)
        return train_masked_lm(model_args, tokenizer, words, MaskedLMArguments(**given), args)

    return run


def test_batches_without_a_masked_token_do_not_end_the_training(train, tmp_path):
    trained = train([["dog"]] * 8, mlm_epochs=1)  # of which 15% are masked
    assert trained.model_name_or_path == str(tmp_path / "out" / "mlm")


def test_a_training_that_diverges_ends(train):
    with pytest.raises(UserError, match="^step [1-9]: the loss is nan"):
        train([["dog"] * 20] * 20, mlm_epochs=1, mlm_learning_rate=1e38)


def test_frozen_embeddings_stay(train, tmp_path):
    train([["dog"] * 20] * 4, mlm_epochs=1, embedding_learning_rate=0)
    models = (AutoModel.from_pretrained(tmp_path / folder) for folder in ("encoder", "out/mlm"))
    before, after = (model.get_input_embeddings().weight for model in models)
    assert after.equal(before)


def test_a_rate_without_epochs_is_refused():
    with pytest.raises(UserError, match="--mlm_learning_rate is for --mlm_epochs"):
        MaskedLMArguments(mlm_learning_rate=1e-4)
