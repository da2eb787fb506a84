from __future__ import annotations

from transformers import AutoTokenizer, TrainingArguments

from msattn.training.arguments import ModelArguments
from msattn.training.masked_lm import MaskedLMArguments, train_masked_lm
from tests.tiny_models import saved_encoder


def test_batches_without_a_masked_token_do_not_end_the_training(tmp_path):
    encoder = saved_encoder(tmp_path / "encoder", layers=1)
    options = {"use_cpu": True, "report_to": "none", "disable_tqdm": True, "logging_steps": 1}
    args = TrainingArguments(str(tmp_path / "out"), per_device_train_batch_size=1, **options)
    tokenizer, words = AutoTokenizer.from_pretrained(encoder), [["dog"]] * 8  # of which 15% are masked
    trained = train_masked_lm(ModelArguments(str(encoder)), tokenizer, words, MaskedLMArguments(mlm_epochs=1), args)
    assert trained.model_name_or_path == str(tmp_path / "out" / "mlm")
