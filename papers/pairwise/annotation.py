"""
How many annotated sentences a parser needs if it chooses them itself, against a random choice.

The gold trees of a treebank play the annotator. Each way of choosing starts from the same random sentences. A parser
is trained on what is annotated so far, from the encoder and for the same number of steps each time. It is scored on
the development data, and then chooses what is annotated next. The table (`annotation.json`) grows with each parser,
and a run that was stopped goes on from it.
"""

from __future__ import annotations

import argparse
import json
import math
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from datasets import Dataset
from transformers import pipeline

from msattn.data import read_treebank
from msattn.plots import doubts, most_doubtful
from msattn.plots.style import COLORS, MARKERS, MUTED, drawing, markdown_table, tidy

WAYS = ("random", "length", "probability", "loss")
# Ways that ask no parser. Doubt prefers long sentences: is it more than their length?
BLIND = ("random", "length")
# What a point is plotted over.
EFFORTS = ("sentences", "words")
# Settings that change no point.
FREE = ("output_dir", "target", "seeds", "ways")
SCRIPT = Path(__file__).parents[2] / "run_parsing.py"
# The parser: states as SuPar's, attention, and trees without crossing arcs.
PARSER = [
    "--objective",
    "head_select",
    "--config_overrides",
    "scorer=biaffine",
    "--layer_mix",
    "4",
    "--word_state",
    "mean",
    "--decode",
    "eisner",
]


class Simulation:
    """
    The points of all seeds and ways.

    Args:
        arguments (`argparse.Namespace`): Of the command line.
    """

    def __init__(self, arguments: argparse.Namespace):
        self.arguments, self.folder = arguments, Path(arguments.output_dir)
        self.folder.mkdir(parents=True, exist_ok=True)
        self.settings = {name: value for name, value in vars(arguments).items() if name not in FREE}
        self.table = self.folder / "annotation.json"
        self.points: list[dict[str, Any]] = []
        if self.table.exists():
            saved = json.loads(self.table.read_text())
            if saved["settings"] != self.settings:
                raise SystemExit(f"error: {self.table} is of other settings; give another --output_dir.")
            self.points = saved["points"]

    def run(self, treebank: Dataset, seed: int, way: str) -> None:
        """Annotates, trains and chooses, until the last size."""
        sizes = self.arguments.sizes
        pool = np.random.default_rng(seed).permutation(len(treebank))[: self.arguments.pool].tolist()
        annotated = pool[: sizes[0]]
        for number, size in enumerate(sizes):
            known = [point for point in self.points if (point["seed"], point["way"]) == (seed, way)]
            if number < len(known):
                annotated += known[number]["next"]
                continue
            start = time.perf_counter()
            # All ways start from the same sentences.
            same = [p for p in self.points if way in BLIND and not number and p["seed"] == seed]
            scores = same[0] if same else self.train(treebank.select(annotated), seed)
            left = sorted(set(pool) - set(annotated))
            wanted = sizes[number + 1] - size if number + 1 < len(sizes) else 0
            draw = np.random.default_rng((seed, size))
            chosen = self.choose(treebank.select(left), wanted, way, draw) if wanted else []
            point = {
                "seed": seed,
                "way": way,
                "sentences": size,
                "words": sum(map(len, treebank.select(annotated)["words"])),
                "uas": scores["uas"],
                "las": scores["las"],
                "seconds": round(time.perf_counter() - start),
                "next": [left[row] for row in chosen],
            }
            self.points.append(point)
            self.table.write_text(json.dumps({"settings": self.settings, "points": self.points}, indent=2) + "\n")
            print(json.dumps({name: value for name, value in point.items() if name != "next"}), flush=True)
            annotated += point["next"]

    def train(self, annotated: Dataset, seed: int) -> dict[str, float]:
        """Trains a parser in `parser` and returns its scores."""
        arguments, file = self.arguments, self.folder / "annotated.conllu"
        file.write_text("".join(line for lines in annotated["lines"] for line in lines), encoding="utf-8", newline="")
        given = {
            "model_name_or_path": arguments.model_name_or_path,
            "train_file": file,
            "validation_file": arguments.validation_file,
            "max_steps": arguments.max_steps,
            "per_device_train_batch_size": arguments.batch_size,
            "learning_rate": 1e-4,
            "new_layers_learning_rate": 2e-3,
            "warmup_steps": 0.1,
            "train_sampling_strategy": "group_by_length",
            "seed": seed,
            "max_eval_samples": arguments.max_eval_samples,
            "save_strategy": "no",
            "report_to": "none",
            "disable_tqdm": True,
            "output_dir": self.folder / "parser",
        }
        flags = [word for name, value in given.items() for word in (f"--{name}", str(value))]
        command = [sys.executable, str(SCRIPT), "--do_train", "--do_eval", *PARSER, *flags, *arguments.flags]
        shutil.rmtree(self.folder / "parser", ignore_errors=True)
        with open(self.folder / "log.txt", "w", encoding="utf-8") as log:
            if subprocess.run(command, stdout=log, stderr=subprocess.STDOUT).returncode:
                raise SystemExit(f"error: {self.folder / 'log.txt'} says why a parser could not be trained.")
        scores = json.loads((self.folder / "parser" / "all_results.json").read_text())
        return {name: scores[f"eval_{name}"] for name in ("uas", "las")}

    def choose(self, left: Dataset, count: int, way: Any, draw: np.random.Generator) -> list[int]:
        """The rows to annotate next. Doubt is that of the parser that was trained last."""
        rows: list[int] = []
        if way == "length":
            rows = np.argsort([-len(words) for words in left["words"]], kind="stable")[:count].tolist()
        elif way not in BLIND:
            parse = pipeline("dependency-parsing", model=str(self.folder / "parser"))
            rows = most_doubtful(doubts(parse, left["words"][:]), count, way)
        # Where near-duplicates leave too few.
        others = [row for row in draw.permutation(len(left)).tolist() if row not in set(rows)]
        return rows + others[: count - len(rows)]


def needed(points: Sequence[dict[str, Any]], effort: str, target: float) -> float | None:
    """Sentences or words at which the UAS of one seed reaches the target, between two points by their logarithm."""
    for before, after in zip(points, points[1:], strict=False):
        if before["uas"] < target <= after["uas"]:
            share = (target - before["uas"]) / (after["uas"] - before["uas"])
            return math.exp((1 - share) * math.log(before[effort]) + share * math.log(after[effort]))
    return points[0][effort] if points[0]["uas"] >= target else None


def summary(points: Sequence[dict[str, Any]], target: float) -> str:
    """The UAS of each way and size, and what the target takes: mean and standard deviation over the seeds."""
    ways = [way for way in WAYS if any(point["way"] == way for point in points)]
    sizes = sorted({point["sentences"] for point in points})
    rows = []
    for way in ways:
        own = [point for point in points if point["way"] == way]
        cells = [_mean([point["uas"] for point in own if point["sentences"] == size], ".2f") for size in sizes]
        for effort in EFFORTS:
            found = [
                needed([p for p in own if p["seed"] == seed], effort, target) for seed in {p["seed"] for p in own}
            ]
            reached = [value for value in found if value is not None]
            cells.append(_mean(reached, ",.0f") if len(reached) == len(found) else "not reached")
        rows.append([way, *cells])
    return markdown_table(["UAS", *map(str, sizes), *(f"{effort} to {target:g}" for effort in EFFORTS)], rows)


def plot(points: Sequence[dict[str, Any]], target: float, path: Path) -> None:
    """UAS by annotated sentences, and by their words."""
    from matplotlib.ticker import LogLocator, NullLocator, StrMethodFormatter

    with drawing(path, (9.0, 4.0)) as figure:
        for axes, effort in zip(figure.subplots(1, 2, sharey=True), EFFORTS, strict=True):
            for way, color, marker in zip(WAYS, COLORS, MARKERS, strict=False):
                own = [point for point in points if point["way"] == way]
                groups = [[p for p in own if p["sentences"] == size] for size in sorted({p["sentences"] for p in own})]
                if own:
                    scores = [[point["uas"] for point in group] for group in groups]
                    axes.errorbar(
                        [statistics.fmean(point[effort] for point in group) for group in groups],
                        [statistics.fmean(values) for values in scores],
                        [statistics.stdev(values) if len(values) > 1 else 0 for values in scores],
                        color=color,
                        marker=marker,
                        capsize=3,
                        label=way,
                    )
            axes.axhline(target, color=MUTED, linestyle="--", linewidth=1)
            axes.set_xscale("log")
            axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
            axes.xaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
            axes.xaxis.set_minor_locator(NullLocator())
            tidy(axes, f"annotated {effort}", "")
        figure.axes[0].set_ylabel("UAS (development), mean ± standard deviation")
        figure.axes[0].legend(frameon=False)


def _mean(values: Sequence[float], form: str) -> str:
    spread = f" ± {statistics.stdev(values):{form}}" if len(values) > 1 else ""
    return f"{statistics.fmean(values):{form}}{spread}" if values else ""


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__.strip().splitlines()[0],
        epilog="Flags that are not listed here go to run_parsing.py.",
        allow_abbrev=False,
    )
    parser.add_argument("--model_name_or_path", default="sentence-transformers/all-MiniLM-L6-v2")
    parser.add_argument("--train_file", required=True, help="treebank whose sentences are the pool")
    parser.add_argument("--validation_file", required=True, help="treebank that scores the parsers")
    parser.add_argument("--output_dir", required=True, help="folder for the table, the plot and the last parser")
    parser.add_argument("--sizes", type=int, nargs="+", default=[200, 400, 800, 1600, 2400])
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=["probability", "random"])
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--pool", type=int, default=4000, help="sentences of the treebank to choose from")
    parser.add_argument("--max_steps", type=int, default=200, help="training steps of each parser")
    parser.add_argument("--batch_size", type=int, default=16)
    parser.add_argument("--max_eval_samples", type=int, default=2001)
    parser.add_argument("--target", type=float, default=85.0, help="UAS to reach")
    arguments, flags = parser.parse_known_args()
    arguments.flags = flags
    if sorted(set(arguments.sizes)) != arguments.sizes or not 0 < arguments.sizes[0]:
        parser.error("--sizes are above 0 and ascend")
    return arguments


def main() -> None:
    arguments = parse_arguments()
    treebank = read_treebank(arguments.train_file)
    if arguments.sizes[-1] > min(len(treebank), arguments.pool):
        raise SystemExit(f"error: --sizes go up to {arguments.sizes[-1]}, more sentences than the pool has.")
    simulation = Simulation(arguments)
    for seed in arguments.seeds:
        for way in arguments.ways:
            simulation.run(treebank, seed, way)
            plot(simulation.points, arguments.target, simulation.folder / "annotation.png")
    print(summary(simulation.points, arguments.target))


if __name__ == "__main__":
    main()
