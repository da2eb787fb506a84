"""Reads treebanks: sentences with dependency trees and the lines that they come from."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any

from datasets import Dataset, Features, Value
from datasets import Sequence as SequenceFeature

from msattn.data.files.arrow_tables import rows_to_dataset
from msattn.data.files.conllu import ConlluToken, conllu_sentences
from msattn.data.files.conllu_lines import conllu_lines
from msattn.data.files.text_lines import text_lines
from msattn.errors import UserError, shown

FEATURES = Features(
    {
        "words": SequenceFeature(Value("string")),
        "heads": SequenceFeature(Value("int32")),
        "relations": SequenceFeature(Value("string")),
        "lines": SequenceFeature(Value("string")),
        "where": Value("string"),
    }
)
TREE_COLUMNS = ["heads", "relations"]


def read_treebank(path: str | os.PathLike) -> Dataset:
    """
    Reads a treebank in CoNLL-U or CoNLL-X, or plain sentences.

    Args:
        path (`str` or `os.PathLike`):
            The file, in UTF-8, gzipped if its name ends in `.gz`. Files named `.txt` or `.txt.gz` have one sentence
            per line, with spaces between words. All others are CoNLL-U or CoNLL-X; with `_` for all heads, they are
            read as sentences without trees.

    Returns:
        `datasets.Dataset`: `words` (syntactic words), `heads` (from 1; 0 for the root) and `relations` (if the file
        has trees), `lines` (the CoNLL-U or CoNLL-X lines; see [`~msattn.data.files.conllu.ConlluSentence`]) and
        `where` (`"path:line"` of the first word).

    Raises:
        UserError: The file cannot be read, is malformed or empty, a tree has a cycle, several roots or a head that is
            out of range, or only some sentences have trees. The message names file and line.
    """
    return to_treebank(_rows(path))


def treebank_chunks(
    path: str | os.PathLike, sentences: int, most: int | None = None
) -> Iterator[list[dict[str, Any]]]:
    """
    Reads a treebank in chunks, for [`to_treebank`].

    Args:
        path (`str` or `os.PathLike`): As for [`read_treebank`].
        sentences (`int`): The number of sentences of a chunk; the last one may have fewer.
        most (`int`, *optional*): The number of sentences to read, at most.

    Yields:
        `list[dict[str, Any]]`: The rows of a chunk.

    Raises:
        UserError: As for [`read_treebank`], when the reading comes to the line.
    """
    rows = islice(_rows(path), most)
    while chunk := list(islice(rows, sentences)):
        yield chunk


def to_treebank(rows: Iterable[dict[str, Any]]) -> Dataset:
    """The dataset of [`read_treebank`] from its rows."""
    dataset = rows_to_dataset(rows, FEATURES)
    return dataset.remove_columns(TREE_COLUMNS) if dataset[0]["heads"] is None else dataset


def _rows(path: str | os.PathLike) -> Iterator[dict[str, Any]]:
    name = os.fspath(path)
    plain = name.removesuffix(".gz").endswith(".txt")
    rows = _text_rows(path) if plain else _conllu_rows(path)
    first = next(rows, None)
    if first is None:
        raise UserError(f"{name}: there is no sentence in it.")
    yield first
    yield from rows


def _text_rows(path: str | os.PathLike) -> Iterator[dict[str, Any]]:
    for number, (where, line) in enumerate(text_lines(path), start=1):
        # Splits at the white space of the format only: a no-break space may be part of a word.
        words = [word for word in re.split("[ \t\n]+", line) if word]
        if words:
            yield {"words": words, "lines": conllu_lines(words, number), "where": where}


def _conllu_rows(path: str | os.PathLike) -> Iterator[dict[str, Any]]:
    labelled: bool | None = None
    for _, tokens, lines in conllu_sentences(path):
        words = [token for token in tokens if not token.end]
        if not words:
            raise UserError(f"{tokens[0].where}: the sentence has a multi-word token, and no word.")
        row: dict[str, Any] = {
            "words": [word.cells["form"] for word in words],
            "lines": lines,
            "where": words[0].where,
        }
        has_tree = any(word.cells["head"] != "_" for word in words)
        if has_tree:
            row["heads"] = _heads(words)
            row["relations"] = [word.cells["deprel"] for word in words]
        if labelled not in (None, has_tree):
            raise UserError(
                f"{words[0].where}: the sentence has {'' if has_tree else 'no '}heads, unlike those before."
            )
        labelled = has_tree
        yield row


def _heads(words: Sequence[ConlluToken]) -> list[int]:
    heads: list[int] = []
    for number, (where, cells, _) in enumerate(words, start=1):
        head = cells["head"]
        if not _is_index(head) or int(head) > len(words) or int(head) == number:
            raise UserError(
                f"{where}: the head of word {number} has to be 0 or the number of another of the {len(words)} words, "
                f"not {shown(head)}."
            )
        if head == "0" and 0 in heads:
            raise UserError(f"{where}: word {number} is a second root, after word {heads.index(0) + 1}.")
        heads.append(int(head))
    _refuse_cycle(words, heads)
    return heads


def _is_index(text: str) -> bool:
    # No sentence has a number of ten digits, and Python refuses one of 4,301.
    return text.isascii() and text.isdecimal() and len(text) < 10


def _refuse_cycle(words: Sequence[ConlluToken], heads: Sequence[int]) -> None:
    # Words that are known to lead to the root need no second visit.
    reached = {0}
    for start in range(1, len(heads) + 1):
        way: dict[int, int] = {}
        number = start
        while number not in reached:
            if number in way:
                cycle = list(way)[way[number] :]
                raise UserError(
                    f"{words[number - 1].where}: word {number} is its own head, by way of "
                    f"{', '.join(str(other) for other in cycle[1:])}; a tree has no cycle."
                )
            way[number] = len(way)
            number = heads[number - 1]
        reached.update(way)
