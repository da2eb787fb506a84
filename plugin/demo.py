"""The demonstration of `run_re.py`: trains a relation extractor on a generated corpus, reloads and visualizes it."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import datasets
from transformers.utils import logging

from msattn.data.demo_corpus import DEMO_SENTENCE, write_demo
from msattn.plots.command import plot

FOLDER = Path("outputs/demo")
# Runs in a separate process, to show that the saved model works on its own.
USE = """
import msattn
from transformers import pipeline
from transformers.utils import logging

logging.set_verbosity_error()
logging.disable_progress_bar()
extract = pipeline("relation-extraction", model={model!r})
best = extract({sentence!r})
print(f"{{best['head']['text']}} -- {{best['label']}} ({{best['score']:.0%}}) -> {{best['tail']['text']}}")
"""


def run_demo(train: Callable[[Sequence[str]], None]) -> None:
    """
    Trains a small relation extractor, prints its score and a prediction, and plots its attention.

    Args:
        train (`Callable`): The `main` of `run_re.py`.
    """
    model, picture = FOLDER / "model", FOLDER / "attention.png"
    print("Training a small BERT-MS to find the relation between two entities, on generated sentences ...", flush=True)
    datasets.disable_progress_bars()
    logging.disable_progress_bar()
    arguments = demo_arguments(FOLDER / "data", model)
    with open(FOLDER / "training.log", "w", encoding="utf-8") as log, contextlib.redirect_stdout(log):
        train(arguments)
    scores = json.loads((model / "all_results.json").read_text(encoding="utf-8"))
    print(f"Score on {scores['test_samples']} test sentences: {scores['test_f1']:.1f} (official macro-F1, of 100).")
    print(f"\n{DEMO_SENTENCE}", flush=True)
    code = USE.format(model=str(model), sentence=DEMO_SENTENCE)
    subprocess.run([sys.executable, "-c", code], check=True)
    for output in (picture, picture.with_suffix(".html")):
        plot(["fused", str(model), "--text", DEMO_SENTENCE, "--output", str(output)])
    print(f"\nWhat it attends to: {picture}, or {picture.with_suffix('.html')} to explore. The model: {model}")


def demo_arguments(data: Path, output: Path) -> list[str]:
    """
    Writes the corpus and the encoder of the demonstration.

    Args:
        data (`Path`): The folder for corpus and encoder.
        output (`Path`): The folder for the trained model.

    Returns:
        `list[str]`: Command-line arguments of `run_re.py`.
    """
    paths = write_demo(data)
    return [
        *("--model_name_or_path", str(paths.encoder)),
        *("--train_file", str(paths.train_file), "--validation_file", str(paths.validation_file)),
        *("--test_file", str(paths.test_file)),
        *("--head", "multiscale", "--config_overrides", "mask_mode=ste", "fusion_residual=true"),
        *("--output_dir", str(output)),
        *("--do_train", "--do_eval", "--do_predict"),
        *("--num_train_epochs", "10", "--per_device_train_batch_size", "32", "--learning_rate", "1e-3"),
        *("--warmup_steps", "0.1", "--logging_steps", "50", "--save_strategy", "no", "--report_to", "none"),
        *("--dataloader_pin_memory", "False", "--log_level", "error"),
    ]
