"""Tiny runs of all five scripts, in processes that can be killed, and what two of them must have in common."""

from __future__ import annotations

import hashlib
import importlib
import json
import multiprocessing
import os
import random
import resource
import signal
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from transformers import BertConfig, BertModel

from tests.scripts.command_line import command_line
from tests.tiny_models import tiny_tokenizer

ROOT = Path(__file__).parents[2]
SCRIPTS = ("run_re", "run_glue", "run_parsing", "run_tagging", "run_ranking")
NOUNS = ("author", "book", "house", "dog")
# What is there to be counted: a process dies at one of these, if it is to die while it writes.
WRITES = ("open", "os.rename", "os.remove", "os.mkdir", "os.rmdir")
# The most bytes of a log.
LOG = 10_000


def write_files(folder: Path) -> dict[str, Path]:
    """An encoder with dropout, and sixteen examples for each script."""
    torch.manual_seed(0)
    tokenizer = tiny_tokenizer()
    tokenizer.save_pretrained(folder / "encoder")
    sizes = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}
    config = BertConfig(vocab_size=len(tokenizer), max_position_embeddings=64, **sizes)
    BertModel(config).save_pretrained(folder / "encoder")
    numbers = range(16)
    texts = [f"{'the a of'.split()[number % 3]} {NOUNS[number % 4]} {'wrote ' * (number % 5)}." for number in numbers]
    candidates = [{"id": noun, "text": f"a {noun}", "label": int(noun == "dog")} for noun in NOUNS]
    rows = {
        "relations.jsonl": [
            {
                "text": f"the {NOUNS[n % 4]} wrote a book",
                "h": [0, 3],
                "t": [len(NOUNS[n % 4]) + 10, len(NOUNS[n % 4]) + 11],
            }
            | {"relation": f"r{n % 3}"}
            for n in numbers
        ],
        "sentences.jsonl": [{"text": text, "label": number % 2} for number, text in enumerate(texts)],
        "queries.jsonl": [{"id": f"q{n}", "query": texts[n], "candidates": candidates} for n in range(4)],
    }
    paths = {"encoder": folder / "encoder"}
    for name, lines in rows.items():
        paths[name.partition(".")[0]] = folder / name
        (folder / name).write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    paths["tags"], paths["trees"] = folder / "tags.conll", folder / "trees.conllu"
    blocks = ["".join(f"{word}\t{word[0].upper()}\n" for word in text.split()) for text in texts]
    paths["tags"].write_text("\n".join(blocks), encoding="utf-8")
    trees = [
        "".join(f"{at}\t{word}\t_\t_\t_\t_\t{at - 1}\t{'dep' if at > 1 else 'root'}\t_\t_\n" for at, word in numbered)
        for numbered in (list(enumerate(text.split(), start=1)) for text in texts)
    ]
    paths["trees"].write_text("\n".join(trees) + "\n", encoding="utf-8")
    return paths


def runs(files: Mapping[str, Path]) -> dict[str, tuple[str, list[str]]]:
    """A script and its command line by name: checkpoints within epochs and at their ends, studies, seeds, the rest."""
    scored = ("do_train", "do_eval")

    def line(data: str, *flags: str, **options: Any) -> list[str]:
        values = {
            "model_name_or_path": files["encoder"],
            "train_file": files[data],
            "validation_file": files[data],
            "num_train_epochs": 2,
            "per_device_train_batch_size": 4,
            "learning_rate": 1e-3,
            "logging_steps": 2,
            "eval_strategy": "epoch",
            "save_strategy": "steps",
            "save_steps": 3,
            "report_to": "none",
            "disable_tqdm": True,
            "use_cpu": True,
            **options,
        }
        return command_line((*scored, *flags), values)

    best = {"save_strategy": "epoch", "metric_for_best_model": "loss", "early_stopping_patience": 1}
    return {
        "relations": (
            "run_re",
            line("relations", "do_predict", test_file=files["relations"], train_sampling_strategy="group_by_length"),
        ),
        "seeds": (
            "run_glue",
            line("sentences", "load_best_model_at_end", seeds=[1, 2], save_total_limit=1, num_train_epochs=3, **best),
        ),
        "study": ("run_glue", line("sentences", train_fraction=[0.5, 1.0], save_steps=2)),
        "parser": ("run_parsing", line("trees", mlm_epochs=1, save_steps=4, objective="head_select")),
        "tagger": ("run_tagging", line("tags", max_steps=6, save_steps=2, per_device_train_batch_size=2)),
        "ranking": (
            "run_ranking",
            line(
                "queries", gradient_accumulation_steps=2, mdg_weight=0.1, save_steps=1, per_device_train_batch_size=2
            ),
        ),
    }


def start(script: str, argv: list[str], folder: Path, dies_at: int | None = None, room: int = 1 << 40) -> Any:
    """
    Starts a script with an output folder in a process of its own.

    Args:
        dies_at (`int`, *optional*): The process kills itself before this write to the folder, from 1.
        room (`int`, *optional*): Writing more bytes to a file fails, as on a full disk.
    """
    os.environ.update(PYTHONPATH=str(ROOT), OMP_NUM_THREADS="1")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([*SCRIPTS, __name__])
    process = context.Process(target=_run, args=(script, [*argv, "--output_dir", str(folder)], folder, dies_at, room))
    process.start()
    return process


def finish(script: str, argv: list[str], folder: Path) -> tuple[int, float]:
    """Runs a script to its end, and returns its number of writes and its seconds."""
    process = start(script, argv, folder)
    process.join()
    log = Path(f"{folder}.log").read_text(encoding="utf-8")
    assert process.exitcode == 0, log
    writes, seconds = json.loads(Path(f"{folder}.size").read_text())
    return writes, seconds


def kill(process: Any, after: float) -> None:
    """Kills a process that may have ended before."""
    time.sleep(after)
    process.kill()
    process.join()


def results(folder: Path) -> dict[str, Any]:
    """What a run leaves, by file: weights and predictions bit by bit, and all figures but the times."""
    found: dict[str, Any] = {}
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if "checkpoint-" in name or not path.is_file():
            continue
        if path.name == "trainer_state.json":
            state = json.loads(path.read_text(encoding="utf-8"))
            found[name] = [_timeless(state[part]) for part in ("global_step", "best_global_step", "log_history")]
        elif path.name.endswith("results.json") or path.name == "study.json":
            found[name] = _timeless(json.loads(path.read_text(encoding="utf-8")))
        elif path.suffix == ".safetensors" or "_predictions." in path.name or path.name.endswith("_report.txt"):
            found[name] = hashlib.sha256(path.read_bytes()).hexdigest()
        elif path.name == "fingerprint.json":
            fingerprint = json.loads(path.read_text(encoding="utf-8"))
            found[name] = fingerprint["run"], sorted(fingerprint["files"])
        else:
            found[name] = None
    return found


def _timeless(content: Any) -> Any:
    if isinstance(content, list):
        return [_timeless(item) for item in content]
    if not isinstance(content, dict):
        return content
    timed = ("runtime", "per_second", "preparation_time")
    return {name: _timeless(value) for name, value in content.items() if not any(word in name for word in timed)}


def _run(script: str, argv: list[str], folder: Path, dies_at: int | None, room: int) -> None:
    begin = time.monotonic()
    # The log is a file, too, and needs room.
    path = os.devnull if room < LOG else f"{folder}.log"
    log = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(log, 1)
    os.dup2(log, 2)
    torch.set_num_threads(1)
    sys.argv = [f"{script}.py", *argv]
    writes = 0

    def count(event: str, arguments: tuple) -> None:
        nonlocal writes
        if event in WRITES and str(arguments[0]).startswith(str(folder)) and not str(arguments[0]).endswith(".log"):
            writes += 1
            if writes == dies_at:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(count)
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (room, resource.RLIM_INFINITY))
    importlib.import_module(script).main()
    Path(f"{folder}.size").write_text(json.dumps([writes, time.monotonic() - begin]))


def moments(seed: int, count: int, writes: int) -> list[int | float]:
    """Seeded moments: the number of a write, or a part of the whole time, in turn."""
    draw = random.Random(seed)
    return [draw.randint(1, writes) if turn % 2 else draw.random() for turn in range(count)]
