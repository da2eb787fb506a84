"""Multi-scale fusion self-attention in float64 NumPy, one sentence and one element at a time.

Written from the equations of "Multi-scale fusion self attention mechanism" (2021), for the tests to compare with.
"""

from __future__ import annotations

import math

import numpy as np


def convolution(words, filters, alignment="causal"):
    """Phrases of a sentence (Eq. 3 and 4).

    Args:
        words: hidden states H, (n, d).
        filters: W_c, (d filters, k words, d channels).
        alignment: phrase j ends at word j ("causal") or has it in the middle ("same").
    """
    n, d = words.shape
    k = filters.shape[1]
    phrases = np.zeros((n, d))
    for j in range(n):
        first = j - k + 1 if alignment == "causal" else j - k // 2
        for i in range(d):
            for t in range(k):
                if 0 <= first + t < n:
                    for c in range(d):
                        phrases[j, i] += filters[i, t, c] * words[first + t, c]
    return phrases


def softmax(row):
    exponentials = [math.exp(value - max(row)) for value in row]
    return np.array([value / math.fsum(exponentials) for value in exponentials])


def entmax15(row):
    """The p = max(row / 2 - tau, 0)^2 that sums to 1, with tau found by bisection."""
    low, high = max(row) / 2 - 1, max(row) / 2
    for _ in range(200):
        tau = (low + high) / 2
        total = math.fsum(max(value / 2 - tau, 0) ** 2 for value in row)
        low, high = (tau, high) if total > 1 else (low, tau)
    return np.array([max(value / 2 - tau, 0) ** 2 for value in row])


def attention(queries, keys, normalize=softmax):
    """Eq. 8, 9 and 12: one distribution over the keys for every query."""
    scores = np.zeros((len(queries), len(keys)))
    for i, query in enumerate(queries):
        for j, key in enumerate(keys):
            scores[i, j] = math.fsum(a * b for a, b in zip(query, key, strict=True)) / math.sqrt(len(query))
    return np.array([normalize(row) for row in scores])


def word_mask(relative, mode, temperature):
    """Eq. 13 and its relaxations, of n CUT."""
    mask = np.zeros(relative.shape)
    for i, j in np.ndindex(*relative.shape):
        level = relative[i, j]
        if mode in ("hard", "ste"):
            mask[i, j] = 1.0 if level > 1 else 0.0
        elif mode == "sigmoid":
            mask[i, j] = 1 / (1 + math.exp(-(level - 1) / temperature))
        elif mode == "entmax":
            mask[i, j] = min(1.0, level)
    return mask


def fuse(
    words, weights, filters, num_heads=1, mode="hard", alignment="causal", temperature=0.1, renormalize=False
) -> tuple[np.ndarray, np.ndarray, float]:
    """The layer on one sentence without padding (Eq. 5-19).

    Args:
        words: hidden states H, (n, d).
        weights: W^Q, W^K, W^V, W^Q1 and W^K1 by name, each (d, d) and applied from the right.
        filters: one W_c a scale.

    Returns:
        S (n, d), ATTfin (heads, n, (1 + scales) n), and how far n CUT is from 1 where it is closest.
    """
    n, d = words.shape
    width = d // num_heads
    stack = [words] + [convolution(words, scale, alignment) for scale in filters]
    output, maps, margin = np.zeros((n, d)), [], math.inf
    for head in range(num_heads):
        columns = slice(head * width, (head + 1) * width)
        project = {name: weight[:, columns] for name, weight in weights.items()}
        query = words @ project["query"]
        if mode == "none":
            word_gate = phrase_gate = np.ones((n, n))
        else:
            cut = attention(
                words @ project["mask_query"],
                words @ project["mask_key"],
                entmax15 if mode == "entmax" else softmax,
            )
            margin = min(margin, np.abs(n * cut - 1).min())
            word_gate = word_mask(n * cut, mode, temperature)
            phrase_gate = 1 - word_gate
        blocks = [
            attention(query, states @ project["key"]) * (phrase_gate if scale else word_gate)
            for scale, states in enumerate(stack)
        ]
        fin = np.concatenate(blocks, axis=1)
        if renormalize:
            fin = np.array([row / row.sum() if row.sum() else row for row in fin])
        output[:, columns] = fin @ np.concatenate([states @ project["value"] for states in stack])
        maps.append(fin)
    return output, np.array(maps), margin


def fuse_batch(hidden_states, attention_mask, *args, **kwargs) -> tuple[np.ndarray, np.ndarray, float]:
    """[`fuse`] on every sentence alone, its results put where its real tokens stand; zero elsewhere."""
    num_scales, num_heads = len(args[1]), kwargs.get("num_heads", 1)
    batch, tokens, _ = hidden_states.shape
    output = np.zeros(hidden_states.shape)
    maps = np.zeros((batch, num_heads, tokens, (1 + num_scales) * tokens))
    margin = math.inf
    for b in range(batch):
        places = np.flatnonzero(attention_mask[b])
        if len(places) == 0:
            continue
        columns = np.concatenate([block * tokens + places for block in range(1 + num_scales)])
        output[b, places], fin, closest = fuse(hidden_states[b, places], *args, **kwargs)
        maps[b][np.ix_(np.arange(num_heads), places, columns)] = fin
        margin = min(margin, closest)
    return output, maps, margin
