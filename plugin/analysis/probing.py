"""What tells arcs from other pairs of words: trees over the features, and the best attention head of a relation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from datasets.utils import tqdm
from sklearn.ensemble import ExtraTreesClassifier

from msattn.analysis.word_pairs import DIRECTIONS, FARTHEST, HeadHits, PairLayout, WordPairs
from msattn.results import markdown_table

# The features of the paper's claim.
TOP = 100
# Of each group; the mean is what counts.
PERMUTATIONS = 3
ALL_RELATIONS = "all"


@dataclass(frozen=True)
class Probe:
    """
    What an ensemble of trees makes of pairs of words.

    Args:
        layout (`PairLayout`): Names the features.
        importances (`np.ndarray` of shape `(2M + 2LH,)`): The share of each feature in what the splits gain.
        accuracies (`dict[str, float]`): On held-out pairs, of ensembles that read all features or a part.
        losses (`dict[str, float]`): How much of the accuracy is lost when a group of features is permuted.
    """

    layout: PairLayout
    importances: np.ndarray
    accuracies: dict[str, float]
    losses: dict[str, float]

    @property
    def ranking(self) -> np.ndarray:
        """The features, the most important one first."""
        return np.argsort(-self.importances, kind="stable")

    @property
    def top(self) -> np.ndarray:
        """The first hundred of them, or fewer if there are fewer."""
        return self.ranking[:TOP]

    @property
    def attention_share(self) -> float:
        """The share of attention among the top features."""
        return float((self.top >= 2 * self.layout.width).mean())

    @property
    def chance(self) -> float:
        """The share of attention among all features, 2LH / (2M + 2LH)."""
        return self.layout.maps / (self.layout.width + self.layout.maps)

    @property
    def attention_importances(self) -> np.ndarray:
        """Those of a_ij and a_ji, `(2, layers, heads)`."""
        return self.importances[2 * self.layout.width :].reshape(2, self.layout.layers, self.layout.heads)


def probe_pairs(
    train: WordPairs, held_out: WordPairs, n_estimators: int = 200, n_jobs: int | None = None, seed: int = 0
) -> Probe:
    """
    Fits extremely randomised trees to pairs, on all features and on parts of them.

    Args:
        train, held_out (`WordPairs`): The pairs to learn from and to score with.
        n_estimators (`int`, *optional*, defaults to 200): Trees.
        n_jobs (`int`, *optional*): Processor cores, -1 for all; the result is the same.
        seed (`int`, *optional*, defaults to 0): Of trees and permutations.
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
    """All hidden states and all attention, both words and directions of them, and each layer in each direction."""
    states, end = 2 * layout.width, 2 * (layout.width + layout.maps)
    groups = {"T": slice(states), "a": slice(states, end), **layout.groups}
    for direction in DIRECTIONS:
        for layer in range(layout.layers):
            start = layout.groups[direction].start + layer * layout.heads
            groups[f"{direction} {layer}"] = slice(start, start + layout.heads)
    return groups


class BestHead(NamedTuple):
    """
    The attention head that points at the heads of a relation.

    Args:
        relation: Its name, or `"all"`.
        words: Held-out words of the relation whose head is a word.
        direction: `"a_ij"` or `"a_ji"`, see `DIRECTIONS`.
        layer: From 0.
        head: From 0.
        accuracy: How many of the words have their head where the attention is highest.
        offset: The most frequent place of the head, in words to the right.
        offset_accuracy: How many have it there.
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
    The best attention head for all words, and for each relation ("What Does BERT Look At?", Clark et al. 2019, section
    4.2), beside the best fixed offset. Head and offset are chosen on the training data, the accuracies are held out.

    Args:
        train, held_out (`HeadHits`): What was counted.
        relations (`Sequence[str]`): The names of the relations.
        min_count (`int`, *optional*, defaults to 1): Leave out relations of fewer words, in either part.

    Returns:
        `list[BestHead]`: All words, then the relations, the most frequent first.
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
    All results as Markdown.

    Args:
        probe (`Probe`): As from [`probe_pairs`].
        heads (`Sequence[BestHead]`): As from [`best_heads`].
        shown (`int`, *optional*, defaults to 20): How many of the top features are listed.
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
