"""Attention guiding for any encoder and Trainer: adds MDG, PDG and attention patterns to the loss."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn
from torch.utils.data import DataLoader
from transformers.utils import logging

from msattn.data.inputs.words import WORD_COLUMNS
from msattn.errors import UserError
from msattn.guiding.guiding_arguments import GuidingArguments
from msattn.guiding.pattern_sources import PatternCollator, word_sources
from msattn.modeling.attention_patterns import pattern_loss
from msattn.modeling.guiding_losses import mdg_loss, pdg_loss
from msattn.modeling.received_attention import AttentionRefused, select_layers
from msattn.trainers.accumulation import AccumulationMixin
from msattn.trainers.guiding_record import GuidingRecord

logger = logging.get_logger(__name__)


@dataclass
class _Guided:
    """
    The state of the mixin.

    Args:
        parser (`Callable`, *optional*): Maps the words of a sentence to their heads, for the pattern `dependency`.
        own_attention (`str`, *optional*): The attention implementation of the model outside of training.
        embeddings (`torch.Tensor` of shape `(pieces, dimensions)`):
            The word embeddings before training, for the pattern `wordsim`.
        record (`GuidingRecord`): The loss terms since the last log.
        computed (`bool`): Whether a guided loss has been computed in this training.
    """

    parser: Callable[[list[str]], Sequence[int]] | None
    own_attention: str | None = None
    embeddings: torch.Tensor = field(default_factory=lambda: torch.empty(0))
    record: GuidingRecord = field(default_factory=GuidingRecord)
    computed: bool = False


class GuidingMixin(AccumulationMixin):
    r"""
    Adds attention guiding to any [`Trainer`]:

    loss = task_loss + mdg_weight · mdg_loss + pdg_weight · pdg_loss + pattern_weight · pattern_loss.

    The losses are [`mdg_loss`], [`pdg_loss`] and [`pattern_loss`]. They are logged, unweighted, next to the loss. No
    parameters are added, and inference does not change.

    During training, the model uses the attention implementation `"received"`: fused attention that also returns the
    attention that each token receives, without the attention matrix. The full attention maps are used instead in two
    cases: if the model was loaded with `attn_implementation="eager"`, which models outside the attention interface of
    Transformers require, and for patterns and the axis `"official"`, which switch to eager attention.

    Args:
        *args: Positional arguments of the Trainer.
        guiding (`GuidingArguments`): Weights, layers and variants of the losses. Without a weight, nothing is guided.
        parser (`Callable`, *optional*):
            Dependency parser for the pattern `dependency`, as an alternative to CoNLL-U files. Given the words of a
            sentence, it returns the index of each word's head, from 1; 0 for a word without a head.
        **kwargs: Keyword arguments of the Trainer.

    Raises:
        UserError: The model returns no usable attention maps, or lacks a requested layer or head. During training: a
            loss is not finite, the guided attention has no gradient, the data lack the words or trees of a pattern, or
            a subclass computes its loss without guiding.

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
        parser: Callable[[list[str]], Sequence[int]] | None = None,
        **kwargs: Any,
    ):
        self.guiding = guiding
        self._guided = _Guided(parser)
        super().__init__(*args, **kwargs)
        self._set_attention(self.model)
        self._restore_attention()
        if guiding.needs_words:
            # Copied before a checkpoint is loaded, so that a resumed run has the same targets.
            self._guided.embeddings = self.model.get_input_embeddings().weight.detach().to("cpu", copy=True)
        if guiding.needs_targets:
            self.data_collator = PatternCollator(self.data_collator, self.processing_class, guiding.patterns or ())

    def train(self, *args: Any, **kwargs: Any) -> Any:
        """As in [`Trainer`]. Restores the model's attention implementation afterwards."""
        if self.model is not None:  # hyperparameter search removes it and calls `call_model_init`
            self._set_attention(self.model)
        self._guided.record, self._guided.computed = GuidingRecord(), False
        try:
            output = super().train(*args, **kwargs)
            self._guided.record.check()
            return output
        finally:
            self._restore_attention()

    def call_model_init(self, *args: Any) -> nn.Module:
        model = super().call_model_init(*args)
        self._set_attention(model)
        return model

    def get_train_dataloader(self) -> DataLoader:
        if self.guiding.needs_words:
            trees = self._guided.parser or self.guiding.dependency_files
            patterns = self.guiding.patterns or ()
            self.data_collator.sources = word_sources(
                patterns, self.train_dataset, self.processing_class, self._guided.embeddings, trees
            )
        return super().get_train_dataloader()

    def _set_signature_columns_if_needed(self) -> None:
        known = self._signature_columns is not None
        super()._set_signature_columns_if_needed()
        if self.guiding.needs_words and not known:
            self._signature_columns = [*self._signature_columns, *WORD_COLUMNS]

    def prediction_step(self, model: nn.Module, inputs: dict[str, Any], *args: Any, **kwargs: Any) -> Any:
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
        self._guided.record.check()
        inputs = {**inputs, "output_attentions": True}
        targets = inputs.pop("pattern_targets", {})
        with _passes_with_gradient(model) as passes:
            try:
                loss, outputs = super().compute_loss(model, inputs, True, num_items_in_batch)
            except AttentionRefused as refused:
                raise UserError(f"{type(self.model).__name__} cannot be guided: {refused}") from refused
        self._guided.computed = True
        share, divisor = self.share(inputs), self.divisor(num_items_in_batch)
        mask = inputs.get("attention_mask")
        # Some Trainers, such as TRL's, return the outputs of a second pass, without a gradient.
        guided = passes[-1] if passes and not _has_gradient(outputs) else outputs
        vectors, mask = self._layer_vectors(guided, mask)
        if torch.is_grad_enabled() and not any(vector.requires_grad for vector in vectors.values()):
            raise UserError(
                "the guided attention has no gradient: its layers are frozen, or their gradient checkpointing is "
                'reentrant (gradient_checkpointing_kwargs={"use_reentrant": false} is what works).'
            )
        parts = {"task_loss": loss.detach().mean() / divisor}
        terms = self._terms(vectors, mask)
        if "pattern_loss" in weights:
            terms["pattern_loss"] = self._pattern_loss(guided["attentions"], mask, targets)
            weights["pattern_loss"] *= self.guiding.pattern_schedule(self.state.global_step, self.state.max_steps)
        for name, term in terms.items():
            loss = loss + weights[name] * divisor * share * term
            parts[name] = share * term.detach()
        self._guided.record.add(self.state.global_step + 1, parts, share, vectors)
        return (loss, outputs) if return_outputs else loss

    def log(self, logs: dict[str, float], *args: Any, **kwargs: Any) -> None:
        if "loss" in logs and self.guiding.weights:
            means = self._guided.record.take_means()
            if not means and (self._guided.computed or not self.state.global_step):
                return super().log(logs, *args, **kwargs)  # a subclass logs between the steps
            if not means:
                raise UserError(
                    f"{type(self).__name__} computes a loss without guiding: let its compute_loss call that of "
                    "GuidedTrainer, or give the loss as compute_loss_func."
                )
            self._guided.record.check()
            gathered = self.accelerator.gather(torch.stack(list(means.values())).unsqueeze(0)).mean(dim=0)
            logs = {**logs, **dict(zip(means, gathered.tolist(), strict=True))}
        super().log(logs, *args, **kwargs)

    def _terms(self, vectors: Mapping[int, torch.Tensor], mask: torch.Tensor | None) -> dict[str, torch.Tensor]:
        """The unweighted MDG and PDG losses, under the names of `GuidingArguments.weights`."""
        guiding: Any = self.guiding  # its preset has replaced every None
        maps = torch.cat(list(vectors.values()), dim=1)
        terms = {}
        if guiding.mdg_weight:
            terms["mdg_loss"] = mdg_loss(
                maps, mask, guiding.guiding_temperature, guiding.mdg_normalize, guiding.guiding_reduction
            )
        if guiding.pdg_weight:
            terms["pdg_loss"] = pdg_loss(maps, mask, guiding.pdg_normalize, guiding.guiding_reduction)
        return terms

    def _pattern_loss(
        self, attentions: Sequence[torch.Tensor], mask: torch.Tensor | None, targets: Mapping[str, torch.Tensor]
    ) -> torch.Tensor:
        """The pattern loss: a mean over heads, summed over layers and patterns."""
        losses = [
            pattern_loss(attentions[layer][:, heads], targets.get(pattern, pattern), mask)
            for layer in self.guiding.layers(len(attentions))
            for pattern, heads in self.guiding.heads(attentions[layer].shape[1]).items()
        ]
        return torch.stack([loss.to(losses[0].device) for loss in losses]).sum()

    def _layer_vectors(self, outputs: Any, mask: torch.Tensor | None) -> tuple[dict[int, torch.Tensor], torch.Tensor]:
        """The maps of each guided layer as vectors, `(batch, heads, tokens)`, all on one device; and their mask."""
        attentions = outputs.get("attentions") if isinstance(outputs, Mapping) else None
        if not attentions:
            if isinstance(outputs, Mapping) and "encoder_attentions" in outputs:
                raise UserError(f"{type(self.model).__name__} has an encoder and a decoder: it cannot be guided.")
            if isinstance(outputs, Mapping) and self.model.config._attn_implementation != "eager":
                raise UserError(_outside_the_interface(self.model))
            why = "" if isinstance(outputs, Mapping) else ", but a tuple (return_dict=False)"
            raise UserError(f"{type(self.model).__name__} returns no attentions{why}: it cannot be guided.")
        layers = self.guiding.layers(len(attentions))
        mask = self._mask_of_tokens(attentions[layers[0]], mask)
        vectors = {layer: self._vectors(attentions[layer], mask).to(mask.device) for layer in layers}
        for layer, vector in vectors.items():
            if vector.shape[::2] != mask.shape:
                raise UserError(
                    f"{type(self.model).__name__} cannot be guided: layer {layer} attends to {vector.shape[2]} places "
                    f"in {vector.shape[0]} rows, and its inputs are {mask.shape[1]} tokens in {mask.shape[0]}."
                )
        return vectors, mask

    def _mask_of_tokens(self, attention: torch.Tensor, mask: torch.Tensor | None) -> torch.Tensor:
        """The mask of what the model attends to, `(batch, tokens)`."""
        if mask is None:
            return torch.ones(attention.shape[0], attention.shape[-1], device=attention.device)
        mask = mask.flatten(0, -2)  # the choices of a question are rows of their own
        frames = getattr(self.model, "_get_feature_vector_attention_mask", None)
        if frames is not None and mask.shape[1] != attention.shape[-1]:  # speech: the mask is that of the samples
            mask = frames(attention.shape[-1], mask)
        return mask

    def _vectors(self, attention: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        if self.model.config._attn_implementation != "eager":
            if attention.dim() != 3:
                raise UserError(_outside_the_interface(self.model))
            return attention
        if attention.dim() != 4 or attention.shape[-2:] != (mask.shape[-1],) * 2:
            raise UserError(f"{type(self.model).__name__} has attentions of shape {tuple(attention.shape)}: no maps.")
        with torch.autocast(attention.device.type, enabled=False):
            attention = attention.to(torch.promote_types(attention.dtype, torch.float32))
            real = mask.to(attention)
            if self.guiding.guiding_axis == "official":
                return attention.sum(dim=-1) / real.sum(dim=-1).clamp_min(1)[:, None, None]
            return (real[:, None, None] @ attention).squeeze(-2)

    def _set_attention(self, model: Any) -> None:
        if not self.guiding.weights:
            return
        name = type(model).__name__
        config: Any = getattr(model, "config", None)
        parameters = inspect.signature(model.forward).parameters
        takes_any = any(parameter.kind == inspect.Parameter.VAR_KEYWORD for parameter in parameters.values())
        if not hasattr(model, "set_attn_implementation") or not (takes_any or "output_attentions" in parameters):
            raise UserError(f"{name} returns no attentions: it cannot be guided.")
        if getattr(config, "sentence_pairs", False):
            raise UserError(
                f"{name} attends to the sentences of a pair apart, and so cannot be guided: with sentence_pairs=False "
                "it reads both as one text."
            )
        for size, check in (("num_hidden_layers", self.guiding.layers), ("num_attention_heads", self.guiding.heads)):
            count = getattr(config, size, None)
            if isinstance(count, (list, tuple)):
                raise UserError(f"{name} has other heads in each stage ({size}={list(count)}): it cannot be guided.")
            if count is not None:
                check(count)
        full = self.guiding.guiding_axis == "official" or bool(self.guiding.pattern_weight)
        current, wanted = config._attn_implementation, "eager" if full else "received"
        if current == "eager" and not full:
            logger.warning(f"{name} was loaded with eager attention: its full maps are summed, after their dropout.")
        elif current != wanted:
            self._guided.own_attention = current
            model.set_attn_implementation(wanted)
            if config._attn_implementation != wanted:
                raise UserError(_outside_the_interface(model))

        if (
            self.guiding.guided_layers is not None
            and (count := getattr(config, "num_hidden_layers", None)) is not None
        ):
            select_layers(model, self.guiding.layers(count))

    def _restore_attention(self) -> None:
        if isinstance(self.model, nn.Module):
            select_layers(self.model, None)
        if self._guided.own_attention is not None:
            self.model.set_attn_implementation(self._guided.own_attention)


@contextmanager
def _passes_with_gradient(model: nn.Module) -> Iterator[list[Any]]:
    """The outputs of the forward passes of a model inside, if their attentions have a gradient."""
    passes: list[Any] = []

    def keep(module: nn.Module, inputs: Any, outputs: Any) -> None:
        if _has_gradient(outputs):
            passes.append(outputs)

    hook = model.register_forward_hook(keep)
    try:
        yield passes
    finally:
        hook.remove()


def _has_gradient(outputs: Any) -> bool:
    attentions = outputs.get("attentions") if isinstance(outputs, Mapping) else None
    return any(isinstance(one, torch.Tensor) and one.requires_grad for one in attentions or ())


def _outside_the_interface(model: nn.Module) -> str:
    return (
        f"{type(model).__name__} does not return its attention through Transformers' attention interface: "
        'load it with attn_implementation="eager", and its full attention maps will be summed.'
    )
