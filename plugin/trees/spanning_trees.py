"""Best spanning trees of dense graphs, with one root or several, in NumPy."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

# Above this, sums of scores may overflow; a power of two below changes no score and no comparison.
LARGE = 1e290
SMALLER = 2.0**-64


class Choice(NamedTuple):
    """
    The best arc into a set of words that the search has contracted.

    Args:
        head: Where the arc comes from.
        dependent: The word in the set that it goes to.
        losses: `(words + 1,)`, what the best arc from each head into the set loses against this one, `np.inf` for
            heads inside the set.
        second_loss: The same for the best other arc from `head`.
    """

    head: int
    dependent: int
    losses: np.ndarray
    second_loss: float


def without_overflow(scores: np.ndarray) -> np.ndarray:
    """The same scores, multiplied by a power of two if their sums could overflow."""
    finite = np.abs(scores, where=np.isfinite(scores), out=np.zeros_like(scores))
    return scores * SMALLER if finite.max(initial=0) > LARGE else scores


def best_tree(scores: np.ndarray, single_root: bool = True, choices: list[Choice] | None = None) -> np.ndarray | None:
    """
    The tree with the highest sum of scores.

    The algorithm of Chu and Liu (1965) and Edmonds (1967), in the form that walks a path of best heads and contracts a
    cycle when the path meets itself (Gabow et al. 1986): O(words²). With `single_root`, an arc from the root
    is chosen only where no other arc is left. That compares trees by their number of roots first and by their score
    second, as if each root had an infinite price, and costs no precision, as a large finite price does.

    Args:
        scores (`np.ndarray`):
            `(words + 1, words + 1)`, finite or `-np.inf`, see [`without_overflow`]. The diagonal and column 0 are not
            read.
        single_root (`bool`, *optional*, defaults to `True`): Whether only one word may depend on the root.
        choices (`list[Choice]`, *optional*):
            Receives the choices that make the tree, one a word, without `single_root` only.

    Returns:
        `np.ndarray`: `(words,)`, the head of each word, or `None` if every tree has an impossible arc.
    """
    size = len(scores)
    if size == 1:
        return np.zeros(0, dtype=int)
    everyone = np.arange(size)
    # A row a dependent: its heads lie side by side.
    rows = np.array(scores.T, order="C")
    rows[0] = 0
    rows[everyone, everyone] = -np.inf
    best = rows[:, 1:].argmax(axis=1) + 1 if single_root else rows.argmax(axis=1)
    values = rows[everyone, best]
    if single_root:
        rootless = np.isneginf(values)
        best[rootless] = 0
        values = np.where(rootless, rows[:, 0], values)
    if np.isneginf(values[1:]).any():
        return None
    values[0] = 0
    rows -= values[:, None]
    prices = values
    entries = np.repeat(everyone[:, None], size, axis=1)
    inside = np.eye(size, dtype=bool)
    # Of each set that was contracted, words first: its best arc, and the set that it became part of.
    heads, dependents, parents = best.tolist(), list(range(size)), [-1] * size
    seconds, logged = [np.inf] * size, [*rows.copy()] if choices is not None else []
    # A set is known by one of its words, whose row is that of the set; `current` is its number above.
    leaders, current = list(range(size)), list(range(size))
    position = [-1] * size

    def leader(word: int) -> int:
        while leaders[word] != word:
            leaders[word] = leaders[leaders[word]]
            word = leaders[word]
        return word

    for start in range(1, size):
        # What hangs from the root already has the root as its leader.
        if leader(start) == 0:
            continue
        path = [start]
        position[start] = 0
        while True:
            above = leader(heads[current[path[-1]]])
            if above == 0:
                for word in path:
                    leaders[word] = 0
                break
            if position[above] < 0:
                position[above] = len(path)
                path.append(above)
                continue
            # A cycle.
            cycle = path[position[above] :]
            del path[position[above] + 1 :]
            candidates = rows[cycle]
            winners = candidates.argmax(axis=0)
            row = candidates[winners, everyone]
            members = inside[cycle].any(axis=0)
            row[members] = -np.inf
            entry = entries[cycle][winners, everyone]
            head = int(row[1:].argmax()) + 1 if single_root else int(row.argmax())
            if single_root and row[head] == -np.inf:
                head = 0
            value = row[head]
            if value == -np.inf:
                return None
            row -= value
            dependent = int(entry[head])
            for word in cycle:
                parents[current[word]] = len(heads)
                leaders[word] = above
            if choices is not None:
                prices[members] += value
                others = members.copy()
                others[dependent] = False
                seconds.append(float((prices[others] - scores[head, others]).min(initial=np.inf)))
                logged.append(row)
            current[above] = len(heads)
            rows[above], entries[above], inside[above] = row, entry, members
            heads.append(head)
            dependents.append(dependent)
            parents.append(-1)

    # From the last set to the first: an arc stays unless a set around it was entered at a word of its own.
    entered = [False] * len(heads)
    tree = [0] * size
    for number in range(len(heads) - 1, 0, -1):
        if entered[number]:
            continue
        word = dependents[number]
        tree[word] = heads[number]
        if choices is not None:
            choices.append(Choice(heads[number], word, -logged[number], seconds[number]))
        inner = word
        while inner != -1 and not entered[inner]:
            entered[inner] = True
            inner = parents[inner]
    result = np.array(tree[1:], dtype=int)
    return None if single_root and (result == 0).sum() != 1 else result
