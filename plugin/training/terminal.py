"""What a run shows: a bar with the loss, or lines where there is no terminal, and its scores."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from transformers import ProgressCallback, TrainerCallback

# What ends the names of figures that are no scores of the model.
NO_SCORES = ("epoch", "_loss", "_mse", "_runtime", "_samples", "_per_second", "_model_preparation_time")
# What only the JSON files have.
UNSEEN = ("total_flos", "_per_second", "_runtime", "_model_preparation_time")
# What is not in percent.
PLAIN = ("loss", "_mse", "grad_norm", "learning_rate")


class LineCallback(TrainerCallback):
    """A line for each logged loss (`--disable_tqdm`)."""

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **kwargs: Any) -> None:
        if state.is_world_process_zero:
            print(log_line(state, logs))


class BarCallback(ProgressCallback):
    """The bar of Transformers with the loss in it. Lines of other figures are above it."""

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **kwargs: Any) -> None:
        if self.training_bar is not None and "loss" in logs:
            self.training_bar.set_postfix({name: f"{logs[name]:.4g}" for name in logs if name.endswith("loss")})
        elif state.is_world_process_zero:
            (print if self.training_bar is None else self.training_bar.write)(log_line(state, logs))


def log_line(state: Any, logs: Mapping[str, Any]) -> str:
    """A line of logged figures, such as those of an evaluation during training."""
    if "train_runtime" in logs:
        return closing_line(state, logs)
    where = f"step {state.global_step} of {state.max_steps}, epoch {state.epoch or 0:.3g}"
    return f"{where}: {', '.join(_figures(logs, 'eval_', but=('epoch',)))}"


def closing_line(state: Any, logs: Mapping[str, Any]) -> str:
    """The line at the end of a training."""
    seconds = timedelta(seconds=round(logs["train_runtime"]))
    last = next((f", last {line['loss']:.4g}" for line in reversed(state.log_history) if "loss" in line), "")
    return f"trained {state.global_step} steps in {seconds}: mean loss {logs['train_loss']:.4g}{last}"


def scores_text(prefix: str, metrics: Mapping[str, Any], folder: str) -> str:
    """The figures of a split, with two digits for scores, which are in percent, and where its predictions are."""
    figures = _figures(metrics, f"{prefix}_", but=("epoch", "_samples"))
    unit = "" if all(name.endswith(NO_SCORES) for name in metrics) else ", scores in percent"
    head = f"{prefix}, {metrics.get(f'{prefix}_samples')} examples ({folder}/{prefix}_*){unit}"
    text = f"{head}: {', '.join(figures)}" if figures else f"{head}: no labels"
    return textwrap.fill(text, width=120, subsequent_indent="  ", break_on_hyphens=False, break_long_words=False)


def _figures(metrics: Mapping[str, Any], prefix: str, but: tuple[str, ...]) -> list[str]:
    shown = {name: value for name, value in metrics.items() if not name.endswith((*UNSEEN, *but))}
    numbers = {name: value for name, value in shown.items() if isinstance(value, (int, float))}
    return [
        f"{name.removeprefix(prefix)} {value:{'.4g' if name.endswith(PLAIN) else '.2f'}}"
        for name, value in numbers.items()
    ]
