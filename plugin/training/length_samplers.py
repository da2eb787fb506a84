"""Samplers that batch examples of similar length to reduce padding."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from itertools import pairwise

import pyarrow.compute as pc
import torch
from datasets import Dataset
from torch.utils.data import Sampler
from transformers.trainer_pt_utils import LengthGroupedSampler


def token_counts(dataset: Dataset) -> list[int]:
    """The number of `input_ids` in each row, read from the Arrow table without converting rows to Python."""
    rows = dataset.select_columns("input_ids").with_format("arrow")[:]
    return pc.list_value_length(rows["input_ids"]).to_pylist()


def rows_by_text(dataset: Dataset) -> list[list[int]]:
    """The rows that have the same `input_ids`, such as those of all pairs of a text."""
    found: dict[bytes, list[int]] = {}
    column = dataset.select_columns("input_ids").with_format("arrow")[:]["input_ids"]
    row = 0
    for chunk in column.chunks:
        ends, ids = chunk.offsets.to_numpy(), chunk.values.to_numpy()
        for start, end in pairwise(ends):
            found.setdefault(ids[start:end].tobytes(), []).append(row)
            row += 1
    return [*found.values()]


def longest_first(dataset: Dataset) -> list[int]:
    """The rows from the longest to the shortest one, for batches with little padding."""
    lengths = token_counts(dataset)
    return sorted(range(len(lengths)), key=lengths.__getitem__, reverse=True)


class RepeatableLengthGroupedSampler(LengthGroupedSampler):
    """
    A [`LengthGroupedSampler`] whose order depends only on a seed.

    The original uses the global random generator: a run that is resumed mid-training, or another process of a
    distributed run, can get a different order.

    Args:
        batch_size (`int`): Number of examples per training step.
        lengths (`list[int]`): The length of each example in tokens.
        seed (`Callable[[], int]`): Returns the seed of the epoch; called at its start.
    """

    def __init__(self, batch_size: int, lengths: list[int], seed: Callable[[], int]):
        super().__init__(batch_size, lengths=lengths, generator=torch.Generator())
        self.seed = seed

    def __iter__(self) -> Iterator[int]:
        self.generator.manual_seed(self.seed())
        return super().__iter__()


class TextSampler(Sampler[int]):
    """
    Draws texts, and then the pairs of each: a batch encodes few texts.

    Args:
        batch_size (`int`): Number of pairs per training step.
        rows (`list[list[int]]`): The rows of each text.
        lengths (`list[int]`): The length of each row in tokens; all the same if texts are not to be grouped by it.
        seed (`Callable[[], int]`): Returns the seed of the epoch; called at its start.
    """

    def __init__(self, batch_size: int, rows: list[list[int]], lengths: list[int], seed: Callable[[], int]):
        texts = max(1, batch_size * len(rows) // len(lengths))
        self.rows, self.count, self.seed = rows, len(lengths), seed
        self.texts = RepeatableLengthGroupedSampler(texts, [lengths[of_text[0]] for of_text in rows], seed)

    def __len__(self) -> int:
        return self.count

    def __iter__(self) -> Iterator[int]:
        draw = random.Random(self.seed())
        for text in self.texts:
            yield from draw.sample(self.rows[text], len(self.rows[text]))
