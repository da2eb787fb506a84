"""
Trains the reference models on public data, each by its recipe, and writes their folders and cards.

    python model_cards/reference/build.py relations tagger --data folder --encoder folder

`outputs/runs/NAME` is the run, `outputs/models/NAME` the folder to push, and `model_cards/NAME.md` and
`model_cards/NAME.json` are its card and its figures. A model that is trained is not trained again.
"""

from __future__ import annotations

import argparse
import json
import shlex
import shutil
import statistics
import subprocess
import sys
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import yaml
from cards import write_card

import msattn_command

HERE = Path(__file__).parent
RECIPES = HERE / "recipes"
# Of a run, but not of a model: they name folders of this machine, or repeat the data.
LEFT_OUT = (
    *("*_predictions.*", "*_run.*", "*_report.txt", "*.jsonl", "checkpoint-*"),
    *("eval_results.json", "test_results.json", "train_results.json", "trainer_state.json", "training_args.bin"),
    *("run.json", "speed.md"),
)


def recipe_of(name: str) -> dict[str, Any]:
    """The recipe of a model: how it is trained, and what only a person can say of it."""
    return yaml.safe_load((RECIPES / f"{name}.yaml").read_text(encoding="utf-8"))


def words_of(command: str, run: Path, data: str, encoder: str) -> list[str]:
    """The arguments of a command of a recipe, in which `DATA`, `ENCODER` and `RUN` stand for the folders."""
    names = {"DATA": data, "ENCODER": encoder, "RUN": str(run)}
    parts = [word.partition("/") for word in shlex.split(command)]
    return [names.get(first, first) + slash + rest for first, slash, rest in parts][1:]


def train(recipe: dict[str, Any], run: Path, data: str, encoder: str, *flags: str) -> Path:
    """
    Trains a model, unless its run is finished, with each of the recipe's `seeds`.

    Args:
        recipe (`dict[str, Any]`): The recipe.
        run (`Path`): The folder of the run.
        data (`str`): The folder of the corpora.
        encoder (`str`): The encoder: a folder, or a name on the Hub.
        flags (`str`): Further arguments.

    Returns:
        `Path`: The folder of the model: of the first seed, if there are several.
    """
    run.mkdir(parents=True, exist_ok=True)
    for command in recipe.get("prepare", ()):
        script, *words = words_of(command, run, data, encoder)
        subprocess.run([sys.executable, str(HERE.parents[1] / script), *words], check=True)
    words = words_of(recipe["command"], run, data, encoder)
    seeds = recipe.get("seeds", [])
    folders = {seed: run / f"seed-{seed}" for seed in seeds} or {None: run}
    for seed, folder in folders.items():
        if not (folder / "README.md").exists():  # the card, which scripts write last
            seeded = [] if seed is None else ["--seed", str(seed)]
            msattn_command.main([*words, *seeded, "--output_dir", str(folder), "--resume_from_checkpoint", "last", *flags])
    if seeds:
        runs = {seed: json.loads((folder / "all_results.json").read_text()) for seed, folder in folders.items()}
        (run / "all_results.json").write_text(json.dumps({**means(list(runs.values())), "seeds": runs}, indent=2) + "\n")
    return next(iter(folders.values()))


def means(runs: Sequence[dict[str, float]]) -> dict[str, float]:
    """The means of the metrics that all runs have, and their sample standard deviations as `*_std`."""
    found: dict[str, float] = {}
    for name in runs[0]:
        values = [run[name] for run in runs if isinstance(run.get(name), (int, float))]
        if len(values) == len(runs) > 1:
            found |= {name: statistics.fmean(values), f"{name}_std": statistics.stdev(values)}
    return found


def publish(model: Path, folder: Path) -> None:
    """Copies what belongs on the Hub: weights, configuration, tokenizer and code."""
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(model, folder, ignore=shutil.ignore_patterns(*LEFT_OUT))


def build(name: str, data: str, encoder: str, hub: str | None, *flags: str) -> Path:
    """
    Trains a model, and writes its folder and its card.

    Args:
        name (`str`): The name of its recipe.
        data (`str`): The folder of the corpora.
        encoder (`str`): The encoder: a folder, or a name on the Hub.
        hub (`str`, *optional*): The user or organisation on the Hub whose models the card loads.
        flags (`str`): Further arguments of the training.

    Returns:
        `Path`: The card.
    """
    recipe, run, folder = recipe_of(name), Path("outputs", "runs", name), Path("outputs", "models", name)
    model = train(recipe, run, data, encoder, *flags)
    publish(model, folder)
    words = words_of(recipe["command"], run, data, encoder)
    files = {flag[2:]: file for flag, file in pairwise(words) if flag.endswith("_file")}
    return write_card(name, {**recipe, "task": words[1]}, run, model, folder, files, hub)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+", choices=sorted(path.stem for path in RECIPES.glob("*.yaml")))
    parser.add_argument("--data", required=True, help="folder of the corpora")
    parser.add_argument("--encoder", required=True, help="a folder, or a name on the Hub")
    parser.add_argument("--hub", help="the user or organisation on the Hub whose models the cards load")
    arguments = parser.parse_args()
    for name in arguments.models:
        card = build(name, arguments.data, arguments.encoder, arguments.hub)
        shutil.copyfile(card, HERE.parent / f"{name}.md")
        shutil.copyfile(Path("outputs", "runs", name, "all_results.json"), HERE.parent / f"{name}.json")
        print(f"{card.parent} is ready to push")


if __name__ == "__main__":
    main()
