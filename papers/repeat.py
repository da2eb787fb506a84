"""
Repeats a script over settings, seeds and parts of the training data, and writes a table of means.

A study is a YAML file:

    script: run_re.py
    arguments:                 # of every run; $NAMES of the environment, {setting} and {seed} are replaced
      train_file: $MSATTN_DATA/semeval2010_task8/TRAIN_FILE.TXT
      split_seed: "{seed}"     # here: another part of the training data for each seed
      do_train: true
    settings:                  # what each adds
      entity-start: {head: entity-start}
      pairwise: {head: pairwise}
    seeds: [1, 2, 3]
    fractions: [0.1, 1.0]      # optional: --train_fraction, nested parts of the training data, the same for all seeds
    average: true              # optional: also the mean over the settings, such as domains
    weights: false             # optional: remove the weights of a run when it has finished
    tune: ...                  # optional: rates chosen on development data first, in FOLDER/tune (papers/tuning.py)

Each run is a process of its own in FOLDER/SETTING/FRACTION/seed-N, at low priority; `--jobs` is how many run at a
time. A finished run has `run.json` and is skipped; one that was stopped resumes from its last checkpoint. What the
script writes stays, such as predictions. `table.md` and `table.csv` are written after each run: mean and sample
standard deviation over n seeds, and for the first score the mean difference from the first setting over common seeds,
with the p-value of a paired t-test.
`scores.csv.gz` keeps the answers to each example (papers/scores.py).
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import shutil
import statistics
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import yaml
from scipy.stats import ttest_rel
from scores import answers_of, in_percent, write_scores
from tuning import best, search

from msattn.plots.style import markdown_table

ROOT = Path(__file__).parents[1]
# What the script says of a loss or a weight that is not finite.
DIVERGED = "lower --learning_rate or --max_grad_norm"
NO_SCORES = ("_runtime", "_samples", "_per_second", "_model_preparation_time", "_epoch")


class Run(NamedTuple):
    """A finished run: what it is, and its results."""

    setting: str
    fraction: float
    seed: int
    results: dict[str, Any]
    arguments: dict[str, Any]
    folder: Path


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("study", type=Path, help="the YAML file")
    parser.add_argument("changes", nargs="*", metavar="NAME=VALUE", help="arguments that replace those of the file")
    parser.add_argument("--output_dir", type=Path, help="folder of the runs (default: outputs/ and the file's name)")
    parser.add_argument("--settings", nargs="+", help="only these")
    parser.add_argument("--seeds", type=int, nargs="+", help="in place of those of the file")
    parser.add_argument("--jobs", type=int, default=1, help="runs at a time, such as 12 on one large GPU")
    args = parser.parse_intermixed_args(argv)  # changes may follow options
    study = yaml.safe_load(args.study.read_text(encoding="utf-8"))
    study["arguments"] |= {name: yaml.safe_load(value) for name, value in (one.split("=", 1) for one in args.changes)}
    study["seeds"] = args.seeds or study["seeds"]
    if unknown := {*(args.settings or ())} - {*study["settings"]}:
        parser.error(f"--settings: there is no {', '.join(unknown)} in {args.study}")
    taken = {"seed", "output_dir", *study.get("tune", {}).get("grid", {})}
    taken.update(*(study["settings"][name] or {} for name in args.settings or study["settings"]))
    if overridden := taken & {change.split("=", 1)[0] for change in args.changes}:
        parser.error(f"{min(overridden)}: settings, their grid or repeat.py set this; change it in {args.study}")
    folder = args.output_dir or Path("outputs") / args.study.stem
    settings = args.settings or list(study["settings"])
    if "tune" in study:
        trials = search(study, list(study["settings"]))
        run_all(trials, list(search(study, settings)["settings"]), folder / "tune", args.jobs)
        study["chosen"] = best(study, read_runs(trials, folder / "tune"))
    run_all(study, settings, folder, args.jobs)


def run_all(study: dict[str, Any], settings: list[str], folder: Path, jobs: int) -> None:
    """The runs of these settings, and the tables after each. Ends the program if one failed."""
    failed = 0
    chosen = [point for point in points(study) if point[0] in settings]
    for point in chosen:  # before the first starts: the end of the program waits for runs
        is_finished(*planned(study, *point, folder))
    with ThreadPoolExecutor(jobs) as pool:
        for done in pool.map(lambda point: repeat(study, *point, folder), chosen):
            failed += not done
            write_tables(study, folder)
    if (folder / "table.md").exists():
        print((folder / "table.md").read_text(encoding="utf-8"))
    if failed:
        sys.exit(f"error: {failed} runs failed; the last line of each log is above.")


def points(study: dict[str, Any]) -> list[tuple[str, float, int]]:
    """Setting, fraction and seed of each run. A seed is complete before the next begins."""
    parts = product(study["seeds"], study["settings"], study.get("fractions", [1.0]))
    return [(setting, fraction, seed) for seed, setting, fraction in parts]


def place(study: dict[str, Any], setting: str, fraction: float, seed: int, folder: Path) -> Path:
    """The folder of a run."""
    return folder / setting / (f"fraction-{fraction:g}" if "fractions" in study else "") / f"seed-{seed}"


def planned(
    study: dict[str, Any], setting: str, fraction: float, seed: int, folder: Path
) -> tuple[Path, dict[str, Any]]:
    """The folder of a run, and its arguments."""
    output = place(study, setting, fraction, seed, folder)
    own = {**(study["settings"][setting] or {}), **study.get("chosen", {}).get((setting, fraction), {})}
    given = {**study["arguments"], **own, "seed": seed, "output_dir": str(output)}
    given = {name: replaced(value, setting, seed) for name, value in given.items()}
    if fraction < 1:
        given["train_fraction"] = fraction
    return output, given


def is_finished(output: Path, given: dict[str, Any]) -> bool:
    """Whether a run is finished. Ends the program if it is, or can go on, with other arguments."""
    finished, started = output / "run.json", output / "run.partial"
    record = finished if finished.exists() else started
    if not record.exists() or (record is started and not any(output.glob("checkpoint-*"))):
        return False
    before = json.loads(record.read_text(encoding="utf-8"))["arguments"]
    changed = [name for name in {**before, **given} if before.get(name) != given.get(name)]
    if changed:
        sys.exit(f"error: {output} holds a run with another {', '.join(changed)}; give another --output_dir.")
    return record is finished


def repeat(study: dict[str, Any], setting: str, fraction: float, seed: int, folder: Path) -> bool:
    """Starts the script, unless the run is finished; whether the run is finished now."""
    output, given = planned(study, setting, fraction, seed, folder)
    if is_finished(output, given):
        return True
    output.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, str(ROOT / study["script"]), *flags(given)]
    if any(output.glob("checkpoint-*")):
        command += ["--resume_from_checkpoint", "last"]
    partial = output / "run.partial"
    partial.write_text(json.dumps({"arguments": given}) + "\n", encoding="utf-8")
    print(f"{output} ...", flush=True)
    start = time.perf_counter()
    with open(output / "log.txt", "a", encoding="utf-8") as log:
        code = subprocess.run(["nice", *command], stdout=log, stderr=subprocess.STDOUT).returncode
    if code:
        lines = (output / "log.txt").read_text(encoding="utf-8").strip().splitlines()
        print(f"{output}: exit code {code}: {lines[-1] if lines else ''}", flush=True)
        if not (study.get("may_diverge") and lines and DIVERGED in lines[-1]):
            return False
    results = {} if code else json.loads((output / "all_results.json").read_text(encoding="utf-8"))
    content = {"arguments": given, "seconds": round(time.perf_counter() - start), "results": results}
    partial.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
    partial.replace(output / "run.json")  # in one step: with several jobs, the tables are written meanwhile
    for checkpoint in output.glob("checkpoint-*"):
        shutil.rmtree(checkpoint)
    if not study.get("weights", True):
        for weights in output.rglob("*.safetensors"):
            weights.unlink()
    return True


def replaced(value: Any, setting: str, seed: int) -> Any:
    """A value of an argument with `$NAMES`, `{setting}` and `{seed}` replaced."""
    if isinstance(value, list):
        return [replaced(one, setting, seed) for one in value]
    if not isinstance(value, str):
        return value
    return os.path.expandvars(value).replace("{setting}", setting.split("/")[0]).replace("{seed}", str(seed))


def flags(arguments: dict[str, Any]) -> list[str]:
    """The command line of arguments: `true` is a flag alone, a list has several values, `null` is left out."""
    words: list[str] = []
    for name, value in arguments.items():
        if value is not None:
            words += [f"--{name}", *([] if value is True else map(str, value if isinstance(value, list) else [value]))]
    return words


def read_runs(study: dict[str, Any], folder: Path) -> list[Run]:
    """The finished runs of a study."""
    found = []
    for setting, fraction, seed in points(study):
        output = place(study, setting, fraction, seed, folder)
        if (output / "run.json").exists():
            content = json.loads((output / "run.json").read_text(encoding="utf-8"))
            found.append(Run(setting, fraction, seed, in_percent(content["results"]), content["arguments"], output))
    return found


def score_names(runs: list[Run]) -> list[str]:
    """The scores that all runs have, losses last."""
    names = [
        name
        for name, value in (runs[0].results if runs else {}).items()
        if name.startswith(("eval_", "dev_", "test_")) and not name.endswith(NO_SCORES)
        if isinstance(value, (int, float)) and all(isinstance(run.results.get(name), (int, float)) for run in runs)
    ]
    return sorted(names, key=lambda name: name.endswith("_loss"))


def write_tables(study: dict[str, Any], folder: Path) -> None:
    """Writes `table.md`, `table.csv` and `scores.csv.gz` of the finished runs."""
    runs = [run for run in read_runs(study, folder) if run.results]  # one that diverged has none
    kept = [(run, answers_of(run.folder, run.arguments)) for run in runs]
    if any(answers for _, answers in kept):
        names = [(run.folder.relative_to(folder).as_posix(), answers) for run, answers in kept if answers]
        write_scores(folder / "scores.csv.gz", [(name, *answers) for name, answers in names])
    names = score_names(runs)
    rows: dict[tuple[str, float], dict[int, list[float]]] = {}
    for run in runs:
        rows.setdefault((run.setting, run.fraction), {})[run.seed] = [run.results[name] for name in names]
    if study.get("average") and len(study["settings"]) > 1:
        for fraction in study.get("fractions", [1.0]):
            # Of a seed that all settings have.
            own = [rows.get((setting, fraction), {}) for setting in study["settings"]]
            seeds = [seed for seed in study["seeds"] if all(seed in found for found in own)]
            means = {seed: np.mean([found[seed] for found in own], axis=0).tolist() for seed in seeds}
            rows |= {(f"average of {len(own)}", fraction): means} if means else {}
    table, lines = [], []
    for (setting, fraction), found in rows.items():
        means = [statistics.fmean(values) for values in zip(*found.values(), strict=True)]
        spreads = [statistics.stdev(v) if len(v) > 1 else None for v in zip(*found.values(), strict=True)]
        lines.append(
            [setting, fraction, len(found), *(one for pair in zip(means, spreads, strict=True) for one in pair)]
        )
        cells = [f"{m:.4g}" + ("" if s is None else f" ± {s:.2g}") for m, s in zip(means, spreads, strict=True)]
        first = rows.get((next(iter(study["settings"])), fraction), {})
        table.append([setting, f"{fraction:g}", len(found), *cells, *difference(found, first)])
    header = ["setting", "fraction", "n", *names, "difference", "p"]
    (folder / "table.md").write_text(markdown_table(header, table) + "\n", encoding="utf-8")
    with open(folder / "table.csv", "w", encoding="utf-8", newline="") as file:
        header = ["setting", "fraction", "n", *(one for name in names for one in (name, f"{name}_std"))]
        csv.writer(file, lineterminator="\n").writerows([header, *lines])


def difference(found: dict[int, list[float]], first: dict[int, list[float]]) -> tuple[str, str]:
    """The mean difference of the first score over common seeds, and the p-value of a paired t-test."""
    common = [seed for seed in found if seed in first]
    if found is first or not common or not found[common[0]]:
        return "", ""
    pairs = [(found[seed][0], first[seed][0]) for seed in common]
    differences = [one - other for one, other in pairs]
    is_test = len(common) > 1 and np.ptp(differences) > 1e-9 * max(map(abs, np.ravel(pairs)))
    return (
        f"{statistics.fmean(differences):+.2g}",
        f"{ttest_rel(*zip(*pairs, strict=True)).pvalue:.2g}" if is_test else "",
    )


if __name__ == "__main__":
    main()
