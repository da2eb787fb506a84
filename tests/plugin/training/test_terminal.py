"""What a run shows of its training and its scores."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from msattn.training.terminal import BarCallback, LineCallback, scores_text

LOGS = [
    {"loss": 0.69314, "grad_norm": 2.0, "learning_rate": 5e-5, "epoch": 0.5},
    {"eval_loss": 0.5, "eval_accuracy": 81.666, "eval_runtime": 3.0, "eval_samples_per_second": 2.0, "epoch": 1.0},
    {"train_runtime": 72.7, "train_loss": 0.51, "train_steps_per_second": 2.0, "total_flos": 1e12, "epoch": 2.0},
]
LINES = [
    "step 6 of 12, epoch 0.5: loss 0.6931, grad_norm 2, learning_rate 5e-05\n",
    "step 6 of 12, epoch 1: loss 0.5, accuracy 81.67\n",
    "trained 6 steps in 0:01:13: mean loss 0.51, last 0.6931\n",
]


@pytest.mark.parametrize("bars", [False, True])
def test_a_training(bars, capsys):
    callback, args = BarCallback() if bars else LineCallback(), None
    state = SimpleNamespace(is_world_process_zero=True, global_step=6, max_steps=12, epoch=0.0, log_history=LOGS[:1])
    callback.on_train_begin(args, state, None)
    callback.on_step_end(args, state, None)
    for logs in LOGS:
        state.epoch = logs["epoch"]
        callback.on_log(args, state, None, logs=logs)
        callback.on_prediction_step(args, state, None, eval_dataloader=[1, 2])
    callback.on_evaluate(args, state, None)
    callback.on_train_end(args, state, None)
    shown = capsys.readouterr()
    assert shown.out == "".join(LINES[1:] if bars else LINES)
    assert ("loss=0.6931" in shown.err and "6/12" in shown.err) if bars else not shown.err


def test_scores_of_a_split():
    metrics = {"eval_loss": 0.39539, "eval_f1": 81.6667, "eval_mse": 0.123456, "eval_runtime": 2.0, "eval_samples": 60}
    text = scores_text("eval", metrics | {"eval_samples_per_second": 3.0, "epoch": 2.0}, "out")
    assert text == "eval, 60 examples (out/eval_*), scores in percent: loss 0.3954, f1 81.67, mse 0.1235"
    assert (
        scores_text("test", {"test_runtime": 1.0, "test_samples": 3}, "out")
        == "test, 3 examples (out/test_*): no labels"
    )
