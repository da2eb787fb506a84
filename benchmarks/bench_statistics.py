"""
What statistics of attention add to a forward pass: time and memory, beside a plain pass and beside full maps.

Each variant runs in a process of its own, whose memory is measured before the model and at its peak; times are taken
in one process, in turns. Needs Linux.
"""

from __future__ import annotations

import argparse
import math
import statistics
from collections.abc import Callable

import torch
from bench_multiscale import (
    SHAPES,
    add_measurement_arguments,
    describe,
    fresh_peak,
    markdown,
    resident_peak,
    take_turns,
)
from transformers import BertConfig, BertModel

from msattn import read_attention

FIVE = ("received", "entropy", "distance", "peak", "square")
# What is read from every layer; of full maps, the entropy only.
WAYS: dict[str, tuple[str, tuple[str, ...]]] = {
    "plain": ("sdpa", ()),
    "column sums": ("sdpa", ("received",)),
    "five statistics": ("sdpa", FIVE),
    "entropy of full maps": ("eager", ()),
}


def build(arguments: argparse.Namespace) -> BertModel:
    torch.manual_seed(0)
    config = BertConfig(**SHAPES[arguments.shape], max_position_embeddings=max(arguments.tokens))
    return BertModel(config).to(arguments.device, getattr(torch, arguments.dtype)).eval()


def forward(way: str, tokens: int, model: BertModel, arguments: argparse.Namespace) -> Callable[[], None]:
    torch.manual_seed(0)
    input_ids = torch.randint(1, BertConfig().vocab_size, (1, tokens)).to(arguments.device)
    implementation, names = WAYS[way]

    @torch.inference_mode()
    def step():
        model.set_attn_implementation(implementation)
        if implementation == "eager":
            for maps in model(input_ids, output_attentions=True).attentions:
                torch.special.entr(maps).sum(-1)
        elif names:
            with read_attention(model, names):
                model(input_ids)
        else:
            model(input_ids)

    return step


def memory(way: str, tokens: int, arguments: argparse.Namespace) -> tuple[int, int]:
    """Bytes at the start, and the peak of a pass: allocated on a GPU, else resident memory of the process."""
    torch.set_num_threads(arguments.threads)
    gpu = arguments.device.startswith("cuda")
    before = torch.cuda.memory_allocated() if gpu else 0
    start = 0 if gpu else resident_peak()
    forward(way, tokens, build(arguments), arguments)()
    return start, torch.cuda.max_memory_allocated() - before if gpu else resident_peak()


def compare(arguments: argparse.Namespace) -> list[list[str]]:
    model = build(arguments)
    rows = []
    for tokens in arguments.tokens:
        ways = [way for way in WAYS if way != "entropy of full maps" or tokens <= arguments.most_full]
        steps = [forward(way, tokens, model, arguments) for way in ways]
        seconds = dict(zip(ways, take_turns(steps, arguments, f"N = {tokens}, time"), strict=True))
        peaks, above = dict.fromkeys(ways, math.nan), dict.fromkeys(ways, math.nan)
        for way in ways:
            start, peaks[way] = fresh_peak(memory, way, tokens, arguments)
            above[way] = peaks[way] - start
        for way in ways:
            ratios = [time / plain for time, plain in zip(seconds[way], seconds["plain"], strict=True)]
            rows.append(
                [
                    str(tokens),
                    way,
                    f"{1000 * statistics.median(seconds[way]):,.2f} ms",
                    f"{statistics.median(ratios):.2f}",
                    f"{peaks[way] / 2**20:,.0f} MiB",
                    f"{peaks[way] / peaks['plain']:.2f}",
                    f"{above[way] / above['plain']:.2f}",
                ]
            )
    return rows


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__.strip().splitlines()[0], formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    parser.add_argument("--shape", choices=SHAPES, default="minilm", help="shape of the encoder")
    parser.add_argument("--tokens", type=int, nargs="+", default=[512, 2048, 8192], help="text lengths N")
    parser.add_argument("--most-full", type=int, default=2048, help="longest text whose full maps are computed")
    add_measurement_arguments(parser)
    return parser.parse_args()


def main() -> None:
    arguments = parse_arguments()
    torch.set_num_threads(arguments.threads)
    rows = compare(arguments)
    print(f"{arguments.shape}, one text. {describe(arguments)}\n")
    print(markdown("N | what is read | forward pass | time ratio | peak memory | ratio | ratio above the start", rows))


if __name__ == "__main__":
    main()
