"""The demonstration of `run_re.py`: trains a relation extractor, reloads it, uses it and draws its attention."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import datasets
from huggingface_hub import constants, get_session
from transformers import pipeline
from transformers.utils import logging

from msattn.data.demo_corpus import DEMO_SENTENCE, write_demo
from msattn.plots.command import plot

ENCODER = "sentence-transformers/all-MiniLM-L6-v2"
# Sentences of SemEval-2010 Task 8 (LICENSE.txt in the folder).
SENTENCES = Path(__file__).parent / "data" / "demo"
FOLDER = Path("outputs/demo")


def run_demo(train: Callable[[Sequence[str]], None]) -> None:
    """
    Trains a small relation extractor, prints its score and a prediction, and plots its attention.

    Args:
        train (`Callable`): The `main` of `run_re.py`.
    """
    model, picture = FOLDER / "model", FOLDER / "attention.html"
    datasets.disable_progress_bars()
    logging.disable_progress_bar()
    arguments = demo_arguments(FOLDER / "data", model)
    with open(FOLDER / "training.log", "w", encoding="utf-8") as log, contextlib.redirect_stdout(log):
        train(arguments)
    scores = json.loads((model / "all_results.json").read_text(encoding="utf-8"))
    print(f"Score on {scores['test_samples']} test sentences: {scores['test_f1']:.1f} (official macro-F1, of 100).")
    best: Any = pipeline("relation-extraction", model=str(model))(DEMO_SENTENCE)
    print(f"\n{DEMO_SENTENCE}")
    print(f"{best['head']['text']} -- {best['label']} ({best['score']:.0%}) -> {best['tail']['text']}")
    plot(["fused", str(model), "--text", DEMO_SENTENCE, "--output", str(picture)])
    print(f"\nWhat it attends to: {picture}. The model: {model}")


def demo_arguments(data: Path, output: Path) -> list[str]:
    """
    Says what is trained on what: an encoder on 600 real sentences or, where none is at hand, a small one with random
    weights on sentences that are generated.

    Args:
        data (`Path`): The folder for what is generated.
        output (`Path`): The folder for the trained model.

    Returns:
        `list[str]`: Command-line arguments of `run_re.py`.
    """
    data.mkdir(parents=True, exist_ok=True)
    if encoder := _encoder():
        print(f"Fine-tuning {encoder} to find relations, on 448 sentences of SemEval-2010 Task 8 ...", flush=True)
        files = [SENTENCES / "train.txt", SENTENCES / "test.txt"]
        fitting = ["--num_train_epochs", "4", "--per_device_train_batch_size", "16"]
    else:
        print(f"{ENCODER} is not at hand (ENCODER=FOLDER names one).")
        print("Training a small BERT with random weights to find relations, on generated sentences ...", flush=True)
        paths = write_demo(data)
        encoder, files = str(paths.encoder), [paths.train_file, paths.test_file]
        fitting = ["--num_train_epochs", "10", "--per_device_train_batch_size", "32", "--learning_rate", "1e-3"]
    return [
        *("--model_name_or_path", encoder, "--train_file", str(files[0]), "--test_file", str(files[1])),
        *("--head", "multiscale", "--config_overrides", "mask_mode=ste", "fusion_residual=true"),
        *("--output_dir", str(output), "--do_train", "--do_predict", *fitting),
        *("--save_strategy", "no", "--report_to", "none", "--dataloader_pin_memory", "False", "--log_level", "error"),
    ]


def _encoder() -> str | None:
    """The encoder that the environment names, or one of the Hub if that answers."""
    if name := os.environ.get("ENCODER"):
        return name
    try:
        get_session().head(f"{constants.ENDPOINT}/{ENCODER}", timeout=3).raise_for_status()
    except Exception:  # whatever the client of the Hub raises
        return None
    return ENCODER
