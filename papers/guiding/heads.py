"""
All heads of encoders by the first two principal components of their maps, coloured by layer (Fig. 5 of the paper).

A head is the attention that each token of the texts receives from it. Nearby heads have similar maps. The components
are those of all heads of all encoders, which must cut the texts into the same tokens.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

import numpy as np
import torch
from sklearn.decomposition import PCA
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from msattn import read_attention
from msattn.plots.encoders import Text, batches, load_encoder, read_texts, short_names
from msattn.plots.style import INK, MUTED, drawing, tidy


@torch.no_grad()
def head_vectors(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, texts: Sequence[Text]) -> np.ndarray:
    """The attention that each token of the texts receives in each head, `(layers, heads, tokens)`."""
    parts = []
    for _, batch in batches(model.eval(), tokenizer, texts):
        batch.pop("special_tokens_mask")
        with read_attention(model) as readings:
            model(**batch)
        received = torch.stack([reading["received"] for reading in readings])
        parts.append(received.permute(1, 3, 0, 2)[batch["attention_mask"].bool()].cpu())
    return torch.cat(parts).permute(1, 2, 0).double().numpy()


def plot(found: dict[str, np.ndarray], path: str) -> None:
    """A panel for each encoder."""
    from matplotlib import colormaps
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import BoundaryNorm, ListedColormap

    rows = [vectors.reshape(-1, vectors.shape[-1]) for vectors in found.values()]
    pca = PCA(n_components=2, svd_solver="full")
    points = np.split(pca.fit_transform(np.concatenate(rows)), np.cumsum([len(part) for part in rows])[:-1])
    shares = 100 * np.nan_to_num(pca.explained_variance_ratio_)
    layers = max(vectors.shape[0] for vectors in found.values())
    width, height = np.ptp(np.concatenate(points), axis=0)
    # Without the palest yellow, which is hard to see on white.
    colors = ListedColormap(colormaps["viridis"](np.linspace(0, 0.93, layers)))
    norm = BoundaryNorm(np.arange(layers + 1) - 0.5, layers)
    with drawing(path, (3.6 * len(found) + 1.5, 3.6 * min(max(height / width, 0.4), 1.4) + 1.0)) as figure:
        panels = figure.subplots(1, len(found), squeeze=False, sharex=True, sharey=True)[0]
        for axes, own, (title, vectors) in zip(panels, points, found.items(), strict=True):
            of_layer = np.repeat(np.arange(vectors.shape[0]), vectors.shape[1])
            axes.scatter(
                *own.T, c=of_layer, cmap=colors, norm=norm, s=26, edgecolors="white", linewidths=0.4, zorder=2
            )
            axes.set_title(title, color=INK, size=11)
            axes.set_aspect("equal")
            tidy(axes, f"component 1 ({shares[0]:.0f} % of the variance)", f"component 2 ({shares[1]:.0f} %)")
        bar = figure.colorbar(ScalarMappable(norm, colors), ax=panels, fraction=0.05, aspect=30, pad=0.02)
        bar.set_ticks(range(0, layers, 1 + layers // 13))
        bar.set_label("layer", color=MUTED)
        bar.ax.minorticks_off()


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.strip().splitlines()[0])
    parser.add_argument("--model", nargs="+", required=True, help="one or more encoders, side by side")
    parser.add_argument("--file", required=True, help="sentences, one a line, or a table")
    parser.add_argument("--output", required=True, help="picture (.png, .svg)")
    args = parser.parse_args(argv)
    texts = read_texts(args.file)
    names = zip(short_names(args.model), args.model, strict=True)
    plot({title: head_vectors(*load_encoder(name), texts) for title, name in names}, args.output)


if __name__ == "__main__":
    main()
