from __future__ import annotations

import json
import re

import numpy as np
import pytest

from msattn import fit_windows, set_windows
from msattn.analysis import plot_windows, window_costs
from msattn.analysis.__main__ import main
from msattn.errors import UserError
from tests.plugin.analysis.test_importance import LABELS, TEXTS, classifier
from tests.plugin.analysis.test_importance import folder as folder  # a fixture
from tests.tiny_models import tiny_tokenizer


def test_the_cost_is_that_of_the_fitted_windows():
    model, tokenizer = classifier(), tiny_tokenizer()
    found = window_costs(model, tokenizer, TEXTS, LABELS, masses=(0.5, 1.0), batch_size=2)
    assert model.training and getattr(model.config, "attention_windows", None) is None
    assert found.texts == 5 and [cost.mass for cost in found.costs] == [0.5, 1.0]
    model.eval()
    encoded = [tokenizer(*text, return_tensors="pt") for text in TEXTS]

    def score() -> float:
        return float(
            np.mean([model(**one).logits.argmax().item() == y for one, y in zip(encoded, LABELS, strict=True)])
        )

    assert found.accuracy == score()
    for cost in found.costs:
        windows = fit_windows(model, encoded, cost.mass, tokenizer.all_special_ids)
        assert [[w is not None for w in row] for row in windows] == cost.windowed.tolist()
        assert all(
            w in (None, reach)
            for row, far in zip(windows, cost.reach, strict=True)
            for w, reach in zip(row, far, strict=True)
        )
        set_windows(model, windows, tokenizer.all_special_ids)
        assert cost.accuracy == score()
        set_windows(model, None)


def test_command(folder, capsys):
    argv = ["windows", "--model", str(folder / "m"), "--file", str(folder / "texts.jsonl"), "--mass", "0.5", "0.9"]
    main([*argv, "--output", str(folder / "found.json"), str(folder / "found.svg"), "--max_fit_samples", "3"])
    found = json.loads((folder / "found.json").read_text(encoding="utf-8"))
    assert [cost["mass"] for cost in found["costs"]] == [0.5, 0.9] and found["texts"] == 5
    assert np.shape(found["costs"][0]["reach"]) == np.shape(found["costs"][0]["windowed"]) == (2, 4)
    out = capsys.readouterr().out
    assert "| mass | heads with a window | share | widest | accuracy | points lost |" in out and "| 0.9 |" in out
    texts = re.findall(r"<text[^>]*>(.*?)</text>", (folder / "found.svg").read_text(encoding="utf-8"))
    assert "window that keeps 90 % (×: none, over half a text)" in texts


def test_mistakes(folder):
    for flags, message in [
        (["--mass", "1.5"], "--mass must be above 0 and at most 1, not 1.5"),
        (["--max_fit_samples", "0"], "--max_fit_samples must be at least 1, not 0"),
        (["--fit_file", "nowhere.txt"], "nowhere.txt"),
    ]:
        with pytest.raises(UserError, match=message):
            main(["windows", "--model", str(folder / "m"), "--file", str(folder / "texts.jsonl"), *flags])
    with pytest.raises(UserError, match="has no classes of which one is right"):
        window_costs(classifier(num_labels=1), tiny_tokenizer(), TEXTS, LABELS)
    with pytest.raises(UserError, match="saved as .png or .svg"):
        plot_windows(window_costs(classifier(), tiny_tokenizer(), TEXTS, LABELS), folder / "a.gif")
