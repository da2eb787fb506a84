"""
What it costs to parse, over the encoder alone: a file, words with the pipeline, and one by one.

For a file it is what `run_parsing.py --do_predict` does once the model is loaded: read, tokenize, predict, score,
write. The encoder alone has fused attention (SDPA). It gets ready-made batches of the file, also for the pipeline,
whose batches of 32 sentences are others, or single sentences. Needs Linux.
"""

from __future__ import annotations

import argparse
import resource
import statistics
from collections.abc import Callable
from functools import partial
from itertools import chain
from pathlib import Path
from shutil import copytree
from tempfile import TemporaryDirectory

import torch
from bench_multiscale import add_measurement_arguments, describe, markdown, take_turns
from datasets import Dataset
from transformers import AutoModel, AutoTokenizer, TrainingArguments, pipeline

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
    parser.add_argument("--parser", help="a trained parser on that encoder, in place of the untrained one")
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


def prediction(
    folder: str, file: Path, device: str, dtype: torch.dtype
) -> tuple[ParsingTrainer, Callable[[], Dataset]]:
    """The Trainer of a saved parser, and what `run_parsing.py --do_predict` does with a file once it is loaded."""
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = PairwiseParser.from_pretrained(folder, dtype=dtype)
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
    dtype = getattr(torch, arguments.dtype)
    with TemporaryDirectory() as folder:
        if arguments.parser is None:
            save_parser(arguments, folder)
        else:
            copytree(arguments.parser, folder, dirs_exist_ok=True)
        sentences = Path(folder, "sentences.conllu")
        lines = chain.from_iterable(read_treebank(arguments.file)["lines"][: arguments.sentences])
        sentences.write_text("".join(lines), encoding="utf-8", newline="")
        trainer, predict = prediction(folder, sentences, arguments.device, dtype)
        encoded = predict()
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        names = [name for name in trainer.processing_class.model_input_names if name in encoded.features]
        inputs = encoded.select_columns(names)
        batches = [trainer.data_collator([inputs[row] for row in rows]) for rows in trainer._batches(encoded)]
        encoder = AutoModel.from_pretrained(arguments.encoder, attn_implementation="sdpa").eval()
        encoder.to(arguments.device, dtype)

        singles = [trainer.data_collator([row]) for row in inputs]
        parse = pipeline("dependency-parsing", model=folder, device=arguments.device, dtype=dtype)
        words = [{"words": sentence} for sentence in read_treebank(sentences)["words"]]
        parse.tokenizer.model_max_length = trainer.processing_class.model_max_length

        @torch.no_grad()
        def encode(given: list) -> None:
            for batch in given:
                encoder(**{name: tensor.to(arguments.device) for name, tensor in batch.items()})

        ways = [
            (predict, batches),
            (lambda: parse(words, batch_size=32), batches),
            (lambda: [parse(sentence) for sentence in words], singles),
        ]
        functions = [run for way, given in ways for run in (way, partial(encode, given))]
        times = take_turns(functions, arguments, "turns")
    rows = []
    for name, whole, alone in zip(("file", "pipeline", "one by one"), times[::2], times[1::2], strict=True):
        ratio = statistics.median(a / b for a, b in zip(whole, alone, strict=True))
        rows.append([name, *(f"{statistics.median(each):.2f} s" for each in (whole, alone)), f"{ratio:.2f}"])
    print(f"{len(words)} sentences in {len(batches)} batches, {peak:.0f} MiB of RAM for it. {describe(arguments)}\n")
    print(markdown("| parsing | encoder alone | ratio", rows))


if __name__ == "__main__":
    main()
