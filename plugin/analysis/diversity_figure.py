"""A table and a figure of the attention diversity of encoders by layer."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from itertools import cycle

import numpy as np
from matplotlib.figure import Figure

from msattn.analysis.arguments import EncoderArguments, load_encoder
from msattn.analysis.diversity import Diversity, EncoderDiversity, attention_diversity
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
    write_outputs,
)
from msattn.errors import UserError

MEASURES = {
    "similarity": "cosine of two maps",
    "entropy": "entropy (bits)",
    "normalized_entropy": "entropy / log₂ n",
}


@dataclass(kw_only=True)
class DiversityArguments(EncoderArguments):
    """Arguments of `python -m msattn.analysis diversity`."""

    output: list[str] | None = field(
        default=None, metadata={"help": "Output files: .json for the numbers, .png or .svg for a figure."}
    )
    batch_size: int = field(default=32, metadata={"help": "Number of texts per batch."})


def show_diversity(args: DiversityArguments) -> None:
    """Measure the similarity and entropy of the attention maps of encoders."""
    for path in args.output or ():
        check_output(path, (*SUFFIXES, ".json"))
    if args.batch_size < 1:
        raise UserError(f"--batch_size must be at least 1, not {args.batch_size}.")
    texts = args.read_texts()
    encoders = [attention_diversity(*load_encoder(name), texts, args.batch_size) for name in args.model]
    titles = args.titles or args.model
    print(diversity_table(encoders, titles))
    content = [{"model": name, **asdict(encoder)} for name, encoder in zip(args.model, encoders, strict=True)]
    write_outputs(args.output, content, lambda path: plot_diversity(encoders, path, titles))


def diversity_table(encoders: Sequence[EncoderDiversity], titles: Sequence[str]) -> str:
    """
    A Markdown table of attention diversity, with one row per layer and one for all layers.

    Args:
        encoders (`Sequence[EncoderDiversity]`): The results of [`attention_diversity`].
        titles (`Sequence[str]`): Titles of the encoders, shown if there are several.
    """
    several = len(encoders) > 1
    pairs = list(zip(titles, encoders, strict=True))
    columns = [(name, measure, *pair) for name, measure in MEASURES.items() for pair in pairs]
    header = ["layer", *(f"{measure}: {title}" if several else measure for _, measure, title, _ in columns)]
    lines = [header, ["---", *["---:"] * len(columns)]]
    for layer in range(max(len(encoder.layers) for encoder in encoders)):
        lines.append([str(layer), *(_cell(name, encoder.layers[layer:]) for name, _, _, encoder in columns)])
    lines.append(["all", *(_cell(name, [encoder.overall]) for name, _, _, encoder in columns)])
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def plot_diversity(
    encoders: Sequence[EncoderDiversity],
    path: str | os.PathLike | None = None,
    titles: Sequence[str] | None = None,
) -> Figure:
    """
    Plots map similarity and normalized entropy by layer. Dashed lines are the values over all layers.

    Args:
        encoders (`Sequence[EncoderDiversity]`): The results of [`attention_diversity`].
        path (`str` or `os.PathLike`, *optional*): The `.png` or `.svg` file to write.
        titles (`Sequence[str]`, *optional*): Legend entries. Default: no legend.

    Returns:
        `matplotlib.figure.Figure`: The figure.

    Raises:
        UserError: `path` does not end in `.png` or `.svg`.
    """
    check_picture_path(path)
    layers = max(len(encoder.layers) for encoder in encoders)
    with picture_style():
        figure = Figure(figsize=(8.0, 3.6), facecolor="white", layout="constrained")
        for axes, name in zip(figure.subplots(1, 2), ("similarity", "normalized_entropy"), strict=True):
            for encoder, color, marker in zip(encoders, cycle(COLORS), cycle(MARKERS), strict=False):
                values = [_value(layer, name) for layer in encoder.layers]
                axes.plot(range(len(values)), values, color=color, marker=marker, markersize=5, linewidth=1.8)
                axes.axhline(_value(encoder.overall, name), color=color, linestyle="--", linewidth=1, zorder=1)
            axes.set_xticks(range(0, layers, 1 + layers // 13))
            axes.set_xlabel("layer (dashed: all maps)", color=MUTED)
            axes.set_ylabel(MEASURES[name], color=MUTED)
            axes.grid(axis="y", color=FAINT)
            axes.set_axisbelow(True)
            axes.spines[["top", "right"]].set_visible(False)
            axes.spines[["left", "bottom"]].set_color(MUTED)
            axes.tick_params(color=MUTED, labelcolor=INK)
        if titles:
            lines = [line for line in figure.axes[0].lines if line.get_marker() != "None"]
            figure.legend(lines, titles, loc="outside upper left", ncols=min(len(titles), 3), frameon=False)
        save_picture(figure, path)
    return figure


def _value(diversity: Diversity, name: str) -> float:
    value = getattr(diversity, name)
    return np.nan if value is None else value


def _cell(name: str, diversities: Sequence[Diversity]) -> str:
    value = getattr(diversities[0], name) if diversities else None
    return "–" if value is None else f"{value:.3f}"
