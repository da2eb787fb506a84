"""Reads JSON, JSON lines, CSV, TSV and Parquet files row by row, with the location of each row."""

from __future__ import annotations

import csv
import json
import os
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet
from datasets.utils import tqdm

from msattn.data.files.text_lines import text_lines
from msattn.errors import UserError

#: Pairs of location (`"file:line"`, for error messages) and row.
Located = Iterable[tuple[str, Any]]


def guess_format(path: str | os.PathLike) -> str | None:
    """
    Guesses the format of a file from its extension and first line. A first line with a tab means `"tsv"`.

    Args:
        path (`str` or `os.PathLike`): The file.

    Returns:
        `str` or `None`: A key of [`READERS`]; `None` for other formats.

    Raises:
        UserError: The file is empty or cannot be read.
    """
    suffix = Path(path).suffix.lower()
    if suffix in (".csv", ".tsv", ".parquet"):
        return suffix[1:]
    for _, line in text_lines(path):
        line = line.strip()
        if line:
            if line[0] in "{[":
                # An object that continues on the next line is one indented JSON object, not JSON lines.
                return "json" if line[0] == "[" or line[-1] in "{[," else "jsonl"
            return "tsv" if "\t" in line else None
    raise UserError(f"{os.fspath(path)}: the file is empty.")


def json_lines(path: str | os.PathLike) -> Iterator[tuple[str, Any]]:
    """
    Reads one JSON value per line; empty lines are skipped.

    Raises:
        UserError: The file cannot be read, or a line is not JSON.
    """
    for where, line in text_lines(path):
        if not line.strip():
            continue
        try:
            yield where, json.loads(line)
        except ValueError as error:
            raise UserError(
                f"{where}: the line is not a JSON object ({error}); one array or object over many lines has "
                "file_format json."
            ) from None


def json_file(path: str | os.PathLike) -> Iterator[tuple[str, Any]]:
    """
    Reads the items of one JSON array, or the single JSON value of the file.

    Raises:
        UserError: The file cannot be read or is not JSON.
    """
    try:
        content = json.loads("".join(line for _, line in text_lines(path)))
    except json.JSONDecodeError as error:
        raise UserError(
            f"{os.fspath(path)}:{error.lineno}: the file is neither one JSON array or object nor one object a line "
            f"({error.msg})."
        ) from None
    if not isinstance(content, list):
        yield os.fspath(path), content
        return
    for number, row in enumerate(content, start=1):
        yield f"{os.fspath(path)}, example {number}", row


def csv_rows(path: str | os.PathLike, **dialect: Any) -> Iterator[tuple[str, dict[str, str]]]:
    """
    Reads the rows of a CSV file with a header.

    A header with semicolons and no comma means that semicolons separate the fields, as spreadsheets of many countries
    write them.

    Args:
        path (`str` or `os.PathLike`): The file.
        **dialect: Keyword arguments of `csv.reader`.

    Raises:
        UserError: The file cannot be read or is not CSV, or a row and the header differ in length.
    """
    lines = (line for _, line in text_lines(path, newline=""))
    first = next(lines, "")
    if ";" in first and "," not in first:
        dialect = {"delimiter": ";", **dialect}
    reader = csv.reader(chain([first], lines) if first else [], strict=True, **dialect)
    try:
        header = next(reader, [])
        for row in reader:
            where = f"{os.fspath(path)}:{reader.line_num}"
            if row and len(row) != len(header):
                raise UserError(f"{where}: the row has {len(row)} fields, but the header names {len(header)}.")
            if row:
                yield where, dict(zip(header, row, strict=True))
    except csv.Error as error:
        raise UserError(f"{os.fspath(path)}:{reader.line_num}: the file is not CSV ({error}).") from None


def tsv_rows(path: str | os.PathLike) -> Iterator[tuple[str, dict[str, str]]]:
    """Reads the rows of a TSV file with a header; quotation marks are ordinary characters. See [`csv_rows`]."""
    return csv_rows(path, delimiter="\t", quoting=csv.QUOTE_NONE)


def parquet_rows(path: str | os.PathLike) -> Iterator[tuple[str, dict[str, Any]]]:
    """
    Reads the rows of a Parquet file in batches.

    Raises:
        UserError: The file cannot be read.
    """
    try:
        file = pa.parquet.ParquetFile(path)
    except (OSError, pa.ArrowException) as error:
        raise UserError(f"{os.fspath(path)}: the Parquet file cannot be read ({error}).") from None
    rows = (row for batch in file.iter_batches(1000) for row in batch.to_pylist())
    progress = tqdm(rows, desc=f"Reading {Path(path).name}", total=file.metadata.num_rows, delay=2, leave=False)
    for number, row in enumerate(progress, start=1):
        yield f"{os.fspath(path)}, row {number}", row


READERS: dict[str, Callable[[str | os.PathLike], Located]] = {
    "jsonl": json_lines,
    "json": json_file,
    "csv": csv_rows,
    "tsv": tsv_rows,
    "parquet": parquet_rows,
}
