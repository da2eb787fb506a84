"""Diversity of attention: similarity of attention maps, and entropy of received attention."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch.nn.functional import normalize as unit_vectors
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from msattn.analysis.attention_maps import Text, received_maps
from msattn.errors import UserError


def map_similarity(received: torch.Tensor, attention_mask: torch.Tensor | None = None) -> torch.Tensor:
    r"""
    The mean cosine similarity of pairs of attention maps: Σ_{i≠j} cos(m_i, m_j) / (maps · (maps − 1)).

    It lies between 0 (no two maps attend to the same token) and 1 (all maps are equal up to scale).

    Args:
        received (`torch.Tensor` of shape `(batch, maps, tokens)`):
            The attention that each token receives in each map; see [`received_attention`].
        attention_mask (`torch.Tensor` of shape `(batch, tokens)`, *optional*):
            1 or true at real tokens. The others are ignored.

    Returns:
        `torch.Tensor` of shape `(batch,)`: The similarity, in float32, or in float64 if `received` is.

    Raises:
        ValueError: `received` is not `(batch, maps, tokens)`, is empty or has a single map, or `attention_mask` is not
            `(batch, tokens)`.
    """
    maps = _real_maps(received, attention_mask)
    count = maps.shape[1]
    if count < 2:
        raise ValueError("a single map has no pair to compare")
    maps = unit_vectors(maps, dim=-1)
    # The square of the sum contains all pairs; subtract those of a map with itself.
    pairs = maps.sum(dim=1).square().sum(dim=-1) - maps.square().sum(dim=(1, 2))
    return pairs / (count * (count - 1))


def received_entropy(
    received: torch.Tensor, attention_mask: torch.Tensor | None = None, normalized: bool = False
) -> torch.Tensor:
    r"""
    The entropy of received attention over the tokens, − Σ_t p_t log₂ p_t with p = m / Σ_t m_t, in bits.

    Args:
        received (`torch.Tensor` of shape `(batch, maps, tokens)`):
            The attention that each token receives in each map; see [`received_attention`].
        attention_mask (`torch.Tensor` of shape `(batch, tokens)`, *optional*):
            1 or true at real tokens. The others are ignored.
        normalized (`bool`, *optional*, defaults to `False`):
            Whether to divide by log₂ of the number of real tokens. It is then 1 if all tokens receive the same.

    Returns:
        `torch.Tensor` of shape `(batch, maps)`: The entropy, in float32, or in float64 if `received` is. It is 0 for a
        sample with fewer than two tokens.

    Raises:
        ValueError: `received` is not `(batch, maps, tokens)` or is empty, or `attention_mask` is not
            `(batch, tokens)`.
    """
    maps = _real_maps(received, attention_mask)
    shares = maps / maps.sum(dim=-1, keepdim=True).clamp_min(torch.finfo(maps.dtype).tiny)
    entropy = -torch.xlogy(shares, shares).sum(dim=-1) / math.log(2)
    if not normalized:
        return entropy
    if attention_mask is None:
        tokens = entropy.new_full((maps.shape[0], 1), maps.shape[-1])
    else:
        tokens = attention_mask.to(maps.device).bool().sum(dim=-1, keepdim=True).to(maps)
    return entropy / tokens.clamp_min(2).log2()


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


def _real_maps(received: torch.Tensor, attention_mask: torch.Tensor | None) -> torch.Tensor:
    """Validates the maps and sets padding to 0."""
    if received.dim() != 3 or 0 in received.shape[1:]:
        raise ValueError(f"received must be (batch, maps, tokens) and not empty, got {tuple(received.shape)}")
    maps = received.to(torch.promote_types(received.dtype, torch.float32))
    if attention_mask is None:
        return maps
    if attention_mask.shape != (maps.shape[0], maps.shape[2]):
        raise ValueError(f"attention_mask must be {(maps.shape[0], maps.shape[2])}, got {tuple(attention_mask.shape)}")
    return maps.masked_fill(~attention_mask.to(maps.device).bool().unsqueeze(1), 0)
