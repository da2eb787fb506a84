"""Rows with their locations, from Parquet files and datasets, and back to datasets."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any

import datasets
import pyarrow as pa
import pyarrow.parquet
from datasets import ClassLabel, Dataset, Features, IterableDataset, LargeList, List, Value
from datasets.utils import tqdm

from msattn.errors import UserError, shown

#: Pairs of location (`"file:line"`, for error messages) and row.
Located = Iterable[tuple[str, Any]]
BATCH = 1000
# Fields of several types, which Arrow holds as text; the first versions of datasets 4 lack them.
JSON = getattr(datasets, "Json", ())


def parquet_rows(path: str | os.PathLike) -> Iterator[tuple[str, dict[str, Any]]]:
    """
    Reads the rows of a Parquet file in batches.

    Raises:
        UserError: The file cannot be read, or two columns have the same name.
    """
    return located_rows(parquet_dataset(path), os.fspath(path))


def parquet_dataset(path: str | os.PathLike) -> Dataset:
    """
    A Parquet file as a dataset, without a copy in the cache.

    Raises:
        UserError: The file cannot be read, or two columns have the same name, or two fields of a struct.
    """
    try:
        table = pa.parquet.read_table(path, partitioning=None)
        # Of bytes that are not UTF-8, nothing else would say so.
        table.validate(full=True)
        # Refuses a struct with two fields of a name, of which a row of a dataset keeps one.
        table.slice(0, 1).to_pylist()
        return Dataset(table)
    except (OSError, ValueError, pa.ArrowException) as error:
        raise UserError(f"{os.fspath(path)}: the Parquet file cannot be read ({error}).") from None


def located_rows(dataset: Dataset | IterableDataset, source: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """
    The rows of a dataset, with names in place of the ids of a `ClassLabel`, and `None` for -1, which says "no label".
    Fields of `Json` are decoded.

    Args:
        dataset (`datasets.Dataset` or `datasets.IterableDataset`): The dataset.
        source (`str`): Its name in locations, `"source, row 1"`.

    Raises:
        UserError: An id is not one of a class.
    """
    features = {name: each for name, each in (dataset.features or {}).items() if not isinstance(each, Value)}
    batches = dataset.with_format("arrow").iter(BATCH)
    rows = (row for table in batches for row in table.to_pylist())
    for number, row in enumerate(tqdm(rows, desc=f"Reading {source}", delay=2, leave=False), start=1):
        where = f"{source}, row {number}"
        for name, feature in features.items():
            row[name] = _decoded(row[name], feature, where)
        yield where, row


def class_names(feature: Any) -> list[str] | None:
    """The names of a `ClassLabel` or of a list of them; `None` for other features."""
    return getattr(getattr(feature, "feature", feature), "names", None)


def _decoded(value: Any, feature: Any, where: str) -> Any:
    """What a value of Arrow stands for, also within lists and structs."""
    if value is None:
        return None
    if isinstance(feature, ClassLabel):
        return _named(value, feature.names, where)
    if isinstance(feature, JSON):
        return feature.decode_example(value)
    if isinstance(feature, dict):
        return {name: _decoded(value[name], each, where) for name, each in feature.items()}
    if isinstance(feature, (List, LargeList)) and not isinstance(feature.feature, Value):
        return [_decoded(each, feature.feature, where) for each in value]
    return value


def _named(value: int, names: Sequence[str], where: str) -> str | None:
    if value == -1:
        return None
    if not 0 <= value < len(names):
        raise UserError(f"{where}: {shown(value)} is not the id of a class; there are 0 to {len(names) - 1}.")
    return names[value]


def rows_to_dataset(rows: Located, features: Features, source: str, label: str | None = None) -> Dataset:
    """
    Collects rows into a dataset in memory.

    Unlike `Dataset.from_generator`, it does not write to the cache, which could become stale when a file changes, and
    does not wrap exceptions of the iterator.

    Args:
        rows (`Located`): Locations and rows. Missing columns become `None`.
        features (`datasets.Features`): The columns and their types.
        source (`str`): The name of the data in error messages.
        label (`str`, *optional*): A column that all rows have or none.

    Raises:
        UserError: There is no row, or only some rows have the `label`.
    """
    schema, iterator = features.arrow_schema, iter(_uniform(rows, label) if label else (row for _, row in rows))
    batches = iter(lambda: list(islice(iterator, BATCH)), [])
    table = pa.Table.from_batches([pa.RecordBatch.from_pylist(batch, schema) for batch in batches], schema)
    if not len(table):
        raise UserError(f"{source}: there is no example in it.")
    return Dataset(table)


def _uniform(rows: Located, label: str) -> Iterator[dict[str, Any]]:
    labelled = None
    for where, row in rows:
        found = row.get(label) is not None
        if labelled not in (None, found):
            raise UserError(f"{where}: the example has {'no' if labelled else 'a'} {label}, unlike those before it.")
        labelled = found
        yield row


def without_empty(dataset: Dataset, column: str) -> Dataset:
    """The dataset without a column that holds only `None`."""
    return dataset.remove_columns(column) if dataset.data[column].null_count == len(dataset) else dataset
