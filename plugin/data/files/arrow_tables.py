"""Data sets from rows that arrive one by one."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import Any

import pyarrow as pa
from datasets import Dataset, Features


def rows_to_dataset(rows: Iterable[dict[str, Any]], features: Features) -> Dataset:
    """
    Gathers rows into an Arrow table in memory, a thousand at a time.

    Unlike `Dataset.from_generator` it leaves no copy in the cache, which could outlive a change of the file, and lets
    an error of the rows through as it is.
    """
    iterator, schema = iter(rows), features.arrow_schema
    batches = iter(lambda: list(islice(iterator, 1000)), [])
    return Dataset(pa.Table.from_batches([pa.RecordBatch.from_pylist(batch, schema) for batch in batches], schema))
