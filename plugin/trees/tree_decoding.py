"""The best dependency tree for scores of arcs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from msattn.errors import UserError

# The head of what is no word, beyond the end of a shorter sentence.
NO_WORD = -1


def decode_tree(scores: np.ndarray | torch.Tensor, single_root: bool = True) -> np.ndarray:
    """
    The tree whose arcs have the highest sum of scores.

    Args:
        scores (`np.ndarray` or `torch.Tensor`):
            `(words + 1, words + 1)`: the row is the head, the column its dependent, and number 0 is the root. The
            diagonal and column 0, which no tree has, are not read. An arc that must not be has a low finite score.
        single_root (`bool`, *optional*, defaults to `True`): Whether only one word may depend on the root.

    Returns:
        `np.ndarray`: `(words,)`, the head of each word.

    Raises:
        ValueError: The scores have another shape, or one of them is not a finite number.
    """
    scores = as_array(scores)
    return decode_trees(scores[None], single_root=single_root)[0]


def decode_trees(scores: np.ndarray | torch.Tensor, lengths: Any = None, single_root: bool = True) -> np.ndarray:
    """
    [`decode_tree`] for a batch.

    Where each word's best head makes a tree already, as it mostly does with a trained parser, that is the result; the
    other sentences go through the algorithm of Chu, Liu and Edmonds.

    Args:
        scores (`np.ndarray` or `torch.Tensor`): `(batch, words + 1, words + 1)`; see [`decode_tree`].
        lengths (sequence of `int`, *optional*): The number of words of each sentence; all have the same if `None`.
        single_root (`bool`, *optional*, defaults to `True`): Whether only one word may depend on the root.

    Returns:
        `np.ndarray`: `(batch, words)`, with -1 beyond the end of a sentence.

    Raises:
        ValueError: See [`decode_tree`].
    """
    scores = as_array(scores)
    return repaired_heads(scores, greedy_heads(scores, lengths), single_root)


def repaired_heads(scores: np.ndarray, greedy: np.ndarray, single_root: bool = True) -> np.ndarray:
    """The heads of [`decode_trees`], given those of [`greedy_heads`] for the same scores."""
    heads = greedy.copy()
    for row in np.flatnonzero(~are_trees(heads, single_root)):
        words = int((heads[row] != NO_WORD).sum())
        heads[row, :words] = _best_tree(scores[row, : words + 1, : words + 1], single_root)
    return heads


def greedy_heads(scores: np.ndarray | torch.Tensor, lengths: Any = None) -> np.ndarray:
    """
    The best head of each word by itself; together they may be no tree.

    Args:
        scores (`np.ndarray` or `torch.Tensor`): `(batch, words + 1, words + 1)`; see [`decode_tree`].
        lengths (sequence of `int`, *optional*): The number of words of each sentence; all have the same if `None`.

    Returns:
        `np.ndarray`: `(batch, words)`, with -1 beyond the end of a sentence.

    Raises:
        ValueError: See [`decode_tree`].
    """
    scores = as_array(scores)
    if scores.ndim != 3 or scores.shape[1] != scores.shape[2] or not scores.shape[1]:
        raise ValueError(f"scores have as many heads as dependents, the root being one; these are {scores.shape}.")
    batch, size, _ = scores.shape
    lengths = np.full(batch, size - 1) if lengths is None else np.asarray(lengths)
    numbers = np.arange(size)
    real = numbers <= lengths[:, None]
    arcs = real[:, :, None] & real[:, None, :] & (numbers != 0) & ~np.eye(size, dtype=bool)
    if not np.isfinite(scores[arcs]).all():
        raise ValueError("the scores of arcs must be finite numbers, and one is not.")
    heads = np.where(arcs, scores, -np.inf).argmax(axis=1)
    return np.where(real, heads, NO_WORD)[:, 1:]


def are_trees(heads: np.ndarray, single_root: bool = True) -> np.ndarray:
    """
    Args:
        heads (`np.ndarray`): `(batch, words)`, from 0 for the root on, and -1 beyond the end of a sentence.
        single_root (`bool`, *optional*, defaults to `True`): Whether only one word may depend on the root.

    Returns:
        `np.ndarray`: `(batch,)`, whether all words of a sentence hang from the root.
    """
    reached = np.pad(np.maximum(heads, 0), ((0, 0), (1, 0)))
    # Each step doubles the way towards the root.
    for _ in range(int(heads.shape[1]).bit_length()):
        reached = np.take_along_axis(reached, reached, axis=1)
    trees = np.asarray(~reached.any(axis=1))
    if single_root:
        trees &= (heads == 0).sum(axis=1) == 1
    return trees


def joined_tree(heads: np.ndarray, scores: np.ndarray) -> np.ndarray:
    """
    The tree from heads that were found in several windows of a sentence.

    Of the words that depend on the root the one with the highest score stays; the others, and of each cycle the word
    with the lowest score, are hung below it.

    Args:
        heads (`np.ndarray`): `(words,)`, from 0 for the root on.
        scores (`np.ndarray`): `(words,)`, of the arc from each head.

    Returns:
        `np.ndarray`: `(words,)`, the heads of a tree with one root.
    """
    roots = np.flatnonzero(heads == 0)
    heads = heads.copy()
    top = roots[scores[roots].argmax()] if len(roots) else None
    if top is not None:
        heads[roots] = top + 1
        heads[top] = 0
    done = np.zeros(len(heads) + 1, dtype=bool)
    done[0] = True
    for start in range(1, len(heads) + 1):
        way = []
        word = start
        while not done[word]:
            done[word] = True
            way.append(word)
            word = heads[word - 1]
        if word in way:
            weakest = min(way[way.index(word) :], key=lambda number: scores[number - 1]) - 1
            heads[weakest] = 0 if top is None else top + 1
            top = weakest if top is None else top
    return heads


def tree_search() -> Callable[[np.ndarray], tuple[list[int], float]]:
    """
    The algorithm of Chu, Liu and Edmonds, from a package that is not required, since its licence is the GPL.

    Raises:
        UserError: It is not installed.
    """
    try:
        from ufal.chu_liu_edmonds import chu_liu_edmonds
    except ImportError:
        raise UserError(
            "the best tree is found by the package ufal.chu_liu_edmonds: pip install 'msattn[parsing]', or decode "
            "greedily."
        ) from None
    return chu_liu_edmonds


def _best_tree(scores: np.ndarray, single_root: bool) -> np.ndarray:
    chu_liu_edmonds = tree_search()
    # The library has a row a dependent, and takes NaN for an arc that cannot be. What is subtracted from all heads of
    # a word changes no choice, and leaves small numbers.
    arcs = scores.T.copy()
    np.fill_diagonal(arcs, np.nan)
    arcs[0] = np.nan
    arcs[1:] -= np.nanmax(arcs[1:], axis=1, keepdims=True)
    # So that no sum overflows.
    arcs = np.maximum(arcs, -1e300)
    heads = np.array(chu_liu_edmonds(arcs)[0][1:])
    roots = np.flatnonzero(heads == 0) + 1
    # A tree with one root that is the best while every root has a price is the best of all with one root. The price
    # starts low: beside a large one the scores would lose their last digits.
    price = np.abs(arcs[roots, 0] - np.nanmax(arcs[roots, 1:], axis=1)).min() / 2 if len(roots) > 1 else 0.0
    while single_root and len(roots) > 1:
        price = 2 * price or 1.0
        priced = arcs.copy()
        priced[1:, 0] -= price
        heads = np.array(chu_liu_edmonds(priced)[0][1:])
        roots = np.flatnonzero(heads == 0) + 1
    return heads


def as_array(scores: np.ndarray | torch.Tensor) -> np.ndarray:
    if isinstance(scores, torch.Tensor):
        scores = scores.detach().to("cpu", torch.float64).numpy()
    return np.asarray(scores, dtype=np.float64)
