"""
How far chance lifts the best of many runs: with the weights of the paper's grid, and as many without guiding.

Of each group, the run with the best development score counts, with its test score. Reads the folders of two studies:

    python papers/guiding/best_of.py outputs/pairs outputs/null
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

import numpy as np

from msattn.plots.style import markdown_table

sys.path.append(str(Path(__file__).parents[1]))
from scores import in_percent


def scores(folder: Path, development: str, test: str) -> list[tuple[str, float, float]]:
    """Seed, development score and test score of each run of a study."""
    found = []
    for path in sorted(folder.glob("*/seed-*/run.json")):
        results = in_percent(json.loads(path.read_text(encoding="utf-8"))["results"])
        found.append((path.parent.name, results[development], results[test]))
    return found


def chosen(runs: list[tuple[str, float, float]]) -> tuple[float, float]:
    """The test score of the run that is best on development data, less the mean of all, and the mean."""
    mean = float(np.mean([run[2] for run in runs]))
    return max(runs, key=lambda run: run[1])[2] - mean, mean


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.strip().splitlines()[0])
    parser.add_argument("pairs", type=Path, help="runs of papers/guiding/pairs.yaml")
    parser.add_argument("null", type=Path, help="runs of papers/guiding/null.yaml")
    parser.add_argument("--development", default="eval_accuracy")
    parser.add_argument("--test", default="test_accuracy")
    args = parser.parse_args(argv)
    guided = scores(args.pairs, args.development, args.test)
    null = scores(args.null, args.development, args.test)
    groups = [[run for run in guided if run[0] == seed] for seed in dict.fromkeys(run[0] for run in guided)]
    if not groups or not null:
        parser.error("no run is finished")
    size = len(groups[0])
    nulls = [null[start : start + size] for start in range(0, len(null) - size + 1, size)]
    rows = []
    for name, parts in (("guided", groups), ("no guiding", nulls)):
        for number, part in enumerate(parts, start=1):
            gain, mean = chosen(part)
            rows.append([name, number, len(part), f"{mean:.2f}", f"{mean + gain:.2f}", f"{gain:+.2f}"])
    print(markdown_table(["runs", "group", "n", "mean test", "best by development", "gain"], rows))


if __name__ == "__main__":
    main()
