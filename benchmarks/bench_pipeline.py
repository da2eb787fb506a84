"""
How fast the relation extraction pipeline is, for several batch sizes, beside the model alone.

The model alone gets the same sentences tokenised, sorted by length and padded: what is above that is the pipeline's.
"""

from __future__ import annotations

import argparse
import os
import statistics
from collections.abc import Callable
from tempfile import TemporaryDirectory

import torch
from bench_multiscale import SHAPES, add_measurement_arguments, describe, markdown, take_turns
from transformers import AutoTokenizer, pipeline

from msattn import (
    AutoModelForRelationExtraction,
    BertForMultiScaleRE,
    MultiScaleBertConfig,
    RelationExtractionPipeline,
)
from msattn.data.demo_corpus import write_demo
from msattn.data.inputs.entity_markers import add_entity_markers, encode_relations
from msattn.data.relations import read_relations


def load(arguments: argparse.Namespace) -> tuple[RelationExtractionPipeline, list[dict]]:
    """A pipeline, untrained unless there is a checkpoint, and the inputs for it."""
    dtype = getattr(torch, arguments.dtype)
    with TemporaryDirectory() as folder:
        demo = write_demo(folder)
        if arguments.model is None:
            tokenizer = AutoTokenizer.from_pretrained(demo.encoder)
            add_entity_markers(tokenizer)
            model = BertForMultiScaleRE(MultiScaleBertConfig(vocab_size=len(tokenizer), **SHAPES[arguments.shape]))
        else:
            tokenizer = AutoTokenizer.from_pretrained(arguments.model)
            model = AutoModelForRelationExtraction.from_pretrained(arguments.model)
        rows = read_relations(arguments.file or demo.train_file)
        rows = rows.select(range(min(arguments.sentences, len(rows)))).to_list()
    model = model.to(arguments.device, dtype).eval()
    inputs = [{name: row[name] for name in ("text", "head", "tail")} for row in rows]
    return pipeline("relation-extraction", model=model, tokenizer=tokenizer, device=arguments.device), inputs


def model_alone(extract: RelationExtractionPipeline, inputs: list[dict], batch_size: int) -> Callable[[], None]:
    texts, heads, tails = ([row[name] for row in inputs] for name in ("text", "head", "tail"))
    encoded = encode_relations(extract.tokenizer, texts, heads, tails)
    rows = [dict(zip(encoded, values, strict=True)) for values in zip(*encoded.values(), strict=True)]
    rows = sorted((row for row in rows if row["input_ids"]), key=lambda row: len(row["input_ids"]))
    batches = []
    for start in range(0, len(rows), batch_size):
        batch = extract.tokenizer.pad(rows[start : start + batch_size], return_tensors="pt")
        batches.append(batch.to(extract.device))

    def run():
        with torch.inference_mode():
            for batch in batches:
                extract.model(**batch)

    return run


def pipelined(extract: RelationExtractionPipeline, inputs: list[dict], batch_size: int) -> Callable[[], None]:
    def run():
        extract(inputs, batch_size=batch_size)

    return run


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__.strip().splitlines()[0], formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    parser.add_argument("--model", help="checkpoint of run_re.py; an untrained model of --shape if not given")
    parser.add_argument("--shape", choices=SHAPES, default="minilm", help="shape of the untrained encoder")
    parser.add_argument("--file", help="relations, as run_re.py reads them; a generated corpus if not given")
    parser.add_argument("--sentences", type=int, default=300, help="how many of them")
    parser.add_argument("--batch_sizes", type=int, nargs="+", default=[1, 8, 32], help="batch sizes to compare")
    add_measurement_arguments(parser)
    return parser.parse_args()


def main() -> None:
    arguments = parse_arguments()
    torch.set_num_threads(arguments.threads)
    extract, inputs = load(arguments)
    sizes = arguments.batch_sizes
    steps = [make(extract, inputs, size) for size in sizes for make in (model_alone, pipelined)]
    times = take_turns(steps, arguments, "turns")
    rows = []
    for i, size in enumerate(sizes):
        alone, whole = times[2 * i : 2 * i + 2]
        gain = statistics.median(first / own for first, own in zip(times[1], whole, strict=True))
        share = statistics.median(model / own for model, own in zip(alone, whole, strict=True))
        rows.append([str(size), f"{len(inputs) / statistics.median(whole):,.0f}", f"{gain:.2f}", f"{share:.0%}"])
    model = os.path.basename(arguments.model) if arguments.model else arguments.shape
    print(f"{model}, {len(inputs)} sentences. {describe(arguments)}\n")
    print(
        markdown(
            f"batch size | sentences a second | speed over batch size {sizes[0]} | model's share of the time", rows
        )
    )


if __name__ == "__main__":
    main()
