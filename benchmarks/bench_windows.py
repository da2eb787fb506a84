"""
What `attn_implementation="banded"` costs beside `"sdpa"` or FlexAttention, for a model of ModernBERT's layout: time of
a train step and of inference, and memory.

All run in one process and take turns, so that a slow moment of the machine touches each of them; times are compared
turn by turn. Memory is what the steps add to the model's. Needs Linux.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Callable

import torch
from bench_multiscale import add_measurement_arguments, describe, fresh_peak, markdown, resident_peak, take_turns
from transformers import AutoModelForSequenceClassification, ModernBertConfig

import msattn  # noqa: F401  registers "banded"

BASES = ("sdpa", "flex_attention")
TASKS = ("inference", "training")


def make_step(way: str, task: str, tokens: int, arguments: argparse.Namespace) -> Callable[[], None]:
    """A step of texts without padding."""
    rows = max(1, (arguments.batch_tokens or arguments.batch * tokens) // tokens)
    torch.manual_seed(0)
    config = ModernBertConfig(
        vocab_size=1000,
        hidden_size=arguments.hidden_size,
        intermediate_size=3 * arguments.hidden_size // 2,
        num_hidden_layers=arguments.layers,
        num_attention_heads=arguments.heads,
        local_attention=arguments.window,
        global_attn_every_n_layers=arguments.global_every,
        max_position_embeddings=tokens,
        pad_token_id=0,
        **dict.fromkeys(("bos_token_id", "cls_token_id"), 1),
        **dict.fromkeys(("eos_token_id", "sep_token_id"), 2),
        attn_implementation=way,
    )
    with torch.device(arguments.device):  # a GPU draws the weights in less time
        model = AutoModelForSequenceClassification.from_config(config)
    model.to(arguments.device, getattr(torch, arguments.dtype)).train(task == "training")
    batch = {
        "input_ids": torch.randint(5, config.vocab_size, (rows, tokens), device=arguments.device),
        "attention_mask": torch.ones(rows, tokens, dtype=torch.long, device=arguments.device),
        "labels": torch.zeros(rows, dtype=torch.long, device=arguments.device),
    }

    def infer():
        with torch.inference_mode():
            model(**batch)

    def train():
        model(**batch).loss.backward()
        model.zero_grad()

    return train if task == "training" else infer


def peak_bytes(way: str, task: str, tokens: int, arguments: argparse.Namespace) -> int:
    """What two steps add to the peak: what is allocated on a GPU, else the resident memory of the process."""
    torch.set_num_threads(arguments.threads)
    gpu = arguments.device.startswith("cuda")
    step = make_step(way, task, tokens, arguments)
    before = torch.cuda.memory_allocated() if gpu else resident_peak()
    step()
    step()
    return (torch.cuda.max_memory_allocated() if gpu else resident_peak()) - before


def rows_of(task: str, tokens: int, arguments: argparse.Namespace) -> list[list[str]]:
    torch.compiler.reset()  # after so many versions of a function, PyTorch would no longer compile it
    ways = [*arguments.bases, "banded"]
    steps = [make_step(way, task, tokens, arguments) for way in ways]
    seconds = dict(zip(ways, take_turns(steps, arguments, f"{task}, {tokens}: time"), strict=True))
    del steps
    peaks = {way: fresh_peak(peak_bytes, way, task, tokens, arguments) for way in ways}
    times = {way: f"{1000 * statistics.median(seconds[way]):,.2f} ms" for way in ways}
    memory = {way: f"{peaks[way] / 2**20:,.0f} MiB" for way in ways}
    rows = []
    for base in arguments.bases:
        speed = statistics.median(a / b for a, b in zip(seconds[base], seconds["banded"], strict=True))
        share = f"{peaks['banded'] / peaks[base]:.2f}"
        case = [f"{tokens:,}", task, base, times[base], times["banded"], f"{speed:.2f}"]
        rows.append([*case, memory[base], memory["banded"], share])
    return rows


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=" ".join(__doc__.strip().split("\n\n")[0].split()),
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    parser.add_argument("--tokens", type=int, nargs="+", default=[128, 256, 512, 1024, 4096, 8192], help="lengths N")
    parser.add_argument("--tasks", nargs="+", choices=TASKS, default=list(TASKS), help="what to measure")
    parser.add_argument("--bases", nargs="+", choices=BASES, default=["sdpa"], help="what it is compared with")
    parser.add_argument("--layers", type=int, default=6, help="layers")
    parser.add_argument("--hidden-size", type=int, default=384, help="width of the model")
    parser.add_argument("--heads", type=int, default=6, help="heads of a layer")
    parser.add_argument("--window", type=int, default=128, help="tokens in a window, half of them on either side")
    parser.add_argument("--global-every", type=int, default=3, help="every so many layers have no window")
    parser.add_argument("--batch", type=int, default=1, help="texts in a batch")
    parser.add_argument("--batch-tokens", type=int, help="tokens in a batch, in place of --batch")
    add_measurement_arguments(parser)
    return parser.parse_args()


def main() -> None:
    arguments = parse_arguments()
    torch.set_num_threads(arguments.threads)
    print(describe(arguments))
    table = [
        row for tokens in arguments.tokens for task in arguments.tasks for row in rows_of(task, tokens, arguments)
    ]
    print(f"\n{arguments.layers} layers of width {arguments.hidden_size}, {arguments.heads} heads\n")
    print(
        markdown("N | step | base | time of it | banded | speed | memory of the base | memory, banded | share", table)
    )


if __name__ == "__main__":
    main()
