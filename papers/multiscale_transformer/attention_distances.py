"""
How far heads look: the attention of some heads and layers over distances, and the mean distance of all heads.

The figure of "Multi-Scale Self-Attention for Text Classification" (AAAI 2020), for any encoder.
"""

from __future__ import annotations

import argparse
import csv
from collections.abc import Mapping
from itertools import cycle
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes

from msattn.plots import AttentionDistances, attention_distances
from msattn.plots.encoders import load_encoder, read_texts, short_names
from msattn.plots.heads import distance_table
from msattn.plots.style import COLORS, INK, MARKERS, MUTED, draw_heads, drawing, tidy

# The x-axis ends where uniform attention has reached this cumulative share.
SHOWN = 0.98


def draw_curves(axes: Axes, encoder: AttentionDistances, curves: Mapping[str, np.ndarray]) -> None:
    distances = np.arange(len(encoder.uniform))
    end = np.searchsorted(encoder.uniform.cumsum(), SHOWN)
    for (name, shares), color, marker in zip(curves.items(), cycle(COLORS), cycle(MARKERS), strict=False):
        label = f"{name}: {shares @ distances:.1f}"
        axes.plot(distances, shares, color=color, marker=marker, markersize=3.5, linewidth=1.6, label=label)
    label = f"uniform: {encoder.uniform_scale:.1f}"
    axes.plot(distances, encoder.uniform, color=MUTED, linestyle="--", linewidth=1.4, label=label)
    axes.set(xlim=(-0.02 * end, end), ylim=(0, None))
    tidy(axes, "distance (tokens)", "share of the attention")
    axes.legend(title="mean distance", loc="upper right", frameon=False, labelcolor=INK)


def plot(encoders: Mapping[str, AttentionDistances], path: str) -> None:
    """A row of three panels for each encoder: heads of the layer whose heads differ most, layers, and all heads."""
    most = max(encoder.scales.max() for encoder in encoders.values())
    with drawing(path, (11.0, 3.3 * len(encoders))) as figure:
        parts = figure.subfigures(len(encoders), squeeze=False)[:, 0]
        for part, (title, encoder) in zip(parts, encoders.items(), strict=True):
            if len(encoders) > 1:
                part.suptitle(title, x=0.01, ha="left", color=INK, size=11, weight="bold")
            left, middle, right = part.subplots(1, 3, width_ratios=[1, 1, 0.9])
            layer, last = int(encoder.scales.std(axis=1).argmax()), len(encoder.scales) - 1
            order = encoder.scales[layer].argsort()
            heads = dict.fromkeys([order[0], order[len(order) // 2], order[-1]])
            left.set_title(f"heads of layer {layer}", color=INK, size=10)
            draw_curves(left, encoder, {f"head {head}": encoder.distributions[layer, head] for head in heads})
            middle.set_title("layers, the mean of their heads", color=INK, size=10)
            means = encoder.distributions.mean(axis=1)
            draw_curves(middle, encoder, {f"layer {n}": means[n] for n in dict.fromkeys([0, last // 2, last])})
            right.set_title("mean distance", color=INK, size=10)
            draw_heads(right, encoder.scales, most)


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.strip().splitlines()[0])
    parser.add_argument("--model", nargs="+", required=True, help="one or more encoders, drawn below each other")
    parser.add_argument("--file", required=True, help="sentences, one a line, or a table")
    parser.add_argument(
        "--output", required=True, help="picture (.png, .svg); a .csv of all heads is written beside it"
    )
    args = parser.parse_args(argv)
    texts = read_texts(args.file)
    found = [attention_distances(*load_encoder(name), texts) for name in args.model]
    encoders = dict(zip(short_names(args.model), found, strict=True))
    print(distance_table(found, list(encoders)))
    plot(encoders, args.output)
    with open(Path(args.output).with_suffix(".csv"), "w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["model", "layer", "head", "mean_distance", "mean_distance_of_uniform_attention"])
        for title, encoder in encoders.items():
            for (layer, head), scale in np.ndenumerate(encoder.scales):
                writer.writerow([title, layer, head, scale, encoder.uniform_scale])


if __name__ == "__main__":
    main()
