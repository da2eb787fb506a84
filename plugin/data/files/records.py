"""Reads JSON, JSON lines, CSV and TSV files row by row, with the location of each row."""

from __future__ import annotations

import csv
import json
import os
import re
from collections.abc import Callable, Iterator, Mapping
from itertools import chain, islice
from typing import Any

from transformers.utils import logging

from msattn.data.files.arrow_tables import Located, parquet_rows
from msattn.data.files.checked_text import check_text
from msattn.data.files.text_lines import first_line, suffix_of, text_lines
from msattn.errors import UserError, shown

logger = logging.get_logger(__name__)

# An escape of half a pair.
SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
SEPARATORS = (",", ";", "\t", "|")
QUOTED = re.compile(r'"(?:[^"]|"")*"')
# The limit of the csv module is 131,072 characters a field; this is the highest that every system takes.
LONGEST_FIELD = 2**31 - 1


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
    suffix = suffix_of(path)
    if suffix in (".csv", ".tsv", ".parquet"):
        return suffix[1:]
    line = first_line(path)[1].strip()
    if not line:
        raise UserError(f"{os.fspath(path)}: the file is empty.")
    if line[0] in "{[":
        # An object that continues on the next line is one indented JSON object, not JSON lines.
        return "json" if line[0] == "[" or line[-1] in "{[," else "jsonl"
    return "tsv" if "\t" in line else None


def parse_json(text: str, where: str, problem: str = "the line is not a JSON object") -> Any:
    """
    Parses JSON.

    Args:
        text (`str`): The JSON text.
        where (`str`): Its location, which starts the error message.
        problem (`str`, *optional*): What the message says, before the reason in brackets.

    Returns:
        `Any`: The value, whose strings can be written as UTF-8.

    Raises:
        UserError: The text is not JSON, is nested too deeply, or has a lone surrogate.
    """
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UserError(f"{where}: {problem} ({error}).") from None
    if SURROGATE.search(text):
        check_text(json.dumps(value, ensure_ascii=False), where)
    return value


def json_lines(path: str | os.PathLike) -> Iterator[tuple[str, Any]]:
    """
    Reads one JSON value per line; empty lines are skipped.

    Raises:
        UserError: The file cannot be read, or a line is not JSON.
    """
    for where, line in text_lines(path):
        if line.strip():
            yield where, parse_json(line.strip(), where)


def json_file(path: str | os.PathLike) -> Iterator[tuple[str, Any]]:
    """
    Reads the items of one JSON array, or the single JSON value of the file.

    Raises:
        UserError: The file cannot be read or is not JSON.
    """
    name = os.fspath(path)
    text = "".join(line for _, line in text_lines(path))
    content = parse_json(text, name, "the file is neither one JSON array or object nor one object a line")
    if isinstance(content, list):
        yield from ((f"{name}, example {number}", row) for number, row in enumerate(content, start=1))
    else:
        yield name, content


def unfolded(rows: Located, words: str | None = None) -> Located:
    """
    The rows of one object that holds them in columns, as `{"text": [...], "label": [...]}` or pandas'
    `{"text": {"0": ...}}`, or by their numbers, or in a field `data`; several values as they are. Those that an
    annotator rejected or ignored in Prodigy are left out.

    Args:
        rows (`Located`): Locations and values.
        words (`str`, *optional*): A field that holds the words of one sentence, as `tokens` does.
    """
    rows, rejected = iter(rows), list[str]()
    first = list(islice(rows, 2))
    if len(first) == 1 and (found := _columns_to_rows(first[0][1], words)) is not None:
        first = [(f"{first[0][0]}, example {number}", row) for number, row in enumerate(found, start=1)]
    for where, value in chain(first, rows):
        if _is_rejected(value):
            rejected.append(where)
        else:
            yield where, value
    if rejected:
        logger.warning(f"{rejected[0]}: the example was rejected or ignored; {len(rejected)} such are left out.")


def _is_rejected(row: Any) -> bool:
    of_prodigy = isinstance(row, Mapping) and any(name in row for name in ("_input_hash", "_task_hash", "spans"))
    return of_prodigy and row.get("answer") in ("reject", "ignore")


def _columns_to_rows(value: Any, words: str | None) -> list | None:
    """The rows of an object that holds several, or `None`."""
    if not isinstance(value, Mapping):
        return None
    if isinstance(value.get("data"), list):
        return value["data"]
    if _is_numbered(value) and all(isinstance(each, Mapping) for each in value.values()):
        return [*value.values()]
    columns = [[*each.values()] if _is_numbered(each) else each for each in value.values()]
    if not columns or not all(isinstance(each, list) and each for each in columns):
        return None
    # Lists of objects are FewRel's.
    if any(isinstance(each[0], Mapping) for each in columns) or len({*map(len, columns)}) > 1:
        return None
    # Strings are the words of one sentence, and lists the sentences of one document.
    units = {words: str, "token": str, "tokens": str, "words": str, "sents": list, "sentences": list}
    if any(isinstance(value.get(name), list) and isinstance(value[name][0], of) for name, of in units.items()):
        return None
    return [dict(zip(value, row, strict=True)) for row in zip(*columns, strict=True)]


def _is_numbered(column: Any) -> bool:
    return isinstance(column, Mapping) and bool(column) and all(map(str.isdecimal, column))


def csv_rows(path: str | os.PathLike, **dialect: Any) -> Iterator[tuple[str, dict[str, str]]]:
    """
    Reads the rows of a CSV file with a header.

    The fields are separated by what the header has most of: commas, semicolons (as spreadsheets of many countries
    write them), tabs or vertical bars. Excel's first line `sep=;` is left out. Names are stripped; columns without a
    name, such as the index of pandas, are left out.

    Args:
        path (`str` or `os.PathLike`): The file.
        **dialect: Keyword arguments of `csv.reader`.

    Raises:
        UserError: The file cannot be read or is not CSV, the header names a column twice, or a row and the header
            differ in length, or there is no row.
    """
    csv.field_size_limit(LONGEST_FIELD)
    lines = (line for _, line in text_lines(path, newline=""))
    first, before = next(lines, ""), 0
    if re.fullmatch(r"sep=.\s*", first):
        first, before = next(lines, ""), 1
    dialect = {"delimiter": max(SEPARATORS, key=first.count), **dialect}
    reader = csv.reader(chain([first], lines), strict=True, **dialect)
    start, found = 1, False  # the first line of the row that is being read; whether there is a row
    try:
        header = [name.strip() for name in next(reader, [])]
        if twice := [name for name in header if name and header.count(name) > 1]:
            raise UserError(f"{os.fspath(path)}:1: two columns have the name {shown(twice[0])}; give each its own.")
        start = reader.line_num + before + 1
        blank: list[tuple[str, dict[str, str]]] = []  # rows of separators alone: spreadsheets end with some
        for row in reader:
            where = f"{os.fspath(path)}:{reader.line_num + before}"
            if row and len(row) != len(header):
                lines_read = reader.line_num + before - start
                opened = f"; it starts in line {start}, perhaps with a stray quotation mark" if lines_read else ""
                raise UserError(f"{where}: the row has {len(row)} fields, but the header names {len(header)}{opened}.")
            named = {name: cell for name, cell in zip(header, row, strict=False) if name}
            if len(row) > 1 and not any(row):
                blank.append((where, named))
            elif row:
                found = True
                yield from blank
                yield where, named
                blank.clear()
            start = reader.line_num + before + 1
        if header and not found:
            raise UserError(
                f"{os.fspath(path)}:{before + 1}: there is no example below the names of columns, "
                f"{shown(first.strip())}. If this line is one, write the names above it, such as text,label."
            )
    except csv.Error as error:
        raise UserError(
            f"{os.fspath(path)}:{start}: the row that starts here is not CSV ({error}); look for a stray quotation "
            "mark."
        ) from None


def tsv_rows(path: str | os.PathLike) -> Iterator[tuple[str, dict[str, str]]]:
    """
    Reads the rows of a TSV file with a header; see [`csv_rows`].

    Quotation marks are text, unless a field is quoted and has doubled ones inside, as pandas and Excel write them.
    """
    for where, row in csv_rows(path, delimiter="\t", quoting=csv.QUOTE_NONE):
        yield where, {name: _unquoted(cell) for name, cell in row.items()}


def _unquoted(cell: str) -> str:
    return cell[1:-1].replace('""', '"') if '""' in cell[1:-1] and QUOTED.fullmatch(cell) else cell


READERS: dict[str, Callable[[str | os.PathLike], Located]] = {
    "jsonl": lambda path: unfolded(json_lines(path)),
    "json": lambda path: unfolded(json_file(path)),
    "csv": csv_rows,
    "tsv": tsv_rows,
    "parquet": parquet_rows,
}
