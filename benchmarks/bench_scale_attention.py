"""
What scale-aware attention costs beside attention under a mask, and the Multi-Scale Transformer beside the plain one.

All ways run in one process and take turns, so that a slow moment of the machine touches each of them; times are
compared turn by turn. Masks of the ways that need one are made once, before the clock starts. Needs Linux.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Callable, Sequence
from typing import Any

import torch
from bench_multiscale import add_measurement_arguments, describe, fresh_peak, markdown, resident_peak, take_turns
from torch.nn.functional import scaled_dot_product_attention

from msattn import MSTransformerConfig, MSTransformerForSequenceClassification, scale_aware_attention

WAYS = ("masked SDPA", "masked eager", "scale-aware")
FULL = "SDPA without a window"  # what a mask keeps from the fastest kernels
BIASED = "masked SDPA, bias"  # as a mask of booleans becomes in every call
FLEX = "FlexAttention, compiled"  # torch's own; on a GPU
LOCAL = "local-attention"  # the package of this name, where it is installed
COMPILED, EXPORTED = "scale-aware, compiled", "scale-aware, exported"  # for texts of any length
MODELS: dict[str, dict[str, Any]] = {
    "plain": {"scales": (None,), "position_embeddings": "sinusoidal", "intermediate_size": 1200},
    "plain, no feed-forward part": {"scales": (None,), "position_embeddings": "sinusoidal"},
    "multi-scale": {},
}


def half_width(window: str, tokens: int) -> int:
    return max(1, tokens // int(window[2:])) if window.startswith("N/") else int(window)


def sentences(tokens: int, arguments: argparse.Namespace) -> int:
    return max(1, arguments.batch_tokens // tokens)


def attention_step(way: str, tokens: int, window: str, arguments: argparse.Namespace) -> Callable[[], None]:
    """Forward and, but for `--inference`, backward of the attention of one layer."""
    torch.manual_seed(0)
    shape = (sentences(tokens, arguments), tokens, arguments.heads, arguments.head_dim)
    dtype = getattr(torch, arguments.dtype)
    # As a layer has them: (batch, heads, tokens, head_dim) is a view of the projection's output.
    leaves = [
        torch.randn(shape, device=arguments.device, dtype=dtype, requires_grad=not arguments.inference)
        for _ in range(3)
    ]
    gradient = torch.randn(shape, device=arguments.device, dtype=dtype)
    width = half_width(window, tokens)
    positions = torch.arange(tokens if way.startswith("masked") else 0, device=arguments.device)
    visible = (positions[:, None] - positions).abs() <= width
    if way == BIASED:
        visible = torch.zeros_like(visible, dtype=dtype).masked_fill(~visible, float("-inf"))

    if way == LOCAL:
        from local_attention import LocalAttention

        local = LocalAttention(width, exact_windowsize=True, autopad=True, use_rotary_pos_emb=False)

    if way == FLEX:
        from torch.nn.attention.flex_attention import create_block_mask, flex_attention

        near = create_block_mask(
            lambda batch, head, row, column: (row - column).abs() <= width,
            None,
            None,
            tokens,
            tokens,
            device=arguments.device,
        )
        flex = torch.compile(flex_attention)

    def attend(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
        query, key, value = (states.transpose(1, 2) for states in (query, key, value))
        if way == LOCAL:
            output = local(query, key, value)
        elif way == FLEX:
            output = flex(query, key, value, block_mask=near)
        elif way == FULL:
            output = scaled_dot_product_attention(query, key, value)
        elif way in ("masked SDPA", BIASED):
            output = scaled_dot_product_attention(query, key, value, attn_mask=visible)
        else:
            scores = query @ key.mT * arguments.head_dim**-0.5
            output = scores.masked_fill(~visible, float("-inf")).softmax(-1) @ value
        return output.transpose(1, 2)

    layer = Layer([width] * arguments.heads)
    run: Callable = layer if way.startswith("scale-aware") else attend
    if way == COMPILED:
        run = torch.compile(layer, dynamic=True)
    elif way == EXPORTED:
        any_length = {1: torch.export.Dim("tokens", min=1, max=2**17)}
        run = torch.export.export(layer, tuple(leaves), dynamic_shapes=(any_length,) * 3).module()

    def step():
        run(*leaves).backward(gradient)
        for leaf in leaves:
            leaf.grad = None

    return torch.no_grad()(lambda: run(*leaves)) if arguments.inference else step


class Layer(torch.nn.Module):
    """Scale-aware attention as compilers see it in a model."""

    def __init__(self, windows: list[int]):
        super().__init__()
        self.windows = windows

    def forward(self, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
        query, key, value = (states.transpose(1, 2) for states in (query, key, value))
        return scale_aware_attention(query, key, value, self.windows).transpose(1, 2)


def model_step(name: str, tokens: int, arguments: argparse.Namespace) -> Callable[[], None]:
    """Forward, backward and the optimizer that the Trainer takes, without padding."""
    torch.manual_seed(0)
    config = MSTransformerConfig(vocab_size=10000, attn_implementation="sdpa", **MODELS[name])
    model = MSTransformerForSequenceClassification(config).train()
    model.to(arguments.device, getattr(torch, arguments.dtype))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-6, fused=True)
    shape = (sentences(tokens, arguments), tokens)
    batch = {
        "input_ids": torch.randint(1, config.vocab_size, shape, device=arguments.device),
        "attention_mask": torch.ones(shape, dtype=torch.long, device=arguments.device),
        "labels": torch.zeros(shape[0], dtype=torch.long, device=arguments.device),
    }

    def step():
        model(**batch).loss.backward()
        optimizer.step()
        optimizer.zero_grad()

    return step


def peak_bytes(make: Callable, way: str, *rest: Any) -> int:
    """What two steps add to the peak: what is allocated on a GPU, else the resident memory of the process."""
    arguments = rest[-1]
    torch.set_num_threads(arguments.threads)
    gpu = arguments.device.startswith("cuda")
    before = torch.cuda.memory_allocated() if gpu else resident_peak()
    step = make(way, *rest)
    step()
    step()
    return (torch.cuda.max_memory_allocated() if gpu else resident_peak()) - before


def compare(make: Callable, ways: Sequence[str], arguments: argparse.Namespace, *case: Any) -> list[list[str]]:
    """A row a way: the median time, how often as fast as the first, and the memory that it takes."""
    torch.compiler.reset()  # after so many versions of a function, PyTorch would no longer compile it
    steps = [make(way, *case, arguments) for way in ways]
    seconds = dict(zip(ways, take_turns(steps, arguments, f"{', '.join(map(str, case))}: time"), strict=True))
    del steps
    rows = []
    for way in ways:
        memory = ""
        if not arguments.no_memory:
            memory = f"{fresh_peak(peak_bytes, make, way, *case, arguments) / 2**20:,.0f} MiB"
        speed = statistics.median(plain / time for time, plain in zip(seconds[way], seconds[ways[0]], strict=True))
        milliseconds = f"{1000 * statistics.median(seconds[way]):,.2f} ms"
        rows.append([*map(str, case), way, milliseconds, f"{speed:.2f}", memory])
    return rows


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__.strip().splitlines()[0], formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    parser.add_argument("--tokens", type=int, nargs="*", default=[128, 256, 512, 1024, 2048, 4096], help="lengths N")
    parser.add_argument("--windows", nargs="+", default=["1", "3", "32", "N/16"], help="half-widths of all heads")
    ways = [*WAYS, FULL, BIASED, FLEX, LOCAL, COMPILED, EXPORTED]
    parser.add_argument(
        "--ways", nargs="+", choices=ways, help="default: the first three, on a GPU the next three, too"
    )
    parser.add_argument("--inference", action="store_true", help="attention without its backward pass")
    parser.add_argument("--heads", type=int, default=10, help="heads of the attention")
    parser.add_argument("--head-dim", type=int, default=30, help="width of a head")
    parser.add_argument("--model-tokens", type=int, nargs="*", default=[512, 4096], help="lengths N for whole models")
    parser.add_argument("--batch-tokens", type=int, default=4096, help="tokens in a batch")
    parser.add_argument("--no-memory", action="store_true", help="measure time only")
    add_measurement_arguments(parser)
    return parser.parse_args()


def main() -> None:
    arguments = parse_arguments()
    torch.set_num_threads(arguments.threads)
    print(f"{arguments.batch_tokens:,} tokens a batch. {describe(arguments)}")
    ways = arguments.ways or (*WAYS, *([FULL, BIASED, FLEX] if arguments.device.startswith("cuda") else []))
    table = [
        row
        for tokens in arguments.tokens
        for window in arguments.windows
        for row in compare(attention_step, ways, arguments, tokens, window)
    ]
    if table:
        passes = "forward" if arguments.inference else "forward and backward"
        print(f"\nAttention, {passes}: {arguments.heads} heads of {arguments.head_dim}\n")
        print(markdown("N | w | way | time | speed | memory", table))
    table = [row for tokens in arguments.model_tokens for row in compare(model_step, list(MODELS), arguments, tokens)]
    if table:
        print("\nTrain step of three layers of width 300\n")
        print(markdown("N | model | time | speed | memory", table))


if __name__ == "__main__":
    main()
