"""The effective-scale task: sums of products of mirrored vectors, which require long-range attention."""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

import torch
from datasets.utils import tqdm
from transformers import get_cosine_schedule_with_warmup, set_seed

from msattn.analysis.effective_scale_figure import effective_scale_table, plot_effective_scale
from msattn.configuration.configuration_ms_transformer import MSTransformerConfig
from msattn.errors import UserError
from msattn.modeling.modeling_ms_transformer import MSTransformerForSequenceClassification
from msattn.results import read_json, write_json

# The models of the authors' slides, and a plain Transformer. All other hyperparameters are equal.
MODELS: dict[str, dict[str, Any]] = {
    "Hier-S": {"num_hidden_layers": 2, "scales": [3]},
    "deepHier-S": {"num_hidden_layers": 6, "scales": [3]},
    "Flex": {"num_hidden_layers": 2, "scales": [3, "N/16", "N/8", "N/4", "N/2"], "alpha": 0.0},
    "Transformer": {"num_hidden_layers": 2, "scales": [None]},
}
HEADS = 10
# Input of the classification token, outside the range of the task's vectors.
CLS_VALUE = -1.0
FILE = "effective_scale"


@dataclass(kw_only=True)
class EffectiveScaleArguments:
    """Arguments of `python -m msattn.analysis effective-scale`."""

    output_dir: str = field(metadata={"help": "Output folder for the table, the figure and the numbers of each run."})
    model: list[str] = field(
        default_factory=lambda: list(MODELS), metadata={"help": f"Models to train: {', '.join(MODELS)}. Default: all."}
    )
    pairs: list[int] = field(
        default_factory=lambda: [1, 2, 4, 8, 16], metadata={"help": "Numbers of pairs K, at most N/2 each."}
    )
    seeds: list[int] = field(
        default_factory=lambda: [1], metadata={"help": "Random seeds, one run each; the figure shows the means."}
    )
    tokens: int = field(default=32, metadata={"help": "Number of vectors per sample, N."})
    size: int = field(default=4, metadata={"help": "Dimensions of a vector, d."})
    samples: int = field(default=200_000, metadata={"help": "Number of training samples, the same for all runs."})
    test_samples: int = field(default=10_000, metadata={"help": "Number of held-out samples."})
    hidden_size: int = field(default=40, metadata={"help": f"Hidden size of the models, with {HEADS} heads."})
    position_embeddings: Literal["sinusoidal", "learned", "none"] = field(
        default="learned",
        metadata={"help": "Position embeddings of all models. Without them, mirrored pairs are hard to find."},
    )
    epochs: float = field(default=2.0, metadata={"help": "Number of training epochs."})
    batch_size: int = field(default=64, metadata={"help": "Number of samples per batch."})
    learning_rate: float = field(
        default=1e-2, metadata={"help": "Peak learning rate, with linear warm-up and cosine decay to 0."}
    )
    warmup_ratio: float = field(default=0.05, metadata={"help": "Fraction of the steps for the warm-up."})
    weight_decay: float = field(default=0.01, metadata={"help": "Weight decay of AdamW."})

    def __post_init__(self) -> None:
        for name in self.model:
            if name not in MODELS:
                raise UserError(f"--model {name}: there are {', '.join(MODELS)}.")
        for name in ("model", "pairs", "seeds"):
            values = getattr(self, name)
            if len(set(values)) < len(values):
                raise UserError(f"--{name} {' '.join(map(str, values))}: one is named twice.")
        for pairs in self.pairs:
            if not 1 <= pairs <= self.tokens // 2:
                raise UserError(f"--pairs {pairs}: of {self.tokens} vectors there are 1 to {self.tokens // 2} pairs.")
        for name in ("size", "samples", "test_samples", "batch_size", "epochs"):
            if getattr(self, name) <= 0:
                raise UserError(f"--{name} must be above 0, not {getattr(self, name)}.")

    @property
    def settings(self) -> dict[str, Any]:
        """The arguments that all runs in a folder must share."""
        own = ("output_dir", "model", "pairs", "seeds")
        return {name: value for name, value in asdict(self).items() if name not in own}


def run_effective_scale(args: EffectiveScaleArguments) -> None:
    """Train Multi-Scale Transformers on the effective-scale task and compare their errors."""
    folder = Path(args.output_dir)
    path = folder / f"{FILE}.json"
    points = _read_points(path, args.settings) if path.exists() else []
    done = {(point["model"], point["pairs"], point["seed"]) for point in points}
    for seed in args.seeds:
        for pairs in args.pairs:
            for model in args.model:
                if (model, pairs, seed) in done:
                    continue
                points.append(run_point(args, model, pairs, seed))
                write_json(path, {"settings": args.settings, "points": points})
                (folder / f"{FILE}.md").write_text(effective_scale_table(points) + "\n", encoding="utf-8")
                for suffix in (".png", ".svg"):
                    plot_effective_scale(points, folder / f"{FILE}{suffix}")
    print(effective_scale_table(points))


def mirrored_pairs(samples: int, tokens: int, size: int, pairs: int, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    r"""
    Draws samples of the effective-scale task ("Multi-Scale Self-Attention for Text Classification", AAAI 2020).

    A sample has vectors a_1 ... a_N of numbers from U(0, 1) and the target y = Σ_{i≤K} a_i ⊙ a_{N-i+1}.

    The best constant prediction, K/4, has a mean squared error of 7K/144. The best sum of functions of single vectors,
    Σ (a_i + a_{N-i+1}) / 2 - K/4, has K/144. A model with a lower error has found the pairs.

    Args:
        samples (`int`): Number of samples.
        tokens (`int`): Number of vectors per sample, N.
        size (`int`): Dimensions of a vector, d.
        pairs (`int`): Number of pairs, K, at most N/2.
        seed (`int`): Random seed. The vectors do not depend on K.

    Returns:
        `tuple[torch.Tensor, torch.Tensor]`: Vectors `(samples, tokens, size)` and targets `(samples, size)`.
    """
    vectors = torch.rand(samples, tokens, size, generator=torch.Generator().manual_seed(seed))
    return vectors, (vectors[:, :pairs] * vectors.flip(1)[:, :pairs]).sum(dim=1)


def run_point(args: EffectiveScaleArguments, name: str, pairs: int, seed: int) -> dict[str, Any]:
    """
    Trains and evaluates one model.

    Args:
        args (`EffectiveScaleArguments`): Sizes and hyperparameters.
        name (`str`): A key of `MODELS`.
        pairs (`int`): Number of pairs, K.
        seed (`int`): Random seed of the weights and the order of the samples. The samples are fixed.

    Returns:
        `dict[str, Any]`: `model`, `pairs`, `seed`, `mse` (held-out mean squared error) and `minutes` (training time).
    """
    set_seed(seed)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = build_model(args, name).to(device)
    vectors, targets = mirrored_pairs(args.samples, args.tokens, args.size, pairs, seed=0)
    # Standardized targets, so that one learning rate suits every K.
    variance = 7 * pairs / 144
    targets = (targets - pairs / 4) / variance**0.5
    optimizer = torch.optim.AdamW(model.parameters(), args.learning_rate, weight_decay=args.weight_decay)
    steps = max(1, round(args.epochs * args.samples / args.batch_size))
    schedule = get_cosine_schedule_with_warmup(optimizer, round(args.warmup_ratio * steps), steps)
    start = time.perf_counter()
    order = torch.empty(0, dtype=torch.long)
    with tqdm(total=steps, desc=f"{name}, K = {pairs}") as bar:
        for step in range(steps):
            if len(order) < args.batch_size:
                order = torch.cat([order, torch.randperm(args.samples)])
            rows, order = order[: args.batch_size], order[args.batch_size :]
            loss = model(inputs_embeds=with_cls(vectors[rows]).to(device), labels=targets[rows].to(device)).loss
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            schedule.step()
            bar.update()
            if step % 50 == 0:
                bar.set_postfix_str(f"MSE {variance * loss.item():.4f}")
    minutes = (time.perf_counter() - start) / 60

    vectors, targets = mirrored_pairs(args.test_samples, args.tokens, args.size, pairs, seed=1)
    model.eval()
    with torch.no_grad():
        found = [model(inputs_embeds=with_cls(part).to(device)).logits.cpu() for part in vectors.split(1024)]
    error = (torch.cat(found) * variance**0.5 + pairs / 4 - targets).square().mean().item()
    return {"model": name, "pairs": pairs, "seed": seed, "mse": error, "minutes": minutes}


def build_model(args: EffectiveScaleArguments, name: str) -> MSTransformerForSequenceClassification:
    """
    Builds a randomly initialized Multi-Scale Transformer that predicts `size` numbers.

    Args:
        args (`EffectiveScaleArguments`): Sizes of the model.
        name (`str`): A key of `MODELS`.
    """
    config = MSTransformerConfig(
        vocab_size=1,
        embedding_size=args.size,
        hidden_size=args.hidden_size,
        num_attention_heads=HEADS,
        position_embeddings=None if args.position_embeddings == "none" else args.position_embeddings,
        max_position_embeddings=args.tokens + 1,
        hidden_dropout_prob=0.0,
        # With the small default, training stays long at the best constant.
        initializer_range=args.hidden_size**-0.5,
        num_labels=args.size,
        problem_type="regression",
        **MODELS[name],
    )
    return MSTransformerForSequenceClassification(config)


def with_cls(vectors: torch.Tensor) -> torch.Tensor:
    """Prepends the vector of the classification token: `(batch, tokens, size)` to `(batch, 1 + tokens, size)`."""
    return torch.nn.functional.pad(vectors, (0, 0, 1, 0), value=CLS_VALUE)


def _read_points(path: Path, settings: dict[str, Any]) -> list[dict[str, Any]]:
    """Reads the finished runs; raises `UserError` if their settings differ."""
    content = read_json(path)
    before, points = content.get("settings"), content.get("points")
    if not isinstance(before, dict) or not isinstance(points, list):
        raise UserError(f"{path}: the file does not hold runs of this task.")
    for name, value in settings.items():
        if before.get(name) != value:
            raise UserError(f"{path} holds runs with --{name} {before.get(name)}, not {value}: take another folder.")
    return points
