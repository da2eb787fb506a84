"""Reads the lines of a text file as strict UTF-8."""

from __future__ import annotations

import gzip
import io
import os
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from msattn.errors import UserError

# A gzipped text is three to ten times as large when it is unpacked; one of a thousand times is there to do harm.
UNPACKED_TIMES, UNPACKED_ALWAYS = 100, 2**26


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
        UserError: The file cannot be read, a line is neither UTF-8 nor in the `fallback` encoding or holds a NUL, or
            a gzipped file unpacks to over 64 MiB and a hundred times its size.
    """
    # Imported late, as `datasets` is slow to import.
    from datasets.utils import tqdm

    packed = os.fspath(path).endswith(".gz")
    try:
        # Invalid bytes become lone surrogates, so that the error can name their line.
        file = io.TextIOWrapper(
            io.BufferedReader(_Unpacked(path)) if packed else open(path, "rb"),
            encoding="utf-8-sig",
            errors="surrogateescape",
            newline=newline,
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
                if "\0" in line:
                    raise UserError(f"{where}: the line holds a NUL, as UTF-16 does; save the file as UTF-8.")
                bar.update(len(data))
                yield where, line
    except (OSError, EOFError, zlib.error, ValueError) as error:
        if isinstance(error, UserError):
            raise
        reason = getattr(error, "strerror", None) or error
        raise UserError(f"{os.fspath(path)}: the file cannot be read ({reason}).") from None


class _Unpacked(io.RawIOBase):
    """The bytes of a gzipped file, up to the size at which it is refused."""

    def __init__(self, path: str | os.PathLike):
        self.path = os.fspath(path)
        self.file = gzip.open(path, "rb")
        self.left = max(UNPACKED_ALWAYS, UNPACKED_TIMES * os.path.getsize(path))

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        size = self.file.readinto(buffer)
        self.left -= size
        if self.left < 0:
            raise UserError(
                f"{self.path}: the file unpacks to over {UNPACKED_TIMES} times its size, as no text does; unpack it "
                "first if it is meant."
            )
        return size

    def close(self) -> None:
        self.file.close()
        super().close()


def _decoded(data: bytes, fallback: str | None, where: str) -> str:
    if fallback is None:
        raise UserError(f"{where}: the line is not UTF-8; save the file in that encoding.")
    try:
        return data.decode(fallback)
    except UnicodeDecodeError:
        raise UserError(f"{where}: the line is neither UTF-8 nor {fallback}.") from None
