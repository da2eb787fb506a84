"""What is pushed to the Hub. That it loads without msattn is in tests/modeling/test_checkpoints_without_msattn.py."""

from __future__ import annotations

import pytest
import torch
from datasets import Dataset
from transformers import Trainer, TrainingArguments

from tests.hub_double import commits
from tests.tiny_models import tiny_relation_extractor

CODE = {"configuration_multiscale_bert.py", "modeling_multiscale_bert.py", "pipeline_relation_extraction.py"}
MODEL = {"config.json", "model.safetensors", *CODE}


@pytest.mark.parametrize("by", ["push_to_hub", "save_pretrained"])
def test_a_push_carries_weights_and_code(by, tmp_path):
    model, _ = tiny_relation_extractor()
    with commits() as found:
        if by == "push_to_hub":
            model.push_to_hub("tester/relations")
        else:
            model.save_pretrained(tmp_path, push_to_hub=True, repo_id="tester/relations")
    (files,) = found["tester/relations"]
    assert files.keys() >= MODEL
    assert b"from .configuration_multiscale_bert import " in files["modeling_multiscale_bert.py"]


def test_a_push_has_files_of_the_size_that_was_given(tmp_path):
    model, _ = tiny_relation_extractor()
    with commits() as found:
        model.save_pretrained(tmp_path / "relations", push_to_hub=True, max_shard_size="1KB")
    (files,) = found["tester/relations"]
    assert "model.safetensors.index.json" in files and "model.safetensors" not in files


def test_a_push_carries_the_weights_that_were_saved(tmp_path):
    model, _ = tiny_relation_extractor()
    weights = {name: torch.zeros_like(weight) for name, weight in model.state_dict().items()}
    with commits() as found:
        model.save_pretrained(tmp_path / "relations", state_dict=weights, push_to_hub=True, variant="zero")
    (files,) = found["tester/relations"]
    assert files["model.zero.safetensors"] == (tmp_path / "relations/model.zero.safetensors").read_bytes()


def test_the_trainer_pushes_the_code_with_the_model(tmp_path):
    model, tokenizer = tiny_relation_extractor()
    row = {"input_ids": [2, 21, 6, 22, 23, 7, 24, 3], "attention_mask": [1] * 8, "entity_starts": [1, 4], "labels": 0}
    options = {"hub_model_id": "tester/trained", "push_to_hub": True, "report_to": [], "max_steps": 1}
    with commits() as found:
        arguments = TrainingArguments(str(tmp_path), use_cpu=True, per_device_train_batch_size=2, **options)
        trainer = Trainer(model, arguments, train_dataset=Dataset.from_list([row] * 2), processing_class=tokenizer)
        trainer.train()
        trainer.push_to_hub(tags=["relation-extraction"])
    files = found["tester/trained"][-1]
    assert files.keys() >= {*MODEL, "README.md", "tokenizer.json"}
    assert b"relation-extraction" in files["README.md"]
