"""Reads MTL-16: positive and negative reviews of 16 domains."""

from __future__ import annotations

import os

from transformers.utils import logging

from msattn.data.files.arrow_tables import Located
from msattn.data.files.text_lines import text_lines
from msattn.errors import UserError

logger = logging.get_logger(__name__)

POLARITIES = ("negative", "positive")


def review_rows(path: str | os.PathLike) -> Located:
    """
    Reads a file of one domain, such as `books.task.train`, with one `label TAB text` per line.

    Lines that are not UTF-8 are decoded as Windows-1252; the movie reviews have some.

    Args:
        path (`str` or `os.PathLike`): The file.

    Yields:
        `tuple[str, dict[str, str]]`: The location, and a row with `sentence`, which may be empty, and `label`.

    Raises:
        UserError: The file cannot be read, or a line is malformed. The message names file and line.
    """
    for number, (where, line) in enumerate(text_lines(path, newline="\n", fallback="cp1252")):
        if number == 0:
            logger.warning(
                f"{where}: without a header, the line is read as of MTL-16: 0 is negative and 1 positive; other data "
                "need a header."
            )
        label, tab, text = line.rstrip("\r\n").partition("\t")
        if not tab or label not in ("0", "1"):
            raise UserError(f"{where}: the line has to be 0 or 1, a tab and the review, not {line[:40].rstrip()!r}.")
        yield where, {"sentence": text.strip(" "), "label": POLARITIES[int(label)]}
