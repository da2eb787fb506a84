"""Heat maps of average attention."""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from msattn.analysis.arguments import EncoderArguments, load_encoder
from msattn.analysis.attention_maps import attention_maps
from msattn.analysis.pictures import COLORS, INK, MUTED, check_output, check_picture_path, picture_style, save_picture
from msattn.errors import UserError

HEAT = LinearSegmentedColormap.from_list("heat", ["#ffffff", "#c6dbef", "#6baed6", "#2171b5", "#08306b"])
# In inches: size of a token, and maximum side of a map; tokens shrink to fit.
CELL, LONGEST = 0.22, 24.0


@dataclass(kw_only=True)
class MapFigureArguments(EncoderArguments):
    """Arguments of `python -m msattn.analysis map`."""

    output: str = field(metadata={"help": "Output file: .png or .svg."})
    row: int = field(default=1, metadata={"help": "Text of --file to plot, from 1."})
    layer: int | None = field(
        default=None,
        metadata={"help": "Layer to plot, from 0, or from -1 for the last one. Default: the mean of all layers."},
    )
    head: int | None = field(default=None, metadata={"help": "Head to plot, from 0. Default: the mean of all heads."})
    tokens: int | None = field(
        default=None, metadata={"help": "Number of tokens to show, from the first one. Default: all."}
    )
    darkest: float | None = field(
        default=None,
        metadata={
            "help": "Attention weight of the darkest colour; lower it to see weak attention. Default: the maximum."
        },
    )


def draw_attention_maps(args: MapFigureArguments) -> None:
    """Plot a heat map of the average attention of encoders in a sentence."""
    check_output(args.output)
    texts = args.read_texts()
    if not 1 <= args.row <= len(texts):
        raise UserError(f"--row {args.row}: there are the texts 1 to {len(texts)}.")
    if args.tokens is not None and args.tokens < 1:
        raise UserError(f"--tokens must be at least 1, not {args.tokens}.")
    if args.darkest is not None and not 0 < args.darkest <= 1:
        raise UserError(f"--darkest must be above 0 and at most 1, not {args.darkest}.")
    maps, tokens = [], []
    for name in args.model:
        attention = attention_maps(*load_encoder(name), *texts[args.row - 1])
        maps.append(average_attention(attention.maps, args.layer, args.head)[: args.tokens, : args.tokens])
        tokens.append(attention.tokens[: args.tokens])
    layers = "all layers" if args.layer is None else f"layer {args.layer}"
    heads = "all heads" if args.head is None else f"head {args.head}"
    label = f"attention ({layers}, {heads})"
    plot_attention_maps(maps, tokens, args.output, args.titles, label, args.darkest)


def average_attention(maps: torch.Tensor, layer: int | None = None, head: int | None = None) -> np.ndarray:
    """
    The mean of attention maps over layers and heads.

    Args:
        maps (`torch.Tensor` of shape `(layers, heads, N, N)`): Attention maps; see [`attention_maps`].
        layer (`int`, *optional*): A single layer, from 0, or from -1 for the last one. Default: all layers.
        head (`int`, *optional*): A single head, from 0, or from -1 for the last one. Default: all heads.

    Returns:
        `np.ndarray` of shape `(N, N)`: The mean, in float64.

    Raises:
        UserError: The layer or head does not exist.
    """
    for name, place, count in (("layer", layer, maps.shape[0]), ("head", head, maps.shape[1])):
        if place is not None and not -count <= place < count:
            raise UserError(f"there is no {name} {place}; the model has 0 to {count - 1}.")
    maps = maps if layer is None else maps[layer, None]
    maps = maps if head is None else maps[:, head, None]
    return maps.double().mean(dim=(0, 1)).cpu().numpy()


def plot_attention_maps(
    maps: Sequence[np.ndarray],
    tokens: Sequence[Sequence[str]],
    path: str | os.PathLike | None = None,
    titles: Sequence[str] | None = None,
    label: str = "attention",
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
        label (`str`, *optional*, defaults to `"attention"`): The label of the colour bar.
        darkest (`float`, *optional*): The weight of the darkest colour. Default: the maximum over all maps.
        marks (`Sequence[Collection[tuple[int, int]]]`, *optional*): Cells `(row, column)` of each map to frame.

    Returns:
        `matplotlib.figure.Figure`: The figure.

    Raises:
        UserError: The shape of a map does not match its tokens, or `path` does not end in `.png` or `.svg`.
    """
    check_picture_path(path)
    for weights, names in zip(maps, tokens, strict=True):
        if weights.shape != (len(names),) * 2:
            raise UserError(f"a map of {len(names)} tokens must be {(len(names),) * 2}, not {weights.shape}.")
    most = max(map(len, tokens))
    cell = min(CELL, LONGEST / most)
    side = max(cell * most, 2.4)
    strongest = max(weights.max() for weights in maps)
    end = strongest if darkest is None else darkest
    with picture_style():
        figure = Figure(figsize=((side + 1.3) * len(maps) + 0.8, side + 1.7), facecolor="white", layout="constrained")
        panels = figure.subplots(1, len(maps), squeeze=False)[0]
        columns = (titles or [""] * len(maps), marks or [()] * len(maps))
        for axes, weights, names, title, cells in zip(panels, maps, tokens, *columns, strict=True):
            image = axes.imshow(weights, HEAT, vmin=0, vmax=end, interpolation="nearest")
            _label(axes, names, min(8.0, 72 * cell * 0.75))
            axes.set_title(title, color=INK, size=11)
            for row, column in cells:
                frame = Rectangle((column - 0.5, row - 0.5), 1, 1, fill=False, edgecolor=COLORS[1], linewidth=1.2)
                axes.add_patch(frame)
        panels[0].set_ylabel("attending token", color=MUTED)
        bar = figure.colorbar(
            image, ax=panels, fraction=0.05, aspect=30, pad=0.02, extend="max" if end < strongest else "neither"
        )
        bar.set_label(label, color=MUTED)
        bar.outline.set_visible(False)
        bar.ax.tick_params(color=MUTED, labelcolor=INK)
        save_picture(figure, path)
    return figure


def _label(axes: Axes, tokens: Sequence[str], size: float) -> None:
    labels = [token if len(token) <= 18 else token[:17] + "…" for token in tokens]
    axes.set_xticks(range(len(tokens)), labels, rotation=90)
    axes.set_yticks(range(len(tokens)), labels)
    axes.tick_params(labelsize=size, length=0, labelcolor=INK)
    axes.set_xlabel("attended token", color=MUTED)
    axes.spines[:].set_color(MUTED)
    axes.spines[:].set_linewidth(0.5)
