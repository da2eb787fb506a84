"""The demonstration of `run_re.py`: a corpus and an encoder made on the spot, trained, reloaded and looked at."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from msattn.data.demo import DEMO_SENTENCE, write_demo

FOLDER = Path("outputs/demo")


def demo_arguments() -> list[str]:
    """Writes the demonstration's files and returns the arguments that `run_re.py` trains with on them."""
    paths = write_demo(FOLDER / "data")
    return [
        *("--model_name_or_path", str(paths.encoder)),
        *("--train_file", str(paths.train_file), "--validation_file", str(paths.validation_file)),
        *("--test_file", str(paths.test_file)),
        *("--head", "multiscale", "--mask_mode", "ste", "--fusion_residual", "True"),
        *("--output_dir", str(FOLDER / "model")),
        *("--do_train", "--do_eval", "--do_predict"),
        *("--num_train_epochs", "10", "--per_device_train_batch_size", "32", "--learning_rate", "1e-3"),
        *("--warmup_steps", "0.1", "--logging_steps", "50", "--save_strategy", "no", "--report_to", "none"),
        *("--log_level", "warning"),
    ]


def show_demo(folder: Path) -> None:
    """Uses the saved model as a stranger would: reloaded in a new process, on a sentence of one's own."""
    code = f"""
from msattn import AutoModelForRelationExtraction
from transformers import pipeline

model = AutoModelForRelationExtraction.from_pretrained({str(folder)!r})
extract = pipeline("relation-extraction", model=model, tokenizer={str(folder)!r})
print({DEMO_SENTENCE!r}, "->", extract({DEMO_SENTENCE!r}))
"""
    subprocess.run([sys.executable, "-c", code], check=True)
    picture = FOLDER / "attention.png"
    for output in (picture, picture.with_suffix(".html")):
        arguments = ["--model", str(folder), "--text", DEMO_SENTENCE, "--output", str(output)]
        subprocess.run([sys.executable, "-m", "msattn.analysis", "fused", *arguments], check=True)
    print(f"The attention of that sentence: {picture} and {picture.with_suffix('.html')}")
