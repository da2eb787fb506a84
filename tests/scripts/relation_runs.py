"""Runs of `run_re.py` on the demonstration's corpus, small enough for tests."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any
from unittest.mock import patch

from safetensors.torch import load_file

import run_re
from msattn.data.demo_corpus import DemoPaths
from tests.scripts.command_line import command_line

ROOT = Path(run_re.__file__).parent


def arguments(demo: DemoPaths, output_dir: Path, *flags: str, **options: Any) -> list[str]:
    """A command line of `run_re.py`: an epoch of 64 sentences, unless `options` say otherwise; None leaves one out."""
    values = {
        "model_name_or_path": demo.encoder,
        "train_file": demo.train_file,
        "output_dir": output_dir,
        "max_train_samples": 64,
        "num_train_epochs": 1,
        "learning_rate": 1e-3,
        "logging_steps": 1,
        "save_strategy": "no",
        "report_to": "none",
        "disable_tqdm": True,
        "use_cpu": True,
        **options,
    }
    return command_line(flags, values)


def run(argv: list[str]) -> None:
    """Runs the script in this process."""
    with patch.object(sys, "argv", ["run_re.py", *argv]):
        run_re.main()


def launch(command: list[str], argv: list[str], code: int = 0) -> subprocess.CompletedProcess:
    """Runs the script in processes of its own, which end with this exit code."""
    path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": path}
    options = {"cwd": ROOT, "capture_output": True, "text": True, "timeout": 300}
    done = subprocess.run([*command, *argv], env=environment, **options)
    assert done.returncode == code, done.stderr
    return done


def read_json(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


def logged(output_dir: Path, name: str = "loss") -> list[float]:
    """What the Trainer logged, one number a step."""
    return [line[name] for line in read_json(output_dir / "trainer_state.json")["log_history"] if name in line]


def same_weights(first: Path, second: Path) -> bool:
    """Whether two checkpoints are equal, bit for bit."""
    a, b = load_file(first / "model.safetensors"), load_file(second / "model.safetensors")
    return a.keys() == b.keys() and all(a[name].equal(b[name]) for name in a)
