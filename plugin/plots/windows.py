"""The cost of windows for a classifier: how far its heads look, and its accuracy with windows."""

from __future__ import annotations

import copy
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from transformers import BatchEncoding, PreTrainedModel, PreTrainedTokenizerBase

from msattn.data.sentences import read_sentences
from msattn.errors import UserError
from msattn.modeling.attention_windows import set_windows
from msattn.modeling.window_fitting import head_reach
from msattn.plots.encoders import Text, batches
from msattn.plots.style import COLORS, INK, draw_heads, drawing, markdown_table, tidy

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class WindowCost:
    """
    The cost of the windows that keep a share of the attention.

    Args:
        mass (`float`): The share of the attention that each head keeps.
        reach (`np.ndarray` of shape `(layers, heads)`): The least window of each head that does.
        windowed (`np.ndarray` of shape `(layers, heads)`): Whether the head got it: half of a text is too wide.
        accuracy (`float`): The accuracy with these windows.
    """

    mass: float
    reach: np.ndarray
    windowed: np.ndarray
    accuracy: float


def window_costs(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    texts: Sequence[Text],
    labels: Sequence[int],
    masses: Sequence[float] = (0.99,),
    fitting: Sequence[Text] | None = None,
) -> tuple[float, list[WindowCost]]:
    """
    Fits windows to the heads of a classifier (see [`fit_windows`]), and measures its accuracy with them. Weights are
    not trained again; special tokens stay visible and see everything.

    Args:
        model (`PreTrainedModel`): A sequence classifier. It is not changed.
        tokenizer (`PreTrainedTokenizerBase`): Its tokenizer.
        texts (`Sequence[tuple[str, ...]]`): Sentences `(text,)` or pairs `(text, text_pair)`.
        labels (`Sequence[int]`): The class of each text.
        masses (`Sequence[float]`, *optional*, defaults to `(0.99,)`): Shares of the attention that heads keep.
        fitting (`Sequence[tuple[str, ...]]`, *optional*): The texts that windows are fitted to; `texts` if `None`.

    Returns:
        `tuple[float, list[WindowCost]]`: The accuracy without windows, and the cost of each mass.

    Raises:
        AttentionRefused: The model takes no windows.
        ValueError: A mass is not above 0 and at most 1.
    """
    windowed = copy.deepcopy(model).eval()
    measured = [(rows, batch) for rows, batch in batches(windowed, tokenizer, texts)]
    special = tokenizer.all_special_ids
    without = accuracy(windowed, measured, labels)
    fitted = measured if fitting is None else batches(windowed, tokenizer, fitting)
    reach = head_reach(windowed, (batch for _, batch in fitted), special)
    costs = []
    for mass in masses:
        windows = reach.windows(mass)
        set_windows(windowed, windows, special)
        chosen = np.array([[window is not None for window in row] for row in windows])
        costs.append(WindowCost(mass, reach.least(mass).numpy(), chosen, accuracy(windowed, measured, labels)))
    return without, costs


@torch.no_grad()
def accuracy(model: Callable, encoded: Iterable[tuple[list[int], BatchEncoding]], labels: Sequence[int]) -> float:
    """The share of the texts that a model classifies right."""
    right = 0
    for rows, batch in encoded:
        inputs = {name: value for name, value in batch.items() if name != "special_tokens_mask"}
        right += sum(map(int.__eq__, model(**inputs).logits.argmax(dim=-1).tolist(), (labels[row] for row in rows)))
    return right / len(labels)


def labelled_texts(
    model: PreTrainedModel, path: str, columns: Sequence[str] | None = None, label: str = "label"
) -> tuple[list[Text], list[int]]:
    """
    Reads texts, and the numbers of their classes in a model.

    Args:
        model (`PreTrainedModel`): A classifier.
        path (`str`): A file that [`~msattn.data.read_sentences`] reads.
        columns (`Sequence[str]`, *optional*): Its one or two text columns.
        label (`str`, *optional*, defaults to `"label"`): Its column of labels: names of the model, or numbers.

    Raises:
        UserError: A label is unknown to the model.
    """
    dataset = read_sentences(path, columns, label)
    known = {str(number): number for number in model.config.id2label} | dict(model.config.label2id)
    for name in dataset.unique("label"):
        if name not in known:
            raise UserError(f"{path}: the model does not know the label {name!r}; it knows {', '.join(known)}.")
    texts = list(zip(*(dataset[name] for name in dataset.column_names if name != "label"), strict=True))
    return texts, [known[name] for name in dataset["label"]]


def windows_table(without: float, costs: Sequence[WindowCost]) -> str:
    """A Markdown table of the result of [`window_costs`]: heads with a window and the accuracy, by mass."""
    rows: list[list[str]] = [["none", "0", "0 %", "", f"{without:.4f}", ""]]
    for cost in costs:
        count = int(cost.windowed.sum())
        widest = str(cost.reach[cost.windowed].max()) if count else ""
        share = f"{100 * count / cost.windowed.size:.0f} %"
        lost = f"{100 * (without - cost.accuracy):+.2f}"
        rows.append([f"{cost.mass:g}", str(count), share, widest, f"{cost.accuracy:.4f}", lost])
    return markdown_table(["mass", "heads with a window", "share", "widest", "accuracy", "points lost"], rows)


def plot_windows(without: float, costs: Sequence[WindowCost], path: str | os.PathLike | None = None) -> Figure:
    """
    Plots how far each head looks at the last mass, and the accuracy over the share of heads with a window. Crosses
    mark heads that need more than half of a text.

    Args:
        without, costs: The result of [`window_costs`].
        path (`str` or `os.PathLike`, *optional*): The `.png` or `.svg` file to write.

    Returns:
        `matplotlib.figure.Figure`: The figure.

    Raises:
        UserError: `path` does not end in `.png` or `.svg`.
    """
    last = costs[-1]
    points = sorted((100 * cost.windowed.mean(), cost.accuracy) for cost in costs)
    with drawing(path, (9.0, 3.6)) as figure:
        left, right = figure.subplots(1, 2)
        draw_heads(left, last.reach)
        rows, columns = (~last.windowed).nonzero()
        left.plot(columns, rows, "x", color="white", markersize=4)
        left.set_title(f"window that keeps {100 * last.mass:g} % (×: none, over half a text)", color=INK, size=10)
        shares, accuracies = zip((0.0, without), *points, strict=True)
        right.plot(shares, accuracies, color=COLORS[0], marker="o", markersize=5, linewidth=1.8)
        right.set_title("accuracy with windows", color=INK, size=10)
        tidy(right, "heads with a window (%)", "")
    return figure
