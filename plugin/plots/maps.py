"""The attention of an encoder in a text: whole maps, and heat maps of their mean."""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from msattn.plots.encoders import batches, read, shown_tokens
from msattn.plots.style import COLORS, INK, MUTED, drawing

if TYPE_CHECKING:
    from matplotlib.figure import Figure

HEAT = ["#ffffff", "#c6dbef", "#6baed6", "#2171b5", "#08306b"]
# In inches: size of a token, and maximum side of a map; tokens shrink to fit.
CELL, LONGEST = 0.22, 24.0


def attention_maps(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, text: str, text_pair: str | None = None
) -> tuple[torch.Tensor, list[str]]:
    """
    Computes the attention maps of a text or of a pair of texts, truncated to the limit of the model.

    Args:
        model (`PreTrainedModel`): Any encoder.
        tokenizer (`PreTrainedTokenizerBase`): Its tokenizer.
        text (`str`): The text.
        text_pair (`str`, *optional*): The second text.

    Returns:
        `tuple[torch.Tensor, list[str]]`: Weights `[query, key]`, `(layers, heads, N, N)`, and the N tokens.

    Example:

    ```python
    >>> from msattn.plots import attention_maps

    >>> maps, tokens = attention_maps(model, tokenizer, "A cat sat.")
    >>> maps.shape
    torch.Size([12, 12, 6, 6])
    ```
    """
    ((_, batch),) = batches(model, tokenizer, [(text,) if text_pair is None else (text, text_pair)])
    inputs = {name: value for name, value in batch.items() if name != "special_tokens_mask"}
    ids = inputs["input_ids"][0]
    # The attention to each single token.
    readings = read(model, inputs, columns=torch.eye(len(ids), device=ids.device)[None])
    return torch.cat([reading["columns"] for reading in readings]), shown_tokens(tokenizer, ids.tolist())


def plot_attention_maps(
    maps: Sequence[np.ndarray | torch.Tensor],
    tokens: Sequence[Sequence[str]],
    path: str | os.PathLike | None = None,
    titles: Sequence[str] | None = None,
    darkest: float | None = None,
    marks: Sequence[Collection[tuple[int, int]]] | None = None,
) -> Figure:
    """
    Plots attention maps side by side as heat maps with a common colour scale (Fig. 4 of the attention-guiding paper).

    Rows are queries, columns are keys.

    Args:
        maps (`Sequence[np.ndarray]`): Attention weights `[query, key]` of each map, `(N, N)`.
        tokens (`Sequence[Sequence[str]]`): The N tokens of each map.
        path (`str` or `os.PathLike`, *optional*): The `.png` or `.svg` file to write.
        titles (`Sequence[str]`, *optional*): A title for each map.
        darkest (`float`, *optional*): The weight of the darkest colour. Default: the maximum over all maps.
        marks (`Sequence[Collection[tuple[int, int]]]`, *optional*): Cells `(row, column)` of each map to frame.

    Returns:
        `matplotlib.figure.Figure`: The figure.

    Raises:
        UserError: `path` does not end in `.png` or `.svg`.
    """
    most = max(map(len, tokens))
    cell = min(CELL, LONGEST / most)
    side = max(cell * most, 2.4)
    strongest = max(float(weights.max()) for weights in maps)
    end = strongest if darkest is None else darkest
    with drawing(path, ((side + 1.3) * len(maps) + 0.8, side + 1.7)) as figure:
        from matplotlib.colors import LinearSegmentedColormap
        from matplotlib.patches import Rectangle

        panels = figure.subplots(1, len(maps), squeeze=False)[0]
        for axes, weights, names in zip(panels, maps, tokens, strict=True):
            heat = LinearSegmentedColormap.from_list("heat", HEAT)
            image = axes.imshow(np.asarray(weights), heat, vmin=0, vmax=end, interpolation="nearest")
            short = [token if len(token) <= 18 else token[:17] + "…" for token in names]
            axes.set_xticks(range(len(short)), short, rotation=90)
            axes.set_yticks(range(len(short)), short)
            axes.tick_params(labelsize=min(8.0, 72 * cell * 0.75), length=0, labelcolor=INK)
            axes.set_xlabel("attended token", color=MUTED)
            axes.spines[:].set(color=MUTED, linewidth=0.5)
        for axes, title in zip(panels, titles or (), strict=False):
            axes.set_title(title, color=INK, size=11)
        for axes, cells in zip(panels, marks or (), strict=False):
            for row, column in cells:
                corner = column - 0.5, row - 0.5
                axes.add_patch(Rectangle(corner, 1, 1, fill=False, edgecolor=COLORS[1], linewidth=1.2))
        panels[0].set_ylabel("attending token", color=MUTED)
        extend = "max" if end < strongest else "neither"
        bar = figure.colorbar(image, ax=panels, fraction=0.05, aspect=30, pad=0.02, extend=extend)
        bar.set_label("attention", color=MUTED)
        bar.outline.set_visible(False)
        bar.ax.tick_params(color=MUTED, labelcolor=INK)
    return figure
