"""The best trees of a sentence, one after another."""

from __future__ import annotations

import heapq
from itertools import count
from typing import NamedTuple

import numpy as np
import torch

from msattn.errors import UserError
from msattn.trees.spanning_trees import Choice, best_tree, without_overflow
from msattn.trees.tree_decoding import as_array, greedy_heads, no_tree_error


class TreeSet(NamedTuple):
    """
    Trees with several things in common.

    Args:
        root: The only word that may depend on the root; 0 for no such limit.
        kept: The arcs, head and dependent, that all trees have.
        barred: The arcs that none has.
    """

    root: int = 0
    kept: tuple[tuple[int, int], ...] = ()
    barred: tuple[tuple[int, int], ...] = ()

    def scores(self, scores: np.ndarray) -> np.ndarray:
        """The scores with `-np.inf` for all arcs that these trees do not have."""
        limited = scores.copy()
        if self.root:
            limited[0] = -np.inf
            limited[0, self.root] = scores[0, self.root]
        for head, dependent in self.kept:
            score = limited[head, dependent]
            limited[:, dependent] = -np.inf
            limited[head, dependent] = score
        for arc in self.barred:
            limited[arc] = -np.inf
        return limited


def k_best_trees(scores: np.ndarray | torch.Tensor, k: int, single_root: bool = True) -> tuple[np.ndarray, np.ndarray]:
    """
    Finds the trees whose arcs have the highest sums of scores.

    The algorithm of Camerini, Fratta and Maffioli (1980), O(k words²). With one root, the trees of each root are
    ranked apart (after Zmigrod, Vieira and Cotterell 2021).

    Args:
        scores (`np.ndarray` or `torch.Tensor`): `(words + 1, words + 1)`; see [`decode_tree`].
        k (`int`): The number of trees.
        single_root (`bool`, *optional*, defaults to `True`): Whether only one word may depend on the root.

    Returns:
        `tuple[np.ndarray, np.ndarray]`: the heads, `(found, words)`, and the totals, `(found,)`, best first. `found`
        is smaller than `k` if there are fewer trees. Trees with the same total come in any order.

    Raises:
        ValueError: The scores are not a square matrix, or one of an arc is NaN or `inf`.
        UserError: `k` is less than 1, or every tree has an impossible arc.

    Example:

    ```python
    >>> heads, totals = msattn.k_best_trees([[0, 9, 8], [0, 0, 7], [0, 1, 0]], k=5)
    >>> heads.tolist(), totals.tolist()
    ([[0, 1], [2, 0]], [16.0, 9.0])
    ```"""
    scores = as_array(scores)
    greedy_heads(scores[None])  # refuses what are no scores
    if k < 1:
        raise UserError(f"k={k} trees cannot be found; give 1 or more.")
    arcs = np.where(np.eye(len(scores), dtype=bool), -np.inf, without_overflow(scores))
    words = np.arange(1, len(scores))
    numbers = count()
    # The best tree of a set, or the one that is best without it: by its total, negated, and a number that breaks ties.
    queue: list[tuple[float, int, TreeSet, np.ndarray, tuple[int, int] | None]] = []

    def add_set(trees: TreeSet) -> None:
        """The best tree of a set comes next."""
        tree = best_tree(trees.scores(arcs), single_root)
        if tree is not None:
            heapq.heappush(queue, (-arcs[tree, words].sum(), next(numbers), trees, tree, None))

    def add_rest(trees: TreeSet, tree: np.ndarray) -> None:
        """The best tree of a set but for the one that is found already comes next."""
        loss, arc = _next_best(trees.scores(arcs), tree)
        if loss < np.inf:
            heapq.heappush(queue, (loss - arcs[tree, words].sum(), next(numbers), trees, tree, arc))

    add_set(TreeSet())
    found: list[np.ndarray] = []
    while queue and len(found) < k:
        _, _, trees, tree, arc = heapq.heappop(queue)
        if arc is None:
            found.append(tree)
            if single_root and len(words):
                root = int((tree == 0).argmax()) + 1
                add_rest(TreeSet(root=root), tree)
                add_set(TreeSet(barred=(*trees.barred, (0, root))))
            else:
                add_rest(trees, tree)
            continue
        add_rest(trees._replace(kept=(*trees.kept, arc)), tree)
        trees = trees._replace(barred=(*trees.barred, arc))
        other = best_tree(trees.scores(arcs), single_root=False)
        if other is not None:
            found.append(other)
            add_rest(trees, other)
    if not found:
        raise no_tree_error("the sentence", "tree", single_root)
    heads = np.array(found).reshape(len(found), len(words))
    totals = scores[heads, words].sum(axis=1)
    order = np.argsort(-totals, kind="stable")
    return heads[order], totals[order]


def _next_best(scores: np.ndarray, tree: np.ndarray) -> tuple[float, tuple[int, int]]:
    """
    The least loss of giving up one arc of the best tree, and that arc.

    When the search chose this arc into a set of words, there were others into the same set. One that comes from below
    the arc would close a cycle; of the others the best one takes its place.

    Args:
        scores (`np.ndarray`): `(words + 1, words + 1)`.
        tree (`np.ndarray`): `(words,)`, a tree with the highest total, whatever the number of its roots.

    Returns:
        `tuple[float, tuple[int, int]]`: The loss, `np.inf` if there is no other tree, and the arc, head and dependent.
    """
    words = np.arange(1, len(scores))
    # Among trees with the same total, and where rounding decides, the search has to find this one.
    favoured = scores.copy()
    most = scores.max(axis=0, initial=-np.inf)[1:]
    lead = 8 * len(scores) * np.finfo(float).eps * max(np.abs([*most, *scores[tree, words]]).max(initial=0), 1e-290)
    choices: list[Choice] = []
    while True:
        favoured[tree, words] = scores[tree, words] + lead
        choices.clear()
        found = best_tree(favoured, False, choices)
        if found is not None and np.array_equal(found, tree):
            break
        lead *= 16
    # below[a, b]: whether a hangs from b, or is b.
    below = np.eye(len(scores), dtype=bool)
    for word in words:
        above = tree[word - 1]
        while above:
            below[word, above] = True
            above = tree[above - 1]
    best, best_arc = np.inf, (0, 0)
    for choice in choices:
        losses = np.where(below[:, choice.dependent], np.inf, choice.losses)
        losses[choice.head] = choice.second_loss
        loss = float(losses.min())
        if loss < best:
            best, best_arc = loss, (choice.head, choice.dependent)
    return best, best_arc
