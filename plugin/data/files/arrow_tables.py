"""Datasets from an iterator of rows."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import Any

import pyarrow as pa
from datasets import Dataset, Features


def rows_to_dataset(rows: Iterable[dict[str, Any]], features: Features) -> Dataset:
    """
    Collects rows into a dataset in memory, in batches of 1000.

    Unlike `Dataset.from_generator`, it does not write to the cache, which could become stale when a file changes, and
    does not wrap exceptions of the iterator.

    Args:
        rows (`Iterable[dict[str, Any]]`): The rows. Missing columns become `None`.
        features (`datasets.Features`): The columns and their types.

    Returns:
        `datasets.Dataset`: The dataset.
    """
    iterator, schema = iter(rows), features.arrow_schema
    batches = iter(lambda: list(islice(iterator, 1000)), [])
    return Dataset(pa.Table.from_batches([pa.RecordBatch.from_pylist(batch, schema) for batch in batches], schema))
