"""Batches of sequences by a budget of word pieces."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

# Enough to keep a processor busy, and few enough for the maps of attention between all of them.
PIECES = 2048


def piece_batches(
    lengths: Sequence[int], owners: Sequence[int], most_owners: int, pieces: int = PIECES
) -> Iterator[list[int]]:
    """
    Groups sequences of similar length.

    Args:
        lengths (`Sequence[int]`): The number of word pieces of each sequence.
        owners (`Sequence[int]`): The number of the input that each belongs to.
        most_owners (`int`): Inputs that a batch has sequences of, at most.
        pieces (`int`, *optional*, defaults to 2048): Word pieces of a batch with its padding, at most, but for a batch
            of one sequence.

    Yields:
        `list[int]`: The sequences of a batch, longest first. Each sequence is in one batch.
    """
    batch: list[int] = []
    inputs: set[int] = set()
    for index in sorted(range(len(lengths)), key=lambda index: -lengths[index]):
        full = (len(batch) + 1) * lengths[batch[0]] > pieces if batch else False
        if full or len(inputs | {owners[index]}) > most_owners:
            yield batch
            batch, inputs = [], set()
        batch.append(index)
        inputs.add(owners[index])
    if batch:
        yield batch
