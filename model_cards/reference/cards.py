"""Writes the card of a reference model: from its recipe, its run, its predictions and a measurement of its speed."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from math import prod
from pathlib import Path
from typing import Any

import yaml
from findings import FINDINGS, markdown
from huggingface_hub import EvalResultEntry, ModelCard, ModelCardData, eval_result_entries_to_yaml
from safetensors import safe_open

from msattn.training.model_card import code_block

HERE = Path(__file__).parent
ENCODER = "sentence-transformers/all-MiniLM-L6-v2"
BENCHMARK = "benchmarks/bench_onnx.py"


def write_card(
    name: str,
    recipe: Mapping[str, Any],
    run: Path,
    model: Path,
    folder: Path,
    files: Mapping[str, str],
    hub: str | None,
) -> Path:
    """
    Writes `README.md` and `.eval_results/` of a model.

    Args:
        name (`str`): The name of the model.
        recipe (`Mapping[str, Any]`): Its recipe.
        run (`Path`): The folder of the run, which keeps the measurement of the speed.
        model (`Path`): The folder that the run wrote for the model: that of the first seed, if there are several.
        folder (`Path`): The folder to push.
        files (`Mapping[str, str]`): The data files by argument, such as `test_file`.
        hub (`str`, *optional*): The name on the Hub whose models the card loads. Default: the folder.

    Returns:
        `Path`: The path of the card.
    """
    plain = ModelCard.load(model / "README.md")
    results = json.loads((model / "all_results.json").read_text())
    calibration, failures = FINDINGS[recipe["task"]](model, results, files)
    dataset = {"dataset_type": recipe["datasets"][0], "dataset_name": recipe["dataset_name"]}
    scores = [
        replace(score, **dataset, dataset_config=recipe.get("dataset_config")) for score in plain.data.eval_results
    ]
    given = {key: recipe[key] for key in ("license", "license_name", "license_link", "datasets") if key in recipe}
    data = ModelCardData(
        **given,
        language="en",
        library_name="transformers",
        tags=plain.data.tags,
        base_model=ENCODER if recipe.get("base_model", True) else None,
        pipeline_tag=plain.data.pipeline_tag,
        model_name=f"msattn-{name}",
        eval_results=scores,
    )
    used = f"{hub}/msattn-{name}" if hub else str(folder)
    with_msattn, without = usages(plain.content, used)
    card = ModelCard.from_template(
        data,
        template_str=(HERE / "CARD.md").read_text(encoding="utf-8"),
        **{key: recipe[key].strip() for key in ("title", "description", "data", "limits", "spread")},
        name=name,
        with_msattn=with_msattn,
        without=without,
        results=results_table(scores, json.loads((run / "all_results.json").read_text()), recipe["command"]),
        calibration=calibration,
        failures=failures,
        parameters=f"{parameters(folder) / 1e6:.1f} million",
        megabytes=round((folder / "model.safetensors").stat().st_size / 1e6),
        speed=speed(folder, run / "speed.md"),
        command=code_block(public_command(name, recipe), "bash"),
        hyperparameters=plain.content.partition("## Training\n")[2].split("```\n", 2)[2].strip(),
    )
    path = folder / "README.md"
    card.save(path)
    (folder / ".eval_results").mkdir()
    entries = eval_results(recipe, scores)
    (folder / ".eval_results" / f"{name}.yaml").write_text(
        yaml.safe_dump(eval_result_entries_to_yaml(entries), sort_keys=False), encoding="utf-8"
    )
    return path


def usages(card: str, name: str) -> tuple[str, str]:
    """The code of a run's card that uses the model, with msattn and without; equal if no code of ours is needed."""
    (code,) = re.findall(r"```python\n(.*?)```", card, re.DOTALL)
    code = re.sub(r'model="[^"]*"', lambda _: f'model="{name}"', code.strip())
    bare = re.sub(r"^import msattn.*\n+", "", code, flags=re.MULTILINE).replace(", trust_remote_code=True", "")
    if bare == code:
        return (code_block(code, "python"),) * 2
    trusting = bare.replace(f'model="{name}"', f'model="{name}", trust_remote_code=True')
    return code_block(f"import msattn\n{bare}", "python"), code_block(trusting, "python")


def results_table(scores: list, means: Mapping[str, Any], command: str) -> str:
    """The scores by metric and split and, over several seeds, their mean and standard deviation."""
    prefixes = {"validation": "eval", "test": "test"}
    if "--validation_split_percentage" in command:
        prefixes = {"held out of train": "eval", "validation": "dev", "test": "test"}
    splits = [split for split in prefixes if any(score.dataset_split == split for score in scores)]
    values: dict[str, dict[str, str]] = {}
    seeds = [str(seed) for seed in means.get("seeds", ())]
    for score in scores:
        row = values.setdefault(score.metric_name, {})
        row[score.dataset_split] = f"{score.metric_value:.4g}"
        if seeds:
            key = f"{prefixes[score.dataset_split]}_{score.metric_type}"
            row[f"{score.dataset_split}, mean"] = f"{means[key]:.4g} ± {means[f'{key}_std']:.2g}"
    columns = [column for split in splits for column in ([split, f"{split}, mean"] if seeds else [split])]
    rows = [[metric, *(row.get(column, "") for column in columns)] for metric, row in values.items()]
    table = markdown(["metric, in percent", *columns], rows)
    if not seeds:
        return table
    named = ", ".join(seeds)
    return f"{table}\n\nMean ± standard deviation over the seeds {named}; the model is that of seed {seeds[0]}."


def eval_results(recipe: Mapping[str, Any], scores: list) -> list[EvalResultEntry]:
    """The main score in the form of `.eval_results/`: of the last split, which chose nothing."""
    main = [score for score in scores if score.metric_type == recipe["metric"]][-1]
    return [
        EvalResultEntry(
            dataset_id=main.dataset_type,
            task_id=main.dataset_config or "default",
            value=main.metric_value,
            notes=f"{main.metric_name}, {main.dataset_split}",
        )
    ]


def parameters(folder: Path) -> int:
    with safe_open(folder / "model.safetensors", framework="np") as tensors:
        return sum(prod(tensors.get_slice(key).get_shape()) for key in tensors.keys())


def speed(folder: Path, measured: Path) -> str:
    """The table of the benchmark, measured once."""
    command = ["--model", str(folder), "--tokens", "32", "--threads", "1", "--clock", "cpu"]
    if not measured.exists():
        run = subprocess.run([sys.executable, BENCHMARK, *command], check=True, stdout=subprocess.PIPE, text=True)
        measured.write_text(run.stdout, encoding="utf-8")
    shown = code_block(shlex.join(["python", BENCHMARK, *command]), "bash")
    return f"{measured.read_text(encoding='utf-8').strip()}\n\n{shown}"


def public_command(name: str, recipe: Mapping[str, Any]) -> str:
    """The commands of a recipe, with the names under which data and encoder are public."""
    commands = [*recipe.get("prepare", ()), f"{recipe['command']} --output_dir outputs/{name}"]
    words = [shlex.split(command.replace("ENCODER", ENCODER)) for command in commands]
    named = [[re.sub(r"^(DATA|RUN)/(.*/)?", "", word) for word in line] for line in words]
    return "\n".join(shlex.join(line).replace(" --", " \\\n    --") for line in named)
