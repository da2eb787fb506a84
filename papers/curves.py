"""
Draws a study of `papers/repeat.py`: a score over the size of the training data, a line a setting.

Bars show the standard deviation over seeds. `--epochs` draws a panel for each epoch; the runs need
`--eval_strategy epoch`.
"""

from __future__ import annotations

import argparse
import json
import statistics
from itertools import cycle
from pathlib import Path
from typing import Any

import yaml
from repeat import Run, read_runs, score_names
from scores import in_percent

from msattn.plots.style import COLORS, INK, MARKERS, drawing, tidy


def score_of(run: Run, score: str, epoch: int | None) -> float:
    """A score in the end, or as it was logged after an epoch."""
    if epoch is None:
        return run.results[score]
    log = json.loads((run.folder / "trainer_state.json").read_text(encoding="utf-8"))["log_history"]
    entry = next(entry for entry in log if entry.get("epoch") == epoch and score in entry)
    unit = {"unit": run.results["unit"]} if "unit" in run.results else {}
    return in_percent(entry | unit)[score]


def draw(axes: Any, lines: dict[str, dict[Any, list[float]]]) -> None:
    """Mean and standard deviation of each line by place; bars of lines stand beside each other."""
    for number, ((name, places), color, marker) in enumerate(
        zip(lines.items(), cycle(COLORS), cycle(MARKERS), strict=False)
    ):
        means = [statistics.fmean(values) for values in places.values()]
        bars = [statistics.stdev(values) if len(values) > 1 else 0.0 for values in places.values()]
        moved = [place * (1 + 0.02 * number) for place in places]
        axes.errorbar(
            moved, means, bars, color=color, marker=marker, markersize=5, linewidth=1.8, capsize=3, label=name
        )


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.strip().splitlines()[0])
    parser.add_argument("study", type=Path, help="the YAML file of the study")
    parser.add_argument("--output_dir", type=Path, help="folder of the runs (default: outputs/ and the file's name)")
    parser.add_argument("--score", help="such as eval_f1 (default: the first one that all runs have)")
    parser.add_argument("--epochs", type=int, nargs="+", help="a panel for each")
    parser.add_argument("--output", required=True, help="picture (.png, .svg)")
    args = parser.parse_args(argv)
    study = yaml.safe_load(args.study.read_text(encoding="utf-8"))
    runs = read_runs(study, args.output_dir or Path("outputs") / args.study.stem)
    if not runs:
        parser.error(f"no run of {args.study} is finished")
    score = args.score or score_names(runs)[0]
    epochs = args.epochs or [None]
    with drawing(args.output, (6.4 + 4.2 * (len(epochs) - 1), 4.0)) as figure:
        panels = figure.subplots(1, len(epochs), sharey=True, squeeze=False)[0]
        for axes, epoch in zip(panels, epochs, strict=True):
            lines: dict[str, dict[Any, list[float]]] = {}
            for run in runs:
                of_sizes = lines.setdefault(run.setting, {})
                of_sizes.setdefault(run.results["train_samples"], []).append(score_of(run, score, epoch))
            draw(axes, lines)
            sizes = sorted({run.results["train_samples"] for run in runs})
            axes.set_xscale("log")
            axes.set_xticks(sizes, [f"{size:,.0f}" for size in sizes])
            axes.set_xticks([], minor=True)
            tidy(axes, "training examples", score)
            if epoch is not None:
                axes.set_title(f"after epoch {epoch}", color=INK, size=10)
            axes.label_outer()
        figure.legend(*panels[0].get_legend_handles_labels(), loc="outside upper left", ncols=4, frameon=False)


if __name__ == "__main__":
    main()
