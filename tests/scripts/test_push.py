"""`run_re.py --push_to_hub`, against a test double of the Hub."""

from __future__ import annotations

import sys

import pytest
from huggingface_hub import ModelCard

from tests.hub_double import TOKEN, HubDouble
from tests.scripts.relation_runs import ROOT, arguments, launch

pytestmark = [pytest.mark.heavy, pytest.mark.slow]


@pytest.fixture
def pushed(demo, tmp_path, monkeypatch) -> list[dict[str, bytes]]:
    """The files of every commit of a run that pushes while it trains and once more at its end."""
    for name, value in {"HF_HOME": str(tmp_path), "HF_HUB_DISABLE_XET": "1", "NO_PROXY": "127.0.0.1"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("HF_TOKEN", raising=False)
    options = {
        "hub_model_id": "extractor",
        "hub_token": TOKEN,
        "hub_strategy": "checkpoint",
        "save_strategy": "steps",
        "save_steps": 1,
        "max_steps": 2,
        "test_file": demo.test_file,
        "max_train_samples": 8,
        "max_predict_samples": 8,
    }
    argv = arguments(demo, tmp_path / "model", "do_train", "do_predict", "push_to_hub", **options)
    with HubDouble() as hub:
        monkeypatch.setenv("HF_ENDPOINT", hub.url)
        done = launch([sys.executable, str(ROOT / "run_re.py")], argv)
        assert done.returncode == 0, done.stderr
        return list(hub.repositories["tester/extractor"].commits.values())


def test_push_carries_the_card_and_no_token(pushed):
    assert {"model.safetensors", "training_args.bin", "last-checkpoint/training_args.bin"} <= pushed[-1].keys()
    assert not [name for files in pushed for name, content in files.items() if TOKEN.encode() in content]

    card = ModelCard(pushed[-1]["README.md"].decode())
    assert {result.metric_type for result in card.data.eval_results} == {
        *("f1", "micro_f1", "macro_f1", "precision", "recall", "accuracy", "auc", "ece"),
        *("false_positives", "false_positive_rate"),
    }
    assert "pipeline_tag" not in card.content
    assert 'pipeline("relation-extraction", model="tester/extractor", trust_remote_code=True)' in card.text
