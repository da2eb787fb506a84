"""Attention guiding for any encoder and Trainer: adds MDG, PDG and attention patterns to the loss."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from torch import nn
from torch.utils.data import DataLoader
from transformers import PreTrainedConfig, PreTrainedModel

from msattn.data.inputs.words import WORD_COLUMNS
from msattn.errors import UserError
from msattn.guiding.guiding_arguments import GuidingArguments
from msattn.guiding.guiding_loss import DISTANCES, check_gradient, guided_passes, guiding_terms, measure_patterns
from msattn.guiding.pattern_sources import PatternCollator, warn_of_empty_patterns, word_sources
from msattn.modeling.attention import select_layers
from msattn.modeling.attention_call import AttentionRefused, is_cross_attention
from msattn.modeling.attention_patterns import pattern_loss
from msattn.modeling.attention_readings import (
    Reader,
    Reading,
    all_configs,
    forget_closed,
    outermost_models,
    read_passes,
    real_places,
    restore,
    use_received,
)
from msattn.training.accumulation import AccumulationMixin


@dataclass
class _Guided:
    """
    The state of the mixin.

    Args:
        own_attention (`list`): The attention implementations of the model outside of training.
        embeddings (`torch.Tensor` of shape `(pieces, dimensions)`):
            The word embeddings before training, for the pattern `wordsim`.
        sums (`dict`): The loss terms since the last log, summed on their device.
        steps (`dict`): The number of steps that each of them is of.
        computed (`bool`): Whether a loss has been computed in this training.
        layers (`list[int]`, *optional*): The layers that are read; all of them if `None`.
    """

    own_attention: list[tuple[PreTrainedConfig, str | None]] = field(default_factory=list)
    embeddings: torch.Tensor = field(default_factory=lambda: torch.empty(0))
    sums: dict[str, torch.Tensor] = field(default_factory=dict)
    steps: dict[str, float] = field(default_factory=dict)
    computed: bool = False
    layers: list[int] | None = None


class GuidingMixin(AccumulationMixin):
    r"""
    Adds attention guiding to any [`Trainer`]:

    loss = task_loss + mdg_weight · mdg_loss + pdg_weight · pdg_loss + pattern_weight · pattern_loss.

    The losses are [`mdg_loss`], [`pdg_loss`] and [`pattern_loss`]. They are logged, unweighted, next to the loss. No
    parameters are added, and inference does not change.

    During training, the model uses the attention implementation `"received"`: fused attention that computes what each
    token receives, and how far a head is from its pattern, without the attention matrix. It is read from every forward
    pass that has a gradient, whatever the model returns ([`read_attention`]). The full attention maps, after dropout,
    are used instead for models that compute their softmax themselves, for the axis `"official"`, and for patterns of
    compiled models and under `torch.nn.DataParallel`.

    Args:
        *args: Positional arguments of the Trainer.
        guiding (`GuidingArguments`): Weights, layers and variants of the losses. Without a weight, nothing is guided.
        **kwargs: Keyword arguments of the Trainer.

    Raises:
        UserError: The model returns no usable attention maps, or lacks a requested layer or head. During training: a
            loss is not finite, the guided attention has no gradient, the data lack the words or trees of a pattern, a
            batch lacks its targets, or a subclass computes its loss without guiding.

    Example:

    ```python
    >>> from msattn import GuidingArguments, GuidingMixin

    >>> class MyGuidedTrainer(GuidingMixin, MyTrainer): ...
    >>> trainer = MyGuidedTrainer(model, args, train_dataset=dataset, guiding=GuidingArguments(mdg_weight=0.01))
    ```
    """

    data_collator: Any
    _signature_columns: Any

    def __init__(
        self,
        *args: Any,
        guiding: GuidingArguments,
        **kwargs: Any,
    ):
        self.guiding = guiding
        self._guided = _Guided()
        super().__init__(*args, **kwargs)
        self._set_attention(self.model)
        self._restore_attention()
        self._prepare_patterns(self.model)

    def train(self, *args: Any, **kwargs: Any) -> Any:
        """As in [`Trainer`]. Restores the model's attention implementation afterwards."""
        if self.model is not None:  # hyperparameter search removes it and calls `call_model_init`
            self._set_attention(self.model)
        self._guided.sums, self._guided.steps, self._guided.computed = {}, {}, False
        try:
            output = super().train(*args, **kwargs)
            self._take_means()
            return output
        finally:
            self._restore_attention()

    def call_model_init(self, *args: Any) -> nn.Module:
        model = super().call_model_init(*args)
        self._set_attention(model)
        return model

    def get_train_dataloader(self) -> DataLoader:
        if self.guiding.needs_words:
            self.data_collator.sources = word_sources(
                self.guiding.patterns or (),
                self.train_dataset,
                self.processing_class,
                self._guided.embeddings,
                self.guiding.dependency_files,
            )
        if self.guiding.text_patterns:
            warn_of_empty_patterns(self.data_collator, self.train_dataset)
        return super().get_train_dataloader()

    def _set_signature_columns_if_needed(self) -> None:
        known = self._signature_columns is not None
        super()._set_signature_columns_if_needed()
        if self.guiding.needs_words and not known:
            self._signature_columns = [*self._signature_columns, *WORD_COLUMNS]

    def prediction_step(self, model: nn.Module, inputs: dict[str, Any], *args: Any, **kwargs: Any) -> Any:
        if isinstance(inputs, Mapping):  # not the prompts of TRL's GRPOTrainer
            inputs = {name: value for name, value in inputs.items() if name != "pattern_targets"}
        return super().prediction_step(model, inputs, *args, **kwargs)

    def compute_loss(
        self,
        model: nn.Module,
        inputs: dict[str, Any],
        return_outputs: bool = False,
        num_items_in_batch: torch.Tensor | int | None = None,
    ) -> torch.Tensor | tuple[torch.Tensor, Any]:
        weights = self.guiding.weights
        if not (model.training and weights):
            return super().compute_loss(model, inputs, return_outputs, num_items_in_batch)
        inputs = dict(inputs)
        share = self.share(inputs)  # some Trainers take the labels out
        targets = inputs.pop("pattern_targets", {})
        if missing := self.guiding.text_patterns - targets.keys():
            raise UserError(
                f"the batch has no targets of the pattern {min(missing)}: collate it with the data_collator of the "
                "trainer, as get_train_dataloader of GuidedTrainer does."
            )
        guided = self.state.global_step % self.guiding.guide_every == 0
        if not guided:  # the last guided step has gone through its backward pass
            forget_closed(self.model.modules())
        if guided and self.guiding.by_outputs(self.args):
            loss, outputs, readings = self._ask_for_attentions(model, inputs, num_items_in_batch, targets)
        else:
            reading: Any = self._reading(targets) if guided else nullcontext([])
            with reading as readings:
                result: Any = super().compute_loss(model, inputs, return_outputs, num_items_in_batch)
            loss, outputs = result if return_outputs else (result, None)
        self._guided.computed = True
        divisor = self.divisor(num_items_in_batch)
        parts = {"task_loss": loss.detach().mean() / divisor}
        if guided:
            passes = self._passes(readings)
            if torch.is_grad_enabled():
                check_gradient(readings)
            decay = self.guiding.schedule(self.state.global_step, self.state.max_steps)
            for name, term in guiding_terms(passes, self.guiding).items():
                loss = loss + weights[name] * decay * divisor * share * term.to(loss.device)
                parts[name] = share * term.detach().to(loss.device)
        for name, part in parts.items():
            self._guided.sums[name] = self._guided.sums.get(name, 0.0) + part
            self._guided.steps[name] = self._guided.steps.get(name, 0.0) + share
        return (loss, outputs) if return_outputs else loss

    def training_step(self, *args: Any, **kwargs: Any) -> torch.Tensor:
        loss = super().training_step(*args, **kwargs)
        if self.guiding.weights and not self._guided.computed:
            raise UserError(
                f"{type(self).__name__} computes a loss without guiding: let its compute_loss call that of "
                "GuidedTrainer, or give the loss as compute_loss_func."
            )
        return loss

    def log(self, logs: dict[str, float], *args: Any, **kwargs: Any) -> None:
        if "loss" in logs and self.guiding.weights:
            logs = {**logs, **self._take_means()}
        super().log(logs, *args, **kwargs)

    def _take_means(self) -> dict[str, float]:
        """The mean of each loss term over its steps since the last call; empty without any."""
        guided = self._guided
        if not guided.sums:
            return {}
        means = torch.stack([total / guided.steps[name] for name, total in guided.sums.items()])
        gathered = self.accelerator.gather(means.unsqueeze(0)).mean(dim=0)
        found = dict(zip(guided.sums, gathered.tolist(), strict=True))
        guided.sums, guided.steps = {}, {}
        if infinite := [name for name, value in found.items() if not math.isfinite(value)]:
            raise UserError(
                f"step {self.state.global_step}: {' and '.join(infinite)} not finite; lower the learning rate or the "
                "weights, or train in bf16 or float32."
            )
        return found

    @contextmanager
    def _reading(self, targets: Mapping[str, torch.Tensor]) -> Iterator[list[Reading]]:
        """Reads what the losses need from every forward pass inside."""
        guiding = self.guiding
        measure = partial(measure_patterns, guiding=guiding, targets=targets) if guiding.pattern_weight else None
        sums = bool(guiding.mdg_weight or guiding.pdg_weight)
        of_maps = partial(self._of_maps, targets=targets)
        try:
            reader = Reader(self._guided.layers, sums, measure, of_maps, self._special_ids)
            with read_passes(self.model, reader) as readings:
                yield readings
        except AttentionRefused as refused:
            raise UserError(f"{type(self.model).__name__} cannot be guided: {refused}") from refused

    @property
    def _special_ids(self) -> Collection[int]:
        """Ids of the tokens that are left out of the maps."""
        if self.guiding.guiding_tokens == "all":
            return ()
        ids = getattr(self.processing_class, "all_special_ids", None)
        if not ids:
            raise UserError("guiding_tokens=words needs the tokenizer: give the Trainer processing_class=tokenizer.")
        return ids

    def _passes(self, readings: Sequence[Reading]) -> list[dict[int, Reading]]:
        """The guided layers of each forward pass."""
        if not readings:
            raise UserError(f"{type(self.model).__name__} has not used its attention: it cannot be guided.")
        # What is not guided was not read, if the number of layers is known.
        guiding = self.guiding if self._guided.layers is None else GuidingArguments()
        return guided_passes(readings, guiding)

    def _ask_for_attentions(
        self,
        model: nn.Module,
        inputs: dict[str, Any],
        num_items_in_batch: torch.Tensor | int | None,
        targets: Mapping[str, torch.Tensor],
    ) -> tuple[torch.Tensor, Any, list[Reading]]:
        """The loss, the outputs, and readings of the attentions that the model returns."""
        try:
            asked = {**inputs, "output_attentions": True}
            loss, outputs = super().compute_loss(model, asked, True, num_items_in_batch)
        except AttentionRefused as refused:
            raise UserError(f"{type(self.model).__name__} cannot be guided: {refused}") from refused
        attentions = outputs.get("attentions") if isinstance(outputs, Mapping) else None
        if not attentions:
            why = "" if isinstance(outputs, Mapping) else ", but a tuple (return_dict=False)"
            official = self.guiding.guiding_axis == "official"
            how = "" if official else " compiled, or on several GPUs without a launcher (torchrun, accelerate launch)"
            raise UserError(f"{type(self.model).__name__} returns no attentions{why}: it cannot be guided{how}.")
        layers = self.guiding.layers(len(attentions))
        try:
            real = real_places(self.model, attentions[layers[0]], inputs.get("attention_mask"))
        except AttentionRefused as refused:
            raise UserError(str(refused)) from refused
        # Column sums, or full maps.
        readings = [
            Reading(0, layer, real, {"received": one} if one.dim() == 3 else self._of_maps(one, real, real, targets))
            for layer, one in ((layer, attentions[layer]) for layer in layers)
        ]
        return loss, outputs, readings

    def _of_maps(
        self, attention: torch.Tensor, counted: torch.Tensor, real: torch.Tensor, targets: Mapping[str, torch.Tensor]
    ) -> dict[str, torch.Tensor]:
        """Of the full maps of a layer: sums over the queries that count, patterns of all real ones."""
        if attention.dim() != 4 or attention.shape[-2:] != (real.shape[-1],) * 2:
            raise UserError(f"{type(self.model).__name__} has attentions of shape {tuple(attention.shape)}: no maps.")
        with torch.autocast(attention.device.type, enabled=False):
            attention = attention.to(torch.promote_types(attention.dtype, torch.float32))
            weights = counted.to(attention)
            if self.guiding.guiding_axis == "official":
                received = attention.sum(dim=-1) / weights.sum(dim=-1).clamp_min(1)[:, None, None]
            else:
                received = (weights[:, None, None] @ attention).squeeze(-2)
        losses = [
            pattern_loss(attention[:, heads], targets.get(pattern, pattern), real)
            for pattern, heads in self.guiding.heads(attention.shape[1]).items()
            if self.guiding.pattern_weight
        ]
        patterns = {DISTANCES: torch.stack(losses).expand(real.shape[0], -1)} if losses else {}
        return {"received": received, **patterns}

    def _prepare_patterns(self, model: Any) -> None:
        if self.guiding.pattern_weight and "wordsim" in (self.guiding.patterns or ()):
            # Copied before a checkpoint is loaded, so that a resumed run has the same targets.
            embeddings = outermost_models(model)[0].get_input_embeddings()
            self._guided.embeddings = embeddings.weight.detach().to("cpu", copy=True)
        if self.guiding.text_patterns and hasattr(self.data_collator, "valid_label_columns"):
            raise UserError(
                f"{type(self).__name__} has a collator of its own for several texts, without room for the targets of "
                "patterns; first, next and prev need none."
            )
        if self.guiding.text_patterns and not isinstance(self.data_collator, PatternCollator):
            self.data_collator = PatternCollator(
                self.data_collator, self.processing_class, self.guiding.patterns or ()
            )

    def _set_attention(self, model: Any) -> None:
        if not self.guiding.weights:
            return
        name, models = type(model).__name__, outermost_models(model) if isinstance(model, nn.Module) else []
        if not models:
            raise UserError(f"{name} returns no attentions: it cannot be guided.")
        counts = set()
        for one in models:
            _check_model(one)
            self.guiding.check(one.config, self.args)
            counts.add(getattr(one.config, "num_hidden_layers", None))
        count = counts.pop() if len(counts) == 1 else None
        guided = self._guided
        guided.layers = None if count is None or self.guiding.guided_layers is None else self.guiding.layers(count)
        official = self.guiding.guiding_axis == "official"
        by_outputs = self.guiding.by_outputs(self.args)
        if official or (by_outputs and self.guiding.pattern_weight):
            guided.own_attention += [(one, one._attn_implementation) for one in all_configs(models[0].config)]
            models[0].set_attn_implementation("eager")
            return
        try:
            guided.own_attention += use_received(model)
        except AttentionRefused as refused:
            raise UserError(str(refused)) from refused
        if by_outputs:
            select_layers(model, guided.layers)

    def _restore_attention(self) -> None:
        if isinstance(self.model, nn.Module):
            select_layers(self.model, None)
            forget_closed(self.model.modules())
        restore(self._guided.own_attention[::-1])
        self._guided.own_attention = []


def _check_model(model: PreTrainedModel) -> None:
    """Refuses a model whose attention is not that of its tokens to each other."""
    if getattr(model.config, "is_encoder_decoder", False) and any(map(is_cross_attention, model.modules())):
        raise UserError(f"{type(model).__name__} has an encoder and a decoder: it cannot be guided.")
