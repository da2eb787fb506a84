"""Tiny runs of the five scripts, in processes that die at a given moment."""

from __future__ import annotations

import importlib
import json
import multiprocessing
import os
import resource
import signal
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from tests.scripts.command_line import command_line
from tests.tiny_models import saved_encoder

ROOT = Path(__file__).parents[2]
SCRIPTS = ("run_re", "run_glue", "run_parsing", "run_tagging", "run_ranking")
NOUNS = ("author", "book", "house", "dog")
# A process dies before one of these, if it is to die while it writes.
WRITES = ("open", "os.rename", "os.remove", "os.mkdir", "os.rmdir")


def write_files(folder: Path) -> dict[str, Path]:
    """An encoder with dropout, and sixteen examples for each script."""
    texts = [f"{'the a of'.split()[n % 3]} {NOUNS[n % 4]} {'wrote ' * (n % 5)}." for n in range(16)]
    candidates = [{"id": noun, "text": f"a {noun}", "label": int(noun == "dog")} for noun in NOUNS]
    relations = []
    for n in range(16):
        text, tail = f"the {NOUNS[n % 4]} wrote a book", len(f"the {NOUNS[n % 4]} wrote a ")
        relations.append(
            {"text": text, "h": [4, 4 + len(NOUNS[n % 4])], "t": [tail, tail + 4], "relation": f"r{n % 3}"}
        )
    rows = {
        "relations": relations,
        "sentences": [{"text": text, "label": n % 2} for n, text in enumerate(texts)],
        "queries": [{"id": f"q{n}", "query": texts[n], "candidates": candidates} for n in range(4)],
    }
    files = {name: "".join(json.dumps(row) + "\n" for row in content) for name, content in rows.items()}
    words = [list(enumerate(text.split(), start=1)) for text in texts]
    tagged = ["".join(f"{word}\t{word[0].upper()}\n" for _, word in sentence) for sentence in words]
    column = "_\t_\t_\t_\t{}\t{}\t_\t_"
    trees = [
        "".join(f"{n}\t{word}\t{column.format(n - 1, 'dep' if n > 1 else 'root')}\n" for n, word in sentence)
        for sentence in words
    ]
    files |= {"tags": "\n".join(tagged), "trees": "\n".join(trees) + "\n"}
    endings = {"tags": ".conll", "trees": ".conllu"}
    paths = {name: folder / f"{name}{endings.get(name, '.jsonl')}" for name in files}
    for name, content in files.items():
        paths[name].write_text(content, encoding="utf-8")
    return {"encoder": saved_encoder(folder / "encoder", layers=2), **paths}


def command(script: str, files: Mapping[str, Path]) -> list[str]:
    """The command line of a script: checkpoints within epochs, at their ends, or one at a time."""
    data = dict(zip(SCRIPTS, ("relations", "sentences", "trees", "tags", "queries"), strict=True))[script]
    own: dict[str, dict[str, Any]] = {
        "run_re": {"train_sampling_strategy": "group_by_length", "save_total_limit": 1},
        "run_glue": {
            **{"save_strategy": "epoch", "metric_for_best_model": "loss", "early_stopping_patience": 1},
            **{"load_best_model_at_end": True, "save_total_limit": 1, "num_train_epochs": 3},
        },
        "run_parsing": {"mlm_epochs": 1, "save_steps": 4, "objective": "head_select"},
        "run_tagging": {"max_steps": 6, "save_steps": 2, "per_device_train_batch_size": 2},
        "run_ranking": {"gradient_accumulation_steps": 2, "mdg_weight": 0.1, "save_steps": 1},
    }
    values = {
        "model_name_or_path": files["encoder"],
        "train_file": files[data],
        "validation_file": files[data],
        "num_train_epochs": 2,
        "per_device_train_batch_size": 2 if script == "run_ranking" else 4,
        "learning_rate": 1e-3,
        "logging_steps": 2,
        "eval_strategy": "epoch",
        "save_strategy": "steps",
        "save_steps": 3,
        "report_to": "none",
        "disable_tqdm": True,
        "use_cpu": True,
    }
    return command_line(("do_train", "do_eval"), values | own[script])


def start(script: str, argv: list[str], folder: Path, dies_at: int | None = None, room: int = 1 << 40) -> Any:
    """
    Starts a script with an output folder in a process of its own.

    Args:
        dies_at (`int`, *optional*): The process kills itself before this write to the folder, from 1.
        room (`int`, *optional*): Writing more bytes to a file fails, as on a full disk.
    """
    os.environ.update(PYTHONPATH=f"{ROOT}:{os.environ.get('PYTHONPATH', '')}", OMP_NUM_THREADS="1")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([*SCRIPTS, __name__])
    process = context.Process(target=_run, args=(script, [*argv, "--output_dir", str(folder)], folder, dies_at, room))
    process.start()
    return process


def finish(script: str, argv: list[str], folder: Path) -> tuple[int, float]:
    """Runs a script to its end, and returns its number of writes and its seconds."""
    process = start(script, argv, folder)
    process.join()
    assert process.exitcode == 0, Path(f"{folder}.log").read_text(encoding="utf-8")
    writes, seconds = json.loads(Path(f"{folder}.size").read_text(encoding="utf-8"))
    return writes, seconds


def results(folder: Path) -> tuple[bytes, dict[str, float]]:
    """What a run leaves: its weights, and its scores without times and without those of training."""
    scores = json.loads((folder / "all_results.json").read_text(encoding="utf-8"))
    timed = ("runtime", "per_second", "preparation_time")
    kept = {name: score for name, score in scores.items() if not name.endswith(timed) and name.startswith("eval_")}
    return (folder / "model.safetensors").read_bytes(), kept


def _run(script: str, argv: list[str], folder: Path, dies_at: int | None, room: int) -> None:
    begin, writes = time.monotonic(), 0
    # The log is a file, too, and needs room.
    log = os.open(f"{folder}.log" if room == 1 << 40 else os.devnull, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(log, 1)
    os.dup2(log, 2)
    torch.set_num_threads(1)

    def count(event: str, arguments: tuple) -> None:
        nonlocal writes
        if event in WRITES and str(arguments[0]).startswith(f"{folder}{os.sep}"):
            writes += 1
            if writes == dies_at:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(count)
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (room, resource.RLIM_INFINITY))
    sys.argv = [f"{script}.py", *argv]
    importlib.import_module(script).main()
    Path(f"{folder}.size").write_text(json.dumps([writes, time.monotonic() - begin]), encoding="utf-8")
