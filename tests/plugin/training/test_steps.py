"""The number of steps of a training, and the warning that they are few."""

from __future__ import annotations

import pytest
import torch
from transformers import TrainingArguments

from msattn.training.steps import training_steps, warn_of_few_steps


@pytest.mark.parametrize(
    ("examples", "options", "steps"),
    [
        (48, {}, 18),
        (50, {}, 21),
        (50, {"gradient_accumulation_steps": 2}, 12),
        (50, {"num_train_epochs": 0.5}, 4),
        (50, {"max_steps": 7}, 7),
        (1000, {}, 375),
    ],
)
def test_few_steps(examples, options, steps, tmp_path, caplog):
    args = TrainingArguments(str(tmp_path), do_train=True, use_cpu=True, report_to="none", **options)
    assert training_steps(args, examples) == steps
    model = torch.nn.Linear(1, 1)
    warn_of_few_steps(args, model, examples)
    way = "--max_steps" if "max_steps" in options else "--num_train_epochs"
    assert [f"{steps} steps are few" in caplog.text and f"raise {way}" in caplog.text] == [steps < 100]
    caplog.clear()
    args.do_train = False
    warn_of_few_steps(args, model, 0)
    args.do_train, model.new_weights = True, set()
    warn_of_few_steps(args, model, 0)
    assert not caplog.text
