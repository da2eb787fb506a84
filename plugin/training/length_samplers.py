"""Samplers that batch examples of similar length to reduce padding."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pyarrow.compute as pc
import torch
from datasets import Dataset
from torch.utils.data import Sampler
from transformers.trainer_pt_utils import LengthGroupedSampler


def token_counts(dataset: Dataset) -> list[int]:
    """The number of `input_ids` in each row, read from the Arrow table without converting rows to Python."""
    rows = dataset.select_columns("input_ids").with_format("arrow")[:]
    return pc.list_value_length(rows["input_ids"]).to_pylist()


class LongestFirstSampler(Sampler[int]):
    """
    Iterates over a dataset from its longest to its shortest example, for batches with little padding.

    Args:
        dataset (`datasets.Dataset`): A dataset with the column `input_ids`.
    """

    def __init__(self, dataset: Dataset):
        lengths = token_counts(dataset)
        self.order = sorted(range(len(lengths)), key=lengths.__getitem__, reverse=True)

    def __iter__(self) -> Iterator[int]:
        return iter(self.order)

    def __len__(self) -> int:
        return len(self.order)


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
