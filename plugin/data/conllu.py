"""Sentences of CoNLL-U files."""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import chain
from typing import NamedTuple

from msattn.data.text_lines import text_lines
from msattn.errors import UserError

COLUMNS = ("id", "form", "lemma", "upos", "xpos", "feats", "head", "deprel", "deps", "misc")


class ConlluToken(NamedTuple):
    """
    Args:
        where: `"path:line"` for error messages.
        cells: What stands in the ten columns.
        end: Of a multi-word token the number of its last word, else 0.
    """

    where: str
    cells: dict[str, str]
    end: int


def conllu_sentences(path: str | os.PathLike) -> Iterator[tuple[str, list[ConlluToken]]]:
    """
    Reads a CoNLL-U file, gzipped if it ends in `.gz`.

    Yields:
        `tuple[str, list[ConlluToken]]`: The place where a sentence ends, and its words, each multi-word token before
        the first of its own. Comments and empty nodes are left out.

    Raises:
        UserError: The file cannot be read, or is no CoNLL-U.
    """
    tokens: list[ConlluToken] = []
    words = 0
    where = os.fspath(path)
    # The last sentence may lack the empty line after it.
    for place, line in chain(text_lines(path), [("", "")]):
        where = place or where
        line = line.rstrip("\n")
        if line.startswith("#"):
            continue
        if not line.strip():
            if tokens:
                yield where, tokens
            tokens, words = [], 0
            continue
        cells = line.split("\t")
        if len(cells) != len(COLUMNS):
            raise UserError(f"{where}: CoNLL-U has {len(COLUMNS)} columns with tabs between them, not {len(cells)}.")
        name = cells[0]
        if "." in name:
            continue
        first, _, end = name.partition("-")
        if not first.isdecimal() or int(first) != words + 1 or (end and not end.isdecimal()):
            raise UserError(f"{where}: the word has to be number {words + 1}, not {name!r}.")
        words += not end
        tokens.append(ConlluToken(where, dict(zip(COLUMNS, cells, strict=True)), int(end or 0)))
