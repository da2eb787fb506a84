"""
The effective-scale task: can a model combine the two vectors of a pair that are far apart?

A sample has vectors a_1 ... a_N of numbers from U(0, 1) and the target y = Σ_{i≤K} a_i ⊙ a_{N-i+1} ("Multi-Scale
Self-Attention for Text Classification", AAAI 2020). The best constant, K/4, has a mean squared error of 7K/144. The
best sum of functions of single vectors, Σ (a_i + a_{N-i+1}) / 2 - K/4, has K/144: a model with less has found pairs.

Each model is trained on each K. Finished runs are in `effective_scale.json` and are not repeated.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Sequence
from itertools import cycle
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import torch
from datasets.utils import tqdm
from transformers import get_cosine_schedule_with_warmup, set_seed

from msattn import MSTransformerConfig, MSTransformerForSequenceClassification
from msattn.plots.style import COLORS, MARKERS, MUTED, drawing, markdown_table, tidy

# The models of the authors' slides, and a plain Transformer. All other hyperparameters are equal.
MODELS: dict[str, dict[str, Any]] = {
    "Hier-S": {"num_hidden_layers": 2, "scales": [3]},
    "deepHier-S": {"num_hidden_layers": 6, "scales": [3]},
    "Flex": {"num_hidden_layers": 2, "scales": [3, "N/16", "N/8", "N/4", "N/2"], "alpha": 0.0},
    "Transformer": {"num_hidden_layers": 2, "scales": [None]},
}
TOKENS, SIZE, HIDDEN_SIZE, HEADS = 32, 4, 40, 10
BATCH, LEARNING_RATE, WARMUP = 64, 1e-2, 0.05
# Input of the classification token, outside the range of the task's vectors.
CLS_VALUE = -1.0
# Mean squared error per K of the best constant, and of the best sum of functions of single vectors.
ANCHORS = {"a constant: 7K/144": 7 / 144, "sums without pairs: K/144": 1 / 144}


def mirrored_pairs(samples: int, pairs: int, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Vectors `(samples, N, d)`, which do not depend on K, and targets `(samples, d)`."""
    vectors = torch.rand(samples, TOKENS, SIZE, generator=torch.Generator().manual_seed(seed))
    return vectors, (vectors[:, :pairs] * vectors.flip(1)[:, :pairs]).sum(dim=1)


def build_model(name: str) -> MSTransformerForSequenceClassification:
    """A fresh model that predicts d numbers."""
    config = MSTransformerConfig(
        vocab_size=1,
        embedding_size=SIZE,
        hidden_size=HIDDEN_SIZE,
        num_attention_heads=HEADS,
        # Without positions, mirrored pairs are hard to find.
        position_embeddings="learned",
        max_position_embeddings=TOKENS + 1,
        hidden_dropout_prob=0.0,
        # With the small default, training stays long at the best constant.
        initializer_range=HIDDEN_SIZE**-0.5,
        num_labels=SIZE,
        problem_type="regression",
        **MODELS[name],
    )
    return MSTransformerForSequenceClassification(config)


def with_cls(vectors: torch.Tensor) -> torch.Tensor:
    """Prepends the vector of the classification token: `(batch, N, d)` to `(batch, 1 + N, d)`."""
    return torch.nn.functional.pad(vectors, (0, 0, 1, 0), value=CLS_VALUE)


def run_point(name: str, pairs: int, seed: int, samples: int, test_samples: int, epochs: float) -> dict[str, Any]:
    """Trains and tests one model. The seed is that of the weights and the order; the samples are fixed."""
    set_seed(seed)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = build_model(name).to(device)
    vectors, targets = mirrored_pairs(samples, pairs, seed=0)
    # Standardized targets, so that one learning rate suits every K.
    variance = 7 * pairs / 144
    targets = (targets - pairs / 4) / variance**0.5
    optimizer = torch.optim.AdamW(model.parameters(), LEARNING_RATE, weight_decay=0.01)
    steps = max(1, round(epochs * samples / BATCH))
    schedule = get_cosine_schedule_with_warmup(optimizer, round(WARMUP * steps), steps)
    start = time.perf_counter()
    order = torch.empty(0, dtype=torch.long)
    for _ in tqdm(range(steps), desc=f"{name}, K = {pairs}"):
        if len(order) < BATCH:
            order = torch.cat([order, torch.randperm(samples)])
        rows, order = order[:BATCH], order[BATCH:]
        loss = model(inputs_embeds=with_cls(vectors[rows]).to(device), labels=targets[rows].to(device)).loss
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
    minutes = (time.perf_counter() - start) / 60

    vectors, targets = mirrored_pairs(test_samples, pairs, seed=1)
    model.eval()
    with torch.no_grad():
        found = [model(inputs_embeds=with_cls(part).to(device)).logits.cpu() for part in vectors.split(1024)]
    error = (torch.cat(found) * variance**0.5 + pairs / 4 - targets).square().mean().item()
    return {"model": name, "pairs": pairs, "seed": seed, "mse": error, "minutes": minutes}


def curves(points: Sequence[dict[str, Any]]) -> dict[str, dict[int, list[float]]]:
    """The errors of all seeds by model and number of pairs."""
    found: dict[str, dict[int, list[float]]] = {}
    for point in points:
        found.setdefault(point["model"], {}).setdefault(point["pairs"], []).append(point["mse"])
    return found


def table(points: Sequence[dict[str, Any]]) -> str:
    """Mean squared errors, a row a number of pairs; what is below K/144 is bold."""
    rows = []
    for pairs in sorted({point["pairs"] for point in points}):
        row = [pairs, *(f"{pairs * factor:.4f}" for factor in ANCHORS.values())]
        for errors in curves(points).values():
            found = errors.get(pairs, [])
            cell = f"{fmean(found):.4f}" if found else "–"
            cell = f"**{cell}**" if found and fmean(found) < pairs / 144 else cell
            row.append(cell + (f" ± {stdev(found):.4f}" if len(found) > 1 else ""))
        rows.append(row)
    return markdown_table(["K", "7K/144", "K/144", *curves(points)], rows)


def plot(points: Sequence[dict[str, Any]], path: Path) -> None:
    from matplotlib.ticker import NullFormatter, NullLocator

    every = sorted({point["pairs"] for point in points})
    with drawing(path, (6.4, 4.4)) as figure:
        axes = figure.add_subplot()
        for (label, factor), style in zip(ANCHORS.items(), ("--", ":"), strict=True):
            axes.plot(every, [factor * pairs for pairs in every], color=MUTED, linestyle=style, label=label, zorder=1)
        for (name, errors), color, marker in zip(curves(points).items(), cycle(COLORS), cycle(MARKERS), strict=False):
            pairs = sorted(errors)
            spread = [stdev(errors[number]) if len(errors[number]) > 1 else 0.0 for number in pairs]
            means = [fmean(errors[number]) for number in pairs]
            axes.errorbar(pairs, means, spread, color=color, marker=marker, markersize=5, capsize=3, label=name)
        axes.set_xscale("log", base=2)
        axes.set_yscale("log")
        axes.set_xticks(every, list(map(str, every)))
        axes.xaxis.set_minor_locator(NullLocator())
        axes.yaxis.set_major_formatter("{x:g}")  # the default formatter writes powers of ten as formulas
        axes.yaxis.set_minor_formatter(NullFormatter())
        tidy(axes, "pairs K", "mean squared error (held-out samples)")
        figure.legend(loc="outside upper left", ncols=3, frameon=False)


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.strip().splitlines()[0])
    parser.add_argument("--output_dir", type=Path, required=True, help="folder of the numbers, table and picture")
    parser.add_argument("--model", nargs="+", choices=MODELS, default=list(MODELS))
    parser.add_argument("--pairs", type=int, nargs="+", choices=range(1, 17), default=[4, 8, 16], metavar="K")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1])
    parser.add_argument("--samples", type=int, default=200_000, help="training samples, the same for all runs")
    parser.add_argument("--test_samples", type=int, default=10_000)
    parser.add_argument("--epochs", type=float, default=2.0)
    args = parser.parse_args(argv)
    args.output_dir.mkdir(parents=True, exist_ok=True)
    path = args.output_dir / "effective_scale.json"
    sizes = {name: getattr(args, name) for name in ("samples", "test_samples", "epochs")}
    content = json.loads(path.read_text()) if path.exists() else {"settings": sizes, "points": []}
    if content["settings"] != sizes:
        parser.error(f"{path} holds runs with {content['settings']}: take another --output_dir")
    points = content["points"]
    done = {(point["model"], point["pairs"], point["seed"]) for point in points}
    for seed in args.seeds:
        for pairs in args.pairs:
            for name in args.model:
                if (name, pairs, seed) not in done:
                    points.append(run_point(name, pairs, seed, **sizes))
                    path.write_text(json.dumps(content, indent=2) + "\n")
                    plot(points, path.with_suffix(".png"))
    path.with_suffix(".md").write_text(table(points) + "\n")
    print(table(points))


if __name__ == "__main__":
    main()
