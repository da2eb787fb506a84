"""The probing command: which features of an encoder distinguish dependency arcs from other word pairs."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from datasets import Dataset
from matplotlib.figure import Figure
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from msattn.analysis.arguments import load_encoder
from msattn.analysis.attention_maps import attention_implementation, encoder_outputs
from msattn.analysis.map_figure import HEAT, plot_attention_maps
from msattn.analysis.pictures import COLORS, INK, MUTED, SUFFIXES, check_picture_path, picture_style, save_picture
from msattn.analysis.probing import BestHead, Probe, best_heads, probe_pairs, probing_tables
from msattn.analysis.word_pairs import DIRECTIONS, read_word_pairs
from msattn.command_line import existing_file
from msattn.data.inputs.parser_inputs import WINDOW_COLUMNS, encode_treebank
from msattn.data.inputs.parser_windows import ParserCollator
from msattn.data.treebanks import read_treebank
from msattn.errors import UserError
from msattn.modeling.word_attention import word_attention
from msattn.results import write_json

FILE = "probing"
# Number of ranks that the figure of the importances shows.
NUMBERED = 10
# Number of heads whose attention is plotted.
SHOWN_MAPS = 2
# Without --sentence, the first sentence with about this many words is plotted.
HANDY_LENGTH = 12
DRAWN_COLUMNS = ("heads", "sentence", "cut")


@dataclass(kw_only=True)
class ProbingArguments:
    """Arguments of `python -m msattn.analysis probe`."""

    model_name_or_path: str = field(
        metadata={"help": "Encoder: a local folder or a name on the Hub. Task heads are dropped."}
    )
    train_file: str = field(metadata={"help": "Training treebank: CoNLL-U or CoNLL-X."})
    validation_file: str = field(metadata={"help": "Held-out treebank, on which all accuracies are measured."})
    output_dir: str = field(metadata={"help": "Output folder for the numbers, tables and figures."})
    max_pairs: int = field(
        default=10_000, metadata={"help": "Maximum number of word pairs sampled per file; half of them are arcs."}
    )
    n_estimators: int = field(default=200, metadata={"help": "Number of trees per ensemble."})
    n_jobs: int = field(default=-1, metadata={"help": "Number of CPU cores for the trees; -1 for all."})
    seed: int = field(default=0, metadata={"help": "Random seed of pairs, trees and permutations."})
    word_state: Literal["first", "mean"] = field(
        default="first",
        metadata={"help": "Hidden state of a word: that of its first sub-word, or the mean over its sub-words."},
    )
    min_count: int = field(
        default=20,
        metadata={"help": "Minimum number of words of a relation, in both files, for the table of best heads."},
    )
    sentence: int | None = field(
        default=None,
        metadata={"help": "Held-out sentence whose attention is plotted, from 1. Default: one of about 12 words."},
    )
    batch_size: int = field(
        default=32, metadata={"help": "Maximum number of sentences per batch; fewer if they are long."}
    )

    def __post_init__(self) -> None:
        for name, least in (("max_pairs", 2), ("n_estimators", 1), ("min_count", 1), ("batch_size", 1)):
            if getattr(self, name) < least:
                raise UserError(f"--{name} must be at least {least}, not {getattr(self, name)}.")
        if self.n_jobs == 0:
            raise UserError("--n_jobs must be a number of cores, or -1 for all of them, not 0.")


def run_probing(args: ProbingArguments) -> None:
    """Probe which hidden states and attention heads of an encoder encode dependency arcs."""
    trees = {name: _read_trees(args, name) for name in ("train_file", "validation_file")}
    held_out = trees["validation_file"]
    if args.sentence is not None and not 1 <= args.sentence <= len(held_out):
        raise UserError(f"--sentence {args.sentence}: there are the held-out sentences 1 to {len(held_out)}.")
    model, tokenizer = load_encoder(args.model_name_or_path, "model_name_or_path")
    relations = sorted({name for part in trees.values() for names in part["relations"] for name in names})
    numbers = {name: number for number, name in enumerate(relations)}
    encoded = [encode_treebank(part, tokenizer, numbers, tokenizer.model_max_length) for part in trees.values()]
    drawn = _drawn_row(encoded[1], args.sentence)
    options = (len(relations), args.max_pairs, args.seed, args.word_state, args.batch_size)
    (train_pairs, train_hits), (pairs, hits) = (read_word_pairs(model, tokenizer, part, *options) for part in encoded)
    probe = probe_pairs(train_pairs, pairs, args.n_estimators, args.n_jobs, args.seed)
    heads = best_heads(train_hits, hits, relations, args.min_count)

    folder = Path(args.output_dir)
    sizes = {"train_pairs": len(train_pairs.is_arc), "validation_pairs": len(pairs.is_arc)}
    write_json(folder / f"{FILE}.json", {"settings": asdict(args), **sizes, **_results(probe, heads)})
    tables = probing_tables(probe, heads)
    (folder / f"{FILE}.md").write_text(tables + "\n", encoding="utf-8")
    print(tables)
    maps = top_maps(probe, model, tokenizer, drawn)
    weights, titles, arcs = zip(*maps, strict=True)
    words = held_out[drawn["sentence"]]["words"]
    for suffix in SUFFIXES:
        plot_importances(probe, folder / f"{FILE}_importances{suffix}")
        plot_attention_maps(weights, [words] * len(maps), folder / f"{FILE}_maps{suffix}", titles, marks=arcs)


def plot_importances(probe: Probe, path: str | os.PathLike | None = None) -> Figure:
    """
    Plots the importances of attention features by layer and head, in both directions.

    Numbers in the cells are the ranks of the top 10 features.

    Args:
        probe (`Probe`): The result of [`probe_pairs`].
        path (`str` or `os.PathLike`, *optional*): The `.png` or `.svg` file to write.

    Returns:
        `matplotlib.figure.Figure`: The figure.

    Raises:
        UserError: `path` does not end in `.png` or `.svg`.
    """
    check_picture_path(path)
    importances = 100 * probe.attention_importances
    _, layers, heads = importances.shape
    ranks = np.empty(len(probe.importances), dtype=int)
    ranks[probe.ranking] = np.arange(1, len(ranks) + 1)
    attention_ranks = ranks[2 * probe.layout.width :].reshape(importances.shape)
    darkest = importances.max()
    with picture_style():
        size = (2 * max(0.3 * heads, 2.4) + 1.8, max(0.3 * layers, 1.2) + 1.2)
        figure = Figure(figsize=size, facecolor="white", layout="constrained")
        panels = figure.subplots(1, 2, sharey=True)
        for axes, part, numbers, title in zip(panels, importances, attention_ranks, DIRECTIONS.items(), strict=True):
            image = axes.imshow(part, HEAT, vmin=0, vmax=darkest, aspect="auto", interpolation="nearest")
            for layer, head in zip(*np.nonzero(numbers <= NUMBERED), strict=True):
                color = "white" if part[layer, head] > darkest / 2 else INK
                axes.text(head, layer, str(numbers[layer, head]), color=color, size=8, ha="center", va="center")
            axes.set_title("{}: {}".format(*title), color=INK, size=10)
            axes.set_xlabel("head", color=MUTED)
            axes.set_xticks(range(0, heads, 1 + heads // 13))
            axes.set_yticks(range(0, layers, 1 + layers // 13))
            axes.tick_params(color=MUTED, labelcolor=INK)
            axes.spines[:].set_color(MUTED)
        panels[0].set_ylabel("layer", color=MUTED)
        bar = figure.colorbar(image, ax=panels, fraction=0.05, aspect=20, pad=0.02)
        mean = 100 / len(ranks)
        bar.ax.axhline(mean, color=COLORS[1], linestyle="--", linewidth=1.4)
        bar.set_label("importance (%; dashed: mean)", color=MUTED)
        bar.outline.set_visible(False)
        bar.ax.tick_params(color=MUTED, labelcolor=INK)
        save_picture(figure, path)
    return figure


class MarkedMap(NamedTuple):
    """
    A word-level attention map with the arcs of the tree.

    Args:
        weights (`np.ndarray` of shape `(W, W)`): Attention weights `[from, to]` between W words.
        title (`str`): The name and rank of the feature.
        arcs (`list[tuple[int, int]]`): The cells of the tree's arcs, in the direction of the feature.
    """

    weights: np.ndarray
    title: str
    arcs: list[tuple[int, int]]


def top_maps(
    probe: Probe, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, row: Mapping[str, Any]
) -> list[MarkedMap]:
    """
    The attention maps of a sentence in the two heads with the most important features.

    They are maps between words, without ROOT, as in Fig. 3 and 4 of the pairwise attention paper.

    Args:
        probe (`Probe`): The result of [`probe_pairs`].
        model (`PreTrainedModel`): The encoder. Its attention implementation and mode are restored afterwards.
        tokenizer (`PreTrainedTokenizerBase`): The fast tokenizer of the encoder.
        row (`Mapping[str, Any]`): A row of [`~msattn.data.inputs.parser_inputs.encode_treebank`].

    Returns:
        `list[MarkedMap]`: The maps, most important first.
    """
    batch = ParserCollator(tokenizer)([{name: value for name, value in row.items() if name not in WINDOW_COLUMNS}])
    with attention_implementation(model, "eager"):
        _, layers = encoder_outputs(model, batch)
    found: dict[tuple[int, int], MarkedMap] = {}
    for rank, feature in enumerate(probe.ranking - 2 * probe.layout.width, start=1):
        if feature < 0 or len(found) == SHOWN_MAPS:
            continue
        direction, layer, head = map(int, np.unravel_index(feature, probe.attention_importances.shape))
        if (layer, head) in found:
            continue
        weights = word_attention(layers[layer][:, [head]].cpu(), batch["word_index"])[0, 0, 1:, 1:]
        arcs = [(above - 1, word) for word, above in enumerate(row["heads"]) if above > 0]
        name = list(DIRECTIONS)[direction]
        cells = arcs if name == "a_ij" else [(word, above) for above, word in arcs]
        title = f"{layer}-{head}: {DIRECTIONS[name]} (rank {rank})"
        found[layer, head] = MarkedMap(weights.double().numpy(), title, cells)
    return list(found.values())


def _read_trees(args: ProbingArguments, name: str) -> Dataset:
    path = str(existing_file(getattr(args, name), name))
    trees = read_treebank(path)
    if "heads" not in trees.column_names:
        raise UserError(f"--{name} {path}: the sentences have no trees.")
    return trees


def _drawn_row(encoded: Dataset, number: int | None) -> dict[str, Any]:
    """The sentence whose attention is plotted, which must fit into one window."""
    windows = Counter(encoded["sentence"][:])
    # Pairs of the difference from HANDY_LENGTH and the row.
    whole = [
        (abs(len(heads) - HANDY_LENGTH), row)
        for row, (heads, sentence, cut) in enumerate(zip(*(encoded[name][:] for name in DRAWN_COLUMNS), strict=True))
        if windows[sentence] == 1 and not cut and number in (None, sentence + 1)
    ]
    if not whole:
        which = "every held-out sentence" if number is None else f"--sentence {number}: the sentence"
        raise UserError(f"{which} is longer than the encoder reads at a time; one that is shorter can be drawn.")
    return encoded[min(whole)[1]]


def _results(probe: Probe, heads: Sequence[BestHead]) -> dict[str, Any]:
    names = [probe.layout.name(column) for column in range(len(probe.importances))]
    return {
        "layout": probe.layout._asdict(),
        "accuracies": probe.accuracies,
        "top": [names[column] for column in probe.top],
        "attention_among_top": probe.attention_share,
        "attention_by_chance": probe.chance,
        "importances": dict(zip(names, probe.importances.tolist(), strict=True)),
        "lost_when_permuted": probe.losses,
        "best_heads": [row._asdict() for row in heads],
    }
