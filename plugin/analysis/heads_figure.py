"""A figure of the attention heads of encoders by the principal components of their maps."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from matplotlib import colormaps
from matplotlib.cm import ScalarMappable
from matplotlib.colors import BoundaryNorm, ListedColormap
from matplotlib.figure import Figure
from sklearn.decomposition import PCA
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from msattn.analysis.arguments import EncoderArguments, load_encoder
from msattn.analysis.attention_maps import Text, attention_maps, received_maps
from msattn.analysis.pictures import FAINT, INK, MUTED, check_output, check_picture_path, picture_style, save_picture
from msattn.errors import UserError

# Tokens of the longest text whose maps are compared as they are.
LONGEST_MAP = 512


@dataclass(kw_only=True)
class HeadsFigureArguments(EncoderArguments):
    """Arguments of `python -m msattn.analysis heads`."""

    output: str = field(metadata={"help": "Output file: .png or .svg."})


def draw_heads(args: HeadsFigureArguments) -> None:
    """Plot all attention heads of encoders by the principal components of their maps."""
    check_output(args.output)
    texts = args.read_texts()
    plot_heads([head_vectors(*load_encoder(name), texts) for name in args.model], args.output, args.titles)


def head_vectors(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, texts: Sequence[Text]) -> np.ndarray:
    """
    Represents each head by a vector: its flattened map for one text, or the received attention for several texts and
    for a text of more than 512 tokens.

    Args:
        model (`PreTrainedModel`): Any encoder. Its attention implementation and mode are restored afterwards.
        tokenizer (`PreTrainedTokenizerBase`): The fast tokenizer of the encoder.
        texts (`Sequence[tuple[str, ...]]`): Sentences `(text,)` or pairs `(text, text_pair)`.

    Returns:
        `np.ndarray` of shape `(layers, heads, length)`: The vectors; `length` is tokens² for one short text, else
        the total number of tokens.

    Raises:
        UserError: The model returns no attentions.
    """
    if len(texts) == 1 and len(tokenizer(*texts[0], truncation=True)["input_ids"]) <= LONGEST_MAP:
        return attention_maps(model, tokenizer, *texts[0]).maps.flatten(2).cpu().numpy()
    vectors = [
        sample[..., mask].cpu()
        for received, real in received_maps(model, tokenizer, texts)
        for sample, mask in zip(received, real, strict=True)
    ]
    return torch.cat(vectors, dim=-1).numpy()


def plot_heads(
    vectors: Sequence[np.ndarray], path: str | os.PathLike | None = None, titles: Sequence[str] | None = None
) -> Figure:
    """
    Plots heads as points by their first two principal components, coloured by layer.

    Nearby heads have similar maps. This is Fig. 5 of the attention-guiding paper. The principal components are those
    of all heads of all panels.

    Args:
        vectors (`Sequence[np.ndarray]`): The result of [`head_vectors`] for each panel, `(layers, heads, length)`.
        path (`str` or `os.PathLike`, *optional*): The `.png` or `.svg` file to write.
        titles (`Sequence[str]`, *optional*): A title for each panel.

    Returns:
        `matplotlib.figure.Figure`: The figure.

    Raises:
        UserError: The vectors differ in length or have length 1, there is only one head, or `path` does not end in
            `.png` or `.svg`.
    """
    check_picture_path(path)
    lengths = {part.shape[-1] for part in vectors}
    if len(lengths) > 1:
        raise UserError("the encoders cut the text into different tokens: their maps cannot be compared.")
    if max(lengths) < 2:
        raise UserError("the text is one token: its maps are all alike.")
    rows = [part.reshape(-1, part.shape[-1]) for part in vectors]
    if sum(map(len, rows)) < 2:
        raise UserError("there is only one head: nothing to compare it with.")
    pca = PCA(n_components=2, svd_solver="full")
    with np.errstate(invalid="ignore"):  # identical heads have zero variance
        points = pca.fit_transform(np.concatenate(rows).astype(np.float64))
    shares = np.nan_to_num(pca.explained_variance_ratio_)
    margin = 0.06 * max(np.ptp(points, axis=0).max(), 1e-12)
    (left, bottom), (right, top) = points.min(axis=0) - margin, points.max(axis=0) + margin
    layers = max(part.shape[0] for part in vectors)
    # Without the palest yellow, which is hard to see on white.
    colors = ListedColormap(colormaps["viridis"](np.linspace(0, 0.93, layers)))
    norm = BoundaryNorm(np.arange(layers + 1) - 0.5, layers)
    with picture_style():
        height = 3.6 * min(max((top - bottom) / (right - left), 0.4), 1.4)
        size = (3.6 * len(vectors) + 1.5, height + 1.0)
        figure = Figure(figsize=size, facecolor="white", layout="constrained")
        panels = figure.subplots(1, len(vectors), squeeze=False, sharex=True, sharey=True)[0]
        ends = np.cumsum([len(part) for part in rows])
        for axes, part, end, title in zip(panels, vectors, ends, titles or [""] * len(vectors), strict=True):
            heads = np.repeat(np.arange(part.shape[0]), part.shape[1])
            x, y = points[end - len(heads) : end].T
            axes.scatter(x, y, c=heads, cmap=colors, norm=norm, s=26, edgecolors="white", linewidths=0.4, zorder=2)
            axes.set(xlim=(left, right), ylim=(bottom, top), aspect="equal")
            axes.set_title(title, color=INK, size=11)
            axes.set_xlabel(f"component 1 ({100 * shares[0]:.0f} % of the variance)", color=MUTED)
            axes.grid(color=FAINT, zorder=0)
            axes.set_axisbelow(True)
            axes.spines[["top", "right"]].set_visible(False)
            axes.spines[["left", "bottom"]].set_color(MUTED)
            axes.tick_params(color=MUTED, labelcolor=INK)
        panels[0].set_ylabel(f"component 2 ({100 * shares[1]:.0f} %)", color=MUTED)
        bar = figure.colorbar(ScalarMappable(norm, colors), ax=panels, fraction=0.05, aspect=30, pad=0.02)
        bar.set_ticks(range(0, layers, 1 + layers // 13))
        bar.set_label("layer", color=MUTED)
        bar.outline.set_visible(False)
        bar.ax.minorticks_off()
        bar.ax.tick_params(color=MUTED, labelcolor=INK)
        save_picture(figure, path)
    return figure
