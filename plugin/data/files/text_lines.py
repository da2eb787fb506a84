"""Reads the lines of a text file as strict UTF-8."""

from __future__ import annotations

import gzip
import os
import zlib
from collections.abc import Iterator
from pathlib import Path

from datasets.utils import tqdm

from msattn.errors import UserError


def text_lines(
    path: str | os.PathLike, newline: str | None = None, fallback: str | None = None
) -> Iterator[tuple[str, str]]:
    """
    Reads the lines of a UTF-8 file, gzipped if its name ends in `.gz`, with a progress bar after two seconds.

    A byte order mark is dropped. Lines end at LF, CRLF and CR only: `str.splitlines` would also split at U+0085 and
    U+2028, which occur inside texts.

    Args:
        path (`str` or `os.PathLike`): The file.
        newline (`str`, *optional*): As for `open`: `None` reads all three line ends as `"\\n"`, `""` keeps them.
        fallback (`str`, *optional*): Encoding of lines that are not UTF-8. Default: such lines are an error.

    Yields:
        `tuple[str, str]`: `"path:line"`, for error messages, and the line with its line end.

    Raises:
        UserError: The file cannot be read, or a line is neither UTF-8 nor in the `fallback` encoding.
    """
    packed = os.fspath(path).endswith(".gz")
    try:
        # Invalid bytes become lone surrogates, so that the error can name their line.
        file = (gzip.open if packed else open)(
            path, "rt", encoding="utf-8-sig", errors="surrogateescape", newline=newline
        )
        with (
            file,
            tqdm(
                total=None if packed else os.path.getsize(path),
                desc=f"Reading {Path(path).name}",
                unit="B",
                unit_scale=True,
                delay=2,
                leave=False,
            ) as bar,
        ):
            for number, line in enumerate(file, start=1):
                where = f"{os.fspath(path)}:{number}"
                try:
                    data = line.encode()
                except UnicodeEncodeError:
                    data = line.encode(errors="surrogateescape")
                    line = _decoded(data, fallback, where)
                bar.update(len(data))
                yield where, line
    except (OSError, EOFError, zlib.error) as error:
        reason = getattr(error, "strerror", None) or error
        raise UserError(f"{os.fspath(path)}: the file cannot be read ({reason}).") from None


def _decoded(data: bytes, fallback: str | None, where: str) -> str:
    if fallback is None:
        raise UserError(f"{where}: the line is not UTF-8; save the file in that encoding.")
    try:
        return data.decode(fallback)
    except UnicodeDecodeError:
        raise UserError(f"{where}: the line is neither UTF-8 nor {fallback}.") from None
