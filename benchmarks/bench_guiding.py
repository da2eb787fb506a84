"""
What attention guiding adds to a train step: time and memory, beside unguided training and beside guiding by full maps.

"Received" adds MDG and PDG of all heads, "patterns" guides a quarter of the heads to the first token and a quarter to
the next one. The kernel is that of `scaled_dot_product_attention`; "none" are plain operations.

All models run in one process and take turns, so that a slow moment of the machine touches each of them; times are
compared turn by turn with unguided scaled dot-product attention. Needs Linux.
"""

from __future__ import annotations

import argparse
import math
import statistics
from collections.abc import Callable
from functools import partial

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
from tqdm import tqdm
from transformers import BertConfig, BertForSequenceClassification

import msattn
from msattn import GuidingArguments
from msattn.guiding.guiding_loss import guided_passes, guiding_terms, measure_patterns
from msattn.modeling.attention_readings import Reader, read_passes

# What takes part: the attention implementation, and what is added to the task's loss.
WAYS = {
    "unguided, SDPA": ("sdpa", None),
    "unguided, eager": ("eager", None),
    "guided, full maps": ("eager", GuidingArguments(mdg_weight=0.001, pdg_weight=0.001)),
    "guided, received": ("received", GuidingArguments(mdg_weight=0.001, pdg_weight=0.001)),
    "patterns": ("received", GuidingArguments(patterns=["first", "next"], pattern_weight=0.1)),
}
PLAIN = "unguided, SDPA"


def build(arguments: argparse.Namespace) -> tuple[BertForSequenceClassification, torch.optim.Optimizer]:
    """A model in training, and the optimizer that the Trainer takes."""
    torch.manual_seed(0)
    config = BertConfig(
        **SHAPES[arguments.shape],
        max_position_embeddings=max(512, *arguments.tokens),
        attention_probs_dropout_prob=arguments.attention_dropout,
    )
    model = BertForSequenceClassification._from_config(config).to(arguments.device).train()
    return model, torch.optim.AdamW(model.parameters(), lr=1e-6, fused=True)


def random_batch(tokens: int, arguments: argparse.Namespace) -> dict[str, torch.Tensor]:
    """Random sentences; every second one ends in a quarter of padding, as in real batches, unless without padding."""
    torch.manual_seed(0)
    rows = max(1, arguments.batch_tokens // tokens)
    real = torch.ones(rows, tokens, dtype=torch.long)
    if arguments.padding:
        real[1::2, tokens - tokens // 4 :] = 0
    batch = {
        "input_ids": torch.randint(1, BertConfig().vocab_size, (rows, tokens)) * real,
        "attention_mask": real,
        "labels": torch.randint(2, (rows,)),
    }
    return {name: tensor.to(arguments.device) for name, tensor in batch.items()}


def guided_loss(
    model: BertForSequenceClassification, batch: dict[str, torch.Tensor], guiding: GuidingArguments | None
) -> torch.Tensor:
    """The task's loss and what guiding adds to it."""
    if guiding is None:
        return model(**batch).loss
    if model.config._attn_implementation == "eager":
        outputs, mask = model(**batch, output_attentions=True), batch["attention_mask"]
        received = torch.cat([(maps * mask[:, None, :, None]).sum(-2) for maps in outputs.attentions], dim=1)
        return outputs.loss + 0.001 * (msattn.mdg_loss(received, mask) + msattn.pdg_loss(received, mask))
    measure = partial(measure_patterns, guiding=guiding, targets={}) if guiding.patterns else None
    with read_passes(model, Reader(needs_sums=not guiding.patterns, measure=measure)) as readings:
        loss = model(**batch).loss
    terms = guiding_terms(guided_passes(readings, guiding), guiding)
    return loss + sum(guiding.weights[name] * term for name, term in terms.items())


def precision(arguments: argparse.Namespace) -> torch.autocast:
    return torch.autocast(arguments.device, getattr(torch, arguments.dtype), enabled=arguments.dtype != "float32")


def kernel(model: BertForSequenceClassification, way: str, tokens: int, arguments: argparse.Namespace) -> str:
    """The attention kernel that PyTorch runs."""
    model.set_attn_implementation(WAYS[way][0])
    with torch.profiler.profile() as profile, precision(arguments):
        guided_loss(model, random_batch(tokens, arguments), WAYS[way][1])
    names = {
        event.key.removeprefix("aten::_scaled_dot_product_")
        for event in profile.key_averages()
        if event.key.startswith("aten::_scaled_dot_product_")
    }
    return ", ".join(sorted(names)) or "none"


def train_step(
    way: str,
    tokens: int,
    arguments: argparse.Namespace,
    model: BertForSequenceClassification,
    optimizer: torch.optim.Optimizer,
) -> Callable[[], None]:
    """Forward, backward and a step of the optimizer."""
    batch = random_batch(tokens, arguments)

    def step():
        model.set_attn_implementation(WAYS[way][0])
        with precision(arguments):
            loss = guided_loss(model, batch, WAYS[way][1])
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()

    return step


def peak_bytes(way: str, tokens: int, arguments: argparse.Namespace) -> int:
    """Peak of two train steps: what they allocate on a GPU, else the resident memory of the process."""
    torch.set_num_threads(arguments.threads)
    gpu = arguments.device.startswith("cuda")
    before = torch.cuda.memory_allocated() if gpu else 0
    step = train_step(way, tokens, arguments, *build(arguments))
    step()
    step()
    return torch.cuda.max_memory_allocated() - before if gpu else resident_peak()


def compare(arguments: argparse.Namespace) -> list[list[str]]:
    # One model for all ways: of several copies, some lie better in the memory than others.
    model, optimizer = build(arguments)
    ways = [way for way in WAYS if way in (PLAIN, *arguments.variants)]
    rows = []
    for tokens in arguments.tokens:
        steps = [train_step(way, tokens, arguments, model, optimizer) for way in ways]
        seconds = dict(zip(ways, take_turns(steps, arguments, f"N = {tokens}, time"), strict=True))
        kernels = {way: kernel(model, way, tokens, arguments) for way in ways}
        del steps
        peaks = dict.fromkeys(ways, math.nan)
        for way in tqdm(ways if arguments.memory else (), desc=f"N = {tokens}, memory", leave=False):
            peaks[way] = fresh_peak(peak_bytes, way, tokens, arguments)
        for way in ways:
            ratios = [time / plain for time, plain in zip(seconds[way], seconds[PLAIN], strict=True)]
            rows.append(
                [
                    str(tokens),
                    way,
                    kernels[way],
                    f"{1000 * statistics.median(seconds[way]):,.2f} ms",
                    f"{statistics.median(ratios):.3f}",
                    f"{peaks[way] / 2**20:,.0f} MiB" if arguments.memory else "-",
                    f"{peaks[way] / peaks[PLAIN]:.3f}" if arguments.memory else "-",
                ]
            )
    return rows


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__.strip().splitlines()[0], formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    parser.add_argument("--shape", choices=SHAPES, default="bert-base", help="shape of the encoder")
    parser.add_argument("--tokens", type=int, nargs="+", default=[128, 256, 512, 1024], help="sentence lengths N")
    parser.add_argument("--batch-tokens", type=int, default=1024, help="tokens in a batch, padding included")
    parser.add_argument("--attention-dropout", "--dropout", type=float, default=0.1, help="dropout of the attention")
    parser.add_argument("--variants", nargs="+", choices=WAYS, default=list(WAYS), help="beside unguided SDPA")
    parser.add_argument("--padding", action=argparse.BooleanOptionalAction, default=True, help="pad every second text")
    parser.add_argument("--memory", action=argparse.BooleanOptionalAction, default=True, help="measure the peak, too")
    add_measurement_arguments(parser)
    return parser.parse_args()


def main() -> None:
    arguments = parse_arguments()
    torch.set_num_threads(arguments.threads)
    rows = compare(arguments)
    print(f"{arguments.shape}, {arguments.batch_tokens} tokens a batch. {describe(arguments)}\n")
    print(markdown("N | variant | kernel | train step | time ratio | peak memory | memory ratio", rows))


if __name__ == "__main__":
    main()
