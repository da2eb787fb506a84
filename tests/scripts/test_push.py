"""`run_re.py --push_to_hub`, against a test double of the Hub."""

from __future__ import annotations

import pytest
from huggingface_hub import ModelCard

from tests.hub_double import commits
from tests.scripts.relation_runs import arguments, run

pytestmark = [pytest.mark.heavy, pytest.mark.slow]
TOKEN = "hf_writer"


def test_push_carries_the_card_and_no_token(demo, tmp_path):
    options = {
        "hub_model_id": "tester/extractor",
        "hub_token": TOKEN,
        "hub_strategy": "checkpoint",
        "save_strategy": "steps",
        "save_steps": 1,
        "max_steps": 2,
        "test_file": demo.test_file,
        "max_train_samples": 8,
        "max_predict_samples": 8,
    }
    with commits() as found:
        run(arguments(demo, tmp_path / "model", "do_train", "do_predict", "push_to_hub", **options))
    pushed = found["tester/extractor"]
    names = {name for files in pushed for name in files}
    assert {"model.safetensors", "training_args.bin", "last-checkpoint/training_args.bin"} <= names
    assert not [name for files in pushed for name, content in files.items() if TOKEN.encode() in content]
    # The Hub leaves out what this names; its double here does not.
    assert all(files[".gitignore"] == b"*_predictions.*\nmlm/\n" for files in pushed if ".gitignore" in files)
    assert ".gitignore" in names

    card = ModelCard(pushed[-1]["README.md"].decode())
    assert {result.metric_type for result in card.data.eval_results} == {
        *("f1", "micro_f1", "macro_f1", "precision", "recall", "accuracy", "auc", "ece"),
        *("false_positives", "false_positive_rate"),
    }
    assert "pipeline_tag" not in card.content
    assert 'pipeline("relation-extraction", model="tester/extractor", trust_remote_code=True)' in card.text
