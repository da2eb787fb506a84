"""Reads CoNLL-U and CoNLL-X files."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from itertools import chain
from typing import NamedTuple

from msattn.data.files.text_lines import text_lines
from msattn.errors import UserError, shown

# The last word of a multi-word token.
END = re.compile("[0-9]{1,9}")
# How a row of CoNLL starts: a number, or a range of a multi-word token, and a form.
ROW = re.compile(r"[0-9]+([-.][0-9]+)?\t[^\t]+\t")
# CoNLL-X has PHEAD and PDEPREL as its last two columns, which are not read here.
COLUMNS = ("id", "form", "lemma", "upos", "xpos", "feats", "head", "deprel", "deps", "misc")


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
    """Returns true if a file is named `.conllu`, `.conllx` or `.conllup`, or one of these with `.gz`."""
    name = os.fspath(path).lower().removesuffix(".gz")
    return name.endswith((".conllu", ".conllx", ".conllup"))


def refuse_conllu_row(line: str, where: str) -> None:
    """
    Refuses a line of a file of texts that is a row of CoNLL.

    Raises:
        UserError: The line starts with a number, a tab and another cell.
    """
    if ROW.match(line):
        raise UserError(f"{where}: the line is a row of CoNLL and no text; name the file .conllu, or .conllu.gz.")


def conllu_sentences(path: str | os.PathLike) -> Iterator[ConlluSentence]:
    """
    Reads a CoNLL-U or CoNLL-X file, gzipped if its name ends in `.gz`.

    The concatenated lines of all sentences are the file.

    Args:
        path (`str` or `os.PathLike`): The file, in UTF-8.

    Yields:
        `ConlluSentence`: The sentences in order.

    Raises:
        UserError: The file cannot be read, a line does not have ten columns or the next word number, or a sentence has
            no word.
    """
    found: ConlluSentence | None = None
    tokens: list[ConlluToken] = []
    lines: list[str] = []
    words = 0
    where = os.fspath(path)
    # An extra empty line ends the last sentence, as files may lack it.
    for place, text in chain(text_lines(path, newline=""), [("", "")]):
        where = place or where
        line = text.rstrip("\r\n")
        lines.append(text)
        if line.startswith("#"):
            continue
        if not line.strip():
            # Yield one sentence late: trailing lines of the file belong to the last sentence.
            if tokens:
                if not words:
                    raise UserError(f"{tokens[0].where}: the sentence has a multi-word token, and no word.")
                if found:
                    yield found
                found = ConlluSentence(where, tokens, lines)
                tokens, lines, words = [], [], 0
            continue
        cells = line.split("\t")
        if len(cells) != len(COLUMNS):
            raise UserError(f"{where}: CoNLL-U has {len(COLUMNS)} columns with tabs between them, not {len(cells)}.")
        name = cells[0]
        if "." in name:
            continue
        first, _, end = name.partition("-")
        if first != str(words + 1) or (end and not END.fullmatch(end)):
            raise UserError(f"{where}: the word has to be number {words + 1}, not {shown(name)}.")
        words += not end
        tokens.append(ConlluToken(where, dict(zip(COLUMNS, cells, strict=True)), int(end or 0)))
    if found:
        found.lines.extend(lines)
        yield found
