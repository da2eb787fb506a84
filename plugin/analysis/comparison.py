"""Compares runs over several seeds: means, standard deviations and paired t-tests."""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from scipy.stats import ttest_rel

from msattn.analysis.arguments import short_names
from msattn.errors import UserError
from msattn.results import common_score, markdown_table, read_json, score_names

Runs = Mapping[int, Mapping[str, float]]


@dataclass
class ComparisonArguments:
    """Arguments of `python -m msattn.analysis compare`."""

    folders: list[str] = field(
        metadata={"help": "The --output_dir of runs with --seeds; the first one is the baseline."}
    )
    metric: str | None = field(
        default=None,
        metadata={"help": "Score to compare, such as test_accuracy. Default: the first one that all runs have."},
    )
    names: list[str] | None = field(default=None, metadata={"help": "Names of the rows. Default: the folders."})


def show_comparison(args: ComparisonArguments) -> None:
    """Compare runs over several seeds: mean, standard deviation, difference, paired t-test and time."""
    names = args.names or short_names(args.folders)
    if len(names) != len(args.folders):
        raise UserError(f"--names: there are {len(names)} for {len(args.folders)} folders.")
    if len(set(names)) < len(names):
        raise UserError(f"--names: one is there twice, among {', '.join(names)}.")
    runs = [read_seeds(folder) for folder in args.folders]
    print(comparison_table(dict(zip(names, runs, strict=True)), args.metric))


def read_seeds(folder: str | Path) -> dict[int, dict[str, float]]:
    """
    Reads the results of a run with `--seeds`.

    Args:
        folder (`str` or `Path`): The `--output_dir` of the run, with sub-folders `seed-N`.

    Returns:
        `dict[int, dict[str, float]]`: The metrics by seed.

    Raises:
        UserError: There is no sub-folder `seed-N`, or its `all_results.json` cannot be read.
    """
    places = {int(path.name[5:]): path for path in Path(folder).glob("seed-*") if path.name[5:].isdecimal()}
    if not places:
        raise UserError(f"{folder}: there is no folder seed-N; runs over seeds are made by --seeds 1 2 3.")
    return {seed: read_json(places[seed] / "all_results.json") for seed in sorted(places)}


def comparison_table(runs: Mapping[str, Runs], metric: str | None = None) -> str:
    """
    A Markdown table that compares settings with the first one.

    The p-value is that of a two-sided paired t-test over the seeds that a setting shares with the first one.

    Args:
        runs (`Mapping[str, Mapping[int, Mapping[str, float]]]`): The metrics by seed, by the name of the setting.
        metric (`str`, *optional*): The score. Default: the first one that all runs have, preferably not a loss.

    Returns:
        `str`: The table, with one row per setting.

    Raises:
        UserError: Some runs lack `metric`, or the runs have no score in common.
    """
    metric = common_score([score_names(run) for seeds in runs.values() for run in seeds.values()], metric)
    scores = {name: {seed: run[metric] for seed, run in seeds.items()} for name, seeds in runs.items()}
    first = next(iter(scores.values()))
    rows = []
    for number, (name, found) in enumerate(scores.items()):
        mean = f"{statistics.fmean(found.values()):.4g}"
        if len(found) > 1:
            mean += f" ± {statistics.stdev(found.values()):.2g}"
        seeds = " ".join(map(str, found))
        rows.append([name, seeds, mean, *(_paired(found, first) if number else ("", "")), _epoch_time(runs[name])])
    return markdown_table(["", "seeds", metric, "difference", "p", "seconds an epoch"], rows)


def _paired(found: Mapping[int, float], first: Mapping[int, float]) -> tuple[str, str]:
    """The mean difference over common seeds and the p-value, which is empty for one seed or equal differences."""
    common = [seed for seed in found if seed in first]
    if not common:
        return "", ""
    ours, others = [found[seed] for seed in common], [first[seed] for seed in common]
    differences = [a - b for a, b in zip(ours, others, strict=True)]
    equal = np.ptp(differences) <= 1e-9 * max(map(abs, (*ours, *others)))  # up to rounding
    test = "" if equal else f"{ttest_rel(ours, others).pvalue:.2g}"
    return f"{statistics.fmean(differences):+.2g}", test


def _epoch_time(runs: Runs) -> str:
    if not all(run.get("epoch") and "train_runtime" in run for run in runs.values()):
        return ""
    return f"{statistics.fmean(run['train_runtime'] / run['epoch'] for run in runs.values()):.3g}"
