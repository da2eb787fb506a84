"""The command `msattn export`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from transformers.utils import logging

from msattn.command_line import named, parse_arguments
from msattn.errors import UserError
from msattn.loading import load_trained
from msattn.onnx.exporter import export
from msattn.onnx.runtime import MODEL, is_exported


@dataclass
class ExportArguments:
    """Arguments of `msattn export onnx`."""

    model: str = field(metadata={"help": "Checkpoint: a folder, or a name on the Hub."})
    folder: str = field(metadata={"help": "Folder to write: model.onnx, the configuration and the tokenizer."})
    int8: bool = field(
        default=False,
        metadata={"help": "Store and multiply linear layers in 8-bit integers. Score the result before you use it."},
    )


def main(argv: Sequence[str]) -> None:
    """
    Exports a checkpoint and prints how it compares with the original.

    Args:
        argv (`Sequence[str]`): `onnx MODEL FOLDER`, and options.

    Raises:
        UserError: The format is unknown, or the checkpoint cannot be loaded or exported or is exported already.
    """
    form, *rest = argv or ["--help"]
    if form in ("-h", "--help"):
        print("usage: msattn export onnx MODEL FOLDER [--int8]")
        return
    if form != "onnx":
        raise UserError(f"there is no format {form[:80]}; there is onnx.")
    (args,) = parse_arguments([ExportArguments], named(rest, "model", "folder"), "msattn export onnx")
    if is_exported(args.model):
        raise UserError(f"{args.model}: the model is exported already; give the checkpoint that it was exported from.")
    logging.disable_progress_bar()
    trained = load_trained(args.model)
    parity = export(trained.model, trained.tokenizer, args.folder, args.int8)
    size = (Path(args.folder) / MODEL).stat().st_size / 2**20
    print(f"{args.folder}: {size:.1f} MiB in {'8-bit integers' if args.int8 else 'float32'}")
    print(
        f"beside torch, on random tokens: largest difference {parity.difference:.1g} of the largest output"
        + (f", {parity.agreement:.1%} of {parity.answers} answers equal" if parity.answers else "")
    )
