"""
How diverse attention is: the cosine of two maps and the entropy of received attention, by layer.

A map is the attention m that each token receives from all others in one head. Over a text, the cosine is the mean of
all pairs of maps; the entropy is that of p = m / Σ m, in bits and divided by log₂ of the number of tokens. Means over
texts.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from itertools import cycle

import torch
from torch.nn.functional import normalize
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from msattn import read_attention
from msattn.plots.encoders import Text, batches, load_encoder, read_texts, short_names
from msattn.plots.style import COLORS, MARKERS, drawing, markdown_table, tidy

MEASURES = ("cosine of two maps", "entropy (bits)", "entropy / log₂ n")


def map_similarity(maps: torch.Tensor) -> torch.Tensor:
    r"""
    The mean cosine similarity of pairs of maps: Σ_{i≠j} cos(m_i, m_j) / (maps · (maps − 1)); NaN for a single map.

    Args:
        maps (`torch.Tensor` of shape `(batch, maps, tokens)`): Received attention, 0 at padding.

    Returns:
        `torch.Tensor` of shape `(batch,)`: 0 if no two maps share a token, 1 if all are equal up to scale.
    """
    count, maps = maps.shape[1], normalize(maps, dim=-1)
    # The square of the sum contains all pairs; subtract those of a map with itself.
    pairs = maps.sum(dim=1).square().sum(dim=-1) - maps.square().sum(dim=(1, 2))
    return pairs / count / (count - 1) if count > 1 else torch.full_like(pairs, torch.nan)


def received_entropy(maps: torch.Tensor) -> torch.Tensor:
    r"""The entropy − Σ_t p_t log₂ p_t with p = m / Σ_t m_t, in bits: `(batch, maps, tokens)` to `(batch, maps)`."""
    shares = maps / maps.sum(dim=-1, keepdim=True).clamp_min(1e-12)
    return -torch.xlogy(shares, shares).sum(dim=-1) / torch.log(torch.tensor(2.0))


@torch.no_grad()
def diversity(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, texts: Sequence[Text]) -> torch.Tensor:
    """`MEASURES` of the maps of all layers, then of each layer, `(1 + layers, 3)`; texts of one token are left out."""
    total, count = torch.zeros(()), 0
    for _, batch in batches(model.eval(), tokenizer, texts):
        batch.pop("special_tokens_mask")
        with read_attention(model) as readings:
            model(**batch)
        tokens = batch["attention_mask"].sum(dim=-1)
        layers = [reading["received"][tokens > 1].double() for reading in readings]
        share = tokens[tokens > 1].double().log2()
        for place, maps in enumerate([torch.cat(layers, dim=1), *layers]):
            bits = received_entropy(maps).mean(dim=-1)
            sums = torch.stack([map_similarity(maps).sum(), bits.sum(), (bits / share).sum()])
            total = torch.zeros(1 + len(layers), 3) if total.dim() == 0 else total
            total[place] += sums.cpu()
        count += int((tokens > 1).sum())
    return total / count


def plot(found: dict[str, torch.Tensor], path: str) -> None:
    """Cosine and normalized entropy by layer; dashed lines are those of all maps."""
    with drawing(path, (8.0, 3.6)) as figure:
        for axes, measure in zip(figure.subplots(1, 2), (0, 2), strict=True):
            for (name, values), color, marker in zip(found.items(), cycle(COLORS), cycle(MARKERS), strict=False):
                axes.plot(values[1:, measure], color=color, marker=marker, markersize=5, linewidth=1.8, label=name)
                axes.axhline(values[0, measure].item(), color=color, linestyle="--", linewidth=1, zorder=1)
            tidy(axes, "layer (dashed: all maps)", MEASURES[measure])
        handles, labels = figure.axes[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside upper left", ncols=min(len(found), 3), frameon=False)


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.strip().splitlines()[0])
    parser.add_argument("--model", nargs="+", required=True, help="one or more encoders")
    parser.add_argument("--file", required=True, help="sentences, one a line, or a table")
    parser.add_argument("--text_column_names", nargs="+", help="one or two columns of the table")
    parser.add_argument("--max_samples", type=int, help="the first texts of the file")
    parser.add_argument("--output", help="picture (.png, .svg)")
    args = parser.parse_args(argv)
    texts = read_texts(args.file, args.text_column_names)[: args.max_samples]
    found = {
        title: diversity(*load_encoder(name), texts)
        for title, name in zip(short_names(args.model), args.model, strict=True)
    }
    rows = [
        [title, "all" if row == 0 else row - 1, *(f"{value:.3f}" for value in values)]
        for title, measured in found.items()
        for row, values in enumerate(measured.tolist())
    ]
    print(markdown_table(["model", "layer", *MEASURES], rows))
    if args.output:
        plot(found, args.output)


if __name__ == "__main__":
    main()
