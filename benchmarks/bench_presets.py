"""
What the presets of the Multi-Scale Transformer cost beside a BiLSTM: a train step, and one text without gradients.

All models run in one process and take turns, so that a slow moment of the machine touches each of them.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Callable

import torch
from bench_multiscale import add_measurement_arguments, describe, markdown, take_turns
from transformers import PreTrainedModel

from msattn import (
    BiLSTMConfig,
    BiLSTMForSequenceClassification,
    MSTransformerConfig,
    MSTransformerForSequenceClassification,
)
from msattn.training.from_scratch import PRESETS

# Frozen vectors, as of an encoder: with so many of them, their optimizer would drown the rest.
VECTORS = {"vocab_size": 30522, "embedding_size": 384}
MODELS = [*PRESETS, "BiLSTM, width 100", "BiLSTM, width 300"]


def build(name: str, arguments: argparse.Namespace) -> PreTrainedModel:
    torch.manual_seed(0)
    if name in PRESETS:
        model = MSTransformerForSequenceClassification(MSTransformerConfig(**VECTORS, **PRESETS[name]))
    else:
        model = BiLSTMForSequenceClassification(BiLSTMConfig(**VECTORS, hidden_size=int(name.split()[-1])))
    model.get_input_embeddings().requires_grad_(False)
    return model.to(arguments.device, getattr(torch, arguments.dtype))


def train_step(name: str, tokens: int, arguments: argparse.Namespace) -> Callable[[], None]:
    """Forward, backward and the optimizer that the Trainer takes, without padding."""
    model = build(name, arguments).train()
    weights = [weight for weight in model.parameters() if weight.requires_grad]
    optimizer = torch.optim.AdamW(weights, lr=1e-6, fused=True)
    shape = (max(1, arguments.batch_tokens // tokens), tokens)
    ids = torch.randint(1, VECTORS["vocab_size"], shape, device=arguments.device)
    labels = torch.zeros(shape[0], dtype=torch.long, device=arguments.device)

    def step() -> None:
        model(ids, labels=labels).loss.backward()
        optimizer.step()
        optimizer.zero_grad()

    return step


def classification(name: str, tokens: int, arguments: argparse.Namespace) -> Callable[[], object]:
    """One text, without gradients."""
    model = build(name, arguments).eval()
    ids = torch.randint(1, VECTORS["vocab_size"], (1, tokens), device=arguments.device)
    return torch.inference_mode()(lambda: model(ids))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__.strip().splitlines()[0], formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    parser.add_argument("--models", nargs="+", choices=MODELS, default=MODELS)
    parser.add_argument("--tokens", type=int, nargs="*", default=[128, 512, 2048, 16384], help="lengths of the texts")
    parser.add_argument("--train-tokens", type=int, nargs="*", default=[512, 2048], help="lengths in training")
    parser.add_argument("--batch-tokens", type=int, default=8192, help="tokens in a batch of training")
    add_measurement_arguments(parser)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    print(f"{arguments.batch_tokens:,} tokens in a batch of training. {describe(arguments)}\n")
    cases = [(classification, tokens, f"one text of {tokens:,}") for tokens in arguments.tokens]
    cases += [(train_step, tokens, f"train step, {tokens:,}") for tokens in arguments.train_tokens]
    rows = [[name] for name in arguments.models]
    for make, tokens, label in cases:
        steps = [make(name, tokens, arguments) for name in arguments.models]
        for row, seconds in zip(rows, take_turns(steps, arguments, label), strict=True):
            row.append(f"{1000 * statistics.median(seconds):,.0f} ms")
    print(markdown(" | ".join(["model", *(label for _, _, label in cases)]), rows))


if __name__ == "__main__":
    main()
