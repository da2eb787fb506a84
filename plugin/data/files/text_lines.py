"""Reads the lines of a text file, strictly in its encoding."""

from __future__ import annotations

import codecs
import gzip
import os
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path

from msattn.errors import UserError

_ENCODING = ContextVar("encoding", default="utf-8")
# How files begin that hold no lines of data, whatever they are called.
FOREIGN = {
    **dict.fromkeys(("PK\x03\x04", "\udcd0\udccf\x11\u0871"), "an Excel workbook or a ZIP archive; export it as CSV"),
    "\x1f\udc8b": "gzipped; let its name end in .gz",
    **dict.fromkeys(("\udcff\udcfe", "\udcfe\udcff"), "UTF-16; give --encoding utf-16, or save it as UTF-8"),
    "PAR1": "Parquet; let its name end in .parquet",
    "x\udc9c": "compressed, as spaCy's DocBin is; write its documents as JSON lines",
    "version https://git-lfs": "a pointer of Git LFS; git lfs pull fetches the file",
    "%PDF-": "a PDF; give text, CSV, JSON or CoNLL",
    **dict.fromkeys(("<?xml", "<!doctype", "<html"), "XML or HTML; give text, CSV, JSON or CoNLL"),
}


@contextmanager
def files_in(encoding: str) -> Iterator[None]:
    """
    Files that are read inside have this encoding, such as `"utf-16"` or `"cp1252"`, as `--encoding` says.

    Raises:
        UserError: There is no such encoding of text.
    """
    try:
        codecs.encode("text", encoding)
    except (LookupError, TypeError, UnicodeError):
        raise UserError(f"--encoding {encoding}: there is no such encoding; give utf-8, utf-16, cp1252, ...") from None
    before = _ENCODING.set(encoding)
    try:
        yield
    finally:
        _ENCODING.reset(before)


def text_lines(
    path: str | os.PathLike, newline: str | None = None, fallback: str | None = None
) -> Iterator[tuple[str, str]]:
    """
    Reads the lines of a file, gzipped if its name ends in `.gz`, with a progress bar after two seconds.

    It is UTF-8, but inside of [`files_in`]. A byte order mark is dropped. Lines end at LF, CRLF and CR only:
    `str.splitlines` would also split at U+0085 and U+2028, which occur inside texts.

    Args:
        path (`str` or `os.PathLike`): The file.
        newline (`str`, *optional*): As for `open`: `None` reads all three line ends as `"\\n"`, `""` keeps them.
        fallback (`str`, *optional*): Encoding of lines that are not UTF-8. Default: such lines are an error.

    Yields:
        `tuple[str, str]`: `"path:line"`, for error messages, and the line with its line end.

    Raises:
        UserError: The file cannot be read or is of a kind that has no lines of text, or a line is neither in the
            encoding nor in that of `fallback` or holds a NUL.
    """
    # Imported late, as `datasets` is slow to import.
    from datasets.utils import tqdm

    name = os.fspath(path)
    read, encoding = gzip.open if name.endswith(".gz") else open, _ENCODING.get()
    try:
        # Invalid bytes become lone surrogates, so that the error can name their line.
        with read(path, "rt", encoding=encoding, errors="surrogateescape", newline=newline) as file:
            lines = tqdm(file, desc=f"Reading {Path(path).name}", unit=" lines", delay=2, leave=False)
            for number, line in enumerate(lines, start=1):
                where = f"{name}:{number}"
                if number == 1:
                    line = line.removeprefix("\ufeff")
                    _refuse_foreign(line, where)
                try:
                    line.encode()
                except UnicodeEncodeError:
                    line = _decoded(line.encode(encoding, "surrogateescape"), encoding, fallback, where)
                if "\0" in line:
                    advice = "give --encoding utf-16, or save it as UTF-8"
                    raise UserError(f"{where}: the line holds a NUL, as UTF-16 does; {advice}.")
                yield where, line
    except UnicodeError as error:
        raise UserError(f"{name}: the file is not {encoding} ({error}); --encoding names another encoding.") from None
    except (OSError, EOFError, zlib.error) as error:
        raise UserError(f"{name}: the file cannot be read ({getattr(error, 'strerror', None) or error}).") from None


def suffix_of(path: str | os.PathLike) -> str:
    """The ending of a file's name in lower case, such as `".csv"`; of a gzipped file the one before `.gz`."""
    return Path(os.fspath(path).lower().removesuffix(".gz")).suffix


def first_line(path: str | os.PathLike, fallback: str | None = None) -> tuple[str, str]:
    """Location and text of the first line that is not blank, without its line end; the path and `""` if all are."""
    lines = ((where, line.rstrip("\r\n")) for where, line in text_lines(path, fallback=fallback) if line.strip())
    return next(lines, (os.fspath(path), ""))


def _refuse_foreign(line: str, where: str) -> None:
    for beginning, kind in FOREIGN.items():
        if line.lower().startswith(beginning.lower()):
            raise UserError(f"{where}: the file is {kind}.")


def _decoded(data: bytes, encoding: str, fallback: str | None, where: str) -> str:
    if fallback is None:
        other = "utf-8" if encoding != "utf-8" else "cp1252"
        raise UserError(
            f"{where}: the line is not {encoding.upper()}; name the encoding of the file, such as --encoding {other}, "
            "or save it as UTF-8."
        )
    try:
        return data.decode(fallback)
    except UnicodeDecodeError:
        raise UserError(f"{where}: the line is neither UTF-8 nor {fallback}.") from None
