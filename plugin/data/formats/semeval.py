"""Reads the text format of SemEval-2010 Task 8."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator

from msattn.data.files.text_lines import text_lines
from msattn.errors import UserError

# How a file begins.
SEMEVAL = re.compile(r'\S+\t".*</e[12]>.*"')


def semeval_rows(path: str | os.PathLike) -> Iterator[tuple[str, dict[str, str]]]:
    """
    Reads the examples of a SemEval-2010 Task 8 file.

    An example is a line `id TAB "sentence with <e1>..</e1> and <e2>..</e2>"`, a line with the label (absent in
    unlabelled files), optionally a line `Comment: ...`, and an empty line. Quotation marks inside the sentence are not
    escaped.

    Args:
        path (`str` or `os.PathLike`): The file, in UTF-8.

    Yields:
        `tuple[str, dict[str, str]]`: The location `"path:line"`, and a row with `id`, `sentence` and, if labelled,
        `relation`.

    Raises:
        UserError: The file cannot be read, or has a line of another form.
    """
    example: tuple[str, dict[str, str]] | None = None
    for where, line in text_lines(path):
        line = line.strip("\n ")
        if not line or line.startswith("Comment:") or "\t" in line:
            if example:
                yield example
            example = (where, _sentence(line, where)) if "\t" in line and not line.startswith("Comment:") else None
        elif example is None or "relation" in example[1] or "</e1>" in line:
            raise UserError(f'{where}: expected `id TAB "sentence"` and then a label, but found {line[:60]!r}.')
        else:
            example[1]["relation"] = line
    if example:
        yield example


def _sentence(line: str, where: str) -> dict[str, str]:
    identifier, _, quoted = line.partition("\t")
    if len(quoted) < 2 or quoted[0] != '"' or quoted[-1] != '"':
        raise UserError(f'{where}: the sentence after the tab must begin and end with a quotation mark (").')
    return {"id": identifier, "sentence": quoted[1:-1]}
