"""Evil files: none runs code or formats a card. SECURITY.md says the same."""

from __future__ import annotations

import json
import pickle
import shutil
from pathlib import Path

import pytest
import torch
from transformers import PreTrainedConfig, TrainingArguments

from msattn import UserError
from msattn.modeling.modeling_multiscale_bert import BertForMultiScaleRE
from msattn.training.arguments import ModelArguments
from msattn.training.checkpoints import load_config, load_model, load_tokenizer
from msattn.training.model_card import ModelCardFacts, code_block, markdown_text, write_model_card
from msattn.training.trainer import FineTuningTrainer
from tests.tiny_models import saved_model, tiny_relation_extractor


class Evil:
    """Unpickled, it creates a file."""

    def __init__(self, mark: Path):
        self.mark = mark

    def __reduce__(self):
        return Path.touch, (self.mark,)


@pytest.fixture
def mark(tmp_path) -> Path:
    return tmp_path / "evil code was here"


@pytest.fixture
def checkpoint(tmp_path) -> Path:
    return Path(saved_model(tmp_path / "model", *tiny_relation_extractor()))


def test_the_evil_pickle_works(mark):
    pickle.loads(pickle.dumps(Evil(mark)))
    assert mark.exists()


def test_pickled_weights_run_no_code(checkpoint, mark):
    (checkpoint / "model.safetensors").unlink()
    torch.save(Evil(mark), checkpoint / "pytorch_model.bin")
    args = ModelArguments(str(checkpoint))
    tokenizer = load_tokenizer(args, load_config(args))
    with pytest.raises(pickle.UnpicklingError):
        load_model(BertForMultiScaleRE, args, tokenizer)
    assert not mark.exists()


def test_the_pickled_state_of_a_training_runs_no_code(tmp_path, mark):
    from tests.plugin.training.test_trainer import broken_trainer

    broken_trainer(tmp_path / "run", max_steps=1, save_steps=1).train()
    for name in ("optimizer.pt", "scheduler.pt", "rng_state.pth"):
        copied = shutil.copytree(tmp_path / "run", tmp_path / name)
        torch.save(Evil(mark), copied / "checkpoint-1" / name)
        with pytest.raises((pickle.UnpicklingError, UserError)):
            broken_trainer(copied, max_steps=2).train(resume_from_checkpoint=True)
    assert not mark.exists()


def load_tokenizer_alone(args: ModelArguments) -> None:
    load_tokenizer(args, PreTrainedConfig())


@pytest.mark.parametrize("load", [load_config, load_tokenizer_alone], ids=["config", "tokenizer"])
def test_the_code_of_a_checkpoint_is_not_run_unasked(load, checkpoint, mark):
    evil = {"AutoConfig": "evil.Config", "AutoModel": "evil.Model", "AutoTokenizer": ["evil.Words", None]}
    (checkpoint / "config.json").write_text(json.dumps({"model_type": "evil", "auto_map": evil}))
    (checkpoint / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "Words", "auto_map": evil}))
    (checkpoint / "evil.py").write_text(f"open({str(mark)!r}, 'w').close()")
    with pytest.raises(ValueError, match="trust_remote_code"):
        load(ModelArguments(str(checkpoint)))
    assert not mark.exists()


EVIL = "<script>alert(1)</script> {{ 7 * 7 }} [here](http://evil) | a | ![x](y)\n# Heading\n```"


def test_a_card_shows_evil_text_as_text(tmp_path):
    model, _ = tiny_relation_extractor()
    trainer = FineTuningTrainer(model, TrainingArguments(str(tmp_path), use_cpu=True))
    facts = ModelCardFacts(
        "relation-extraction",
        EVIL,
        {"f1": "F1"},
        lambda name: f"use({name!r})",
        f"A model of {EVIL}.",
    )
    text = write_model_card(trainer, facts, {"eval_f1": 1.0}).read_text(encoding="utf-8")
    body = text.split("\n---\n", 1)[1]
    assert "<script>" not in body and "&lt;script&gt;" in body
    assert "{{ 7 * 7 }}" in body and "49 [" not in body
    assert "[here](" not in body and "[x](" not in body and "\n# Heading" not in body
    assert body.count("\n```") == 4  # two blocks of code, each opened and closed


def test_a_fence_is_longer_than_any_in_the_code():
    assert code_block("a ```` b", "python") == "`````python\na ```` b\n`````"


def test_ordinary_text_stays_as_it_is():
    assert markdown_text("train_v2.jsonl (`scales: ()`), *5* files") == "train_v2.jsonl (`scales: ()`), *5* files"
