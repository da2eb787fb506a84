"""Samplers that put examples of similar length into one batch."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pyarrow.compute as pc
import torch
from datasets import Dataset
from torch.utils.data import Sampler
from transformers.trainer_pt_utils import LengthGroupedSampler


def token_counts(dataset: Dataset) -> list[int]:
    """The length of `input_ids` in each row. Row by row, a `datasets.Dataset` takes seconds for this."""
    rows = dataset.select_columns("input_ids").with_format("arrow")[:]
    return pc.list_value_length(rows["input_ids"]).to_pylist()


class LongestFirstSampler(Sampler[int]):
    """
    Goes through a data set from its longest example to its shortest, so that a batch holds little padding.

    Args:
        dataset (`datasets.Dataset`): With the column `input_ids`.
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
    A [`LengthGroupedSampler`] whose order depends on one number alone.

    The original draws from the global generator. A run that is resumed within its second epoch, say, then sees
    another order than the run that was not interrupted, and so may each process of a distributed run.

    Args:
        batch_size (`int`): Examples of a step.
        lengths (`list[int]`): The length of each example.
        seed (`Callable`): The seed of the epoch that begins.
    """

    def __init__(self, batch_size: int, lengths: list[int], seed: Callable[[], int]):
        super().__init__(batch_size, lengths=lengths, generator=torch.Generator())
        self.seed = seed

    def __iter__(self) -> Iterator[int]:
        self.generator.manual_seed(self.seed())
        return super().__iter__()
