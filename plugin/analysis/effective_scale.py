"""The effective-scale task: products of mirrored pairs, which a model learns only if it can bring them together."""

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

# The models of the slides, and one whose heads see everything. They differ in nothing else.
MODELS: dict[str, dict[str, Any]] = {
    "Hier-S": {"num_hidden_layers": 2, "scales": [3]},
    "deepHier-S": {"num_hidden_layers": 6, "scales": [3]},
    "Flex": {"num_hidden_layers": 2, "scales": [3, "N/16", "N/8", "N/4", "N/2"], "alpha": 0.0},
    "Transformer": {"num_hidden_layers": 2, "scales": [None]},
}
HEADS = 10
# In place of a vector, at the first token: no vector of the task has it.
CLS_VALUE = -1.0
FILE = "effective_scale"


@dataclass(kw_only=True)
class EffectiveScaleArguments:
    """Arguments of `python -m msattn.analysis effective-scale`."""

    output_dir: str = field(metadata={"help": "Folder of the table, the picture and the numbers of each run."})
    model: list[str] = field(
        default_factory=lambda: list(MODELS), metadata={"help": f"The models: {', '.join(MODELS)} [all]."}
    )
    pairs: list[int] = field(
        default_factory=lambda: [1, 2, 4, 8, 16], metadata={"help": "The numbers of pairs, K; N/2 at most."}
    )
    seeds: list[int] = field(default_factory=lambda: [1], metadata={"help": "A run each; the means are drawn."})
    tokens: int = field(default=32, metadata={"help": "Vectors of a sample, N."})
    size: int = field(default=4, metadata={"help": "Numbers of a vector, d."})
    samples: int = field(default=200_000, metadata={"help": "Training samples, the same for all runs."})
    test_samples: int = field(default=10_000, metadata={"help": "Held-out samples, which the error is of."})
    hidden_size: int = field(default=40, metadata={"help": f"Width of the models, in {HEADS} heads."})
    position_embeddings: Literal["sinusoidal", "learned", "none"] = field(
        default="learned", metadata={"help": "Of all models alike. Without them, mirrored pairs are hard to find."}
    )
    epochs: float = field(default=2.0, metadata={"help": "How often a sample is seen."})
    batch_size: int = field(default=64, metadata={"help": "Samples of a batch."})
    learning_rate: float = field(default=1e-2, metadata={"help": "The highest, after a warm-up; it falls to 0."})
    warmup_ratio: float = field(default=0.05, metadata={"help": "Part of the steps in which it rises."})
    weight_decay: float = field(default=0.01, metadata={"help": "Of AdamW."})

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
        """What all runs of a folder have in common."""
        own = ("output_dir", "model", "pairs", "seeds")
        return {name: value for name, value in asdict(self).items() if name not in own}


def run_effective_scale(args: EffectiveScaleArguments) -> None:
    """Errors of Multi-Scale Transformers on products of distant pairs, over the number of pairs."""
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
    Samples of the task ("Multi-Scale Self-Attention for Text Classification", AAAI 2020): vectors a_1 ... a_N of
    numbers from U(0, 1), and y = Σ_{i≤K} a_i ⊙ a_{N-i+1}.

    The best constant, K/4, has a mean squared error of 7K/144. The best sum of functions of single vectors,
    Σ (a_i + a_{N-i+1}) / 2 - K/4, has one of K/144: only who has found the pairs is below.

    Args:
        samples (`int`): How many samples.
        tokens (`int`): Vectors of a sample, N.
        size (`int`): Numbers of a vector.
        pairs (`int`): K, at most N/2.
        seed (`int`): Of the draw. The vectors are the same for every K.

    Returns:
        `tuple[torch.Tensor, torch.Tensor]`: Vectors, `(samples, tokens, size)`, and targets, `(samples, size)`.
    """
    vectors = torch.rand(samples, tokens, size, generator=torch.Generator().manual_seed(seed))
    return vectors, (vectors[:, :pairs] * vectors.flip(1)[:, :pairs]).sum(dim=1)


def run_point(args: EffectiveScaleArguments, name: str, pairs: int, seed: int) -> dict[str, Any]:
    """
    Trains one model and returns its record: the held-out mean squared error is `mse`.

    Args:
        args (`EffectiveScaleArguments`): Sizes and settings.
        name (`str`): One of `MODELS`.
        pairs (`int`): K.
        seed (`int`): Of the weights and of the order of the samples; the samples are always the same.
    """
    set_seed(seed)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = build_model(args, name).to(device)
    vectors, targets = mirrored_pairs(args.samples, args.tokens, args.size, pairs, seed=0)
    # A constant has the error 1 then, whatever K: one learning rate fits them all.
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
    """A fresh model with the readout of the classifier: the classification node, and a perceptron of two layers."""
    config = MSTransformerConfig(
        vocab_size=1,
        embedding_size=args.size,
        hidden_size=args.hidden_size,
        num_attention_heads=HEADS,
        position_embeddings=None if args.position_embeddings == "none" else args.position_embeddings,
        max_position_embeddings=args.tokens + 1,
        hidden_dropout_prob=0.0,
        # From a smaller one, as of word vectors, training takes long to leave the best constant.
        initializer_range=args.hidden_size**-0.5,
        num_labels=args.size,
        problem_type="regression",
        **MODELS[name],
    )
    return MSTransformerForSequenceClassification(config)


def with_cls(vectors: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.pad(vectors, (0, 0, 1, 0), value=CLS_VALUE)


def _read_points(path: Path, settings: dict[str, Any]) -> list[dict[str, Any]]:
    """Of the runs that are done."""
    content = read_json(path)
    before, points = content.get("settings"), content.get("points")
    if not isinstance(before, dict) or not isinstance(points, list):
        raise UserError(f"{path}: the file does not hold runs of this task.")
    for name, value in settings.items():
        if before.get(name) != value:
            raise UserError(f"{path} holds runs with --{name} {before.get(name)}, not {value}: take another folder.")
    return points
