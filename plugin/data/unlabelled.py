"""Reads what a trained model is to answer: files as those of a training, with or without labels, or lines of text."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import Any

from msattn.data.columns import LOOKED_AT, PAIRS, TEXTS, find_column, ignored_columns, text_columns
from msattn.data.entity_pairs import text_rows
from msattn.data.files.checked_text import filled_text
from msattn.data.files.conllu import is_conllu, refuse_conllu_row
from msattn.data.files.records import READERS, guess_format, parse_json
from msattn.data.files.text_lines import first_line, suffix_of, text_lines
from msattn.data.formats.annotation_tools import unannotated_text
from msattn.data.formats.brat import brat_rows
from msattn.data.formats.fewrel import fewrel_rows
from msattn.data.formats.semeval import SEMEVAL, semeval_rows
from msattn.data.inputs.raw_text import words_to_tag
from msattn.data.sentences import corpus_of
from msattn.data.tag_records import SENTENCE, WORD, WORDS, plain_records
from msattn.data.tagged_words import record_rows, tagged_rows
from msattn.errors import UserError, shown

BINARY = (".parquet", ".arrow")
TABLES = (".csv", ".tsv", *BINARY)
COLUMNS = (".conll", ".bio", ".iob")
IOB = re.compile(r"O|[BIESLU]-[^\W\d]\S*")

# A place in a file, for error messages, and what is there: a text, or an object.
Input = tuple[str, Any]


def line_inputs(path: str) -> Iterator[Input]:
    """Texts, or objects where a line starts with a brace. Empty lines are skipped."""
    if suffix_of(path) in TABLES:
        raise UserError(f"{path}: the file is a table; give texts or JSON objects, one per line.")
    for where, line in text_lines(path):
        refuse_conllu_row(line, where)
        content = line.strip()
        if content.startswith("[{") or content == "[":
            raise UserError(f"{where}: a list of objects; give one object per line.")
        if content:
            yield where, parse_json(content, where) if content.startswith("{") else line.rstrip()


def _first(path: str) -> str:
    """The first line of a file of text; `""` for a pipe, which can be read only once."""
    return first_line(path, fallback="latin-1")[1] if Path(path).is_file() and suffix_of(path) not in BINARY else ""


def table_rows(path: str, names: Sequence[str] = ()) -> Iterator[Input]:
    """The rows of a JSON file or of a table, by its ending or a first line that names texts; or [`line_inputs`]."""
    first = _first(path).split("\t")
    header = len(first) > 1 and any(find_column(name, first) for name in (*names, *TEXTS, *chain(*PAIRS)))
    if header or suffix_of(path) in (".csv", ".tsv", ".parquet", ".json"):
        return iter(READERS[guess_format(path) or "jsonl"](path))
    return line_inputs(path)


def relation_inputs(path: str, finds_entities: bool) -> Iterator[Input]:
    """What relations are trained on, with labels or not: SemEval's lines, brat, a table, JSON; or [`line_inputs`]."""
    if Path(path).is_dir() or Path(path).suffix == ".ann":
        return text_rows(brat_rows(path))
    if SEMEVAL.match(_first(path)):
        return semeval_rows(path)
    rows = fewrel_rows(table_rows(path))
    return text_rows(((where, unannotated_text(row)) for where, row in rows) if finds_entities else rows)


def sentence_inputs(path: str, labels: Sequence[str], column: str | None) -> Iterator[Input]:
    """
    Texts, or objects with words: of tables, records and columns as `run_tagging.py` reads them, or of lines. The words
    are in the column of the training, if there is one of this name, or if it is the number of one.
    """
    suffix = suffix_of(path)
    words_in = (column, *WORDS) if column else WORDS
    if Path(path).is_dir() or suffix == ".ann" or (suffix in (".json", ".jsonl") and _first(path)):
        yield from _texts_or_words(record_rows(path, words_in))
    elif suffix in (".csv", ".parquet") or (
        suffix == ".tsv" and not {*first_line(path)[1].split("\t")}.isdisjoint(TEXTS)
    ):
        rows = table_rows(path)
        first = list(islice(rows, LOOKED_AT))
        numbers = first and any(find_column(name, first[0][1]) for name in SENTENCE)
        named = find_column(column, first[0][1]) if column and numbers else None
        if suffix != ".parquet" and first and (named or any(find_column(name, first[0][1]) for name in WORD)):
            yield from tagged_rows(path, named)
        elif first and (any(name in first[0][1] for name in WORDS) or isinstance(first[0][1].get(column), list)):
            yield from _texts_or_words(plain_records(chain(first, rows), words_in))
        elif first:
            (text,) = text_columns(first[0][0], [row for _, row in first])[:1]
            yield from ((where, row[text]) for where, row in chain(first, rows))
    elif suffix in (".tsv", *COLUMNS) or is_conllu(path) or _is_tagged(path, labels):
        numbered = column and column.isdecimal() and suffix != ".conllu"
        if numbered and any(find_column(name, _first(path).split("\t")) for name in SENTENCE):
            numbered = False  # a table of words, which has names
        yield from tagged_rows(path, column if numbered else None)
    else:
        for where, item in line_inputs(path):
            words = _given_words(item, [column]) if column and isinstance(item, Mapping) else None
            yield where, item if words is None else {"words": words}


def _texts_or_words(rows: Iterable[Input]) -> Iterator[Input]:
    """Of each row the text or the words; its tags and entities do not matter."""
    return text_rows((where, text_of(row)) for where, row in rows)


def _is_tagged(path: str, labels: Sequence[str]) -> bool:
    """Whether the lines that decide are columns, as many in each, and the last one holds tags."""
    lines = (line.split() for _, line in islice(text_lines(path), LOOKED_AT)) if _first(path) else ()
    cells = [line for line in lines if line and line[0] not in ("#", "-DOCSTART-")]
    widths, tags = {len(line) for line in cells}, {line[-1] for line in cells}
    if len(cells) < 2 or len(widths) > 1 or 1 in widths:
        return False
    # A full stop may be a tag, and all texts may end in one.
    return any(map(str.isalpha, "".join(tags))) and all(tag in labels or IOB.fullmatch(tag) for tag in tags)


def text_of(item: Any) -> Any:
    """The text of an object without a list of words; any other input."""
    return item.get("text", item) if isinstance(item, Mapping) and _given_words(item) is None else item


def _given_words(item: Mapping, words_in: Sequence[str] = WORDS) -> list[str] | None:
    """The words of an object; `None` for other lists of these names, as the objects of Prodigy and spaCy."""
    lists = (item[name] for name in words_in if isinstance(item.get(name), list))
    return next((each for each in lists if all(isinstance(word, str) for word in each)), None)


def words_of(where: str, item: Any, split: Callable[[str], list] = words_to_tag) -> list[str]:
    """
    The words of an input.

    Raises:
        UserError: It is no text, no object with words, or has no word.
    """
    item = text_of(item)
    words: list[str] | None = None
    if isinstance(item, str):
        words = [word for word, _, _ in split(item)]
    elif isinstance(item, Mapping):
        words = _given_words(item)
    if not words or "" in words:  # a no-break space may be a word, as in training
        raise UserError(
            f'{where}: a sentence is a text, or {{"words": [...]}} with a word or more, not {shown(item)}.'
        )
    return words


def has_candidates(path: str) -> bool:
    """Whether the first line of a file is an object with candidates for a query."""
    first = _first(path)
    return first[:1] in ("{", "[") and '"candidates"' in first


def text_inputs(path: str, stored: Sequence[str] | None) -> Iterator[list[str]]:
    """The text of each input, or its two texts, from the columns of the training or else those of the first input."""
    columns: list[str] = []
    corpus = corpus_of(path) if _first(path)[:1] not in ("", "{") else None
    for where, item in corpus(path) if corpus else table_rows(path, stored or ()):
        row = {"text": item} if isinstance(item, str) else item
        if not isinstance(row, dict):
            raise UserError(f"{where}: an input is a text or an object with a text, not {shown(row)}.")
        if isinstance(row.get("candidates"), list):
            raise UserError(
                f"{where}: candidates are ranked by a model with one output, from a file with an object a line."
            )
        if stored is not None and len(stored) == 2 and row is not item:
            raise UserError(f"{where}: the model reads two texts, {' and '.join(stored)}; give objects or a table.")
        if not columns:
            if corpus and len(stored or ()) == len(row) - 1:
                stored = None  # its columns have names of ours
            columns = text_columns(where, [row]) if stored is None else _trained_columns(where, row, stored)
            if row is item:
                ignored = ", ".join(ignored_columns(columns, row, "label"))
                print(
                    f"The text is read from {' and '.join(columns)}{ignored and f'; ignored: {ignored}'}.",
                    file=sys.stderr,
                )
        yield [filled_text(row.get(name), where, f"the input has no text in {name!r}") for name in columns]


def _trained_columns(where: str, row: dict, stored: Sequence[str]) -> list[str]:
    """The columns that the model was trained on, or else `text` and `text_pair`, as in a pipeline."""
    for names in (stored, ("text", "text_pair")[: len(stored)]):
        own = [column for name in names if (column := find_column(name, row)) is not None]
        if len(own) == len(names):
            return own
    raise UserError(
        f"{where}: the model was trained on {' and '.join(stored)}, and there are {', '.join(row) or 'no columns'}."
    )
