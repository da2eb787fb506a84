"""`run_re.py --push_to_hub`, against a test double of the Hub."""

from __future__ import annotations

import sys

import pytest

from tests.hub_double import TOKEN, HubDouble
from tests.scripts.relation_runs import ROOT, arguments, launch


@pytest.fixture
def pushed(demo, tmp_path, monkeypatch) -> list[dict[str, bytes]]:
    """The files of every commit of a run that pushes while it trains and once more at its end."""
    for name, value in {"HF_HOME": str(tmp_path), "HF_HUB_DISABLE_XET": "1", "NO_PROXY": "127.0.0.1"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("HF_TOKEN", raising=False)
    hub_options = {"hub_model_id": "extractor", "hub_token": TOKEN, "hub_strategy": "checkpoint"}
    steps = {
        "max_train_samples": 8,
        "max_predict_samples": 8,
        "max_steps": 2,
        "save_strategy": "steps",
        "save_steps": 1,
    }
    with HubDouble() as hub:
        monkeypatch.setenv("HF_ENDPOINT", hub.url)
        options = arguments(demo, tmp_path / "model", "do_train", "do_predict", "push_to_hub", **hub_options, **steps)
        done = launch([sys.executable, str(ROOT / "run_re.py")], [*options, "--test_file", str(demo.test_file)])
        assert done.returncode == 0, done.stderr
        return list(hub.repositories["tester/extractor"].commits.values())


def test_push_carries_no_token(pushed):
    assert {"model.safetensors", "training_args.bin", "last-checkpoint/training_args.bin"} <= pushed[-1].keys()
    assert not [name for files in pushed for name, content in files.items() if TOKEN.encode() in content]
