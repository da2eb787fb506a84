"""
What one long line costs a parser among short sentences: the time of both over the sum of each alone.

The long line is some sentences of the treebank in a row, as one sentence that is read in windows, and as one text. The
pipeline parses them.
"""

from __future__ import annotations

import argparse
import statistics

import torch
from bench_multiscale import SHAPES, add_measurement_arguments, describe, markdown, take_turns
from transformers import AutoTokenizer, pipeline

from msattn import BertPairwiseConfig, BertPairwiseParser
from msattn.data.treebanks import read_treebank


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__.strip().splitlines()[0], formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    parser.add_argument("--file", required=True, help="a treebank")
    parser.add_argument("--tokenizer", default="sentence-transformers/all-MiniLM-L6-v2")
    parser.add_argument("--shape", choices=SHAPES, default="minilm", help="shape of the untrained encoder")
    parser.add_argument("--short", type=int, default=320, help="short sentences")
    parser.add_argument("--most", type=int, default=25, help="words of a short sentence, at most")
    parser.add_argument("--long", type=int, default=60, help="sentences of the long line")
    parser.add_argument("--batch_size", type=int, default=32)
    add_measurement_arguments(parser)
    return parser.parse_args()


def main() -> None:
    arguments = parse_arguments()
    torch.set_num_threads(arguments.threads)
    tokenizer = AutoTokenizer.from_pretrained(arguments.tokenizer)
    config = BertPairwiseConfig(vocab_size=len(tokenizer), objective="head_select", **SHAPES[arguments.shape])
    model = BertPairwiseParser(config).to(arguments.device, getattr(torch, arguments.dtype)).eval()
    parse = pipeline("dependency-parsing", model=model, tokenizer=tokenizer, device=arguments.device)
    sentences = read_treebank(arguments.file)["words"][:]
    short = [words for words in sentences if len(words) <= arguments.most][: arguments.short]
    words = [word for sentence in sentences[-arguments.long :] for word in sentence]

    def by_pipeline(lines: list) -> None:
        parse(lines, batch_size=arguments.batch_size)

    inputs = {
        "one sentence, in windows": (words, by_pipeline),
        "a text": (" ".join(words), by_pipeline),
    }
    rows = []
    for name, (line, step) in inputs.items():
        steps = [lambda lines=lines, step=step: step(lines) for lines in (short, [line], [*short, line])]
        alone, long, both = take_turns(steps, arguments, "turns")
        ratio = statistics.median(b / (s + o) for s, o, b in zip(alone, long, both, strict=True))
        medians = [f"{statistics.median(seconds):.2f} s" for seconds in (alone, long, both)]
        rows.append([name, *medians, f"{ratio:.2f}"])
    print(f"{arguments.shape}, {len(short)} short sentences and {len(words)} words. {describe(arguments)}\n")
    print(markdown("the long line | short alone | long alone | both | both over the sum", rows))


if __name__ == "__main__":
    main()
