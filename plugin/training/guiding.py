"""Attention guiding for any encoder: a Trainer that adds MDG, PDG and patterns to the loss of the task."""

from __future__ import annotations

import inspect
import math
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any, NamedTuple

import torch
from torch import nn
from torch.utils.data import DataLoader
from transformers.utils import logging

from msattn.data.pattern_sources import PATTERNS, WORD_PATTERNS, PatternCollator, word_sources
from msattn.data.words import WORD_COLUMNS
from msattn.errors import UserError
from msattn.modeling.attention_patterns import POSITIONS, pattern_loss
from msattn.modeling.guiding_losses import NORMALIZATIONS, REDUCTIONS, mdg_loss, pdg_loss
from msattn.training.trainer import AccumulatingTrainer

logger = logging.get_logger(__name__)

AXES = ("received", "official")
PRESETS: dict[str, dict[str, Any]] = {
    "recommended": {
        "guiding_axis": "received",
        "guiding_temperature": 1.0,
        "mdg_normalize": "row",
        "pdg_normalize": "row",
        "guiding_reduction": "mean",
    },
    "paper": {
        "guiding_axis": "received",
        "guiding_temperature": 1.0,
        "mdg_normalize": "row",
        "pdg_normalize": "none",
        "guiding_reduction": "sum",
    },
    "official": {
        "guiding_axis": "official",
        "guiding_temperature": 2.0,
        "mdg_normalize": "row",
        "pdg_normalize": "row",
        "guiding_reduction": "mean",
    },
}


@dataclass
class GuidingArguments:
    """What is added to the loss of the task. What is left out is as the preset says."""

    guiding: str | None = field(
        default=None,
        metadata={
            "help": "Preset of the arguments below: recommended (the default), paper (its equations as printed) or "
            "official (its code as released, whose axis teaches nothing).",
            "choices": list(PRESETS),
        },
    )
    mdg_weight: float = field(default=0.0, metadata={"help": "Weight of MDG (alpha): attention maps that differ."})
    pdg_weight: float = field(
        default=0.0, metadata={"help": "Weight of PDG (beta): tokens that different attention maps attend to."}
    )
    guiding_temperature: float | None = field(default=None, metadata={"help": "Temperature of MDG."})
    guided_layers: list[int] | None = field(
        default=None, metadata={"help": "Layers that are guided, from 0, or from -1 downwards; without it, all."}
    )
    guiding_axis: str | None = field(
        default=None,
        metadata={
            "help": "A map's vector: the attention that each token receives, or the official mean over the keys.",
            "choices": list(AXES),
        },
    )
    mdg_normalize: str | None = field(
        default=None,
        metadata={
            "help": "What has unit length in MDG: each map (row), each token over all maps (col) or none.",
            "choices": list(NORMALIZATIONS),
        },
    )
    pdg_normalize: str | None = field(
        default=None, metadata={"help": "The same in PDG.", "choices": list(NORMALIZATIONS)}
    )
    guiding_reduction: str | None = field(
        default=None,
        metadata={
            "help": "sum (as printed), or mean: MDG over the maps, PDG over the tokens.",
            "choices": list(REDUCTIONS),
        },
    )
    patterns: list[str] | None = field(
        default=None,
        metadata={
            "help": "Patterns that heads are guided to: the first token, the next or previous one, periods, "
            "delimiters; or words that occur together, head and dependent, or words that are alike.",
            "choices": list(PATTERNS),
        },
    )
    pattern_weight: float = field(default=0.0, metadata={"help": "Weight of the distance to the patterns."})
    pattern_heads: list[int] | None = field(
        default=None,
        metadata={
            "help": "How many heads of a layer each pattern has, one after the other from the first head on: a number "
            "a pattern, or one for all. Without it, half the heads, in equal parts."
        },
    )
    pattern_decay_steps: int | None = field(
        default=None,
        metadata={
            "help": "Keep the weight of the patterns for so many steps, then lower it step by step to 0 at the end of "
            "the training; without it, keep it."
        },
    )
    dependency_files: list[str] | None = field(
        default=None, metadata={"help": "CoNLL-U files with the training sentences, for the pattern dependency."}
    )

    def __post_init__(self) -> None:
        for name in ("guided_layers", "patterns", "pattern_heads", "dependency_files"):
            if isinstance(value := getattr(self, name), (int, float, str)):
                setattr(self, name, [value])
        preset = PRESETS.get(self.guiding or "recommended")
        if preset is None:
            raise UserError(f"guiding must be one of {', '.join(PRESETS)}, got {self.guiding!r}.")
        for name, value in preset.items():
            if getattr(self, name) is None:
                setattr(self, name, value)
        for name, choices in (
            ("guiding_axis", AXES),
            ("mdg_normalize", NORMALIZATIONS),
            ("pdg_normalize", NORMALIZATIONS),
            ("guiding_reduction", REDUCTIONS),
        ):
            if getattr(self, name) not in choices:
                raise UserError(f"{name} must be one of {', '.join(choices)}, got {getattr(self, name)!r}.")
        for name in ("mdg_weight", "pdg_weight", "pattern_weight"):
            if not 0 <= getattr(self, name) < math.inf:
                raise UserError(f"{name} must be 0 or a positive number, got {getattr(self, name)}.")
        temperature: Any = self.guiding_temperature
        if not 0 < temperature < math.inf:
            raise UserError(f"guiding_temperature must be a positive number, got {temperature}.")
        if self.guided_layers is not None and not self.guided_layers:
            raise UserError("guided_layers names no layer: leave it out for all layers.")
        if not all(isinstance(layer, int) for layer in self.guided_layers or ()):
            raise UserError(f"guided_layers must be whole numbers, got {self.guided_layers}.")
        if self.guiding and not self.weights:
            logger.warning(f"guiding={self.guiding}: nothing is guided, as mdg_weight and pdg_weight are 0.")
        self._check_patterns()

    def _check_patterns(self) -> None:
        patterns = self.patterns or []
        for pattern in patterns:
            if pattern not in PATTERNS:
                raise UserError(f"patterns are some of {', '.join(PATTERNS)}, not {pattern!r}.")
        if len(set(patterns)) < len(patterns):
            raise UserError(f"patterns names one twice: {', '.join(patterns)}.")
        if self.pattern_weight and not patterns:
            raise UserError("pattern_weight needs patterns: name at least one.")
        if patterns and not self.pattern_weight:
            logger.warning("no head is guided to a pattern, as pattern_weight is 0.")
        heads = self.pattern_heads
        if heads is not None and (len(heads) not in (1, len(patterns)) or min(heads, default=0) < 1):
            raise UserError(f"pattern_heads must be a positive number, or one a pattern, got {heads}.")
        if self.pattern_decay_steps is not None and self.pattern_decay_steps < 0:
            raise UserError(f"pattern_decay_steps must be 0 or a positive number, got {self.pattern_decay_steps}.")

    @property
    def weights(self) -> dict[str, float]:
        """The terms that are added to the loss, and their weights."""
        weights = {"mdg_loss": self.mdg_weight, "pdg_loss": self.pdg_weight, "pattern_loss": self.pattern_weight}
        return {name: weight for name, weight in weights.items() if weight}

    def layers(self, count: int) -> list[int]:
        """
        The guided layers of a model with `count`, counted from 0.

        Raises:
            UserError: There is no such layer.
        """
        if self.guided_layers is None:
            return list(range(count))
        for layer in self.guided_layers:
            if not -count <= layer < count:
                raise UserError(f"guided_layers: there is no layer {layer}; the model has 0 to {count - 1}.")
        return sorted({layer % count for layer in self.guided_layers})

    def heads(self, count: int) -> dict[str, slice]:
        """
        The heads of each pattern, in a layer with `count`.

        Raises:
            UserError: There are not so many.
        """
        patterns = self.patterns or []
        sizes = self.pattern_heads or [max(1, count // 2 // max(1, len(patterns)))]
        sizes = sizes * len(patterns) if len(sizes) == 1 else sizes
        if sum(sizes) > count:
            raise UserError(f"patterns: they would have {sum(sizes)} heads of a layer, and the model has {count}.")
        ends = list(accumulate(sizes))
        return {pattern: slice(end - size, end) for pattern, size, end in zip(patterns, sizes, ends, strict=True)}

    def pattern_schedule(self, step: int, steps: int) -> float:
        """The part of `pattern_weight` that is left at a step, of so many."""
        if self.pattern_decay_steps is None or step <= self.pattern_decay_steps:
            return 1.0
        return max(0.0, (steps - step) / (steps - self.pattern_decay_steps))

    @property
    def needs_words(self) -> bool:
        """Whether the training data have to be encoded with their words."""
        return bool(self.pattern_weight) and not set(WORD_PATTERNS).isdisjoint(self.patterns or ())


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

    Until it is trained, the model has the attention implementation `"received"`: fused attention, and what each token
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
            term is not finite or a pattern lacks what it is made of.

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
        self._embeddings = torch.empty(0)
        if guiding.needs_words:
            # Of now: a training that is resumed has the targets that it began with.
            self._embeddings = self.model.get_input_embeddings().weight.detach().to("cpu", copy=True)

    def train(self, *args: Any, **kwargs: Any) -> Any:
        """As in [`Trainer`]. Afterwards the model has the attention implementation that it came with."""
        self._set_attention(self.model)
        self._sums, self._steps, self._last_batch = {}, 0.0, None
        try:
            output = super().train(*args, **kwargs)
            self._check_last_batch()
            return output
        finally:
            if self._own_attention is not None:
                self.model.set_attn_implementation(self._own_attention)

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
        if "loss" in logs and self._sums:
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
            raise UserError(f"{type(self.model).__name__} returns no attentions: it cannot be guided.")
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
        self.guiding.layers(getattr(config, "num_hidden_layers", sys.maxsize))
        self.guiding.heads(getattr(config, "num_attention_heads", sys.maxsize))
        full = self.guiding.guiding_axis == "official" or bool(self.guiding.pattern_weight)
        current, wanted = config._attn_implementation, "eager" if full else "received"
        if current == "eager" and not full:
            logger.warning(f"{name} was loaded with eager attention: its full maps are summed, after their dropout.")
        elif current != wanted:
            self._own_attention = current
            model.set_attn_implementation(wanted)
            if config._attn_implementation != wanted:
                raise UserError(_outside_the_interface(model))


def _outside_the_interface(model: nn.Module) -> str:
    return (
        f"{type(model).__name__} does not take part in the attention interface of Transformers: load it with "
        'attn_implementation="eager", and its full attention maps will be summed.'
    )
