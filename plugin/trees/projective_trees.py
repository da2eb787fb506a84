"""Best trees without crossing arcs, in NumPy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

# Numbers in a chart of several sentences: a MiB in float64, more gains no speed.
CHART = 2**17


class _Splits(NamedTuple):
    """Where the best parts of the spans of sentences meet, `(batch, start, width)`."""

    arcs: np.ndarray
    left: np.ndarray
    right: np.ndarray


def best_projective_trees(scores: Sequence[np.ndarray], single_root: bool = True) -> list[np.ndarray | None]:
    """
    The trees without crossing arcs that have the highest sums of scores.

    The algorithm of Eisner (1996) with complete and incomplete spans: O(words³). All spans of a width are one step, in
    all sentences of similar length.

    Args:
        scores (`Sequence[np.ndarray]`):
            Of each sentence `(words + 1, words + 1)`, finite or `-np.inf`, see
            [`~msattn.trees.spanning_trees.without_overflow`]. The diagonal and column 0 are not read.
        single_root (`bool`, *optional*, defaults to `True`): Whether only one word may depend on the root.

    Returns:
        `list[np.ndarray]`: `(words,)` each, the head of each word, or `None` if every tree has an impossible arc.
    """
    trees: list[np.ndarray | None] = [None] * len(scores)
    # With one root the words alone are a span, whose head the root takes in the end.
    first = int(single_root)
    order = sorted(range(len(scores)), key=lambda row: -len(scores[row]))
    while order:
        count = max(1, CHART // scores[order[0]].size)
        rows, order = order[:count], order[count:]
        size = len(scores[rows[0]]) - first
        arcs = np.full((len(rows), size, size), -np.inf)
        for place, row in enumerate(rows):
            words = len(scores[row]) - first
            arcs[place, :words, :words] = scores[row][first:, first:]
        if not single_root:
            arcs[:, :, 0] = -np.inf
        splits, left, right = _charts(arcs)
        for place, row in enumerate(rows):
            own = _Splits(*(each[place] for each in splits))
            last = len(scores[row]) - 1 - first
            if single_root:
                numbers = np.arange(last + 1)
                totals = scores[row][0, 1:] + right[place, numbers, numbers] + left[place, numbers, last - numbers]
                top = int(totals.argmax())
                if totals[top] > -np.inf:
                    trees[row] = _heads(own, [(0, top, False), (top, last, True)], last + 1) + 1
            elif left[place, 0, last] > -np.inf:
                trees[row] = _heads(own, [(0, last, True)], last + 1)[1:]
    return trees


def _charts(arcs: np.ndarray) -> tuple[_Splits, np.ndarray, np.ndarray]:
    """The splits, and the scores of complete spans with their head on the left, by start, and on the right, by end."""
    batch, size, _ = arcs.shape
    # Scores of spans by one end and by the width: of complete ones with their head on the left by both ends, and with
    # the head on the right, too; of those that an arc from the left or from the right end closes.
    left_by_start, left_by_end, right_by_start, right_by_end, arc_right, arc_left = (
        np.full((batch, size, size), -np.inf) for _ in range(6)
    )
    for spans in (left_by_start, left_by_end, right_by_start, right_by_end):
        spans[:, :, 0] = 0
    splits = _Splits(*(np.zeros((batch, size, size), dtype=int) for _ in _Splits._fields))
    rows = np.arange(batch)[:, None]
    for width in range(1, size):
        starts = np.arange(size - width)
        ends = starts + width
        # Two complete spans that lie side by side, and an arc between their outer ends.
        parts = left_by_start[:, : size - width, :width] + right_by_end[:, width:, width - 1 :: -1][:, :, :width]
        at = parts.argmax(axis=2)
        best = parts[rows, starts, at]
        splits.arcs[:, starts, width] = at
        arc_right[:, starts, width] = best + arcs[:, starts, ends]
        arc_left[:, ends, width] = best + arcs[:, ends, starts]
        # The head's outermost arc, and what its dependent has on the outside.
        parts = arc_right[:, : size - width, 1 : width + 1] + left_by_end[:, width:, width - 1 :: -1][:, :, :width]
        at = parts.argmax(axis=2)
        splits.left[:, starts, width] = at + 1
        left_by_start[:, starts, width] = left_by_end[:, ends, width] = parts[rows, starts, at]
        parts = arc_left[:, width:, 1 : width + 1] + right_by_start[:, : size - width, width - 1 :: -1][:, :, :width]
        at = parts.argmax(axis=2)
        splits.right[:, starts, width] = at + 1
        right_by_start[:, starts, width] = right_by_end[:, ends, width] = parts[rows, starts, at]
    return splits, left_by_start, right_by_end


def _heads(splits: _Splits, spans: list[tuple[int, int, bool]], size: int) -> np.ndarray:
    """The heads in complete spans: start, end, and whether their head is on the left or on the right."""
    heads = np.full(size, -1)
    while spans:
        start, end, head_left = spans.pop()
        width = end - start
        if not width:
            continue
        if head_left:
            head, dependent = start, start + int(splits.left[start, width])
            spans.append((dependent, end, True))
        else:
            head, dependent = end, end - int(splits.right[start, width])
            spans.append((start, dependent, False))
        heads[dependent] = head
        low, high = min(head, dependent), max(head, dependent)
        middle = low + int(splits.arcs[low, high - low])
        spans += [(low, middle, True), (middle + 1, high, False)]
    return heads
