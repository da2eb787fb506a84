"""The diversity of the attention of an encoder, by layer and overall."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from msattn.analysis.attention_maps import Text, received_maps
from msattn.errors import UserError
from msattn.modeling.map_diversity import map_similarity, received_entropy


@dataclass(frozen=True)
class Diversity:
    """
    The diversity of a set of attention maps, averaged over texts.

    Args:
        similarity (`float` or `None`): The mean [`map_similarity`]; `None` for a single map.
        entropy (`float`): The mean [`received_entropy`], in bits.
        normalized_entropy (`float`): The mean normalized [`received_entropy`], from 0 to 1.
    """

    similarity: float | None
    entropy: float
    normalized_entropy: float


@dataclass(frozen=True)
class EncoderDiversity:
    """
    The diversity of the attention of an encoder.

    Args:
        overall (`Diversity`): The diversity of all maps, including pairs from different layers.
        layers (`list[Diversity]`): The diversity of the maps of each layer.
        texts (`int`): Number of texts.
    """

    overall: Diversity
    layers: list[Diversity]
    texts: int


def attention_diversity(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, texts: Sequence[Text], batch_size: int = 32
) -> EncoderDiversity:
    """
    Measures the diversity of the attention of an encoder.

    Texts with a single token, special tokens included, are skipped.

    Args:
        model (`PreTrainedModel`): Any encoder. Its attention implementation and mode are restored afterwards.
        tokenizer (`PreTrainedTokenizerBase`): The fast tokenizer of the encoder.
        texts (`Sequence[tuple[str, ...]]`): Sentences `(text,)` or pairs `(text, text_pair)`.
        batch_size (`int`, *optional*, defaults to 32): Number of texts per batch.

    Returns:
        `EncoderDiversity`: The means over the texts.

    Raises:
        UserError: The model returns no attentions, or no text has two tokens.
    """
    sums: torch.Tensor | float = 0.0
    count = 0
    for received, real in received_maps(model, tokenizer, texts, batch_size):
        long = real.sum(dim=-1) > 1
        received, real = received[long].double(), real[long]
        parts = [received.flatten(1, 2), *received.unbind(1)]
        sums = sums + torch.stack([_measures(part, real) for part in parts]).cpu()
        count += len(received)
    if not count:
        raise UserError("there is no text of two tokens or more, special tokens included.")
    means = [
        Diversity(None if math.isnan(similarity) else similarity, *entropies)
        for similarity, *entropies in (torch.as_tensor(sums) / count).tolist()
    ]
    return EncoderDiversity(means[0], means[1:], count)


def _measures(maps: torch.Tensor, real: torch.Tensor) -> torch.Tensor:
    """Similarity, entropy and normalized entropy, summed over a batch; the similarity of a single map is NaN."""
    similarity = map_similarity(maps, real).sum() if maps.shape[1] > 1 else maps.new_tensor(math.nan)
    entropies = (received_entropy(maps, real, normalized).mean(dim=-1).sum() for normalized in (False, True))
    return torch.stack([similarity, *entropies])
