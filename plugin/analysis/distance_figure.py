"""A table and a figure of the attention distances of encoders, compared with uniform attention."""

from __future__ import annotations

import csv
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import cycle
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from msattn.analysis.arguments import EncoderArguments, load_encoder
from msattn.analysis.distances import AttentionDistances, attention_distances
from msattn.analysis.pictures import (
    COLORS,
    FAINT,
    INK,
    MARKERS,
    MUTED,
    SUFFIXES,
    check_output,
    check_picture_path,
    picture_style,
    save_picture,
)
from msattn.errors import UserError

# The x-axis ends where uniform attention has reached this cumulative share.
SHOWN = 0.98


@dataclass(kw_only=True)
class DistanceArguments(EncoderArguments):
    """Arguments of `python -m msattn.analysis distances`."""

    output: list[str] | None = field(
        default=None, metadata={"help": "Output files: .json or .csv for the numbers, .png or .svg for a figure."}
    )
    per_pair: bool = field(
        default=False,
        metadata={
            "help": "Average over the token pairs at a distance instead of summing, as there are more near pairs."
        },
    )
    layer: int | None = field(
        default=None,
        metadata={"help": "Layer whose heads are plotted, from 0. Default: the one whose heads differ most."},
    )
    heads: list[int] | None = field(
        default=None,
        metadata={"help": "Heads of that layer to plot, from 0. Default: the nearest, median and farthest one."},
    )
    layers: list[int] | None = field(
        default=None,
        metadata={"help": "Layers to plot, averaged over heads. Default: the first, middle and last one."},
    )
    batch_size: int = field(
        default=32, metadata={"help": "Maximum number of texts per batch; fewer if they are long."}
    )


def show_distances(args: DistanceArguments) -> None:
    """Measure the attention distances of the heads and layers of encoders."""
    for path in args.output or ():
        check_output(path, (*SUFFIXES, ".json", ".csv"))
    if args.batch_size < 1:
        raise UserError(f"--batch_size must be at least 1, not {args.batch_size}.")
    texts = args.read_texts()
    encoders = [attention_distances(*load_encoder(name), texts, args.per_pair, args.batch_size) for name in args.model]
    titles = args.titles or args.model
    print(distance_table(encoders, titles))
    for path in args.output or ():
        suffix = Path(path).suffix.lower()
        if suffix == ".json":
            results = [_results(*pair) for pair in zip(args.model, encoders, strict=True)]
            Path(path).write_text(json.dumps(results) + "\n", encoding="utf-8")
        elif suffix == ".csv":
            _write_csv(path, args.model, encoders)
        else:
            plot_distances(encoders, path, titles, args.layer, args.heads, args.layers)


def distance_table(encoders: Sequence[AttentionDistances], titles: Sequence[str]) -> str:
    """
    A Markdown table of mean attention distances, with one row per layer, one for all layers and one for uniform
    attention.

    Args:
        encoders (`Sequence[AttentionDistances]`): The results of [`attention_distances`].
        titles (`Sequence[str]`): Titles of the encoders, shown if there are several.
    """
    header = ["layer", "mean distance", "nearest head", "farthest head"]
    rows = [header, ["---", *["---:"] * 3]]
    for encoder, title in zip(encoders, titles, strict=True):
        prefix = f"{title}: " if len(encoders) > 1 else ""
        for layer, scales in enumerate(encoder.scales):
            ends = [f"{scales[head]:.2f} ({head})" for head in (scales.argmin(), scales.argmax())]
            rows.append([f"{prefix}{layer}", f"{scales.mean():.2f}", *ends])
        ends = [f"{scale:.2f}" for scale in (encoder.scales.min(), encoder.scales.max())]
        rows.append([f"{prefix}all", f"{encoder.scales.mean():.2f}", *ends])
        rows.append([f"{prefix}uniform attention", f"{encoder.uniform_scale:.2f}", "", ""])
    return "\n".join(f"| {' | '.join(cells)} |" for cells in rows)


def plot_distances(
    encoders: Sequence[AttentionDistances],
    path: str | os.PathLike | None = None,
    titles: Sequence[str] | None = None,
    layer: int | None = None,
    heads: Sequence[int] | None = None,
    layers: Sequence[int] | None = None,
) -> Figure:
    """
    Plots attention distances ("Multi-Scale Self-Attention for Text Classification", AAAI 2020).

    Each encoder has one row of panels: distance distributions of some heads of a layer, distributions of some layers,
    and a heat map of the mean distance of all heads. Dashed lines are uniform attention.

    Args:
        encoders (`Sequence[AttentionDistances]`): The results of [`attention_distances`].
        path (`str` or `os.PathLike`, *optional*): The `.png` or `.svg` file to write.
        titles (`Sequence[str]`, *optional*): A title for each row.
        layer (`int`, *optional*): The layer of the heads. Default: the one whose heads differ most.
        heads (`Sequence[int]`, *optional*): The heads. Default: the nearest, the median and the farthest one.
        layers (`Sequence[int]`, *optional*): The layers. Default: the first, the middle and the last one.

    Returns:
        `matplotlib.figure.Figure`: The figure.

    Raises:
        UserError: A layer or head does not exist, or `path` does not end in `.png` or `.svg`.
    """
    check_picture_path(path)
    choices = [_choice(encoder.scales, layer, heads, layers) for encoder in encoders]
    most = max(encoder.scales.max() for encoder in encoders)
    with picture_style():
        figure = Figure(figsize=(11.0, 3.3 * len(encoders)), facecolor="white", layout="constrained")
        parts = figure.subfigures(len(encoders), squeeze=False)[:, 0]
        for part, encoder, title, choice in zip(parts, encoders, titles or [""] * len(encoders), choices, strict=True):
            part.suptitle(title, x=0.01, ha="left", color=INK, size=11, weight="bold")
            left, middle, right = part.subplots(1, 3, width_ratios=[1, 1, 0.9])
            chosen, some_heads, some_layers = choice
            left.set_title(f"heads of layer {chosen}", color=INK, size=10)
            _draw_curves(left, encoder, {f"head {head}": encoder.distributions[chosen, head] for head in some_heads})
            middle.set_title("layers, the mean of their heads", color=INK, size=10)
            means = encoder.distributions.mean(axis=1)
            _draw_curves(middle, encoder, {f"layer {number}": means[number] for number in some_layers})
            right.set_title("mean distance", color=INK, size=10)
            _draw_map(right, encoder, most)
        save_picture(figure, path)
    return figure


def _choice(
    scales: np.ndarray, layer: int | None, heads: Sequence[int] | None, layers: Sequence[int] | None
) -> tuple[int, list[int], list[int]]:
    """The layer of the heads, the heads and the layers to plot."""
    last = len(scales) - 1
    for name, places, count in (
        ("layer", [*([] if layer is None else [layer]), *(layers or ())], len(scales)),
        ("head", heads or (), scales.shape[1]),
    ):
        for place in places:
            if not 0 <= place < count:
                raise UserError(f"there is no {name} {place}; the model has 0 to {count - 1}.")
    if layer is None:
        layer = int(scales.std(axis=1).argmax())
    if heads is None:
        order = scales[layer].argsort().tolist()
        heads = [order[0], order[len(order) // 2], order[-1]]
    return layer, list(dict.fromkeys(heads)), list(dict.fromkeys([0, last // 2, last] if layers is None else layers))


def _draw_curves(axes: Axes, encoder: AttentionDistances, curves: Mapping[str, np.ndarray]) -> None:
    distances = np.arange(len(encoder.uniform))
    end = np.searchsorted(encoder.uniform.cumsum(), SHOWN)
    for (name, shares), color, marker in zip(curves.items(), cycle(COLORS), cycle(MARKERS), strict=False):
        label = f"{name}: {shares @ distances:.1f}"
        axes.plot(distances, shares, color=color, marker=marker, markersize=3.5, linewidth=1.6, label=label)
    label = f"uniform: {encoder.uniform_scale:.1f}"
    axes.plot(distances, encoder.uniform, color=MUTED, linestyle="--", linewidth=1.4, label=label)
    axes.set(xlim=(-0.02 * end, end), ylim=(0, None))
    axes.set_xlabel("distance (tokens)", color=MUTED)
    axes.set_ylabel("attention per pair (share)" if encoder.per_pair else "share of the attention", color=MUTED)
    axes.grid(axis="y", color=FAINT)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(MUTED)
    axes.tick_params(color=MUTED, labelcolor=INK)
    axes.legend(title="mean distance", loc="upper right", frameon=False, labelcolor=INK)


def _draw_map(axes: Axes, encoder: AttentionDistances, most: float) -> None:
    layers, heads = encoder.scales.shape
    image = axes.imshow(encoder.scales, "viridis", vmin=0, vmax=most, aspect="auto", interpolation="nearest")
    axes.set_xlabel("head", color=MUTED)
    axes.set_ylabel("layer", color=MUTED)
    axes.set_xticks(range(0, heads, 1 + heads // 13))
    axes.set_yticks(range(0, layers, 1 + layers // 13))
    axes.spines[:].set_visible(False)
    bar = axes.figure.colorbar(image, ax=axes, fraction=0.06, pad=0.03)
    bar.set_label("tokens (dashed: uniform)", color=MUTED)
    bar.ax.axhline(encoder.uniform_scale, color="white", linestyle="--", linewidth=1.4)
    bar.outline.set_visible(False)
    for part in (axes, bar.ax):
        part.tick_params(color=MUTED, labelcolor=INK)


def _results(name: str, encoder: AttentionDistances) -> dict[str, Any]:
    return {
        "model": name,
        "texts": encoder.texts,
        "per_pair": encoder.per_pair,
        "mean_distance": encoder.scales.tolist(),
        "uniform_mean_distance": encoder.uniform_scale,
        "distribution": encoder.distributions.tolist(),
        "uniform_distribution": encoder.uniform.tolist(),
    }


def _write_csv(path: str, names: Sequence[str], encoders: Sequence[AttentionDistances]) -> None:
    """Writes one row per head."""
    with open(path, "w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["model", "layer", "head", "mean_distance", "uniform_mean_distance"])
        for name, encoder in zip(names, encoders, strict=True):
            for (layer, head), scale in np.ndenumerate(encoder.scales):
                writer.writerow([name, layer, head, scale, encoder.uniform_scale])
