"""
How fast an exported checkpoint is in ONNX Runtime, beside torch: in float32 and in 8-bit integers. If it cannot be
exported, torch alone is measured.

Sentences are random tokens without padding. Decoding, tokenising and batching are not part of the time.
"""

from __future__ import annotations

import argparse
import os
import statistics
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from bench_multiscale import add_measurement_arguments, describe, markdown, take_turns
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from msattn import onnx
from msattn.auto import auto_class_of
from msattn.errors import UserError
from msattn.onnx.exporter import random_inputs
from msattn.training.arguments import ModelArguments
from msattn.training.checkpoints import load_config, load_model, load_tokenizer


def step(model: Any, inputs: dict[str, torch.Tensor]) -> Callable[[], None]:
    def run():
        with torch.inference_mode():
            model(**inputs)

    return run


def load(name: str) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    source = ModelArguments(model_name_or_path=name)
    config = load_config(source)
    tokenizer = load_tokenizer(source, config)
    return load_model(auto_class_of(config, name), source, tokenizer).eval(), tokenizer


def parse_on_cpu(parser: argparse.ArgumentParser) -> argparse.Namespace:
    """Adds the arguments of a measurement, refuses what exported models cannot do, and sets torch's threads."""
    add_measurement_arguments(parser)
    arguments = parser.parse_args()
    if (arguments.device, arguments.dtype) != ("cpu", "float32"):
        parser.error("exported models run on the cpu, from float32")
    torch.set_num_threads(arguments.threads)
    return arguments


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__.strip().splitlines()[0], formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    parser.add_argument("--model", required=True, help="checkpoint that msattn export takes")
    parser.add_argument("--tokens", type=int, nargs="+", default=[32, 128], help="tokens per sentence")
    parser.add_argument("--batch_sizes", type=int, nargs="+", default=[1, 32], help="sentences per batch")
    return parse_on_cpu(parser)


def main() -> None:
    arguments = parse_arguments()
    model, tokenizer = load(arguments.model)
    with TemporaryDirectory() as folder:
        models: list[Any] = [model]
        refused = ""
        try:
            for int8 in (False, True):
                onnx.export(model, tokenizer, Path(folder) / str(int8), int8)
                models.append(onnx.load(Path(folder) / str(int8), arguments.threads))
        except UserError as error:
            models, refused = [model], f" Not exported: {str(error).splitlines()[0]:.120}"
    rows = []
    for tokens in arguments.tokens:
        for batch in arguments.batch_sizes:
            inputs = random_inputs(model, tokenizer, batch, tokens, 1, padded=False)
            times = take_turns([step(each, inputs) for each in models], arguments, f"{batch} of {tokens}")
            gains = [
                statistics.median(first / own for first, own in zip(times[0], each, strict=True)) for each in times[1:]
            ]
            cells = [f"{1000 * statistics.median(each) / batch:.2f} ms" for each in times]
            rows.append([str(tokens), str(batch), *cells, *(f"{gain:.2f}" for gain in gains)])
    print(f"{os.path.basename(arguments.model)}. {describe(arguments)}{refused}\n")
    columns = ["tokens", "batch", "torch, a sentence"]
    columns += ["ONNX float32", "ONNX int8", "float32 times as fast", "int8 times as fast"] if models[1:] else []
    print(markdown(" | ".join(columns), rows))


if __name__ == "__main__":
    main()
