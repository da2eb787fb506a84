"""
What it costs to parse a file, from reading to writing, over the encoder alone on the same batches.

The whole is what `run_parsing.py --do_predict` does once the model is loaded: read, tokenize, predict, score, write.
The encoder alone has fused attention (SDPA) and gets the same batches, ready made. Needs Linux.
"""

from __future__ import annotations

import argparse
import resource
import statistics
from collections.abc import Callable
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
from bench_multiscale import add_measurement_arguments, describe, markdown, take_turns
from datasets import Dataset
from transformers import AutoModel, AutoTokenizer, TrainingArguments

from msattn import PairwiseParser
from msattn.data.inputs.parser_inputs import WINDOW_COLUMNS, encode_treebank
from msattn.data.inputs.parser_windows import ParserCollator, has_root
from msattn.data.treebanks import read_treebank
from msattn.metrics.treebank_scores import score_treebank
from msattn.training.dependency_parsing import conllu_texts
from msattn.training.parsing_trainer import ParsingTrainer
from msattn.trees.parses import sentence_parses


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


def prediction(folder: str, file: Path, device: str) -> tuple[ParsingTrainer, Callable[[], Dataset]]:
    """The Trainer of a saved parser, and what `run_parsing.py --do_predict` does with a file once it is loaded."""
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = PairwiseParser.from_pretrained(folder)
    labels = [model.config.id2label[number] for number in range(model.config.num_labels)]
    args = TrainingArguments(folder, use_cpu=device == "cpu", report_to="none", disable_tqdm=True)
    trainer = ParsingTrainer(model, args, processing_class=tokenizer, data_collator=ParserCollator(tokenizer))

    def predict() -> Dataset:
        treebank = read_treebank(file)
        encoded = encode_treebank(treebank, tokenizer, model.config.label2id, tokenizer.model_max_length)
        windows = encoded.select_columns(WINDOW_COLUMNS).to_list()
        parses = sentence_parses(trainer.predict(encoded).predictions, windows, "mst")
        score_treebank(parses, treebank, labels, {})
        Path(folder, "predictions.conllu").write_bytes("".join(conllu_texts(parses, treebank, labels, {})).encode())
        return encoded

    return trainer, predict


def main() -> None:
    arguments = parse_arguments()
    torch.set_num_threads(arguments.threads)
    with TemporaryDirectory() as folder:
        save_parser(arguments, folder)
        sentences = Path(folder, "sentences.conllu")
        lines = chain.from_iterable(read_treebank(arguments.file)["lines"][: arguments.sentences])
        sentences.write_text("".join(lines), encoding="utf-8", newline="")
        trainer, predict = prediction(folder, sentences, arguments.device)
        encoded = predict()
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        names = [name for name in trainer.processing_class.model_input_names if name in encoded.features]
        inputs = encoded.select_columns(names)
        batches = [trainer.data_collator([inputs[row] for row in rows]) for rows in trainer._batches(encoded)]
        encoder = AutoModel.from_pretrained(arguments.encoder, attn_implementation="sdpa").eval()
        encoder.to(arguments.device, getattr(torch, arguments.dtype))

        @torch.no_grad()
        def encode() -> None:
            for batch in batches:
                encoder(**{name: tensor.to(arguments.device) for name, tensor in batch.items()})

        whole, alone = take_turns([predict, encode], arguments, "turns")
    ratio = statistics.median(a / b for a, b in zip(whole, alone, strict=True))
    seconds = [f"{statistics.median(times):.2f} s" for times in (whole, alone)]
    print(f"{len(set(encoded['sentence']))} sentences in {len(batches)} batches. {describe(arguments)}\n")
    print(
        markdown(
            "whole prediction | encoder alone | ratio | peak of the prediction",
            [[*seconds, f"{ratio:.2f}", f"{peak:.0f} MiB"]],
        )
    )


if __name__ == "__main__":
    main()
