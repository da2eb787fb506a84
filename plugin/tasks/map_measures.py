"""How diverse the attention of a model is in the forward passes of an evaluation."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from transformers import PreTrainedModel, Trainer
from transformers.modeling_outputs import ModelOutput

from msattn.modeling.map_diversity import map_similarity, received_entropy


class MapMeasures:
    """
    The mean over texts of [`map_similarity`] and [`received_entropy`], over the maps of all layers.

    Texts with a single token, special tokens included, are skipped.
    """

    def __init__(self) -> None:
        self._sums = torch.zeros(3)

    def add(self, received: torch.Tensor, real: torch.Tensor) -> None:
        """
        Adds the texts of a batch.

        Args:
            received (`torch.Tensor` of shape `(batch, maps, tokens)`): Received attention of all layers and heads.
            real (`torch.BoolTensor` of shape `(batch, tokens)`): True at real tokens.
        """
        long = real.sum(dim=-1) > 1
        received, real = received[long], real[long]
        sums = [map_similarity(received, real).sum(), received_entropy(received, real).mean(dim=-1).sum(), long.sum()]
        self._sums = torch.stack(sums) + self._sums.to(received.device)

    def means(self, trainer: Trainer, prefix: str) -> dict[str, float]:
        """
        `{prefix}_map_cosine`, and `{prefix}_map_entropy` in bits, over the texts of all processes; empty if there are
        none.
        """
        cosine, entropy, texts = trainer.accelerator.reduce(self._sums.to(trainer.args.device)).tolist()
        return {f"{prefix}_map_cosine": cosine / texts, f"{prefix}_map_entropy": entropy / texts} if texts else {}


@contextmanager
def measured_maps(model: PreTrainedModel) -> Iterator[MapMeasures]:
    """
    Measures the attention maps in every forward pass inside.

    Args:
        model (`PreTrainedModel`): A model that returns attentions. Its attention implementation is restored on exit.
    """
    measures, own = MapMeasures(), model.config._attn_implementation

    def ask(module: Any, args: tuple, inputs: dict[str, Any]) -> tuple[tuple, dict[str, Any]]:
        return args, {**inputs, "output_attentions": True}

    def take(module: Any, args: tuple, inputs: dict[str, Any], outputs: ModelOutput) -> ModelOutput:
        mask = inputs["attention_mask"].flatten(0, -2).bool()
        layers = outputs.attentions
        if layers[0].dim() == 4:
            layers = [(mask[:, None, None].to(layer) @ layer).squeeze(-2) for layer in layers]
        measures.add(torch.cat(tuple(layers), dim=1), mask)
        return type(outputs)(**{name: value for name, value in outputs.items() if name != "attentions"})

    hooks = [
        model.register_forward_pre_hook(ask, with_kwargs=True),
        model.register_forward_hook(take, with_kwargs=True),
    ]
    if own != "eager":
        model.set_attn_implementation("received")
    try:
        yield measures
    finally:
        model.set_attn_implementation(own)
        for hook in hooks:
            hook.remove()
