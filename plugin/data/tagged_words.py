"""Reads sentences with a tag for every word from files or Hub datasets."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from typing import Any

from datasets import Dataset, Features, IterableDataset, List, Value
from transformers.utils import logging

from msattn.data.columns import find_column
from msattn.data.files.arrow_tables import (
    Located,
    class_names,
    located_rows,
    parquet_dataset,
    rows_to_dataset,
    without_empty,
)
from msattn.data.files.checked_text import check_cell, check_text
from msattn.data.files.conllu import conllu_sentences, is_conllu
from msattn.data.files.records import csv_rows, guess_format, json_file, json_lines, tsv_rows, unfolded
from msattn.data.files.text_lines import first_line, suffix_of, text_lines
from msattn.data.formats.brat import brat_rows
from msattn.data.tag_records import SENTENCE, TAGS, WORD, WORDS, plain_records, tag_records, tag_table
from msattn.errors import UserError, shown

logger = logging.get_logger(__name__)

FEATURES = Features({"words": List(Value("string")), "tags": List(Value("string"))})
CONLLU_TAGS = ("upos", "xpos")
# Lines before a sentence, as in CoNLL-U and MultiCoNER. Any other "#" is a word.
COMMENT = re.compile(r"# (\w+ = |new(doc|par)( id = |\s*$)|id\s+\S+(\s+domain=\S+)?$)")
# The source of a sentence in GermEval 2014: its words are in column 2, and nested tags in column 4.
GERMEVAL = re.compile(r"#\thttps?://\S+ \[")
# The start of JSON, and of no word.
RECORD = re.compile(r'\s*(\[\s*)?[\[{]\s*"')
# Tokens of spaCy may be line ends, which a column cannot hold.
WHITE = str.maketrans("\t\r\n", "   ")
HEADING = re.compile(r"(word|token|form|pos|chunk|tag|label|ner|ner_tag)s?", re.IGNORECASE)


def read_tagged_words(
    path: str | os.PathLike, word_column: str | None = None, tag_column: str | None = None
) -> Dataset:
    """
    Reads tagged sentences from CoNLL-U, CoNLL columns, JSON, CSV, Parquet or brat.

    Files named `.conllu`, and `.conll` or `.conllx` with ten columns, are CoNLL-U, unless they have other columns or
    one is given by its number; names may end in `.gz`. All others have one word per line, columns separated by tabs or
    else spaces, and blank lines between sentences. Headings such as `word tag`, which may name the word column, and
    comments before a sentence such as `# text = ...` or MultiCoNER's `# id ...`, are left out. Of GermEval 2014, the
    outer tags are read. JSON and JSON lines hold lists of words and tags, or words or texts with spans; Parquet holds
    lists of words and tags; a folder is brat's; `.csv`, and columns with such a heading, have a word a row and a
    column that numbers the sentences.

    Args:
        path (`str` or `os.PathLike`): The file, in UTF-8, or a folder of brat.
        word_column (`str`, *optional*):
            Of CoNLL columns, the number of the word column, from 1. Default: the one that a heading names, or the
            first. Of CSV (default: `word` or `token`), JSON and Parquet (default: `tokens` or `words`), its name. Not
            for CoNLL-U.
        tag_column (`str`, *optional*):
            For CoNLL-U, `"upos"` (default) or `"xpos"`; multi-word tokens are skipped. For CoNLL columns, the number
            of the tag column, from 1. Default: the last; with a single column, the words have no tags. For CSV
            (default: `tag`, `ner_tag`, `label` or `ner`), JSON and Parquet (default: as in [`to_tagged_words`]), its
            name. If all tags are `_`, the words have none; a single word of CoNLL-U with `_` has the tag `None`.

    Returns:
        `datasets.Dataset`: `words`, and `tags` if the words are tagged.

    Raises:
        UserError: The file cannot be read or is malformed, or the column does not exist. The message names file and
            line.
    """
    name = os.fspath(path)
    if Path(name.lower()).suffix == ".parquet":
        return to_tagged_words(parquet_dataset(path), name, word_column, tag_column)
    found = _dataset(tagged_rows(path, word_column, tag_column), name)
    untagged = "tags" in found.column_names and {*chain(*found["tags"])} in ({"_"}, {None})
    return found.remove_columns("tags") if untagged else found


def tagged_rows(path: str | os.PathLike, word_column: str | None = None, tag_column: str | None = None) -> Located:
    """The rows of [`read_tagged_words`] with their locations, one by one; not of Parquet."""
    name = os.fspath(path)
    conllu = _is_conllu(path, word_column, tag_column)
    if conllu and word_column is not None:
        raise UserError(f"{name}: the words of CoNLL-U are in the column FORM; leave --word_column out.")
    if conllu:
        return _conllu_rows(path, tag_column)
    suffix = suffix_of(path)
    if suffix == ".csv":
        return tag_table(csv_rows(path), word_column, tag_column)
    if not os.path.isdir(path) and _numbers_sentences(first_line(path)[1].split("\t")):
        return tag_table(tsv_rows(path), word_column, tag_column)
    if suffix in (".json", ".jsonl", ".ann") or os.path.isdir(path) or RECORD.match(first_line(path)[1]):
        rows = record_rows(path, (word_column,) if word_column else WORDS, tag_column)
        return _hub_rows(tag_records(rows), "words", "tags")
    return _column_rows(path, word_column, tag_column)


def record_rows(path: str | os.PathLike, words_in: Sequence[str], tag_column: str | None = None) -> Located:
    """The rows of JSON, JSON lines or brat; see [`~msattn.data.tag_records.plain_records`]."""
    if suffix_of(path) == ".ann" or os.path.isdir(path):
        return brat_rows(path)
    read = json_file if guess_format(path) == "json" else json_lines
    return plain_records(unfolded(read(path), words_in[0]), words_in, tag_column)


def to_tagged_words(
    dataset: Dataset | IterableDataset,
    source: str = "dataset",
    word_column: str | None = None,
    tag_column: str | None = None,
) -> Dataset:
    """
    Converts a dataset, such as one from the Hub, to the columns of [`read_tagged_words`].

    Args:
        dataset (`datasets.Dataset` or `datasets.IterableDataset`):
            Rows with a list of words and a list of tags, as strings or `ClassLabel` ids.
        source (`str`, *optional*, defaults to `"dataset"`): The name of the dataset in error messages.
        word_column (`str`, *optional*): The word column. Default: `tokens` or `words`.
        tag_column (`str`, *optional*):
            The tag column. Default: the only column of `ClassLabel` lists, or `ner_tags`, `tags`, `labels`, `pos_tags`
            or `upos`; without any of these, the words have no tags.

    Returns:
        `datasets.Dataset`: As for [`read_tagged_words`].

    Raises:
        UserError: A column is missing, `tag_column` is ambiguous, or words and tags of a row differ in number.
    """
    features = dataset.features or {}
    word_column = word_column or next((name for name in WORDS if name in features), WORDS[0])
    if tag_column is None:
        classes = [name for name, feature in features.items() if class_names(feature) and isinstance(feature, List)]
        if len(classes) > 1:
            raise UserError(f"{source}: the column of the tags has to be named; there are {', '.join(classes)}.")
        tag_column = next((name for name in (*classes, *TAGS) if name in features), None)
    for column in (word_column, tag_column):
        if column is not None and column not in features:
            raise UserError(f"{source}: there is no column {column!r}; there are {', '.join(features) or 'none'}.")
    return _dataset(_hub_rows(located_rows(dataset, source), word_column, tag_column), source)


def _dataset(rows: Located, source: str) -> Dataset:
    return without_empty(rows_to_dataset(rows, FEATURES, source, "tags"), "tags")


def _is_conllu(path: str | os.PathLike, word_column: str | None, tag_column: str | None) -> bool:
    """Whether a file has the ten columns of CoNLL-U; other data go by its names, too."""
    if not is_conllu(path):
        return False
    row = next((line for _, line in text_lines(path) if line.strip() and not line.startswith("#")), "")
    columns = row.count("\t") + 1
    if suffix_of(path) == ".conllu":
        return not 1 < columns < 10
    return columns == 10 and word_column is None and tag_column in (None, *CONLLU_TAGS)


def _conllu_rows(path: str | os.PathLike, tag_column: str | None) -> Located:
    column = tag_column or CONLLU_TAGS[0]
    if column not in CONLLU_TAGS:
        raise UserError(f"{os.fspath(path)}: the tags of CoNLL-U are {' or '.join(CONLLU_TAGS)}, not {column!r}.")
    for where, tokens, _ in conllu_sentences(text_lines(path, newline="")):
        words = [token.cells for token in tokens if not token.end]
        tags = [None if word[column] == "_" else word[column] for word in words]
        yield where, {"words": [word["form"] for word in words], "tags": tags}


def _column_rows(path: str | os.PathLike, word_column: str | None, tag_column: str | None) -> Located:
    if GERMEVAL.match(first_line(path)[1]):
        if tag_column is None:
            name = os.fspath(path)
            logger.warning(f"{name}: the outer tags of GermEval 2014 are read; --tag_column 4 are the nested ones.")
        word_column, tag_column = word_column or "2", tag_column or "3"
    word_at = 0 if word_column is None else _column_number(word_column)
    tag_at = None if tag_column is None else _column_number(tag_column)
    words: list[str] = []
    tags: list[str] = []
    width = 0
    # An extra empty line ends the last sentence, as files may lack it.
    for where, line in chain(text_lines(path), [(f"{os.fspath(path)}, at its end", "")]):
        line = line.rstrip("\n")
        # Splits at the white space of the format only: a no-break space may be a word.
        if not line.strip(" \t") or line.startswith("-DOCSTART-"):
            if word_column is None and len(words) > 2 and words in (_numbers(0, len(words)), _numbers(1, len(words))):
                before = f"{os.fspath(path)}: the first column counts the words of a sentence"
                raise UserError(f"{before}; name the column of the words, such as 2 (--word_column).")
            if words:
                yield where, {"words": words, "tags": tags if width > 1 else None}
            words, tags = [], []
            continue
        if not words and (COMMENT.match(line) or GERMEVAL.match(line)):
            continue
        cells = line.split("\t") if "\t" in line else re.split(" +", line.strip(" "))
        if not width and len(cells) > 1:
            named = next((at for at, name in enumerate(cells) if find_column(name, WORD)), 0)
            if named or all(map(HEADING.fullmatch, cells)):
                word_at = word_at if word_column else named
                continue
        width = width or len(cells)
        if len(cells) != width and (word_column is None or tag_column is None):
            raise UserError(f"{where}: the line has {len(cells)} columns, unlike the {width} of those before it.")
        last = max(word_at, tag_at or 0)
        if last >= len(cells):
            raise UserError(f"{where}: there is no column {last + 1}; the line has {len(cells)}.")
        word, tag = cells[word_at], cells[-1 if tag_at is None else tag_at].strip()
        if not word or not (tag or width == 1):
            raise UserError(f"{where}: the line has no {'tag' if word else 'word'}.")
        words.append(word)
        tags.append(tag)


def _numbers(first: int, count: int) -> list[str]:
    return [str(number) for number in range(first, first + count)]


def _numbers_sentences(header: Sequence[str]) -> bool:
    """Whether a heading names a column of words and one that numbers the sentences."""
    return all(any(find_column(name, header) for name in names) for names in (WORD, SENTENCE))


def _column_number(column: str) -> int:
    if not re.fullmatch("[1-9][0-9]{0,5}", column):
        raise UserError(f"a column of a CoNLL file is a number from 1 on, not {shown(column)}.")
    return int(column) - 1


def _hub_rows(rows: Located, word_column: str, tag_column: str | None) -> Located:
    empty = []
    for where, row in rows:
        words = row[word_column]
        if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
            raise UserError(f"{where}: {word_column!r} is not a list of words.")
        if "" in words:
            raise UserError(f"{where}: word {words.index('') + 1} is empty; leave it out, with its tag.")
        tags = [None] * len(words) if tag_column is None else row[tag_column]
        if not isinstance(tags, list) or len(tags) != len(words):
            raise UserError(f"{where}: {tag_column!r} does not hold a tag for each of the {len(words)} words.")
        check_text(" ".join(words), where)
        if words:
            yield where, {"words": [word.translate(WHITE) for word in words], "tags": _tags(tags, where)}
        else:
            empty.append(where)
    if empty:
        logger.warning(f"{empty[0]}: the row has no words; {len(empty)} such rows are left out.")


def _tags(tags: Sequence[Any], where: str) -> list[str] | None:
    """The tags of a row as strings; `None` if all are missing."""
    if all(tag in (None, "") for tag in tags):
        return None
    for number, tag in enumerate(tags, start=1):
        if isinstance(tag, bool) or not isinstance(tag, (str, int)) or not str(tag).strip():
            raise UserError(f"{where}: word {number} has the tag {shown(tag)}; every word needs one.")
    check_cell(" ".join(map(str, tags)), "list of tags", where)
    return [str(tag).strip() for tag in tags]
