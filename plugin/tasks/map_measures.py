"""How diverse the attention of a model is in the forward passes of an evaluation."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import nn
from transformers import Trainer
from transformers.utils import logging

from msattn.modeling.attention_readings import Reading, read_attention
from msattn.modeling.map_diversity import map_similarity, received_entropy
from msattn.modeling.received_attention import AttentionRefused

logger = logging.get_logger(__name__)


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
def measured_maps(model: nn.Module) -> Iterator[MapMeasures]:
    """
    Measures the attention maps in every forward pass inside. A model that cannot be read is left alone.

    Args:
        model (`torch.nn.Module`): The model. Its attention implementation is restored on exit.
    """
    measures = MapMeasures()
    with ExitStack() as stack:
        try:
            readings = stack.enter_context(read_attention(model))
        except AttentionRefused as refused:
            logger.warning(f"the attention maps are not measured: {refused}")
        else:

            def take(*_: Any) -> None:
                passes: dict[int, list[Reading]] = {}
                for reading in readings:
                    passes.setdefault(reading.forward, []).append(reading)
                for layers in passes.values():
                    measures.add(torch.cat([layer["received"] for layer in layers], dim=1), layers[0].real)
                readings.clear()

            stack.callback(model.register_forward_hook(take).remove)
        yield measures
