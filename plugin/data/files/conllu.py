"""Sentences of CoNLL-U and CoNLL-X files, and the same sentences with other trees."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import NamedTuple

from msattn.data.files.text_lines import text_lines
from msattn.errors import UserError

# Those of CoNLL-X, whose words are as these in what is read here, end in PHEAD and PDEPREL.
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


class ConlluSentence(NamedTuple):
    """
    Args:
        where: `"path:line"` of its end, for error messages.
        tokens: Its words, each multi-word token before the first of its own.
        lines: All that stands in the file from the end of the sentence before, with the ends of the lines: comments,
            words, multi-word tokens, empty nodes and empty lines.
    """

    where: str
    tokens: list[ConlluToken]
    lines: list[str]


def conllu_sentences(path: str | os.PathLike) -> Iterator[ConlluSentence]:
    """
    Reads a CoNLL-U or CoNLL-X file, gzipped if it ends in `.gz`. No line is lost: the sentences' lines are the file's,
    one after the other.

    Raises:
        UserError: The file cannot be read, or is neither.
    """
    found: ConlluSentence | None = None
    tokens: list[ConlluToken] = []
    lines: list[str] = []
    words = 0
    where = os.fspath(path)
    # The last sentence may lack the empty line after it.
    for place, text in chain(text_lines(path, newline=""), [("", "")]):
        where = place or where
        line = text.rstrip("\r\n")
        lines.append(text)
        if line.startswith("#"):
            continue
        if not line.strip():
            # Lines without a word are those of the next sentence, or after the last one still its own.
            if tokens:
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
        if not first.isdecimal() or int(first) != words + 1 or (end and not end.isdecimal()):
            raise UserError(f"{where}: the word has to be number {words + 1}, not {name!r}.")
        words += not end
        tokens.append(ConlluToken(where, dict(zip(COLUMNS, cells, strict=True)), int(end or 0)))
    if found:
        found.lines.extend(lines)
        yield found


def with_tree(lines: Sequence[str], heads: Iterable[int], relations: Iterable[str]) -> str:
    """
    The text of a sentence with another tree; all but the columns of heads and relations stays as it is.

    Args:
        lines (`Sequence[str]`): See [`ConlluSentence`].
        heads (`Iterable[int]`): The number of each word's head, 0 for the root.
        relations (`Iterable[str]`): The relation of each word to its head.

    Raises:
        ValueError: There are more words, or fewer.
    """
    lines = list(lines)
    places = [place for place, line in enumerate(lines) if line.partition("\t")[0].isdecimal()]
    for place, head, relation in zip(places, heads, relations, strict=True):
        cells = lines[place].split("\t")
        cells[6:8] = str(head), relation
        lines[place] = "\t".join(cells)
    return "".join(lines)
