"""Draws what guiding does to a score beside what it does to the maps: the score over the mean cosine of two maps."""

from __future__ import annotations

import argparse
import statistics
import sys
from itertools import cycle
from pathlib import Path

import yaml
from diversity import diversity

from msattn.plots.encoders import load_encoder, read_texts
from msattn.plots.style import COLORS, MARKERS, drawing, markdown_table, tidy

sys.path.append(str(Path(__file__).parents[1]))
from repeat import read_runs, score_names


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "study", type=Path, nargs="+", help="YAML files of studies whose settings are doses; a line each"
    )
    parser.add_argument("--file", nargs="+", required=True, help="a file of texts for each study, to read the maps on")
    parser.add_argument("--text_column_names", nargs="+", help="one or two columns of the files")
    parser.add_argument("--max_samples", type=int, help="the first texts of each file")
    parser.add_argument("--output", required=True, help="picture (.png, .svg)")
    args = parser.parse_args(argv)
    rows = []
    with drawing(args.output, (6.4, 4.0)) as figure:
        axes = figure.add_subplot()
        for path, file, color, marker in zip(args.study, args.file, cycle(COLORS), cycle(MARKERS), strict=False):
            study = yaml.safe_load(path.read_text(encoding="utf-8"))
            texts = read_texts(file, args.text_column_names)[: args.max_samples]
            runs = read_runs(study, Path("outputs") / path.stem)
            score = score_names(runs)[0]
            points = []
            for setting in study["settings"]:
                own = [run for run in runs if run.setting == setting]
                measured = [diversity(*load_encoder(str(run.folder)), texts)[0].tolist() for run in own]
                columns = [*zip(*measured, strict=True)][:2], [run.results[score] for run in own]
                spread = [
                    (statistics.fmean(values), statistics.stdev(values) if len(values) > 1 else 0.0)
                    for values in (*columns[0], columns[1])
                ]
                rows.append([path.stem, setting, *(f"{mean:.3f} ± {deviation:.3f}" for mean, deviation in spread)])
                points.append((spread[0], spread[2]))
                axes.annotate(
                    setting, (spread[0][0], spread[2][0]), xytext=(6, 6), textcoords="offset points", color=color
                )
            (x, x_bars), (y, y_bars) = (zip(*column, strict=True) for column in zip(*points, strict=True))
            axes.errorbar(x, y, y_bars, x_bars, color=color, marker=marker, capsize=3, label=path.stem)
        tidy(axes, "mean cosine of two attention maps", score)
        figure.legend(loc="outside upper left", ncols=3, frameon=False)
    print(markdown_table(["study", "dose", "cosine of two maps", "entropy (bits)", score], rows))


if __name__ == "__main__":
    main()
