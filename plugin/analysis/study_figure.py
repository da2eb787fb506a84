"""A figure of studies: a score by training size, guided layer or dose, in the end or after given epochs."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import cycle
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.transforms import ScaledTranslation

from msattn.analysis.arguments import short_names
from msattn.analysis.pictures import (
    COLORS,
    FAINT,
    INK,
    MARKERS,
    MUTED,
    check_output,
    check_picture_path,
    picture_style,
    save_picture,
)
from msattn.errors import UserError
from msattn.results import Study, common_score, read_json

# If ticks are closer than this fraction of the axis, their labels overlap, and the scale is logarithmic.
NEAREST = 0.08
# Horizontal shift between studies in inches, so that their error bars do not overlap.
SHIFT = 0.06
LABELS = {
    "train_fraction": "part of the training data, and its examples",
    "guided_layer": "guided layer",
    "guiding_dose": "mean cosine of two attention maps (at the points: dose of guiding)",
}


@dataclass
class StudyFigureArguments:
    """Arguments of `python -m msattn.analysis study`."""

    folders: list[str] = field(metadata={"help": "The --output_dir of one or more studies, one line each."})
    output: str = field(metadata={"help": "Output file: .png or .svg."})
    metric: str | None = field(
        default=None,
        metadata={"help": "Score to plot, such as eval_accuracy. Default: the first one that all studies have."},
    )
    names: list[str] | None = field(
        default=None, metadata={"help": "Legend entries, references last. Default: the folders."}
    )
    references: list[str] | None = field(
        default=None,
        metadata={"help": "Folders of single runs, such as one without guiding, plotted as dashed lines."},
    )
    epochs: list[int] | None = field(
        default=None,
        metadata={"help": "Plot the scores after these epochs side by side; needs runs with --eval_strategy epoch."},
    )


def draw_study(args: StudyFigureArguments) -> None:
    """Plot the scores of studies by training size, guided layer or dose of guiding."""
    check_output(args.output)
    references = [read_json(Path(folder) / "all_results.json") for folder in args.references or ()]
    names = args.names or short_names([*args.folders, *(args.references or ())])
    studies = [Study.from_folder(folder) for folder in args.folders]
    panels = {
        f"after epoch {epoch}": [
            study.after_epoch(folder, epoch) for study, folder in zip(studies, args.folders, strict=True)
        ]
        for epoch in args.epochs or ()
    }
    plot_studies(panels or {"": studies}, args.output, args.metric, names, references)


def plot_study(
    studies: Sequence[Study],
    path: str | os.PathLike | None = None,
    metric: str | None = None,
    names: Sequence[str] | None = None,
    references: Sequence[Mapping[str, float]] = (),
) -> Figure:
    """
    Plots a score of studies, one line each. With several seeds, error bars show one standard deviation.

    Args:
        studies (`Sequence[Study]`): Studies of the same variable.
        path (`str` or `os.PathLike`, *optional*): The `.png` or `.svg` file to write.
        metric (`str`, *optional*): The score. Default: the first one that all have, preferably not a loss.
        names (`Sequence[str]`, *optional*): Legend entries of studies, then references. Default: no legend.
        references (`Sequence[Mapping[str, float]]`, *optional*, defaults to `()`):
            The metrics of single runs, plotted as dashed lines.

    Returns:
        `matplotlib.figure.Figure`: The figure.

    Raises:
        UserError: The studies have different variables, a study or reference lacks the score, the number of names is
            wrong, or `path` does not end in `.png` or `.svg`.
    """
    return plot_studies({"": studies}, path, metric, names, references)


def plot_studies(
    panels: Mapping[str, Sequence[Study]],
    path: str | os.PathLike | None = None,
    metric: str | None = None,
    names: Sequence[str] | None = None,
    references: Sequence[Mapping[str, float]] = (),
) -> Figure:
    """
    Plots several panels of studies side by side with a common scale, such as one per epoch.

    Args:
        panels (`Mapping[str, Sequence[Study]]`): The studies of each panel, by its title.
        path (`str` or `os.PathLike`, *optional*): The `.png` or `.svg` file to write.
        metric (`str`, *optional*): As for [`plot_study`].
        names (`Sequence[str]`, *optional*): As for [`plot_study`].
        references (`Sequence[Mapping[str, float]]`, *optional*, defaults to `()`): As for [`plot_study`].

    Returns:
        `matplotlib.figure.Figure`: The figure.

    Raises:
        UserError: As for [`plot_study`].
    """
    check_picture_path(path)
    every = [study for studies in panels.values() for study in studies]
    if any(study.variable != every[0].variable for study in every):
        raise UserError("a figure is of studies that vary the same, the training data or the guided layer.")
    count = len(next(iter(panels.values()))) + len(references)
    if names is not None and len(names) != count:
        raise UserError(f"there are {len(names)} names for {count} lines.")
    metric = common_score([*(study.scores for study in every), *references], metric)
    with picture_style():
        figure = Figure(figsize=(6.4 + 4.2 * (len(panels) - 1), 4.0), facecolor="white", layout="constrained")
        lines: list[Any] = []
        for axes, (title, studies) in zip(
            figure.subplots(1, len(panels), sharey=True, squeeze=False)[0], panels.items(), strict=True
        ):
            lines = _draw(axes, studies, references, metric, names or [""] * count)
            axes.set_title(title)
            axes.label_outer()
        if names:
            figure.legend(handles=lines, loc="outside upper left", ncols=min(count, 4), frameon=False)
        save_picture(figure, path)
    return figure


def _draw(
    axes: Axes,
    studies: Sequence[Study],
    references: Sequence[Mapping[str, float]],
    metric: str,
    names: Sequence[str],
) -> list[Any]:
    """Plots one panel; returns the artists of the legend in order."""
    variable, spread, split = studies[0].variable, f"{metric}_std", metric.partition("_")[0]
    # The effect of a dose is what it does to the maps.
    place = f"{split}_map_cosine" if variable == "guiding_dose" else variable
    styles = zip(names, cycle(COLORS), cycle(MARKERS), strict=False)
    lines: list[Any] = []
    for study, (name, color, marker) in zip(studies, styles, strict=False):
        points = sorted(study.points, key=lambda point: point[variable])
        bars = [
            [point[std] for point in points] if all(std in point for point in points) else None
            for std in (spread, f"{place}_std")
        ]
        line = axes.errorbar(
            [point[place] for point in points],
            [point[metric] for point in points],
            bars[0],
            bars[1],
            color=color,
            marker=marker,
            markersize=5,
            linewidth=1.8,
            elinewidth=1,
            capsize=3,
            label=name,
        )
        lines.append(line)
        if place != variable:
            for point in points:
                axes.annotate(
                    f"{point[variable]:g}",
                    (point[place], point[metric]),
                    xytext=(6, 6),
                    textcoords="offset points",
                    color=color,
                    # The line between two points may run through the label.
                    bbox={"boxstyle": "round,pad=0.1", "facecolor": axes.get_facecolor(), "edgecolor": "none"},
                )
            continue
        # Shift the studies sideways, as error bars at the same place would hide each other.
        shift = SHIFT * (len(lines) - 1 - (len(studies) - 1) / 2)
        for artist in line.get_children():
            artist.set_transform(artist.get_transform() + ScaledTranslation(shift, 0, axes.figure.dpi_scale_trans))
    for results, (name, color, _) in zip(references, styles, strict=False):
        lines.append(axes.axhline(results[metric], color=color, linestyle="--", linewidth=1.5, label=name, zorder=1))
    score = metric.removeprefix(f"{split}_")
    several = any(spread in point for study in studies for point in study.points)
    axes.set_ylabel(f"{score.replace('_', ' ')} ({split})" + (", mean ± standard deviation" if several else ""))
    axes.set_xlabel(LABELS[variable])
    _set_ticks(axes, variable, [point for study in studies for point in study.points])
    axes.grid(axis="y", color=FAINT)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(MUTED)
    axes.tick_params(color=MUTED, labelcolor=INK)
    return lines


def _set_ticks(axes: Axes, variable: str, points: Sequence[Mapping[str, float]]) -> None:
    values = sorted({point[variable] for point in points})
    if variable == "guided_layer":
        axes.set_xticks(values[:: 1 + len(values) // 25])
    if variable != "train_fraction":
        return
    if len(values) > 1 and np.diff(values).min() < NEAREST * np.ptp(values):
        axes.set_xscale("log")
    counts = {value: {point["train_samples"] for point in points if point[variable] == value} for value in values}
    labels = [f"{100 * value:g} %" for value in values]
    if all(len(count) == 1 for count in counts.values()):
        labels = [f"{label}\n{min(counts[value]):,.0f}" for label, value in zip(labels, values, strict=True)]
    axes.set_xticks(values, labels)
    axes.set_xticks([], minor=True)
