"""How probable each arc is in a random tree, and how probable a tree is."""

from __future__ import annotations

from typing import Any, NamedTuple, TypeVar

import numpy as np
import torch

from msattn.trees.tree_decoding import NO_WORD, as_array, greedy_heads, repaired_heads

# Beyond this, sums could overflow.
LARGEST = 1e303

Scores = TypeVar("Scores", np.ndarray, torch.Tensor)


class TreeDistribution(NamedTuple):
    """
    The trees of a batch of sentences.

    Args:
        marginals: `(batch, words + 1, words + 1)`, `float64`, the probability of each arc.
        log_partition: `(batch,)`, the logarithm of the sum of the exponentials of all trees' scores. The probability
            of a tree is `exp(score - log_partition)`.
    """

    marginals: torch.Tensor
    log_partition: torch.Tensor


def tree_marginals(scores: Scores, single_root: bool = True) -> Scores:
    """
    Computes the probability of each arc, if the probability of a tree is proportional to the exponential of its score.

    The score of a tree is the sum of those of its arcs. Words are eliminated one by one, without subtraction
    (Grassmann, Taksar and Heyman 1985). The determinant of Koo et al. (2007) loses all digits where a cycle leads by a
    hundred nats; here the error is about 1e-16 times the largest score, 1e-13 at 1,000 nats. O(words³).

    Args:
        scores (`np.ndarray` or `torch.Tensor`):
            `(words + 1, words + 1)`, in nats: the row is the head, the column its dependent, and number 0 is the root.
            The diagonal and column 0 are not read. An arc with `-inf` is impossible.
        single_root (`bool`, *optional*, defaults to `True`): Whether only one word may depend on the root.

    Returns:
        `np.ndarray` or `torch.Tensor`, as given: the same shape, `P(head -> dependent)`. The columns of words sum to
        1; column 0 is 0. A tensor has a gradient, to any order.

    Raises:
        ValueError: The scores are not a square matrix, or one of an arc is NaN or `inf`.
        UserError: Every tree has an impossible arc.

    Example:

    ```python
    >>> msattn.tree_marginals(np.log([[1, 2, 1], [1, 1, 3], [1, 1, 1]]))[:, 1:].round(2)
    array([[0.86, 0.14],
           [0.  , 0.86],
           [0.14, 0.  ]])
    ```"""
    given = torch.as_tensor(scores)
    if given.ndim != 2:
        raise ValueError(f"scores are a matrix, heads by dependents; these are {tuple(given.shape)}.")
    read = given.cpu() if given.device.type == "mps" else given  # MPS has no float64
    marginals = batch_marginals(read[None], None, single_root).marginals[0]
    marginals = marginals.to(given.dtype).to(given.device) if given.is_floating_point() else marginals
    return marginals if isinstance(scores, torch.Tensor) else marginals.numpy()


def batch_marginals(scores: torch.Tensor, lengths: Any = None, single_root: bool = True) -> TreeDistribution:
    """
    [`tree_marginals`] for a batch.

    Args:
        scores (`torch.Tensor`): `(batch, words + 1, words + 1)`; see [`tree_marginals`].
        lengths (sequence of `int`, *optional*): The number of words of each sentence; all have the same if `None`.
        single_root (`bool`, *optional*, defaults to `True`): Whether only one word may depend on the root.

    Raises:
        ValueError: See [`tree_marginals`].
        UserError: See [`tree_marginals`].
    """
    given = as_array(scores)
    greedy = greedy_heads(given, lengths)
    words = torch.from_numpy((greedy != NO_WORD).sum(axis=1)).to(scores.device)
    batch, size, _ = scores.shape
    numbers = torch.arange(size, device=scores.device)
    real = numbers <= words[:, None]
    arcs = real[:, :, None] & real[:, None, :] & (numbers != 0) & (numbers[:, None] != numbers)
    # Which word is eliminated last: with impossible arcs, one from which all others can be reached.
    order = numbers.expand(batch, -1)
    barred = (arcs & scores.isneginf()).any(dim=(1, 2))
    if barred.any():
        rows = barred.cpu().numpy().nonzero()[0]
        heads = repaired_heads(given[rows], greedy[rows], single_root)
        top = torch.from_numpy((heads == 0).argmax(axis=1)).to(scores.device) + 1
        order = order.clone()
        order[rows, 1] = top
        order[rows, top] = 1
    values = torch.where(arcs, scores, -torch.inf).double().clamp(max=LARGEST)
    largest = values.detach().abs().masked_fill(values.isneginf(), 0).amax()
    floor = -(1000 * largest.clamp(max=LARGEST)).clamp(min=1e30)
    # A number that is added to a column changes no probability.
    most = values.detach().amax(dim=1, keepdim=True)
    most = most.masked_fill(most.isneginf(), 0)
    values = torch.where(values.isneginf(), floor, (values - most).clamp(min=-LARGEST))
    # What is no word hangs from the root or, if that takes one word only, from the last word, and has no influence.
    filler = ~real[:, None, :] & (numbers[:, None] <= int(single_root)) & (numbers[:, None] != numbers)
    values = values.masked_fill(filler, 0)
    there = order[:, :, None].expand(-1, -1, size), order[:, None, :].expand(-1, size, -1)
    values = values.gather(1, there[0]).gather(2, there[1])
    marginals, log_partition = _eliminate(values, single_root)
    marginals = marginals.gather(1, there[0]).gather(2, there[1]) * arcs
    return TreeDistribution(marginals, log_partition + most[:, 0].sum(dim=1))


def _eliminate(scores: torch.Tensor, single_root: bool) -> tuple[torch.Tensor, torch.Tensor]:
    """
    `(batch, words + 1, words + 1)` and `(batch,)`: marginals and the logarithm of the sum over all trees.

    Without a word k, each way from a head h over k to a dependent d becomes a part of the arc from h to d:
    w'(h, d) = w(h, d) + w(h, k) w(k, d) / D(k), with D(k) the sum of w(h, k) over the heads that are left. The sum
    over all trees is the product of all D. With one root only the last word may take it: its arcs count in no other D.
    """
    batch, size, _ = scores.shape
    first = 1 if single_root else 0
    log_partition = scores.new_zeros(batch)
    steps = []
    for word in range(size - 1, 0, -1):
        of_heads, of_dependents = scores[:, :word, word], scores[:, word, :word]
        start = first if word > 1 else 0
        total = of_heads[:, start:].logsumexp(dim=1)
        log_partition = log_partition + total
        shares = torch.nn.functional.pad(of_heads[:, start:].softmax(dim=1), (start, 0))
        ways = of_heads[:, :, None] + (of_dependents - total[:, None])[:, None, :]
        scores = scores[:, :word, :word]
        steps.append((shares, torch.sigmoid(ways - scores)))
        # The second derivative of `logaddexp` is NaN far from 0.
        graph = ways.requires_grad
        scores = torch.stack([scores, ways]).logsumexp(dim=0) if graph else torch.logaddexp(scores, ways)
    # The gradient of the logarithm, step by step backwards.
    marginals = scores.new_zeros(batch, 1, 1)
    for shares, over_word in reversed(steps):
        ways = marginals * over_word
        into = ways.sum(dim=2) + shares * (1 - ways.sum(dim=(1, 2)))[:, None]
        out = ways.sum(dim=1)
        marginals = torch.cat(
            [
                torch.cat([marginals * (1 - over_word), into[:, :, None]], dim=2),
                torch.nn.functional.pad(out, (0, 1))[:, None, :],
            ],
            dim=1,
        )
    # What rounding leaves below 0.
    marginals = marginals.clamp(min=0)
    return marginals / marginals.sum(dim=1, keepdim=True).clamp(min=1e-300), log_partition
