"""How far attention heads look, compared with uniform attention."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from msattn.errors import UserError
from msattn.modeling.any_encoder import attends_causally
from msattn.plots.encoders import Text, batches, read
from msattn.plots.style import INK, draw_heads, drawing, markdown_table

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class AttentionDistances:
    r"""
    Shares of the attention at each distance, P(δ) = Σ_{|i-j|=δ} A_ij / Σ_ij A_ij, averaged over texts.

    Args:
        distributions (`np.ndarray` of shape `(layers, heads, distances)`): The shares at the distances 0, 1, ...
        uniform (`np.ndarray` of shape `(distances,)`):
            Those of uniform attention to the same texts, in a causal model to each token and those before it.
    """

    distributions: np.ndarray
    uniform: np.ndarray

    @property
    def scales(self) -> np.ndarray:
        """The mean distance of each head, Σ_δ δ P(δ), `(layers, heads)`."""
        return self.distributions @ np.arange(len(self.uniform))

    @property
    def uniform_scale(self) -> float:
        """The mean distance of uniform attention."""
        return float(self.uniform @ np.arange(len(self.uniform)))


def attention_distances(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, texts: Sequence[Text], batch_size: int = 32
) -> AttentionDistances:
    """
    Measures the attention distances of an encoder ("Multi-Scale Self-Attention for Text Classification", AAAI 2020).

    Special tokens are left out, as heads send unused attention to [SEP] at any distance, and so are texts of fewer
    than two other tokens. All texts have the same weight. No attention matrix is stored: see [`read_attention`].

    Args:
        model (`PreTrainedModel`): Any encoder.
        tokenizer (`PreTrainedTokenizerBase`): Its tokenizer.
        texts (`Sequence[tuple[str, ...]]`): Sentences `(text,)` or pairs `(text, text_pair)`, read as one text.
        batch_size (`int`, *optional*, defaults to 32): Number of texts per batch.

    Returns:
        `AttentionDistances`: The means over the texts.

    Raises:
        UserError: The model returns no attention, or no text has two tokens.
    """
    causal = attends_causally(model)
    shares: list[torch.Tensor] = []
    uniform: list[torch.Tensor] = []
    for _, batch in batches(model, tokenizer, texts, batch_size):
        keep = batch.pop("special_tokens_mask") == 0
        places = (keep.cumsum(dim=-1) - 1).masked_fill(~keep, -1)
        sums = [reading["distances"] for reading in read(model, batch, places=places)]
        long = keep.sum(dim=-1) > 1
        found = torch.stack([layer[long] for layer in sums]).cpu().double()
        count = keep[long].sum(dim=-1, keepdim=True).cpu()
        distance = torch.arange(found.shape[-1])
        if causal:  # token i attends with 1/(i+1) to one token at each distance up to i
            pairs = ((distance < count).double() / (distance + 1)).flip(-1).cumsum(dim=-1).flip(-1)
        else:  # n tokens have 2(n-δ) pairs at the distance δ, and n at 0
            pairs = (2 * (count - distance).clamp_min(0)).double()
            pairs[:, :1] /= 2
        shares.append((found / found.sum(dim=-1, keepdim=True).clamp_min(1e-12)).sum(dim=1))
        uniform.append(pairs / pairs.sum(dim=-1, keepdim=True))
    texts_read = sum(map(len, uniform))
    if not texts_read:
        raise UserError("there is no text of two tokens or more beside the special ones.")
    # The first batch has the longest texts and thus all distances.
    total, flat = shares[0], uniform[0].sum(dim=0)
    for part, own in zip(shares[1:], uniform[1:], strict=True):
        total[..., : part.shape[-1]] += part
        flat[: own.shape[-1]] += own.sum(dim=0)
    return AttentionDistances((total / texts_read).numpy(), (flat / texts_read).numpy())


def distance_table(encoders: Sequence[AttentionDistances], titles: Sequence[str]) -> str:
    """
    A Markdown table of mean attention distances: a row a layer, one for all layers and one for uniform attention.

    Args:
        encoders (`Sequence[AttentionDistances]`): The results of [`attention_distances`].
        titles (`Sequence[str]`): Titles of the encoders, shown if there are several.
    """
    rows: list[list[str]] = []
    for encoder, title in zip(encoders, titles, strict=True):
        prefix = f"{title}: " if len(encoders) > 1 else ""
        for layer, scales in enumerate(encoder.scales):
            ends = [f"{scales[head]:.2f} ({head})" for head in (scales.argmin(), scales.argmax())]
            rows.append([f"{prefix}{layer}", f"{scales.mean():.2f}", *ends])
        ends = [f"{scale:.2f}" for scale in (encoder.scales.min(), encoder.scales.max())]
        rows.append([f"{prefix}all", f"{encoder.scales.mean():.2f}", *ends])
        rows.append([f"{prefix}uniform attention", f"{encoder.uniform_scale:.2f}", "", ""])
    return markdown_table(["layer", "mean distance", "nearest head", "farthest head"], rows)


def plot_heads(
    encoders: Sequence[AttentionDistances],
    path: str | os.PathLike | None = None,
    titles: Sequence[str] | None = None,
) -> Figure:
    """
    Plots the mean distance of every head as a heat map, encoders side by side.

    Args:
        encoders (`Sequence[AttentionDistances]`): The results of [`attention_distances`].
        path (`str` or `os.PathLike`, *optional*): The `.png` or `.svg` file to write.
        titles (`Sequence[str]`, *optional*): A title for each encoder.

    Returns:
        `matplotlib.figure.Figure`: The figure.

    Raises:
        UserError: `path` does not end in `.png` or `.svg`.
    """
    most = max(encoder.scales.max() for encoder in encoders)
    with drawing(path, (4.2 * len(encoders), 3.6)) as figure:
        panels = figure.subplots(1, len(encoders), squeeze=False)[0]
        for axes, encoder, title in zip(panels, encoders, titles or [""] * len(encoders), strict=True):
            draw_heads(axes, encoder.scales, most)
            mean = f"mean distance (uniform attention: {encoder.uniform_scale:.1f} tokens)"
            axes.set_title(f"{title}\n{mean}".strip(), color=INK, size=10)
    return figure
