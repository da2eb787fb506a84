"""Reads treebanks: sentences with dependency trees and the lines that they come from."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from datasets import Dataset, Features, List, Value

from msattn.data.files.arrow_tables import rows_to_dataset
from msattn.data.files.conllu import ConlluToken, conllu_sentences, refuse_conllu_row
from msattn.data.files.conllu_lines import conllu_lines, conllu_lines_of_text
from msattn.data.files.text_lines import suffix_of, text_lines
from msattn.data.inputs.raw_text import Word
from msattn.errors import UserError, shown

FEATURES = Features(
    {
        "words": List(Value("string")),
        "heads": List(Value("int32")),
        "relations": List(Value("string")),
        "lines": List(Value("string")),
        "where": Value("string"),
    }
)
TREE_COLUMNS = ["heads", "relations"]
# The head of a word where the file has "_".
UNKNOWN = -1
# The words of each sentence of a text.
TextSplitter = Callable[[str], list[list[Word]]]


def read_treebank(path: str | os.PathLike) -> Dataset:
    """
    Reads a treebank in CoNLL-U or CoNLL-X, or plain sentences.

    Args:
        path (`str` or `os.PathLike`):
            The file, in UTF-8, gzipped if its name ends in `.gz`. Files named `.txt` or `.txt.gz` have one sentence
            per line, with spaces between words. All others are CoNLL-U or CoNLL-X. A head `_` is unknown; if all are,
            the sentences have no trees.

    Returns:
        `datasets.Dataset`: `words` (syntactic words), `heads` (from 1; 0 for the root, -1 if unknown) and `relations`
        (if the file has trees), `lines` (the CoNLL-U or CoNLL-X lines; see
        [`~msattn.data.files.conllu.ConlluSentence`]) and `where` (`"path:line"` of the first word).

    Raises:
        UserError: The file cannot be read, is malformed or empty, or a tree has a cycle, several roots or a head that
            is out of range. The message names file and line.
    """
    dataset = rows_to_dataset(((row["where"], row) for row in treebank_rows(path)), FEATURES, os.fspath(path))
    has_trees = any(heads and max(heads) > UNKNOWN for heads in dataset["heads"])
    return dataset if has_trees else dataset.remove_columns(TREE_COLUMNS)


def treebank_rows(path: str | os.PathLike, split: TextSplitter | None = None) -> Iterator[dict[str, Any]]:
    """
    Reads the sentences of a treebank one by one.

    Args:
        path (`str` or `os.PathLike`): As for [`read_treebank`].
        split (`Callable`, *optional*):
            What splits the lines of a `.txt` file into sentences and words, such as
            [`~msattn.data.inputs.raw_text.split_text`]. Default: each is a sentence with spaces between its words.

    Yields:
        `dict[str, Any]`: The columns of [`read_treebank`]; plain sentences have no `heads` and `relations`.

    Raises:
        UserError: As for [`read_treebank`], when the reading comes to the line.
    """
    return _text_rows(path, split) if is_text_file(path) else _conllu_rows(path)


def rows_to_parse(path: str | os.PathLike) -> Iterator[dict[str, Any]]:
    """
    Reads the sentences of a CoNLL-U file for a parser, which completes those whose words have heads in part.

    Args:
        path (`str` or `os.PathLike`): The file.

    Yields:
        `dict[str, Any]`: As [`treebank_rows`]; `heads` and `relations` only of sentences in which some words, and not
        all, have a head. Whole trees may be any, as they are replaced.

    Raises:
        UserError: As for [`treebank_rows`].
    """
    return _conllu_rows(path, whole=False)


def is_text_file(path: str | os.PathLike) -> bool:
    """Returns true if a file is named `.txt` or `.txt.gz`: it holds plain sentences."""
    return suffix_of(path) == ".txt"


def _text_rows(path: str | os.PathLike, split: TextSplitter | None) -> Iterator[dict[str, Any]]:
    for number, (where, line) in enumerate(text_lines(path), start=1):
        refuse_conllu_row(line, where)
        if split is None:
            # Splits at the white space of the format only: a no-break space may be part of a word.
            words = [word for word in re.split("[ \t\n]+", line) if word]
            if words:
                yield {"words": words, "lines": conllu_lines(words, number), "where": where}
            continue
        for place, sentence in enumerate(split(line.rstrip()), start=1):
            lines = conllu_lines_of_text([word.columns for word in sentence], f"{number}-{place}")
            yield {"words": [word.text for word in sentence], "lines": lines, "where": where}


def _conllu_rows(path: str | os.PathLike, whole: bool = True) -> Iterator[dict[str, Any]]:
    for _, tokens, lines in conllu_sentences(text_lines(path, newline="")):
        words = [token for token in tokens if not token.end]
        row: dict[str, Any] = {
            "words": [word.cells["form"] for word in words],
            "lines": lines,
            "where": words[0].where,
        }
        if whole or len({word.cells["head"] == "_" for word in words}) > 1:
            row |= {"heads": _heads(words), "relations": [word.cells["deprel"] for word in words]}
        yield row


def _heads(words: Sequence[ConlluToken]) -> list[int]:
    heads: list[int] = []
    for number, (where, cells, _) in enumerate(words, start=1):
        head = cells["head"]
        if head == "_":
            heads.append(UNKNOWN)
            continue
        if not re.fullmatch("[0-9]{1,9}", head) or int(head) > len(words) or int(head) == number:
            raise UserError(
                f"{where}: the head of word {number} has to be 0 or the number of another of the {len(words)} words, "
                f"or _ if it is unknown, not {shown(head)}."
            )
        if head == "0" and 0 in heads:
            first = heads.index(0) + 1
            raise UserError(
                f"{where}: word {number} is a second root, after word {first}; a tree has one: attach word {number} "
                f"to word {first}, such as by parataxis, or give it the head _, which is unknown."
            )
        heads.append(int(head))
    _refuse_cycle(words, heads)
    return heads


def _refuse_cycle(words: Sequence[ConlluToken], heads: Sequence[int]) -> None:
    # Words that are known to lead to the root, or to a word without a head, need no second visit.
    reached = {0, UNKNOWN}
    for start in range(1, len(heads) + 1):
        way: list[int] = []
        number = start
        while number not in reached and number not in way:
            way.append(number)
            number = heads[number - 1]
        if number in way:
            cycle = ", ".join(str(other) for other in way[way.index(number) + 1 :])
            raise UserError(
                f"{words[number - 1].where}: word {number} is its own head, by way of {cycle}; a tree has no cycle."
            )
        reached.update(way)
