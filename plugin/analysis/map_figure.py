"""A figure of average attention: a heat map, or several side by side."""

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
# Inches of a token, and of the longest side of a map, within which they are smaller if there are many.
CELL, LONGEST = 0.22, 24.0


@dataclass(kw_only=True)
class MapFigureArguments(EncoderArguments):
    """Arguments of `python -m msattn.analysis map`."""

    output: str = field(metadata={"help": "The file to write: .png or .svg."})
    row: int = field(default=1, metadata={"help": "Which text of the file, from 1."})
    layer: int | None = field(
        default=None, metadata={"help": "One layer, from 0, or from -1 downwards; without it, the mean of all."}
    )
    head: int | None = field(default=None, metadata={"help": "One head of the layers, from 0; without it, the mean."})
    tokens: int | None = field(default=None, metadata={"help": "How many tokens to show, from the first on [all]."})
    darkest: float | None = field(
        default=None,
        metadata={"help": "Attention from which on the colour is the darkest [the strongest shown], to see the weak."},
    )


def draw_attention_maps(args: MapFigureArguments) -> None:
    """A heat map of the average attention of encoders in a sentence."""
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
    The mean of maps.

    Args:
        maps (`torch.Tensor` of shape `(layers, heads, N, N)`): Maps, as from [`attention_maps`].
        layer (`int`, *optional*): The only layer, from 0, or from -1 downwards.
        head (`int`, *optional*): The only head of the layers, counted in the same way.

    Returns:
        `np.ndarray` of shape `(N, N)`

    Raises:
        UserError: There is no such layer or head.
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
    Draws maps side by side as heat maps on one scale of colours (Fig. 4 of the attention-guiding paper): a row is what
    a token attends to.

    Args:
        maps (`Sequence[np.ndarray]`): Weights `[query, key]`, of shape `(N, N)` each.
        tokens (`Sequence[Sequence[str]]`): The N tokens of each map.
        path (`str` or `os.PathLike`, *optional*): Where to save the figure, `.png` or `.svg`.
        titles (`Sequence[str]`, *optional*): A title for each map.
        label (`str`, *optional*, defaults to `"attention"`): What the colours mean.
        darkest (`float`, *optional*): Where the colours end; the strongest weight of all maps if `None`.
        marks (`Sequence[Collection[tuple[int, int]]]`, *optional*): Cells `(row, column)` of each map to frame.

    Returns:
        `matplotlib.figure.Figure`

    Raises:
        UserError: The shapes do not fit the tokens, or the path ends in something else.
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
