"""The formulas of attention and its statistics, one number after the other, and draws to compare them on."""

from __future__ import annotations

import numpy as np
import torch

LENGTHS = (11, 4, 1)
BANDS = (-1, 0, 1, 20)
# Of the tokens in a text from which the first and the fourth are left out.
PLACES = (-1, 0, 1, -1, 2, 3, 4, 5, 6, 7, 8)


def real_tokens(lengths=LENGTHS, left=False) -> torch.Tensor:
    real = torch.arange(max(lengths)) < torch.tensor(lengths).unsqueeze(-1)
    return real.flip(-1) if left else real


def queries_and_keys(
    queries=11, keys=11, heads=4, key_heads=4, batch=3, dim=6, dtype=torch.float64
) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    shapes = (batch, heads, queries, dim), (batch, key_heads, keys, dim)
    query, key = (torch.randn(shape, dtype=torch.float64, generator=generator) * 2 for shape in shapes)
    return query.to(dtype).requires_grad_(), key.to(dtype).requires_grad_()


def sets_of(keys=11, batch=3) -> torch.Tensor:
    """The first token and every third one, and weights."""
    chosen = torch.zeros(batch, 2, keys, dtype=torch.float64)
    chosen[:, 0, ::3] = 1
    chosen[:, 1] = torch.linspace(-1, 1, keys, dtype=torch.float64)
    return chosen.requires_grad_()


def reference(query, key, real, causal, last_queries=None, scaling=None) -> dict[str, np.ndarray]:
    query, key = (tensor.detach().double().numpy() for tensor in (query, key))
    batch, heads, queries, dim = query.shape
    keys = key.shape[2]
    columns = sets_of(keys, batch).detach().numpy()
    found = {name: np.zeros((batch, heads, keys)) for name in ("received", "received_max")}
    found |= {name: np.zeros((batch, heads, queries)) for name in ("entropy", "distance", "peak", "square")}
    found |= {"bands": np.zeros((batch, heads, queries, len(BANDS))), "columns": np.zeros((batch, heads, queries, 2))}
    found["distances"] = np.zeros((batch, heads, keys))
    for b, h in np.ndindex(batch, heads):
        rows = np.flatnonzero(real[b, keys - queries :])
        for i in rows if last_queries is None else rows[-last_queries:]:
            place = i + keys - queries
            seen = [j for j in range(keys) if real[b, j] and (j <= place or not causal)]
            scores = [query[b, h, i] @ key[b, h * key.shape[1] // heads, j] * (scaling or dim**-0.5) for j in seen]
            weights = np.zeros(keys)
            weights[seen] = np.exp(scores) / np.exp(scores).sum()
            found["received"][b, h] += weights
            found["received_max"][b, h] = np.maximum(found["received_max"][b, h], weights)
            found["entropy"][b, h, i] = -sum(weight * np.log(weight) for weight in weights[seen])
            found["distance"][b, h, i] = sum(weights[j] * abs(place - j) for j in seen)
            found["peak"][b, h, i] = weights.max()
            found["square"][b, h, i] = (weights**2).sum()
            found["bands"][b, h, i] = [weights[place + band] if 0 <= place + band < keys else 0 for band in BANDS]
            found["columns"][b, h, i] = columns[b] @ weights
            for j in seen:
                if PLACES[place] >= 0 and PLACES[j] >= 0:
                    found["distances"][b, h, abs(PLACES[place] - PLACES[j])] += weights[j]
    return found
