"""Attention guiding for any encoder: a Trainer that adds MDG, PDG and patterns to the loss of the task."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import nn
from torch.utils.data import DataLoader
from transformers.utils import logging

from msattn.data.pattern_sources import PatternCollator, word_sources
from msattn.data.words import WORD_COLUMNS
from msattn.errors import UserError
from msattn.modeling.attention_patterns import POSITIONS, pattern_loss
from msattn.modeling.guiding_losses import mdg_loss, pdg_loss
from msattn.training.guiding_arguments import GuidingArguments
from msattn.training.trainer import AccumulatingTrainer

logger = logging.get_logger(__name__)


class _Batch(NamedTuple):
    """What has to be finite in a batch: its terms, and its maps, whose layers are `layers`."""

    step: int
    terms: Sequence[str]
    layers: Sequence[int]
    finite: torch.Tensor


class GuidedTrainer(AccumulatingTrainer):
    r"""
    A [`Trainer`] that adds attention guiding to the loss of any encoder:

    loss = task_loss + mdg_weight · mdg_loss + pdg_weight · pdg_loss + pattern_weight · pattern_loss.

    While it is trained, the model has the attention implementation `"received"`: fused attention, and what each token
    receives, without the attention matrix. Where the model was loaded with `attn_implementation="eager"`, the only one
    of models outside the attention interface of Transformers, its full maps are summed instead. Patterns need full
    maps and set eager attention. No parameter is added, and nothing changes at inference. The terms are logged beside
    the loss, unweighted.

    Args:
        *args: Arguments of [`Trainer`].
        guiding (`GuidingArguments`): Weights, layers and forms of the terms. Without a weight nothing is guided.
        parser (`Callable`, *optional*):
            For the pattern `dependency`, in place of CoNLL-U files: given the words of a sentence, it returns the
            number of each word's head, 1 for the first word and 0 for a word without a head.
        **kwargs: Arguments of [`Trainer`].

    Raises:
        UserError: The model has no attentions, not in this form, or not these layers or heads; or, in training, a
            term is not finite, a pattern lacks what it is made of, or a subclass computes its loss without guiding.

    Example:

    ```python
    >>> from msattn import GuidedTrainer, GuidingArguments

    >>> trainer = GuidedTrainer(model, args, train_dataset=dataset, guiding=GuidingArguments(mdg_weight=0.01))
    >>> trainer.train()
    ```"""

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
        self._parser = parser
        self._own_attention: str | None = None
        # Of the steps since the last log: the sums of the terms, and how many steps they make.
        self._sums: dict[str, torch.Tensor] = {}
        self._steps = 0.0
        self._last_batch: _Batch | None = None
        super().__init__(*args, **kwargs)
        self._set_attention(self.model)
        self._restore_attention()
        self._embeddings = torch.empty(0)
        if guiding.needs_words:
            # Of now: a training that is resumed has the targets that it began with.
            self._embeddings = self.model.get_input_embeddings().weight.detach().to("cpu", copy=True)

    def train(self, *args: Any, **kwargs: Any) -> Any:
        """As in [`Trainer`]. Afterwards the model has the attention implementation that it came with."""
        if self.model is not None:  # a search for hyperparameters takes it away, and has a new one made
            self._set_attention(self.model)
        self._sums, self._steps, self._last_batch = {}, 0.0, None
        try:
            output = super().train(*args, **kwargs)
            self._check_last_batch()
            return output
        finally:
            self._restore_attention()

    def call_model_init(self, *args: Any) -> nn.Module:
        model = super().call_model_init(*args)
        self._set_attention(model)
        return model

    def get_train_dataloader(self) -> DataLoader:
        patterns = self.guiding.patterns or []
        if not self.guiding.pattern_weight or set(patterns) <= set(POSITIONS):
            return super().get_train_dataloader()
        tokenizer = self.processing_class
        if tokenizer is None:
            raise UserError(f"patterns: {', '.join(patterns)} cannot be found without a tokenizer (processing_class).")
        trees = self._parser or self.guiding.dependency_files
        sources = word_sources(patterns, self.train_dataset, tokenizer, self._embeddings, trees)
        self._set_signature_columns_if_needed()
        plain = self.data_collator, self._signature_columns
        self.data_collator = PatternCollator(self.data_collator, tokenizer, patterns, sources)
        self._signature_columns = [*self._signature_columns, *WORD_COLUMNS]
        try:
            return super().get_train_dataloader()
        finally:
            self.data_collator, self._signature_columns = plain

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
        self._check_last_batch()
        inputs = {**inputs, "output_attentions": True}
        targets = inputs.pop("pattern_targets", {})
        loss, outputs = super().compute_loss(model, inputs, True, num_items_in_batch)
        share, divisor = self.share(inputs), self.divisor(num_items_in_batch)
        mask = inputs.get("attention_mask")
        vectors = self._layer_vectors(outputs, mask)
        if torch.is_grad_enabled() and not any(vector.requires_grad for vector in vectors.values()):
            raise UserError(
                "the guided attention has no gradient: its layers are frozen, or their gradient checkpointing is "
                'reentrant (gradient_checkpointing_kwargs={"use_reentrant": false} is what works).'
            )
        parts = {"task_loss": loss.detach().mean() / divisor}
        terms = self._terms(vectors, mask)
        if "pattern_loss" in weights:
            terms["pattern_loss"] = self._pattern_loss(outputs["attentions"], mask, targets)
            weights["pattern_loss"] *= self.guiding.pattern_schedule(self.state.global_step, self.state.max_steps)
        for name, term in terms.items():
            loss = loss + weights[name] * divisor * share * term
            parts[name] = share * term.detach()
        self._record(parts, share, vectors)
        return (loss, outputs) if return_outputs else loss

    def log(self, logs: dict[str, float], *args: Any, **kwargs: Any) -> None:
        if "loss" in logs and self.guiding.weights:
            if not self._sums:
                raise UserError(
                    f"{type(self).__name__} computes a loss without guiding: let its compute_loss call that of "
                    "GuidedTrainer, or give the loss as compute_loss_func."
                )
            self._check_last_batch()
            means = torch.stack(list(self._sums.values())) / self._steps
            means = self.accelerator.gather(means.unsqueeze(0)).mean(dim=0)
            logs = {**logs, **dict(zip(self._sums, means.tolist(), strict=True))}
            self._sums, self._steps = {}, 0.0
        super().log(logs, *args, **kwargs)

    def _terms(self, vectors: Mapping[int, torch.Tensor], mask: torch.Tensor | None) -> dict[str, torch.Tensor]:
        """What is made of the vectors and added to the loss, unweighted, under the names that `weights` has."""
        guiding: Any = self.guiding  # whose preset has left nothing None
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
        """The sum over layers and patterns of what is a mean over heads."""
        losses = [
            pattern_loss(attentions[layer][:, heads], targets.get(pattern, pattern), mask)
            for layer in self.guiding.layers(len(attentions))
            for pattern, heads in self.guiding.heads(attentions[layer].shape[1]).items()
        ]
        return torch.stack([loss.to(losses[0].device) for loss in losses]).sum()

    def _layer_vectors(self, outputs: Any, mask: torch.Tensor | None) -> dict[int, torch.Tensor]:
        """The maps of each guided layer as vectors, `(batch, heads, tokens)`, all on one device."""
        attentions = outputs.get("attentions") if isinstance(outputs, Mapping) else None
        if not attentions:
            if isinstance(outputs, Mapping) and "encoder_attentions" in outputs:
                raise UserError(f"{type(self.model).__name__} has an encoder and a decoder: it cannot be guided.")
            if isinstance(outputs, Mapping) and self.model.config._attn_implementation != "eager":
                raise UserError(_outside_the_interface(self.model))
            why = "" if isinstance(outputs, Mapping) else ", but a tuple (return_dict=False)"
            raise UserError(f"{type(self.model).__name__} returns no attentions{why}: it cannot be guided.")
        if mask is None:
            mask = torch.ones(attentions[0].shape[0], attentions[0].shape[-1], device=attentions[0].device)
        return {
            layer: self._vectors(attentions[layer], mask).to(mask.device)
            for layer in self.guiding.layers(len(attentions))
        }

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

    def _record(self, parts: Mapping[str, torch.Tensor], share: float, vectors: Mapping[int, torch.Tensor]) -> None:
        # Nothing is read here: the processor would wait for the device in every step.
        self._steps += share
        for name, part in parts.items():
            self._sums[name] = self._sums.get(name, 0.0) + part
        maps = torch.cat(list(vectors.values()), dim=1)
        self._last_batch = _Batch(
            step=self.state.global_step + 1,
            terms=list(parts),
            layers=[layer for layer, heads in vectors.items() for _ in range(heads.shape[1])],
            finite=torch.cat([torch.stack(list(parts.values())).isfinite(), maps.isfinite().all(dim=-1).all(dim=0)]),
        )

    def _check_last_batch(self) -> None:
        # One batch late: by then the device has computed it and is busy with its backward pass.
        batch, self._last_batch = self._last_batch, None
        if batch is None or batch.finite.all():
            return
        finite = batch.finite.tolist()
        terms = [name for name, fine in zip(batch.terms, finite, strict=False) if not fine] or ["loss"]
        layers = [layer for layer, fine in zip(batch.layers, finite[len(batch.terms) :], strict=True) if not fine]
        where = f"because of the attention of layer {layers[0]}" if layers else "while the attention of every layer is"
        raise UserError(
            f"step {batch.step}: {' and '.join(terms)} not finite, {where}; lower the learning rate or the weights, "
            "or train in bf16 or float32."
        )

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
            if (count := getattr(config, size, None)) is not None:
                check(count)
        full = self.guiding.guiding_axis == "official" or bool(self.guiding.pattern_weight)
        current, wanted = config._attn_implementation, "eager" if full else "received"
        if current == "eager" and not full:
            logger.warning(f"{name} was loaded with eager attention: its full maps are summed, after their dropout.")
        elif current != wanted:
            self._own_attention = current
            model.set_attn_implementation(wanted)
            if config._attn_implementation != wanted:
                raise UserError(_outside_the_interface(model))

    def _restore_attention(self) -> None:
        if self._own_attention is not None:
            self.model.set_attn_implementation(self._own_attention)


def _outside_the_interface(model: nn.Module) -> str:
    return (
        f"{type(model).__name__} gives nothing away through the attention interface of Transformers: load it with "
        'attn_implementation="eager", and its full attention maps will be summed.'
    )
