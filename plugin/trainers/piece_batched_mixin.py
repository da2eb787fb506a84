"""Predicts in batches by a budget of word pieces, which the processes share."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from accelerate.utils import gather_object
from datasets import Dataset
from transformers import EvalPrediction, Trainer, TrainerControl
from transformers.trainer_utils import PredictionOutput, denumpify_detensorize, speed_metrics

from msattn.data.inputs.piece_batches import piece_batches
from msattn.training.length_samplers import token_counts

# Word pieces of a batch for each row of `--per_device_eval_batch_size`.
PIECES_PER_ROW = 128
IGNORED = -100


class Answers(NamedTuple):
    """
    What a model answers to the rows of a batch, in the order of `rows`.

    Args:
        rows (`list[int]`): Their numbers in the dataset.
        predictions (`np.ndarray`): `(rows, ...)`.
        labels (`np.ndarray`): `(rows, ...)`.
        loss (`float`, *optional*): The mean loss.
    """

    rows: list[int]
    predictions: np.ndarray
    labels: np.ndarray
    loss: float | None


class PieceBatchedMixin(Trainer):
    """
    A mixin for [`Trainer`] whose `predict` fills batches with rows of similar length, up to a budget of word pieces.

    The budget is 128 pieces for each row of `per_device_eval_batch_size`, so that a long row never slows the others.
    Sharded models (FSDP, DeepSpeed) need the same steps in each process: they are predicted as [`Trainer`] does.
    """

    control: TrainerControl

    @property
    def is_sharded(self) -> bool:
        """Whether all processes have to compute each step together."""
        return self.is_fsdp_enabled or self.is_deepspeed_enabled

    def batches(self, dataset: Dataset) -> list[list[int]]:
        """The rows of each batch, longest first."""
        counts = token_counts(dataset)
        return [*piece_batches(counts, range(len(counts)), len(counts), PIECES_PER_ROW * self.args.eval_batch_size)]

    def answers(self, dataset: Dataset, batches: Iterable[list[int]]) -> Iterator[Answers]:
        """Predicts batches of a dataset, without the other processes."""
        model, columns = self._ready_to_predict(), self._remove_unused_columns(dataset, description="prediction")
        for rows in batches:
            read = columns[rows]
            batch = self.data_collator([dict(zip(read, row, strict=True)) for row in zip(*read.values(), strict=True)])
            loss, predictions, labels = self.prediction_step(model, batch, prediction_loss_only=False)
            yield Answers(rows, predictions.cpu().numpy(), labels.cpu().numpy(), None if loss is None else float(loss))

    def predict_alone(self, dataset: Dataset) -> tuple[np.ndarray, np.ndarray]:
        """The predictions and labels of a dataset that no other process predicts, unless the model is sharded."""
        if self.is_sharded:
            output = super().predict(dataset)
            return output.predictions, output.label_ids
        return collected([*self.answers(dataset, self.batches(dataset))])

    def predict(
        self, test_dataset: Dataset, ignore_keys: list[str] | None = None, metric_key_prefix: str = "test"
    ) -> PredictionOutput:
        """As in [`Trainer`], in batches by a budget of word pieces. The loss is a mean over rows."""
        if self.is_sharded:
            return super().predict(test_dataset, ignore_keys, metric_key_prefix)
        self._memory_tracker.start()
        begin, args = time.time(), self.args
        batches = self.batches(test_dataset)[args.process_index :: args.world_size]
        self.callback_handler.eval_dataloader = batches  # the progress bar counts them
        own = []
        for each in self.answers(test_dataset, batches):
            own.append(each)
            self.control = self.callback_handler.on_prediction_step(args, self.state, self.control)
        found = gather_object(own)
        predictions, labels = collected(found)
        metrics: dict[str, Any] = {}
        if self.compute_metrics is not None:
            metrics = self.compute_metrics(EvalPrediction(predictions=predictions, label_ids=labels))
        if found[0].loss is not None:
            metrics["loss"] = np.average([each.loss for each in found], weights=[len(each.rows) for each in found])
        metrics = {f"{metric_key_prefix}_{name}": value for name, value in denumpify_detensorize(metrics).items()}
        metrics |= speed_metrics(metric_key_prefix, begin, len(test_dataset), len(found))
        self.control = self.callback_handler.on_predict(args, self.state, self.control, metrics)
        self._memory_tracker.stop_and_update_metrics(metrics)
        return PredictionOutput(predictions, labels, metrics)

    def _ready_to_predict(self) -> torch.nn.Module:
        """The model as [`Trainer.evaluation_loop`] prepares it."""
        model: torch.nn.Module = self.model
        if not self.accelerator._models:
            model = self.accelerator.prepare_model(model, evaluation_mode=True)
        dtypes = {torch.float16: self.args.fp16_full_eval, torch.bfloat16: self.args.bf16_full_eval}
        for dtype in (dtype for dtype, wanted in dtypes.items() if wanted):
            model = model.to(dtype=dtype)
        return model.eval()


def collected(answers: Sequence[Answers]) -> tuple[np.ndarray, np.ndarray]:
    """Predictions and labels in the order of the rows; predictions are padded with -100 in their second dimension."""
    count, width = sum(len(each.rows) for each in answers), max(each.predictions.shape[1] for each in answers)
    first = answers[0]
    predictions = np.full((count, width, *first.predictions.shape[2:]), IGNORED, dtype=first.predictions.dtype)
    labels = np.empty((count, *first.labels.shape[1:]), dtype=first.labels.dtype)
    for each in answers:
        predictions[each.rows, : each.predictions.shape[1]] = each.predictions
        labels[each.rows] = each.labels
    return predictions, labels
