"""Maximum spanning tree decoding of dependency arc scores."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from numbers import Integral
from typing import Any

import numpy as np
import torch

from msattn.errors import UserError, shown
from msattn.trees.projective_trees import best_projective_trees
from msattn.trees.spanning_trees import best_tree, without_overflow

# The head in padding.
NO_WORD = -1


def decode_tree(
    scores: np.ndarray | torch.Tensor,
    single_root: bool = True,
    projective: bool = False,
    fixed: Mapping[int, int] | None = None,
) -> np.ndarray:
    """
    Finds the tree whose arcs have the highest sum of scores.

    Args:
        scores (`np.ndarray` or `torch.Tensor`):
            `(words + 1, words + 1)`: the row is the head, the column its dependent, and number 0 is the root. The
            diagonal and column 0, which no tree has, are not read. An arc with `-inf` is impossible.
        single_root (`bool`, *optional*, defaults to `True`): Whether only one word may depend on the root.
        projective (`bool`, *optional*, defaults to `False`): Whether arcs must not cross, that of the root included.
        fixed (`Mapping[int, int]`, *optional*): Heads that are known: dependent to head, words counted from 1.

    Returns:
        `np.ndarray` of shape `(words,)`: The head of each word, from 1; 0 for the root.

    Raises:
        ValueError: The scores are not a square matrix, or one of an arc is NaN or `inf`.
        UserError: Every tree has an impossible arc, or `fixed` names a word that is not in the sentence.

    Example:

    ```python
    >>> scores = [[0, 9, 8], [0, 0, 7], [0, 1, 0]]
    >>> msattn.decode_tree(scores), msattn.decode_tree(scores, fixed={1: 2})
    (array([0, 1]), array([2, 0]))
    ```"""
    scores = as_array(scores)
    return decode_trees(scores[None], None, single_root, projective, None if fixed is None else [fixed])[0]


def decode_trees(
    scores: np.ndarray | torch.Tensor,
    lengths: Any = None,
    single_root: bool = True,
    projective: bool = False,
    fixed: Sequence[Mapping[int, int] | None] | None = None,
) -> np.ndarray:
    """
    Finds the dependency trees of a batch; see [`decode_tree`].

    If the best heads of a sentence's words make such a tree already, they are the result. A trained parser has few
    other sentences; only those are searched.

    Args:
        scores (`np.ndarray` or `torch.Tensor` of shape `(batch, words + 1, words + 1)`): Arc scores.
        lengths (`Sequence[int]`, *optional*): The number of words of each sentence. Default: all words are real.
        single_root (`bool`, *optional*, defaults to `True`): Whether only one word may depend on the root.
        projective (`bool`, *optional*, defaults to `False`): Whether arcs must not cross.
        fixed (sequence of `Mapping[int, int]` or `None`, *optional*): The known heads of each sentence.

    Returns:
        `np.ndarray` of shape `(batch, words)`: The heads, with -1 in padding.

    Raises:
        ValueError: See [`decode_tree`].
        UserError: See [`decode_tree`]; or a length is negative or larger than the matrix, or `fixed` has another
            number of sentences.
    """
    scores = as_array(scores)
    if fixed is not None:
        scores = with_fixed_heads(scores, lengths, fixed)
    return repaired_heads(scores, greedy_heads(scores, lengths), single_root, projective)


def repaired_heads(
    scores: np.ndarray, greedy: np.ndarray, single_root: bool = True, projective: bool = False
) -> np.ndarray:
    """The heads of [`decode_trees`], given those of [`greedy_heads`] for the same scores."""
    heads = greedy.copy()
    words = (heads != NO_WORD).sum(axis=1)
    chosen = np.take_along_axis(scores[:, :, 1:], np.maximum(heads, 0)[:, None], axis=1)[:, 0]
    done = are_trees(heads, single_root) & ~(np.isneginf(chosen) & (heads != NO_WORD)).any(axis=1) | (words == 0)
    if projective:
        done[done] = [not has_crossing_arcs(heads[row, : words[row]]) for row in np.flatnonzero(done)]
    rows = np.flatnonzero(~done)
    arcs = [without_overflow(scores[row, : words[row] + 1, : words[row] + 1]) for row in rows]
    trees = best_projective_trees(arcs, single_root) if projective else (best_tree(each, single_root) for each in arcs)
    for row, tree in zip(rows, trees, strict=True):
        if tree is None:
            raise no_tree_error(f"sentence {row + 1}", "projective tree" if projective else "tree", single_root)
        heads[row, : words[row]] = tree
    return heads


def with_fixed_heads(scores: np.ndarray, lengths: Any, fixed: Sequence[Mapping[int, int] | None]) -> np.ndarray:
    """
    The scores of [`decode_trees`] with `-inf` for every other head of a word whose head is known.

    Raises:
        UserError: `fixed` has another number of sentences, or is no mapping of numbers, or names a word that is not in
            its sentence, or an arc from a word to itself.
    """
    if len(fixed) != len(scores):
        raise UserError(f"fixed heads are given for {len(fixed)} sentences; there are {len(scores)}.")
    scores = scores.copy()
    for row, words in enumerate(_lengths(scores, lengths)):
        arcs = fixed[row] or {}
        if not isinstance(arcs, Mapping) or not all(isinstance(word, Integral) for word in chain(*arcs.items())):
            raise UserError(f"fixed maps a dependent to its head, as in {{3: 2}}, not {shown(arcs)}.")
        for dependent, head in arcs.items():
            if not (1 <= dependent <= words and 0 <= head <= words) or dependent == head:
                raise UserError(
                    f"fixed={{{dependent}: {head}}} is no arc of sentence {row + 1}; its words are 1 to {words}, and "
                    "the root is the head 0."
                )
            scores[row, np.arange(scores.shape[1]) != head, dependent] = -np.inf
    return scores


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
    lengths = _lengths(scores, lengths)
    size = scores.shape[1]
    numbers = np.arange(size)
    real = numbers <= lengths[:, None]
    arcs = real[:, :, None] & real[:, None, :] & (numbers != 0) & ~np.eye(size, dtype=bool)
    wrong = scores[arcs]
    if (np.isnan(wrong) | np.isposinf(wrong)).any():
        raise ValueError(
            "the scores of arcs must be finite numbers, or -inf for an impossible arc; one is NaN or inf."
        )
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


def has_crossing_arcs(heads: Iterable[int]) -> bool:
    """Whether two arcs of a sentence cross; one goes from the root, before the first word, to its dependent."""
    arcs = sorted((min(arc), -max(arc)) for arc in enumerate(map(int, heads), start=1))
    # The right ends of the arcs that span the place where the next one begins, the innermost last.
    open_ends: list[int] = []
    for left, right in arcs:
        while open_ends and open_ends[-1] <= left:
            open_ends.pop()
        if open_ends and -right > open_ends[-1]:
            return True
        open_ends.append(-right)
    return False


def as_array(scores: Any) -> np.ndarray:
    """Scores as `float64`, in which every smaller type is exact."""
    if isinstance(scores, torch.Tensor):
        scores = scores.detach().cpu().double().numpy()  # MPS has no float64
    return np.asarray(scores, dtype=np.float64)


def no_tree_error(sentence: str, kind: str, single_root: bool) -> UserError:
    """The error for scores of which every tree has an impossible arc."""
    roots = " with one root" if single_root else ""
    return UserError(
        f"{sentence} has no {kind}{roots}: each has an arc with the score -inf, or another head than a fixed one; "
        "allow more arcs."
    )


def _lengths(scores: np.ndarray, lengths: Any) -> np.ndarray:
    """The checked numbers of words of each sentence, by default as many as the scores `(batch, size, size)` have."""
    if scores.ndim != 3 or scores.shape[1] != scores.shape[2] or not scores.shape[1]:
        raise ValueError(f"scores have as many heads as dependents, the root being one; these are {scores.shape}.")
    batch, size, _ = scores.shape
    if lengths is None:
        return np.full(batch, size - 1)
    lengths = np.asarray(lengths)
    if lengths.shape != (batch,) or (lengths < 0).any() or (lengths >= size).any():
        raise UserError(
            f"lengths are one number of words a sentence, for {batch} sentences from 0 to {size - 1}, not "
            f"{lengths.tolist()}."
        )
    return lengths
