"""Attention distances: how far apart queries and keys are, compared with uniform attention."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from transformers import BatchEncoding, PreTrainedModel, PreTrainedTokenizerBase

from msattn.analysis.attention_maps import Text, eager_maps, is_readable, read_texts_attention
from msattn.errors import UserError


def distance_distribution(
    attention: torch.Tensor, keep: torch.Tensor | None = None, per_pair: bool = False
) -> tuple[torch.Tensor, torch.Tensor]:
    r"""
    The distribution of attention over distances, P(δ) = Σ_{|i-j|=δ} A_ij / Σ_ij A_ij, and that of uniform attention.

    Tokens that are not kept are removed from the text, so that the tokens around them become neighbours. For n tokens,
    uniform attention has P(δ) = 2(n-δ) / n² (1/n for δ = 0) and the mean distance (n²-1) / (3n).

    Args:
        attention (`torch.Tensor` of shape `(batch, heads, tokens, tokens)`): Attention weights `[query, key]`.
        keep (`torch.Tensor` of shape `(batch, tokens)`, *optional*): 1 or true at tokens to keep. Default: all.
        per_pair (`bool`, *optional*, defaults to `False`):
            Whether to average over the pairs at a distance instead of summing, as there are more near pairs than far
            ones. Uniform attention is then equal at all distances.

    Returns:
        `tuple[torch.Tensor, torch.Tensor]`: The distributions over the distances 0, 1, ..., `(batch, heads, tokens)`,
        and those of uniform attention, `(batch, tokens)`, in float64. They sum to 1, or to 0 if no token is kept.

    Raises:
        ValueError: `attention` is not `(batch, heads, tokens, tokens)`, or `keep` is not `(batch, tokens)`.
    """
    if attention.dim() != 4 or attention.shape[-1] != attention.shape[-2]:
        raise ValueError(f"attention must be (batch, heads, tokens, tokens), got {tuple(attention.shape)}")
    batch, _, tokens, _ = attention.shape
    if keep is None:
        keep = attention.new_ones(batch, tokens)
    if keep.shape != (batch, tokens):
        raise ValueError(f"keep must be {(batch, tokens)}, got {tuple(keep.shape)}")
    keep = keep.to(attention.device).bool()
    return _distributions(_sums_of_map(attention, keep), keep, per_pair)


def _sums_of_map(attention: torch.Tensor, keep: torch.Tensor) -> torch.Tensor:
    """The attention at each distance, `(batch, heads, tokens)`."""
    places = keep.cumsum(dim=-1)
    distances = (places.unsqueeze(-1) - places.unsqueeze(-2)).abs()
    pairs = keep.unsqueeze(-1) & keep.unsqueeze(-2)
    weights = attention.double().masked_fill(~pairs.unsqueeze(1), 0).flatten(2)
    sums = torch.zeros_like(weights[..., : attention.shape[-1]])
    return sums.scatter_add_(2, distances.flatten(1).unsqueeze(1).expand_as(weights), weights)


def _distributions(sums: torch.Tensor, keep: torch.Tensor, per_pair: bool) -> tuple[torch.Tensor, torch.Tensor]:
    """[`distance_distribution`] from the sums of the attention at each distance, `(batch, heads, tokens)`."""
    count = keep.sum(dim=-1, keepdim=True)
    # There are 2(n-δ) ordered pairs at the distance δ, and n at 0.
    pairs = 2 * (count - torch.arange(sums.shape[-1], device=sums.device)).clamp_min(0)
    pairs[:, :1] = count
    uniform = pairs.to(sums.dtype)
    if per_pair:
        sums = sums / uniform.clamp_min(1).unsqueeze(1)
        uniform = uniform.clamp_max(1)
    return _normalized(sums), _normalized(uniform)


@dataclass(frozen=True)
class AttentionDistances:
    """
    Attention distances, averaged over texts.

    Args:
        distributions (`np.ndarray` of shape `(layers, heads, distances)`):
            The mean distributions; see [`distance_distribution`].
        uniform (`np.ndarray` of shape `(distances,)`): The mean distribution of uniform attention.
        texts (`int`): Number of texts.
        per_pair (`bool`, *optional*, defaults to `False`): Whether attention is averaged over pairs.
    """

    distributions: np.ndarray
    uniform: np.ndarray
    texts: int
    per_pair: bool = False

    @property
    def scales(self) -> np.ndarray:
        """The mean distance of each head, Σ_δ δ P(δ), `(layers, heads)`."""
        return self.distributions @ np.arange(len(self.uniform))

    @property
    def uniform_scale(self) -> float:
        """The mean distance of uniform attention."""
        return float(self.uniform @ np.arange(len(self.uniform)))


def attention_distances(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    texts: Sequence[Text],
    per_pair: bool = False,
    batch_size: int = 32,
) -> AttentionDistances:
    """
    Measures the attention distances of an encoder ("Multi-Scale Self-Attention for Text Classification", AAAI 2020).

    Special tokens are excluded, as heads send unused attention to [SEP] regardless of its distance. Texts with fewer
    than two other tokens are skipped. All texts have the same weight. Runs with eager attention and keeps the maps of
    one batch at a time.

    Args:
        model (`PreTrainedModel`): Any encoder. Its attention implementation and mode are restored afterwards.
        tokenizer (`PreTrainedTokenizerBase`): The fast tokenizer of the encoder.
        texts (`Sequence[tuple[str, ...]]`): Sentences `(text,)` or pairs `(text, text_pair)`, read as one text.
        per_pair (`bool`, *optional*, defaults to `False`): See [`distance_distribution`].
        batch_size (`int`, *optional*, defaults to 32): Maximum number of texts per batch; fewer if they are long.

    Returns:
        `AttentionDistances`: The means over the texts.

    Raises:
        UserError: The model returns no attention maps, or no text has two tokens.
    """
    sums: list[torch.Tensor] = []
    count = 0
    for layers, keep in _sums_by_distance(model, tokenizer, texts, batch_size):
        long = keep.sum(dim=-1) > 1
        parts = [_distributions(layer[long], keep[long], per_pair) for layer in layers]
        found = [torch.stack([shares for shares, _ in parts]).sum(dim=1).cpu(), parts[0][1].sum(dim=0).cpu()]
        # The first batch has the longest texts and thus all distances.
        sums = sums or [torch.zeros_like(part) for part in found]
        for total, part in zip(sums, found, strict=True):
            total[..., : part.shape[-1]] += part
        count += int(long.sum())
    if not count:
        raise UserError("there is no text of two tokens or more beside the special ones.")
    shares, uniform = ((total / count).numpy() for total in sums)
    return AttentionDistances(shares, uniform, count, per_pair)


def _sums_by_distance(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, texts: Sequence[Text], batch_size: int
) -> Iterator[tuple[list[torch.Tensor], torch.Tensor]]:
    """The attention of each layer at each distance, `(batch, heads, tokens)`, and the tokens that are kept."""
    if not is_readable(model, tokenizer):
        for maps, keep in eager_maps(model, tokenizer, texts, batch_size):
            yield [_sums_of_map(layer, keep) for layer in maps], keep
        return

    def options(batch: BatchEncoding) -> dict[str, Any]:
        keep = _kept(batch)
        places = (keep.cumsum(dim=-1) - 1).masked_fill(~keep, -1)
        return {"statistics": (), "places": places.to(model.device)}

    for batch, readings in read_texts_attention(model, tokenizer, texts, batch_size, options):
        yield [reading["distances"].double() for reading in readings], _kept(batch).to(model.device)


def _kept(batch: BatchEncoding) -> torch.Tensor:
    return batch["special_tokens_mask"] == 0


def _normalized(shares: torch.Tensor) -> torch.Tensor:
    return shares / shares.sum(dim=-1, keepdim=True).clamp_min(torch.finfo(shares.dtype).tiny)
