"""Reads CoNLL-U and CoNLL-X."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import NamedTuple

from msattn.errors import UserError, shown

# A word, a multi-word token or an empty node.
ID = re.compile("([0-9]{1,9})(?:([-.])([0-9]{1,9}))?")
# How a row of CoNLL starts: a number, or a range of a multi-word token, and a form.
ROW = re.compile(r"[0-9]+([-.][0-9]+)?\t[^\t]+\t")
# CoNLL-X has PHEAD and PDEPREL as its last two columns, which are not read here.
COLUMNS = ("id", "form", "lemma", "upos", "xpos", "feats", "head", "deprel", "deps", "misc")
# What names the columns of CoNLL-U Plus.
GLOBAL = re.compile(r"#\s*global\.columns\s*=(.*)")


class ConlluToken(NamedTuple):
    """
    A word or multi-word token.

    Args:
        where (`str`): `"path:line"`, for error messages.
        cells (`dict[str, str]`): The ten columns by name.
        end (`int`): The number of the last word of a multi-word token; 0 for a word.
    """

    where: str
    cells: dict[str, str]
    end: int


class ConlluSentence(NamedTuple):
    """
    A sentence of a CoNLL-U or CoNLL-X file.

    Args:
        where (`str`): `"path:line"` of the end of the sentence, for error messages.
        tokens (`list[ConlluToken]`): The words; a multi-word token precedes its first word.
        lines (`list[str]`):
            All lines since the previous sentence, with their line ends: comments, words, multi-word tokens, empty
            nodes and empty lines.
    """

    where: str
    tokens: list[ConlluToken]
    lines: list[str]

    @property
    def words(self) -> list[str]:
        """The forms of the words, without multi-word tokens."""
        return [token.cells["form"] for token in self.tokens if not token.end]


def is_conllu(path: str | os.PathLike) -> bool:
    """Returns true if a file is named `.conllu`, `.conllx`, `.conllup` or `.conll`, or one of these with `.gz`."""
    name = os.fspath(path).lower().removesuffix(".gz")
    return name.endswith((".conllu", ".conllx", ".conllup", ".conll"))


def refuse_conllu_row(line: str, where: str) -> None:
    """
    Refuses a line of a file of texts that is a row of CoNLL.

    Raises:
        UserError: The line starts with a number, a tab and another cell.
    """
    if ROW.match(line):
        raise UserError(f"{where}: the line is a row of CoNLL and no text; name the file .conllu, or .conllu.gz.")


def conllu_sentences(rows: Iterable[tuple[str, str]]) -> Iterator[ConlluSentence]:
    """
    Reads CoNLL-U, CoNLL-X, or CoNLL-U Plus with further columns behind the ten.

    The concatenated lines of all sentences are the file.

    Args:
        rows (`Iterable[tuple[str, str]]`): `"path:line"` and the line, with its line end; of a file
            `text_lines(path, newline="")`.

    Yields:
        `ConlluSentence`: The sentences in order.

    Raises:
        UserError: A line has not ten columns or those of `# global.columns`, or no form; a word, a multi-word token or
            an empty node has not the next number; or a sentence has no word.
    """
    found: ConlluSentence | None = None
    tokens: list[ConlluToken] = []
    lines: list[str] = []
    words, width, where = 0, len(COLUMNS), ""
    # An extra empty line ends the last sentence, as files may lack it.
    for place, text in chain(rows, [("", "")]):
        where = place or where
        line = text.rstrip("\r\n")
        lines.append(text)
        if line.startswith("#"):
            width = _width(line, where) or width
            continue
        if not line.strip():
            # Yield one sentence late: trailing lines of the file belong to the last sentence.
            if tokens:
                if not words:
                    raise UserError(f"{tokens[0].where}: the sentence has a multi-word token, and no word.")
                _check_end(tokens, words)
                if found:
                    yield found
                found = ConlluSentence(where, tokens, lines)
                tokens, lines, words = [], [], 0
            continue
        cells = line.split("\t")
        if len(cells) != width:
            raise UserError(f"{where}: CoNLL-U has {width} columns with tabs between them, not {len(cells)}.")
        number = ID.fullmatch(cells[0])
        if number is None or int(number[1]) != words + (number[2] != "."):
            raise UserError(f"{where}: the word has to be number {words + 1}, not {shown(cells[0])}.")
        if not cells[1]:
            raise UserError(f"{where}: word {cells[0]} has no form; an unknown one is _.")
        if number[2] == ".":
            continue
        if number[2] == "-" and (int(number[3]) <= words or any(token.end > words for token in tokens)):
            raise UserError(f"{where}: the multi-word token {cells[0]} ends before it starts, or overlaps another.")
        words += not number[2]
        tokens.append(ConlluToken(where, dict(zip(COLUMNS, cells, strict=False)), int(number[3] or 0)))
    if found:
        found.lines.extend(lines)
        yield found


def _width(comment: str, where: str) -> int:
    """The number of columns that a comment names; 0 if it names none."""
    if not (names := GLOBAL.match(comment)):
        return 0
    columns = names[1].lower().split()
    if (*columns[: len(COLUMNS)],) != COLUMNS:
        raise UserError(f"{where}: the first columns have to be {' '.join(COLUMNS).upper()}, not {shown(names[1])}.")
    return len(columns)


def _check_end(tokens: Sequence[ConlluToken], words: int) -> None:
    for token in tokens:
        if token.end > words:
            raise UserError(
                f"{token.where}: the multi-word token {token.cells['id']} ends behind the last word, {words}."
            )
