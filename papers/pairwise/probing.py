"""
Syntactic probing (section 4.3 of the paper): which hidden states and attention heads of an encoder tell dependency
arcs from other word pairs, and the best attention head of each relation.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from datasets import Dataset
from datasets.utils import tqdm
from sklearn.ensemble import ExtraTreesClassifier
from transformers import PreTrainedModel, PreTrainedTokenizerBase
from word_pairs import DIRECTIONS, FARTHEST, HeadHits, PairLayout, WordPairs, encoder_outputs, read_word_pairs

from msattn.data import read_treebank
from msattn.data.inputs.parser_inputs import WINDOW_COLUMNS, encode_treebank
from msattn.data.inputs.parser_windows import ParserCollator
from msattn.modeling.word_attention import word_attention
from msattn.plots import plot_attention_maps
from msattn.plots.encoders import load_encoder
from msattn.plots.style import COLORS, INK, MUTED, drawing, markdown_table

# Number of top features in the claim of the pairwise attention paper.
TOP = 100
# Repetitions per feature group, which are averaged.
PERMUTATIONS = 3
ALL_RELATIONS = "all"
# Number of ranks that the picture of the importances shows.
NUMBERED = 10
# The held-out sentence whose attention is drawn has about this many words.
HANDY_LENGTH = 12


@dataclass(frozen=True)
class Probe:
    """
    The results of classifying word pairs as arc or no arc with tree ensembles.

    Args:
        layout (`PairLayout`): The positions of the features.
        importances (`np.ndarray` of shape `(2M + 2LH,)`): Impurity-based importances, which sum to 1.
        accuracies (`dict[str, float]`): Held-out accuracies, from 0 to 1, by feature set.
        losses (`dict[str, float]`): Permutation importances: the loss of held-out accuracy by feature group.
    """

    layout: PairLayout
    importances: np.ndarray
    accuracies: dict[str, float]
    losses: dict[str, float]

    @property
    def ranking(self) -> np.ndarray:
        """The indices of the features, most important first."""
        return np.argsort(-self.importances, kind="stable")

    @property
    def top(self) -> np.ndarray:
        """The indices of the 100 most important features, or of all if there are fewer."""
        return self.ranking[:TOP]

    @property
    def attention_share(self) -> float:
        """The fraction of attention features among the top features."""
        return float((self.top >= 2 * self.layout.width).mean())

    @property
    def chance(self) -> float:
        """The fraction of attention features among all features, 2LH / (2M + 2LH)."""
        return self.layout.maps / (self.layout.width + self.layout.maps)

    @property
    def attention_importances(self) -> np.ndarray:
        """The importances of a_ij and a_ji, `(2, layers, heads)`."""
        return self.importances[2 * self.layout.width :].reshape(2, self.layout.layers, self.layout.heads)


def probe_pairs(
    train: WordPairs, held_out: WordPairs, n_estimators: int = 200, n_jobs: int | None = None, seed: int = 0
) -> Probe:
    """
    Fits extremely randomized trees to word pairs, on all features and on subsets.

    Args:
        train (`WordPairs`): The training pairs.
        held_out (`WordPairs`): The pairs for accuracies and permutation importances.
        n_estimators (`int`, *optional*, defaults to 200): Number of trees per ensemble.
        n_jobs (`int`, *optional*): Number of CPU cores, -1 for all. It does not change the result.
        seed (`int`, *optional*, defaults to 0): Random seed of trees and permutations.

    Returns:
        `Probe`: Importances and accuracies.
    """
    layout = train.layout
    states = 2 * layout.width
    inputs = {
        "T and a": (train.features, held_out.features),
        "T": (train.features[:, :states], held_out.features[:, :states]),
        "a": (train.features[:, states:], held_out.features[:, states:]),
        "place only": (train.places, held_out.places),
    }
    ensembles = {
        name: ExtraTreesClassifier(n_estimators, n_jobs=n_jobs, random_state=seed).fit(seen, train.is_arc)
        for name, (seen, _) in tqdm(inputs.items(), desc="Growing trees", delay=2, leave=False)
    }
    accuracies = {name: ensembles[name].score(unseen, held_out.is_arc) for name, (_, unseen) in inputs.items()}
    whole = ensembles["T and a"]
    generator = np.random.default_rng(seed)
    losses = {}
    for name, columns in tqdm(permuted_groups(layout).items(), desc="Permuting features", delay=2, leave=False):
        scores = []
        for _ in range(PERMUTATIONS):
            features = held_out.features.copy()
            features[:, columns] = features[generator.permutation(len(features)), columns]
            scores.append(whole.score(features, held_out.is_arc))
        losses[name] = accuracies["T and a"] - float(np.mean(scores))
    return Probe(layout, whole.feature_importances_, accuracies, losses)


def permuted_groups(layout: PairLayout) -> dict[str, slice]:
    """
    The feature groups for permutation importances, as column slices by name.

    They are all hidden states (T), all attention (a), their parts ([`PairLayout.groups`]), and each layer of attention
    in each direction.

    Args:
        layout (`PairLayout`): The positions of the features.
    """
    states, end = 2 * layout.width, 2 * (layout.width + layout.maps)
    groups = {"T": slice(states), "a": slice(states, end), **layout.groups}
    for direction in DIRECTIONS:
        for layer in range(layout.layers):
            start = layout.groups[direction].start + layer * layout.heads
            groups[f"{direction} {layer}"] = slice(start, start + layout.heads)
    return groups


class BestHead(NamedTuple):
    """
    The attention head that best finds the syntactic heads of a relation.

    Args:
        relation (`str`): The name of the relation, or `"all"`.
        words (`int`): Number of held-out words with this relation, without root dependents.
        direction (`str`): `"a_ij"` or `"a_ji"`; see `DIRECTIONS`.
        layer (`int`): The layer of the attention head, from 0.
        head (`int`): The attention head, from 0.
        accuracy (`float`): Fraction of the words whose head has the highest attention.
        offset (`int`): The most frequent offset of the head from its word; positive to the right.
        offset_accuracy (`float`): Fraction of the words whose head has this offset (the baseline).
    """

    relation: str
    words: int
    direction: str
    layer: int
    head: int
    accuracy: float
    offset: int
    offset_accuracy: float


def best_heads(train: HeadHits, held_out: HeadHits, relations: Sequence[str], min_count: int = 1) -> list[BestHead]:
    """
    The best attention head for each relation and for all words, with the best fixed offset as the baseline.

    The method is that of "What Does BERT Look At?" (Clark et al. 2019, section 4.2). Head and offset are chosen on the
    training data; accuracies are those on held-out data.

    Args:
        train (`HeadHits`): Counts on the training data.
        held_out (`HeadHits`): Counts on the held-out data.
        relations (`Sequence[str]`): The names of the relations in the order of their ids.
        min_count (`int`, *optional*, defaults to 1): Minimum number of words per relation in both data sets.

    Returns:
        `list[BestHead]`: The result for all words, then for the relations by descending frequency.
    """
    rows = [_best_head(ALL_RELATIONS, *(_sums(part) for part in (train, held_out)))] if held_out.words.any() else []
    for number in np.argsort(-held_out.words, kind="stable"):
        seen, unseen = (HeadHits(*(column[number] for column in vars(part).values())) for part in (train, held_out))
        if min(seen.words, unseen.words) >= min_count:
            rows.append(_best_head(relations[number], seen, unseen))
    return rows


def _sums(hits: HeadHits) -> HeadHits:
    return HeadHits(*(column.sum(axis=0) for column in vars(hits).values()))


def _best_head(relation: str, train: HeadHits, held_out: HeadHits) -> BestHead:
    direction, layer, head = map(int, np.unravel_index(train.hits.argmax(), train.hits.shape))
    offset = int(train.offsets.argmax())
    return BestHead(
        relation=relation,
        words=int(held_out.words),
        direction=list(DIRECTIONS)[direction],
        layer=layer,
        head=head,
        accuracy=float(held_out.hits[direction, layer, head] / held_out.words),
        offset=offset - FARTHEST,
        offset_accuracy=float(held_out.offsets[offset] / held_out.words),
    )


def probing_tables(probe: Probe, heads: Sequence[BestHead], shown: int = 20) -> str:
    """
    Formats all results as Markdown tables.

    Args:
        probe (`Probe`): The result of [`probe_pairs`].
        heads (`Sequence[BestHead]`): The result of [`best_heads`].
        shown (`int`, *optional*, defaults to 20): Number of top features to list.
    """
    count = len(probe.top)
    accuracies = [(name, f"{100 * accuracy:.2f}") for name, accuracy in probe.accuracies.items()]
    top = [(rank, probe.layout.name(i), f"{probe.importances[i]:.4f}") for rank, i in enumerate(probe.top[:shown], 1)]
    losses = [(name, f"{100 * loss:.2f}") for name, loss in probe.losses.items()]
    best = [
        (
            row.relation,
            row.words,
            f"{100 * row.accuracy:.1f}",
            f"{row.layer}-{row.head}",
            DIRECTIONS[row.direction],
            f"{100 * row.offset_accuracy:.1f} ({row.offset:+d})",
        )
        for row in heads
    ]
    return "\n\n".join(
        [
            "Arcs against other pairs, held out:",
            markdown_table(("features", "accuracy (%)"), accuracies),
            f"Of the {count} most important features {round(count * probe.attention_share)} are attention "
            f"({100 * probe.attention_share:.0f} %; by chance {100 * probe.chance:.1f} %). The first:",
            markdown_table(("rank", "feature", "importance"), top),
            "Accuracy that is lost when features are permuted over the held-out pairs:",
            markdown_table(("features", "lost (points)"), losses),
            "The best attention head of each relation, held out:",
            markdown_table(("relation", "words", "accuracy (%)", "head", "direction", "fixed offset (%)"), best),
        ]
    )


def plot_importances(probe: Probe, path: str | Path) -> None:
    """The importances of attention features by layer and head, in both directions, with the ranks of the top 10."""
    from matplotlib.colors import LinearSegmentedColormap

    heat = LinearSegmentedColormap.from_list("heat", ["#ffffff", "#c6dbef", "#6baed6", "#2171b5", "#08306b"])
    importances = 100 * probe.attention_importances
    _, layers, heads = importances.shape
    ranks = np.empty(len(probe.importances), dtype=int)
    ranks[probe.ranking] = np.arange(1, len(ranks) + 1)
    attention_ranks = ranks[2 * probe.layout.width :].reshape(importances.shape)
    darkest = importances.max()
    with drawing(path, (2 * max(0.3 * heads, 2.4) + 1.8, max(0.3 * layers, 1.2) + 1.2)) as figure:
        panels = figure.subplots(1, 2, sharey=True)
        for axes, part, numbers, title in zip(panels, importances, attention_ranks, DIRECTIONS.items(), strict=True):
            image = axes.imshow(part, heat, vmin=0, vmax=darkest, aspect="auto", interpolation="nearest")
            for layer, head in zip(*np.nonzero(numbers <= NUMBERED), strict=True):
                color = "white" if part[layer, head] > darkest / 2 else INK
                axes.text(head, layer, str(numbers[layer, head]), color=color, size=8, ha="center", va="center")
            axes.set_title("{}: {}".format(*title), color=INK, size=10)
            axes.set_xlabel("head", color=MUTED)
            axes.set_xticks(range(0, heads, 1 + heads // 13))
            axes.set_yticks(range(0, layers, 1 + layers // 13))
        panels[0].set_ylabel("layer", color=MUTED)
        bar = figure.colorbar(image, ax=panels, fraction=0.05, aspect=20, pad=0.02)
        bar.ax.axhline(100 / len(ranks), color=COLORS[1], linestyle="--", linewidth=1.4)
        bar.set_label("importance (%; dashed: mean)", color=MUTED)


def plot_top_maps(
    probe: Probe,
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    words: Sequence[str],
    row: Mapping,
    path: Path,
) -> None:
    """The word-level maps of the two heads with the most important features, arcs framed (Fig. 3 and 4)."""
    batch = ParserCollator(tokenizer)([{name: value for name, value in row.items() if name not in WINDOW_COLUMNS}])
    _, layers = encoder_outputs(model, batch)
    arcs = [(above - 1, word) for word, above in enumerate(row["heads"]) if above > 0]
    found: dict[tuple[int, int], tuple[np.ndarray, str, list[tuple[int, int]]]] = {}
    for rank, feature in enumerate(probe.ranking - 2 * probe.layout.width, start=1):
        if feature < 0 or len(found) == 2:
            continue
        direction, layer, head = map(int, np.unravel_index(feature, probe.attention_importances.shape))
        weights = word_attention(layers[layer][:, [head]].cpu(), batch["word_index"])[0, 0, 1:, 1:]
        name = list(DIRECTIONS)[direction]
        cells = arcs if name == "a_ij" else [(word, above) for above, word in arcs]
        title = f"{layer}-{head}: {DIRECTIONS[name]} (rank {rank})"
        found.setdefault((layer, head), (weights.double().numpy(), title, cells))
    maps, titles, marks = zip(*found.values(), strict=True)
    plot_attention_maps(maps, [words] * len(maps), path, titles, marks=marks)


def handy_row(encoded: Dataset) -> dict[str, Any]:
    """The sentence of one window and about 12 words whose attention is drawn."""
    windows = Counter(encoded["sentence"][:])
    columns = zip(*(encoded[name][:] for name in ("heads", "sentence", "cut")), strict=True)
    whole = [
        (abs(len(heads) - HANDY_LENGTH), row)
        for row, (heads, sentence, cut) in enumerate(columns)
        if windows[sentence] == 1 and not cut
    ]
    return encoded[min(whole)[1]]


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model_name_or_path", required=True, help="encoder")
    parser.add_argument("--train_file", required=True, help="treebank")
    parser.add_argument("--validation_file", required=True, help="treebank on which all accuracies are measured")
    parser.add_argument("--output_dir", type=Path, required=True, help="folder of numbers, tables and pictures")
    parser.add_argument("--max_pairs", type=int, default=10_000, help="word pairs of each file, half of them arcs")
    parser.add_argument("--n_estimators", type=int, default=200, help="trees of an ensemble")
    parser.add_argument("--min_count", type=int, default=20, help="least words of a relation in the table of heads")
    parser.add_argument("--seed", type=int, default=0, help="of pairs, trees and permutations")
    args = parser.parse_args(argv)
    trees = [read_treebank(args.train_file), read_treebank(args.validation_file)]
    model, tokenizer = load_encoder(args.model_name_or_path)
    model.set_attn_implementation("eager")
    relations = sorted({name for part in trees for names in part["relations"] for name in names})
    numbers = {name: number for number, name in enumerate(relations)}
    encoded = [encode_treebank(part, tokenizer, numbers, tokenizer.model_max_length) for part in trees]
    read = [read_word_pairs(model, tokenizer, part, len(relations), args.max_pairs, args.seed) for part in encoded]
    (train_pairs, train_hits), (pairs, hits) = read
    probe = probe_pairs(train_pairs, pairs, args.n_estimators, -1, args.seed)
    heads = best_heads(train_hits, hits, relations, args.min_count)

    args.output_dir.mkdir(parents=True, exist_ok=True)
    names = [probe.layout.name(column) for column in range(len(probe.importances))]
    results = {
        "accuracies": probe.accuracies,
        "attention_among_top": probe.attention_share,
        "attention_by_chance": probe.chance,
        "importances": dict(zip(names, probe.importances.tolist(), strict=True)),
        "lost_when_permuted": probe.losses,
        "best_heads": [row._asdict() for row in heads],
    }
    (args.output_dir / "probing.json").write_text(json.dumps(results, indent=2) + "\n", encoding="utf-8")
    tables = probing_tables(probe, heads)
    (args.output_dir / "probing.md").write_text(tables + "\n", encoding="utf-8")
    print(tables)
    plot_importances(probe, args.output_dir / "probing_importances.png")
    drawn = handy_row(encoded[1])
    words = trees[1][drawn["sentence"]]["words"]
    plot_top_maps(probe, model, tokenizer, words, drawn, args.output_dir / "probing_maps.png")


if __name__ == "__main__":
    main()
