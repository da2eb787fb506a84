"""Syntactic probing: feature importances for dependency arcs, and the best attention head of each relation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from datasets.utils import tqdm
from sklearn.ensemble import ExtraTreesClassifier

from msattn.analysis.word_pairs import DIRECTIONS, FARTHEST, HeadHits, PairLayout, WordPairs
from msattn.results import markdown_table

# Number of top features in the claim of the pairwise attention paper.
TOP = 100
# Repetitions per feature group, which are averaged.
PERMUTATIONS = 3
ALL_RELATIONS = "all"


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
