from __future__ import annotations

import os
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[2]


def what_it_would_run(*arguments: str) -> str:
    # Without what a make that runs the tests hands down.
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS"))}
    run = subprocess.run(["make", "--dry-run", *arguments], cwd=ROOT, env=environment, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    return run.stdout


def test_a_space_shows_the_models_that_are_given_and_no_others():
    assert "app me/a me/b --space" in what_it_would_run("space", "MODELS=me/a me/b")
    assert "app  --space" in what_it_would_run("space")


def test_the_target_of_the_reference_models_trains_each():
    recipes = {path.stem for path in (ROOT / "model_cards/reference/recipes").glob("*.yaml")}
    lines = [line for line in what_it_would_run("models").splitlines() if "reference/build.py" in line]
    assert {line.split()[2] for line in lines} == recipes
