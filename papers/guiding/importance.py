"""
What each head of a classifier is worth ("Are Sixteen Heads Really Better than One?", Michel et al. 2019).

The importance of a head is the mean over texts of |∂loss / ∂gate|, for a gate of 1 on its output. Then heads are
removed, the least important first, each layer scaled to unit length, and the accuracy is measured. No head is trained
again.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import torch
from torch.nn.functional import cross_entropy
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from msattn import head_gates
from msattn.data import read_sentences
from msattn.errors import UserError
from msattn.loading import load_trained
from msattn.plots.encoders import Text, batches
from msattn.plots.style import COLORS, INK, MUTED, draw_heads, drawing, markdown_table, tidy


def labelled_texts(model: PreTrainedModel, path: str) -> tuple[list[Text], list[int]]:
    """Reads texts, and the numbers of their classes in a model, from their names or numbers."""
    columns, label = getattr(model.config, "text_columns", None), getattr(model.config, "label_column", "label")
    dataset = read_sentences(path, columns, label)
    known = {str(number): number for number in model.config.id2label} | dict(model.config.label2id)
    if unknown := set(dataset["label"]) - known.keys():
        raise UserError(f"{path}: the model does not know the label {min(unknown)!r}; it knows {', '.join(known)}.")
    texts = list(zip(*(dataset[name] for name in dataset.column_names if name != "label"), strict=True))
    return texts, [known[name] for name in dataset["label"]]


@torch.no_grad()
def accuracy(model: Any, encoded: Iterable[tuple[list[int], Any]], labels: Sequence[int]) -> float:
    """The share of the texts that a model classifies right."""
    right = 0
    for rows, batch in encoded:
        inputs = {name: value for name, value in batch.items() if name != "special_tokens_mask"}
        right += sum(map(int.__eq__, model(**inputs).logits.argmax(dim=-1).tolist(), (labels[row] for row in rows)))
    return right / len(labels)


def importances(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, texts: Sequence[Text], labels: Sequence[int]
) -> np.ndarray:
    """The mean of |∂loss / ∂gate| of each head, `(layers, heads)`."""
    total: torch.Tensor | float = 0.0
    # One text at a time: the mean is of absolute values.
    for (row,), batch in batches(model.eval(), tokenizer, texts, batch_size=1):
        batch.pop("special_tokens_mask")
        with head_gates(model) as gates:
            loss = cross_entropy(model(**batch).logits.float(), torch.tensor([labels[row]], device=model.device))
            total = total + torch.autograd.grad(loss, gates)[0].abs()
    return (torch.as_tensor(total) / len(texts)).cpu().double().numpy()


def removal_order(values: np.ndarray) -> np.ndarray:
    """Indices into the flattened importances, from the least to the most important head, layers of unit length."""
    lengths = np.linalg.norm(values, axis=1, keepdims=True)
    return np.argsort((values / np.maximum(lengths, np.finfo(float).tiny)).ravel(), kind="stable")


def plot(values: np.ndarray, removed: Sequence[int], scores: Sequence[float], majority: float, path: str) -> None:
    """A heat map of the importances, and the accuracy over the share of heads removed; dashed: the largest class."""
    with drawing(path, (9.0, 3.6)) as figure:
        left, right = figure.subplots(1, 2)
        draw_heads(left, values)
        left.set_title("importance: mean |∂ loss / ∂ gate|", color=INK, size=10)
        shares = [100 * count / values.size for count in removed]
        right.plot(shares, scores, color=COLORS[0], marker="o", markersize=5, linewidth=1.8)
        right.axhline(majority, color=MUTED, linestyle="--", linewidth=1.2)
        right.set_title("accuracy without the least important heads", color=INK, size=10)
        tidy(right, "heads removed (%; dashed: the most frequent class)", "")


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.strip().splitlines()[0])
    parser.add_argument("--model", required=True, help="a trained classifier")
    parser.add_argument("--file", required=True, help="labelled sentences, to measure the accuracy")
    parser.add_argument("--fit_file", help="labelled sentences that rank the heads (default: --file)")
    parser.add_argument("--steps", type=int, default=12, help="steps in which all heads are removed")
    parser.add_argument("--max_samples", type=int, help="the first sentences of --file")
    parser.add_argument("--output", required=True, help="picture (.png, .svg)")
    args = parser.parse_args(argv)
    _, model, tokenizer = load_trained(args.model)
    texts, labels = (part[: args.max_samples] for part in labelled_texts(model, args.file))
    fitted = labelled_texts(model, args.fit_file) if args.fit_file else (texts, labels)
    values = importances(model, tokenizer, *fitted)
    order = torch.from_numpy(removal_order(values))
    removed = np.linspace(0, len(order), args.steps + 1).round().astype(int).tolist()
    encoded = list(batches(model, tokenizer, texts))
    scores = []
    for count in removed:
        with torch.no_grad(), head_gates(model) as gates:
            gates.view(-1)[order[:count].to(gates.device)] = 0
            scores.append(accuracy(model, encoded, labels))
    rows = [
        [count, f"{100 * count / values.size:.0f} %", f"{score:.4f}"]
        for count, score in zip(removed, scores, strict=True)
    ]
    print(markdown_table(["heads removed", "share", "accuracy"], rows))
    plot(values, removed, scores, max(np.bincount(labels)) / len(labels), args.output)


if __name__ == "__main__":
    main()
