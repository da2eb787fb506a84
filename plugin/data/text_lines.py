"""Lines of a text file, read strictly as UTF-8."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from datasets.utils import tqdm

from msattn.errors import UserError


def text_lines(path: str | os.PathLike, newline: str | None = None) -> Iterator[tuple[str, str]]:
    """
    Lines of a UTF-8 file, with a progress bar when it takes more than a second or two.

    A byte order mark is dropped. Only LF, CRLF and CR end a line: `str.splitlines` would also cut at U+0085 or U+2028,
    which occur inside texts.

    Args:
        path (`str` or `os.PathLike`): The file.
        newline (`str`, *optional*): As for `open`: `None` reads all three line ends as `"\\n"`, `""` keeps them.

    Yields:
        `tuple[str, str]`: `"path:line"` for error messages, and the line with its end.

    Raises:
        UserError: If the file cannot be read or a line is not UTF-8.
    """
    try:
        # Bad bytes become lone surrogates, so that the line they stand on is known when they are refused.
        file = open(path, encoding="utf-8-sig", errors="surrogateescape", newline=newline)
    except OSError as error:
        raise UserError(f"{os.fspath(path)}: the file cannot be read ({error.strerror or error}).") from None
    with (
        file,
        tqdm(
            total=os.path.getsize(path),
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
                bar.update(len(line.encode()))
            except UnicodeEncodeError:
                raise UserError(f"{where}: the line is not UTF-8; save the file in that encoding.") from None
            yield where, line
