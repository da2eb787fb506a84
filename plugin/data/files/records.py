"""Reads JSON, JSON lines, CSV, TSV and Parquet files row by row, with the location of each row."""

from __future__ import annotations

import csv
import json
import os
import re
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet
from datasets.utils import tqdm

from msattn.data.files.checked_text import check_text
from msattn.data.files.text_lines import text_lines
from msattn.errors import UserError, shown

# An escape of half a pair, or a surrogate itself.
SURROGATE = re.compile(r"\\u[dD][89a-fA-F]|[\ud800-\udfff]")
# The limit of the csv module is 131,072 characters a field; this is the highest that every system takes.
LONGEST_FIELD = 2**31 - 1

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


def parse_json(text: str, where: str, problem: str = "the line is not a JSON object", remedy: str = "") -> Any:
    """
    Parses JSON as the standard has it.

    Args:
        text (`str`): The JSON text.
        where (`str`): Its location, which starts the error message.
        problem (`str`, *optional*): What the message says, before the reason in brackets.
        remedy (`str`, *optional*): What it says after the reason.

    Returns:
        `Any`: The value, whose strings can be written as UTF-8.

    Raises:
        UserError: The text is not JSON, has `NaN`, `Infinity` or a number of over 4,300 digits, repeats a name within
            an object, is nested too deeply, or has a lone surrogate.
    """
    try:
        value = json.loads(text, parse_constant=_refuse_constant, object_pairs_hook=_object)
    except RecursionError:
        raise UserError(f"{where}: the JSON is nested too deeply.") from None
    except json.JSONDecodeError as error:
        line = f":{error.lineno}" if error.lineno > 1 else ""
        raise UserError(f"{where}{line}: {problem} ({error.msg}, character {error.colno}){remedy}.") from None
    except ValueError as error:
        raise UserError(f"{where}: {problem} ({error}){remedy}.") from None
    if SURROGATE.search(text):
        check_text(json.dumps(value, ensure_ascii=False), where)
    return value


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is no number of JSON")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"the name {shown(next(name for name in names if names.count(name) > 1))} is there twice")
    return found


def json_lines(path: str | os.PathLike) -> Iterator[tuple[str, Any]]:
    """
    Reads one JSON value per line; empty lines are skipped.

    Raises:
        UserError: The file cannot be read, or a line is not JSON.
    """
    for where, line in text_lines(path):
        if not line.strip():
            continue
        remedy = "; one array or object over many lines has file_format json"
        yield where, parse_json(line.strip(), where, remedy=remedy)


def json_file(path: str | os.PathLike) -> Iterator[tuple[str, Any]]:
    """
    Reads the items of one JSON array, or the single JSON value of the file.

    Raises:
        UserError: The file cannot be read or is not JSON.
    """
    text = "".join(line for _, line in text_lines(path))
    problem = "the file is neither one JSON array or object nor one object a line"
    content = parse_json(text, os.fspath(path), problem)
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
        UserError: The file cannot be read or is not CSV, the header names a column twice, or a row and the header
            differ in length.
    """
    csv.field_size_limit(LONGEST_FIELD)
    lines = (line for _, line in text_lines(path, newline=""))
    first = next(lines, "")
    if ";" in first and "," not in first:
        dialect = {"delimiter": ";", **dialect}
    reader = csv.reader(chain([first], lines) if first else [], strict=True, **dialect)
    try:
        header = next(reader, [])
        _refuse_repeated(header, f"{os.fspath(path)}:1")
        for row in reader:
            where = f"{os.fspath(path)}:{reader.line_num}"
            if row and len(row) != len(header):
                raise UserError(f"{where}: the row has {len(row)} fields, but the header names {len(header)}.")
            if row:
                yield where, dict(zip(header, row, strict=True))
    except csv.Error as error:
        raise UserError(f"{os.fspath(path)}:{reader.line_num}: the file is not CSV ({error}).") from None


def _refuse_repeated(names: Iterable[str], where: str) -> None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise UserError(f"{where}: two columns have the name {shown(name)}; give each its own.")
        seen.add(name)


def tsv_rows(path: str | os.PathLike) -> Iterator[tuple[str, dict[str, str]]]:
    """Reads the rows of a TSV file with a header; quotation marks are ordinary characters. See [`csv_rows`]."""
    return csv_rows(path, delimiter="\t", quoting=csv.QUOTE_NONE)


def parquet_rows(path: str | os.PathLike) -> Iterator[tuple[str, dict[str, Any]]]:
    """
    Reads the rows of a Parquet file in batches.

    Raises:
        UserError: The file or one of its rows cannot be read, or two columns have the same name.
    """
    name, number = os.fspath(path), 0
    try:
        with pa.parquet.ParquetFile(path) as file:
            _refuse_repeated(file.schema_arrow.names, name)
            rows = (row for batch in file.iter_batches(1000) for row in batch.to_pylist())
            total = file.metadata.num_rows
            progress = tqdm(rows, desc=f"Reading {Path(path).name}", total=total, delay=2, leave=False)
            for number, row in enumerate(progress, start=1):
                yield f"{name}, row {number}", row
    except (OSError, pa.ArrowException, OverflowError, ValueError) as error:
        if isinstance(error, UserError):
            raise
        where = f"{name}, after row {number}" if number else name
        raise UserError(f"{where}: the Parquet file cannot be read ({error}).") from None


READERS: dict[str, Callable[[str | os.PathLike], Located]] = {
    "jsonl": json_lines,
    "json": json_file,
    "csv": csv_rows,
    "tsv": tsv_rows,
    "parquet": parquet_rows,
}
