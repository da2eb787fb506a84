"""Rows of model inputs in place of rows of data."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def encoded_rows(dataset: Any, encode: Callable[..., dict[str, list]], num_proc: int | None, **options: Any) -> Any:
    """What `encode` makes of batches of the rows of a data set and of their numbers."""
    names = dataset.column_names
    options |= {"batched": True, "with_indices": True, "remove_columns": names, "num_proc": num_proc}
    return dataset.map(encode, desc="Tokenising", **options)
