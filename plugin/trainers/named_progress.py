"""Progress bars that say what they count."""

from __future__ import annotations

from typing import Any

from transformers import ProgressCallback


class NamedProgress(ProgressCallback):
    """A [`ProgressCallback`] with names. Of the bars, only that of training stays."""

    def on_train_begin(self, *args: Any, **kwargs: Any) -> None:
        super().on_train_begin(*args, **kwargs)
        if self.training_bar is not None:
            self.training_bar.set_description("Training")

    def on_prediction_step(self, *args: Any, **kwargs: Any) -> None:
        super().on_prediction_step(*args, **kwargs)
        if self.prediction_bar is not None and not self.prediction_bar.desc:
            self.prediction_bar.leave = False
            self.prediction_bar.set_description("Scoring")
