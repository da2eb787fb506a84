"""Maximum spanning tree decoding of dependency arc scores."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from msattn.errors import UserError

# The head in padding.
NO_WORD = -1


def decode_tree(scores: np.ndarray | torch.Tensor, single_root: bool = True) -> np.ndarray:
    """
    Finds the dependency tree with the highest sum of arc scores (maximum spanning tree).

    Args:
        scores (`np.ndarray` or `torch.Tensor` of shape `(words + 1, words + 1)`):
            Arc scores, with a row per head and a column per dependent; index 0 is the root. The diagonal and column 0
            are ignored. To forbid an arc, give it a low finite score.
        single_root (`bool`, *optional*, defaults to `True`): Whether only one word may depend on the root.

    Returns:
        `np.ndarray` of shape `(words,)`: The head of each word, from 1; 0 for the root.

    Raises:
        ValueError: The scores are not a square matrix, or a score is not finite.
        UserError: The package `ufal.chu_liu_edmonds` is needed but not installed.

    Example:

    ```python
    >>> import numpy as np
    >>> from msattn import decode_tree

    >>> scores = np.array([[0.0, 1.0, 5.0], [0.0, 0.0, 2.0], [0.0, 4.0, 0.0]])
    >>> decode_tree(scores).tolist()
    [2, 0]
    ```
    """
    scores = as_array(scores)
    return decode_trees(scores[None], single_root=single_root)[0]


def decode_trees(scores: np.ndarray | torch.Tensor, lengths: Any = None, single_root: bool = True) -> np.ndarray:
    """
    Finds the dependency trees of a batch; see [`decode_tree`].

    If the greedy heads of a sentence already form a tree, as they mostly do for a trained parser, they are the result.
    Only the other sentences need the Chu-Liu/Edmonds algorithm.

    Args:
        scores (`np.ndarray` or `torch.Tensor` of shape `(batch, words + 1, words + 1)`): Arc scores.
        lengths (`Sequence[int]`, *optional*): The number of words of each sentence. Default: all words are real.
        single_root (`bool`, *optional*, defaults to `True`): Whether only one word may depend on the root.

    Returns:
        `np.ndarray` of shape `(batch, words)`: The heads, with -1 in padding.

    Raises:
        ValueError: The scores are not a batch of square matrices, or a score is not finite.
        UserError: The package `ufal.chu_liu_edmonds` is needed but not installed.
    """
    scores = as_array(scores)
    return repaired_heads(scores, greedy_heads(scores, lengths), single_root)


def repaired_heads(scores: np.ndarray, greedy: np.ndarray, single_root: bool = True) -> np.ndarray:
    """
    Replaces greedy heads that do not form a tree by the maximum spanning tree.

    Args:
        scores (`np.ndarray` of shape `(batch, words + 1, words + 1)`): Arc scores; see [`decode_tree`].
        greedy (`np.ndarray` of shape `(batch, words)`): The result of [`greedy_heads`] for these scores.
        single_root (`bool`, *optional*, defaults to `True`): Whether only one word may depend on the root.

    Returns:
        `np.ndarray` of shape `(batch, words)`: The heads, with -1 in padding.

    Raises:
        UserError: The package `ufal.chu_liu_edmonds` is needed but not installed.
    """
    heads = greedy.copy()
    for row in np.flatnonzero(~are_trees(heads, single_root)):
        words = int((heads[row] != NO_WORD).sum())
        heads[row, :words] = _best_tree(scores[row, : words + 1, : words + 1], single_root)
    return heads


def greedy_heads(scores: np.ndarray | torch.Tensor, lengths: Any = None) -> np.ndarray:
    """
    The best head of each word. The heads of a sentence need not form a tree.

    Args:
        scores (`np.ndarray` or `torch.Tensor` of shape `(batch, words + 1, words + 1)`):
            Arc scores; see [`decode_tree`].
        lengths (`Sequence[int]`, *optional*): The number of words of each sentence. Default: all words are real.

    Returns:
        `np.ndarray` of shape `(batch, words)`: The heads, with -1 in padding.

    Raises:
        ValueError: The scores are not a batch of square matrices, or a score is not finite.
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
    Whether the heads of each sentence form a tree.

    Args:
        heads (`np.ndarray` of shape `(batch, words)`): The heads, from 1; 0 for the root, -1 in padding.
        single_root (`bool`, *optional*, defaults to `True`): Whether exactly one word must depend on the root.

    Returns:
        `np.ndarray` of shape `(batch,)`: Whether all words of a sentence lead to the root.
    """
    reached = np.pad(np.maximum(heads, 0), ((0, 0), (1, 0)))
    # Pointer jumping: each step doubles the distance towards the root.
    for _ in range(int(heads.shape[1]).bit_length()):
        reached = np.take_along_axis(reached, reached, axis=1)
    trees = np.asarray(~reached.any(axis=1))
    if single_root:
        trees &= (heads == 0).sum(axis=1) == 1
    return trees


def joined_tree(heads: np.ndarray, scores: np.ndarray) -> np.ndarray:
    """
    Repairs the heads that were merged from several windows of a sentence to a tree with one root.

    The root dependent with the highest score stays. The other root dependents, and the word with the lowest score of
    each cycle, are attached to it.

    Args:
        heads (`np.ndarray` of shape `(words,)`): The heads, from 1; 0 for the root.
        scores (`np.ndarray` of shape `(words,)`): The score of the arc to each word.

    Returns:
        `np.ndarray` of shape `(words,)`: The heads of the tree.
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
    Returns the Chu-Liu/Edmonds algorithm of the optional package `ufal.chu_liu_edmonds`, whose licence is the GPL.

    Raises:
        UserError: The package is not installed.
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
    # The library wants one row per dependent and NaN for forbidden arcs. Subtracting the maximum of a row does not
    # change the best tree.
    arcs = scores.T.copy()
    np.fill_diagonal(arcs, np.nan)
    arcs[0] = np.nan
    arcs[1:] -= np.nanmax(arcs[1:], axis=1, keepdims=True)
    # Avoids an overflow of sums.
    arcs = np.maximum(arcs, -1e300)
    heads = np.array(chu_liu_edmonds(arcs)[0][1:])
    roots = np.flatnonzero(heads == 0) + 1
    # Raise a penalty per root until one root is left: that tree is the best single-root tree. The penalty starts
    # small, as a large one would cost the scores precision.
    price = np.abs(arcs[roots, 0] - np.nanmax(arcs[roots, 1:], axis=1)).min() / 2 if len(roots) > 1 else 0.0
    while single_root and len(roots) > 1:
        price = 2 * price or 1.0
        priced = arcs.copy()
        priced[1:, 0] -= price
        heads = np.array(chu_liu_edmonds(priced)[0][1:])
        roots = np.flatnonzero(heads == 0) + 1
    return heads


def as_array(scores: np.ndarray | torch.Tensor) -> np.ndarray:
    """Converts scores to a float64 array on the CPU, without their gradient."""
    if isinstance(scores, torch.Tensor):
        scores = scores.detach().to("cpu", torch.float64).numpy()
    return np.asarray(scores, dtype=np.float64)
