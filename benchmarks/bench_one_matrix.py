"""
Windows on a GPU, as one masked matrix of all heads and as bands or groups of heads: what `SHORT_ON_GPU` chooses.

Time and memory, forward and backward, with 12 heads of width 64, with and without padding.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Callable

import torch
from bench_multiscale import add_measurement_arguments, describe, fresh_peak, markdown, take_turns

from msattn import scale_aware_attention
from msattn.modeling import attention_bands

HEADS, WIDTH = 12, 64
CASES = ["32", "32, padding", "1, 3, 32, none", "1, 3, 32, none, padding", "1, 3, n/16, n/8, padding"]
WAYS = {"one matrix": 10**9, "bands or groups": 0}


def step_of(way: str, case: str, tokens: int, arguments: argparse.Namespace) -> Callable[[], None]:
    """Attention and its gradients. The windows of n/16 and n/8 are those of each sentence."""
    torch.manual_seed(0)
    sentences, device = max(1, arguments.batch_tokens // tokens), arguments.device
    shape, dtype = (sentences, HEADS, tokens, WIDTH), getattr(torch, arguments.dtype)
    query, key, value, up = (torch.randn(shape, device=device, dtype=dtype) for _ in range(4))
    lengths = torch.randint(tokens // 2, tokens + 1, (sentences,), device=device)
    real = (torch.arange(tokens, device=device) < lengths[:, None]).long() if case.endswith("padding") else None
    windows: list[int | None] | torch.Tensor = [32] * HEADS
    if case.startswith("1, 3, 32"):
        windows = [width for width in (1, 3, 32, None) for _ in range(HEADS // 4)]
    elif case.startswith("1, 3, n"):
        each = (torch.ones_like(lengths), torch.full_like(lengths, 3), lengths // 16, lengths // 8)
        windows = torch.stack(each, dim=1).repeat_interleave(HEADS // 4, dim=1)

    def step() -> None:
        attention_bands.SHORT_ON_GPU = WAYS[way]
        q, k, v = (one.detach().requires_grad_() for one in (query, key, value))
        scale_aware_attention(q, k, v, windows, real).backward(up)

    return step


def peak_bytes(way: str, case: str, tokens: int, arguments: argparse.Namespace) -> int:
    """What two steps add to the allocated memory."""
    step = step_of(way, case, tokens, arguments)
    before = torch.cuda.memory_allocated()
    step()
    step()
    return torch.cuda.max_memory_allocated() - before


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__.strip().splitlines()[0], formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    parser.add_argument("--tokens", type=int, nargs="+", default=[256, 512, 1024, 2048, 4096], help="lengths of texts")
    parser.add_argument("--batch-tokens", type=int, default=32768, help="tokens in a batch")
    add_measurement_arguments(parser)
    parser.set_defaults(dtype="bfloat16", repeats=5, steps=5)
    arguments = parser.parse_args()
    print(f"{arguments.batch_tokens:,} tokens in a batch. {describe(arguments)}\n")
    rows = []
    for tokens in arguments.tokens:
        for case in CASES:
            times = take_turns([step_of(way, case, tokens, arguments) for way in WAYS], arguments, f"{tokens}, {case}")
            for way, seconds in zip(WAYS, times, strict=True):
                memory = ""
                if arguments.device.startswith("cuda"):
                    memory = f"{fresh_peak(peak_bytes, way, case, tokens, arguments) / 2**20:,.0f} MiB"
                rows.append([str(tokens), case, way, f"{1000 * statistics.median(seconds):.2f} ms", memory])
    print(markdown("tokens | windows | way | time | memory", rows))


if __name__ == "__main__":
    main()
