"""
What it costs to parse a file, from reading to writing, over the encoder alone on the same batches.

The whole is what `run_parsing.py --do_predict` does once the model is loaded: read, tokenize, predict, score, write.
The encoder alone has fused attention (SDPA) and gets the same batches, ready made. Needs Linux.
"""

from __future__ import annotations

import argparse
import resource
import statistics
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
from bench_multiscale import add_measurement_arguments, describe, markdown, take_turns
from transformers import AutoModel, AutoTokenizer, TrainingArguments

from msattn import PairwiseParser
from msattn.arguments.experiment_arguments import ExperimentArguments
from msattn.command_line import parse_arguments as parse_flags
from msattn.data.inputs.parser_windows import has_root
from msattn.data.treebanks import read_treebank
from msattn.guiding.guiding_arguments import GuidingArguments
from msattn.tasks.dependency_parsing import DependencyParsing, ParsingTrainer
from msattn.tasks.experiment import Experiment


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__.strip().splitlines()[0], formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    parser.add_argument("--file", required=True, help="a treebank")
    parser.add_argument(
        "--encoder", default="sentence-transformers/all-MiniLM-L6-v2", help="below an untrained biaffine parser"
    )
    parser.add_argument("--sentences", type=int, help="sentences to parse, at most; default: all")
    add_measurement_arguments(parser)
    return parser.parse_args()


def save_parser(arguments: argparse.Namespace, folder: str) -> None:
    tokenizer = AutoTokenizer.from_pretrained(arguments.encoder)
    relations = sorted(set(chain.from_iterable(read_treebank(arguments.file)["relations"])))
    torch.manual_seed(0)
    parser = PairwiseParser.from_pretrained(
        arguments.encoder,
        objective="head_select",
        scorer="biaffine",
        id2label=dict(enumerate(relations)),
        label2id={relation: number for number, relation in enumerate(relations)},
        root="token" if has_root(tokenizer) else "learned",
    )
    for part in (parser, tokenizer):
        part.save_pretrained(folder)


def prediction(folder: str, file: Path, device: str) -> tuple[DependencyParsing, ParsingTrainer]:
    """What `run_parsing.py --do_predict` sets up for a saved parser, which is also the output folder, and a file."""
    flags = f"--model_name_or_path {folder} --test_file {file} --do_predict --output_dir {folder} --report_to none"
    flags += " --disable_tqdm true" + (" --use_cpu" if device == "cpu" else "")
    types = (*DependencyParsing.argument_classes, TrainingArguments)
    model_args, data_args, mlm_args, args = parse_flags(types, flags.split())
    task = DependencyParsing(model_args, data_args, mlm_args, args, GuidingArguments())
    return task, Experiment.of(task)._trainer(task.args, ExperimentArguments(), GuidingArguments())


def main() -> None:
    arguments = parse_arguments()
    torch.set_num_threads(arguments.threads)
    with TemporaryDirectory() as folder:
        save_parser(arguments, folder)
        sentences = Path(folder, "sentences.conllu")
        lines = chain.from_iterable(read_treebank(arguments.file)["lines"][: arguments.sentences])
        sentences.write_text("".join(lines), encoding="utf-8", newline="")
        task, trainer = prediction(folder, sentences, arguments.device)

        def predict() -> None:
            encoded = task.load()["test"]
            task.write_predictions("test", trainer.predict(encoded).predictions, Path(folder))

        predict()
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        encoded = task.encoded["test"]
        inputs = encoded.select_columns(
            [name for name in task.tokenizer.model_input_names if name in encoded.features]
        )
        batches = [trainer.data_collator([inputs[row] for row in rows]) for rows in trainer.batches(encoded)]
        encoder = AutoModel.from_pretrained(arguments.encoder, attn_implementation="sdpa").eval()
        encoder.to(arguments.device, getattr(torch, arguments.dtype))

        @torch.no_grad()
        def encode() -> None:
            for batch in batches:
                encoder(**{name: tensor.to(arguments.device) for name, tensor in batch.items()})

        whole, alone = take_turns([predict, encode], arguments, "turns")
    ratio = statistics.median(a / b for a, b in zip(whole, alone, strict=True))
    seconds = [f"{statistics.median(times):.2f} s" for times in (whole, alone)]
    print(f"{len(task.data['test'])} sentences in {len(batches)} batches. {describe(arguments)}\n")
    print(
        markdown(
            "whole prediction | encoder alone | ratio | peak of the prediction",
            [[*seconds, f"{ratio:.2f}", f"{peak:.0f} MiB"]],
        )
    )


if __name__ == "__main__":
    main()
