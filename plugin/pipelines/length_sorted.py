"""A pipeline that batches inputs of similar length."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sized
from itertools import islice
from typing import Any

from torch.utils.data import Dataset, IterableDataset
from transformers import Pipeline

# Number of batches that are sorted by length at a time: enough for little padding, few enough for streaming.
LOOKAHEAD = 64


class Stream(IterableDataset):
    """
    A single-pass stream. Early releases of Transformers 5 would exhaust a plain generator before the first batch.

    Args:
        items (`Iterable`): The items.
    """

    def __init__(self, items: Iterable):
        self.items = items

    def __iter__(self) -> Iterator:
        return iter(self.items)


class LengthSortedPipeline(Pipeline):
    """A [`Pipeline`] that takes any iterable and, with `batch_size`, batches inputs of similar length."""

    def input_length(self, item: Any) -> int:
        """The approximate length of an input. Invalid inputs are rejected later."""
        return 0

    def __call__(self, inputs: Any, **kwargs: Any) -> Any:
        """
        Runs the pipeline.

        Args:
            inputs (`Any`): An input, or an iterable, dataset or generator of inputs.
            **kwargs: Keyword arguments of the pipeline.
        """
        if isinstance(inputs, Iterable) and not isinstance(inputs, (str, bytes, Mapping, list, Dataset)):
            inputs = list(inputs) if isinstance(inputs, Sized) else Stream(inputs)
        return [] if inputs == [] else super().__call__(inputs, **kwargs)

    def get_iterator(
        self,
        inputs: Any,
        num_workers: int,
        batch_size: int,
        preprocess_params: dict,
        forward_params: dict,
        postprocess_params: dict,
    ) -> Iterable:
        run = super().get_iterator
        params = (preprocess_params, forward_params, postprocess_params)
        if batch_size == 1:
            return run(inputs, num_workers, batch_size, *params)

        def by_length() -> Iterator:
            items = iter(inputs if isinstance(inputs, Iterable) else map(inputs.__getitem__, range(len(inputs))))
            while window := list(islice(items, LOOKAHEAD * batch_size)):
                order = sorted(range(len(window)), key=lambda index: self.input_length(window[index]), reverse=True)
                results = run([window[index] for index in order], num_workers, batch_size, *params)
                yield from (result for _, result in sorted(zip(order, results, strict=True), key=lambda pair: pair[0]))

        return by_length()
