"""Best trees without crossing arcs, in NumPy."""

from __future__ import annotations

import numpy as np


def best_projective_tree(scores: np.ndarray, single_root: bool = True) -> np.ndarray | None:
    """
    The tree without crossing arcs that has the highest sum of scores.

    The algorithm of Eisner (1996) with complete and incomplete spans: O(words³). All spans of a width are one step.

    Args:
        scores (`np.ndarray`):
            `(words + 1, words + 1)`, finite or `-np.inf`, see
            [`~msattn.trees.spanning_trees.without_overflow`]. The diagonal and column 0 are not read.
        single_root (`bool`, *optional*, defaults to `True`): Whether only one word may depend on the root.

    Returns:
        `np.ndarray`: `(words,)`, the head of each word, or `None` if every tree has an impossible arc.
    """
    # With one root the words alone are a span, whose head the root takes in the end.
    first = 1 if single_root else 0
    arcs = np.ascontiguousarray(scores[first:, first:])
    if not single_root:
        arcs[:, 0] = -np.inf
    size = len(arcs)
    # Scores of spans by one end and by the width: of complete ones with their head on the left by both ends, and with
    # the head on the right, too; of those that an arc from the left or from the right end closes.
    left_by_start, left_by_end, right_by_start, right_by_end, arc_right, arc_left = (
        np.full((size, size), -np.inf) for _ in range(6)
    )
    for spans in (left_by_start, left_by_end, right_by_start, right_by_end):
        spans[:, 0] = 0
    # Where the best parts of a span meet, by the start and the width.
    split, split_left, split_right = (np.zeros((size, size), dtype=int) for _ in range(3))
    for width in range(1, size):
        starts = np.arange(size - width)
        ends = starts + width
        # Two complete spans that lie side by side, and an arc between their outer ends.
        parts = left_by_start[: size - width, :width] + right_by_end[width:, width - 1 :: -1][:, :width]
        at = parts.argmax(axis=1)
        best = parts[starts, at]
        split[starts, width] = at
        arc_right[starts, width] = best + arcs[starts, ends]
        arc_left[ends, width] = best + arcs[ends, starts]
        # The head's outermost arc, and what its dependent has on the outside.
        parts = arc_right[: size - width, 1 : width + 1] + left_by_end[width:, width - 1 :: -1][:, :width]
        at = parts.argmax(axis=1)
        split_left[starts, width] = at + 1
        left_by_start[starts, width] = left_by_end[ends, width] = parts[starts, at]
        parts = arc_left[width:, 1 : width + 1] + right_by_start[: size - width, width - 1 :: -1][:, :width]
        at = parts.argmax(axis=1)
        split_right[starts, width] = at + 1
        right_by_start[starts, width] = right_by_end[ends, width] = parts[starts, at]

    heads = np.full(size, -1)
    if single_root:
        numbers = np.arange(size)
        totals = scores[0, 1:] + right_by_end[numbers, numbers] + left_by_start[numbers, size - 1 - numbers]
        top = int(totals.argmax())
        if totals[top] == -np.inf:
            return None
        todo = [(0, top, False), (top, size - 1, True)]
    else:
        if left_by_start[0, size - 1] == -np.inf:
            return None
        todo = [(0, size - 1, True)]
    # Complete spans, with their head on the left or on the right.
    while todo:
        start, end, head_left = todo.pop()
        width = end - start
        if not width:
            continue
        if head_left:
            head, dependent = start, start + int(split_left[start, width])
            todo.append((dependent, end, True))
        else:
            head, dependent = end, end - int(split_right[start, width])
            todo.append((start, dependent, False))
        heads[dependent] = head
        low, high = min(head, dependent), max(head, dependent)
        middle = low + int(split[low, high - low])
        todo += [(low, middle, True), (middle + 1, high, False)]
    return heads[1:] if not single_root else heads + 1
