"""
Chooses rates on development data for each setting and part of the training data: the part `tune` of a study.

    tune:
      arguments: {validation_split_percentage: 15, do_eval: true, do_predict: false, test_file: null}
      grid:                    # every setting tries every point: the same budget for a method and its baseline
        learning_rate: [5e-5, 1e-4]
        new_layers_learning_rate: [2.5e-4, 1e-3]
      seeds: [101, 102]
      score: eval_f1           # the largest mean over these seeds wins
"""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from itertools import product
from typing import Any


def search(study: dict[str, Any], settings: list[str]) -> dict[str, Any]:
    """The study of these settings, each with each point of the grid."""
    tune = study["tune"]
    points = [dict(zip(tune["grid"], values, strict=True)) for values in product(*tune["grid"].values())]
    pairs = product(settings, points)
    found = {name_of(setting, point): {**(study["settings"][setting] or {}), **point} for setting, point in pairs}
    kept = {name: study[name] for name in ("script", "fractions") if name in study}
    arguments = study["arguments"] | tune["arguments"]
    own = {"seeds": tune["seeds"], "weights": False, "may_diverge": True}
    return {**kept, "arguments": arguments, "settings": found, **own}


def name_of(setting: str, point: dict[str, Any]) -> str:
    """The name of a setting at a point of the grid, which is a folder in that of the setting."""
    return f"{setting}/" + ",".join(f"{name}={value}" for name, value in point.items())


def best(study: dict[str, Any], runs: list[Any]) -> dict[tuple[str, float], dict[str, Any]]:
    """The best point by setting and fraction. Of equal ones the first; a run that diverged is the worst."""
    scores = defaultdict(list)
    for run in runs:
        value = run.results.get(study["tune"]["score"], math.nan)
        scores[run.setting, run.fraction].append(value if math.isfinite(value) else -math.inf)
    means: dict[tuple[str, float], tuple[float, dict[str, Any]]] = {}
    for (name, fraction), values in scores.items():
        setting = max((each for each in study["settings"] if name.startswith(f"{each}/")), key=len)
        point = name[len(setting) + 1 :]
        mean = statistics.fmean(values)
        if (setting, fraction) not in means or mean > means[setting, fraction][0]:
            means[setting, fraction] = mean, dict(one.split("=", 1) for one in point.split(","))
    return {place: point for place, (_, point) in means.items()}
