"""The Trainer of parsers: it decodes trees during evaluation, in batches by a budget of word pieces."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, cast

import numpy as np
import torch
from accelerate.utils import gather_object
from datasets import Dataset
from torch.utils.data import DataLoader, Sampler, SequentialSampler
from transformers import EvalPrediction, TrainerControl
from transformers.trainer_utils import EvalLoopOutput, denumpify_detensorize

from msattn.data.inputs.piece_batches import piece_batches
from msattn.data.inputs.word_pieces import NO_LABEL
from msattn.metrics.tree_confidence import ScoredSentence
from msattn.training.length_samplers import token_counts
from msattn.training.trainer import FineTuningTrainer
from msattn.trees.parses import decoder_of, parse_batch, temperature_of

# Word pieces of a batch for each row of `--per_device_eval_batch_size`.
PIECES_PER_ROW = 128


class ParsedBatch(NamedTuple):
    """
    The parses of a batch.

    Args:
        rows (`list[int]`): The numbers of its rows in the dataset.
        parses (`np.ndarray`): `(rows, words, ...)`; see [`~msattn.trees.parses.Parses.stacked`].
        scored (`list[ScoredSentence]`): The arc scores of each row with gold heads; empty without them.
        loss (`float`, *optional*): The mean loss.
        weight (`float`): The number of terms in that mean.
    """

    rows: list[int]
    parses: np.ndarray
    scored: list[ScoredSentence]
    loss: float | None
    weight: float


class ParsingTrainer(FineTuningTrainer):
    """
    A [`FineTuningTrainer`] whose predictions are trees, decoded as the configuration of the parser says.

    Predictions are `(rows, words, ...)` in the order of the dataset; see [`~msattn.trees.parses.Parses.stacked`].

    Attributes:
        scored (`list[ScoredSentence]`): The arc scores of the rows with gold heads in the last evaluation, in order.
    """

    control: TrainerControl
    model: Any
    scored: Sequence[ScoredSentence] = ()

    @property
    def is_sharded(self) -> bool:
        """Whether all processes have to compute each batch together (FSDP, DeepSpeed)."""
        return self.is_fsdp_enabled or self.is_deepspeed_enabled

    def evaluation_loop(
        self,
        dataloader: DataLoader,
        description: str,
        prediction_loss_only: bool | None = None,
        ignore_keys: list[str] | None = None,
        metric_key_prefix: str = "eval",
    ) -> EvalLoopOutput:
        """As in [`Trainer`]. The loss is the mean over all that the loss of the parser is a mean of."""
        args, dataset = self.args, cast(Dataset, dataloader.dataset)
        batches = self._batches(dataset)
        if not self.is_sharded:
            batches = batches[args.process_index :: args.world_size]
        self.callback_handler.eval_dataloader = batches  # the progress bar counts them
        found = []
        for batch in self._parsed(dataset, batches):
            found.append(batch)
            self.control = self.callback_handler.on_prediction_step(args, self.state, self.control)
        if not self.is_sharded:
            found = gather_object(found)
        scored = ((row, each) for batch in found for row, each in zip(batch.rows, batch.scored, strict=False))
        self.scored = [each for _, each in sorted(scored, key=lambda pair: pair[0])]
        predictions, metrics = _in_order(found), {}
        if self.compute_metrics is not None:
            metrics = self.compute_metrics(EvalPrediction(predictions=predictions, label_ids=None))
        if found[0].loss is not None:
            weights = [batch.weight for batch in found]
            metrics["loss"] = np.average([batch.loss for batch in found], weights=weights)
        metrics = {f"{metric_key_prefix}_{name}": value for name, value in denumpify_detensorize(metrics).items()}
        return EvalLoopOutput(predictions, None, metrics, len(dataset))

    def _get_eval_sampler(self, eval_dataset: Dataset) -> Sampler:
        return SequentialSampler(eval_dataset)

    def _batches(self, dataset: Dataset) -> list[list[int]]:
        """The rows of each batch, longest first. A long row never slows the others."""
        counts = token_counts(dataset)
        return [*piece_batches(counts, range(len(counts)), len(counts), PIECES_PER_ROW * self.args.eval_batch_size)]

    def _parsed(self, dataset: Dataset, batches: list[list[int]]) -> Iterator[ParsedBatch]:
        model, dataset = self._evaluated_model(), self._remove_unused_columns(dataset, description="prediction")
        decoder, temperature = decoder_of(self.model.config), temperature_of(self.model.config)
        loader = DataLoader(dataset, batch_sampler=batches, collate_fn=self.data_collator)
        for rows, batch in zip(batches, loader, strict=True):
            inputs = self._prepare_inputs(batch)
            with torch.no_grad(), self.compute_loss_context_manager():
                outputs, parses = parse_batch(model, inputs, decoder, temperature)
            loss = float(outputs["loss"]) if "loss" in outputs else None
            weight = 0.0 if loss is None else float(self._labelled(inputs))
            yield ParsedBatch(rows, parses.stacked().astype(np.float32), _scored(outputs, inputs), loss, weight)

    def _evaluated_model(self) -> torch.nn.Module:
        model = super()._evaluated_model()
        if not self.is_in_train and (self.args.fp16_full_eval or self.args.bf16_full_eval):
            model = model.to(dtype=torch.float16 if self.args.fp16_full_eval else torch.bfloat16)
        return model.eval()

    def _labelled(self, batch: dict[str, Any]) -> torch.Tensor | int:
        """The number of terms that the loss of arcs is a mean of: words, or pairs of words by their weight."""
        if "heads" not in batch:
            return super()._labelled(batch)
        known, config = (batch["heads"] >= 0).sum(dim=1), self.model.config
        if config.objective == "pairs":
            # Each word has as many candidates as the sentence has words, and one of them is its head.
            known = known * (1 + config.none_weight * (batch["word_index"].amax(dim=1) - 1))
        return known.sum().clamp_min(1)


def _in_order(batches: Sequence[ParsedBatch]) -> np.ndarray:
    """The parses in the order of the rows, padded with -100 in their second dimension."""
    rows, words = sum(len(batch.rows) for batch in batches), max(batch.parses.shape[1] for batch in batches)
    first = batches[0].parses
    parses = np.full((rows, words, *first.shape[2:]), NO_LABEL, dtype=first.dtype)
    for batch in batches:
        parses[batch.rows, : batch.parses.shape[1]] = batch.parses
    return parses


def _scored(outputs: Any, inputs: dict[str, torch.Tensor]) -> list[ScoredSentence]:
    if "heads" not in inputs:
        return []
    arcs, heads = outputs["arc_scores"].float().cpu().numpy(), inputs["heads"].cpu().numpy()
    sizes = inputs["word_index"].amax(dim=1).tolist()
    return [
        ScoredSentence(scores[: size + 1, : size + 1].copy(), gold[:size])
        for size, scores, gold in zip(sizes, arcs, heads, strict=True)
    ]
