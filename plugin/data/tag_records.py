"""Tagged words from JSON (lists of words and tags, or texts with spans) and from tables with a word a row."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

from transformers.utils import logging

from msattn.data.columns import find_column
from msattn.data.entity_pairs import text_rows
from msattn.data.files.arrow_tables import Located
from msattn.data.formats.annotation_tools import unannotated_text
from msattn.data.inputs.words import tagged_spans
from msattn.data.relation_rows import NAMES, first_of, one_sequence
from msattn.data.row_checks import READINGS
from msattn.data.spans import check_name
from msattn.errors import UserError, shown

logger = logging.get_logger(__name__)

WORDS, TAGS = ("tokens", "words"), ("ner_tags", "tags", "labels", "pos_tags", "upos")
# Fields of a text that hold its entities, beside `entities` itself.
SPANS = ("spans", "ents", "label", "labels")
# Columns of tables: `Sentence #,Word,POS,Tag`, as on Kaggle.
WORD, TAG, SENTENCE = ("word", "token"), ("tag", "ner_tag", "label", "ner"), ("sentence #", "sentence_id", "sentence")
DOCUMENT = ("doc_id", "document_id", "doc", "document")


@dataclass
class _Spans:
    """What is counted of the spans of a file: those that are left out, those that cut words, and why they may."""

    count: int = 0
    dropped: list[str] = field(default_factory=list)
    cutting: list[str] = field(default_factory=list)
    causes: list[str] = field(default_factory=lambda: [*READINGS])

    def warn(self) -> None:
        if self.dropped:
            count = f"{len(self.dropped)} such spans are left out"
            logger.warning(f"{self.dropped[0]}: a span shares a word with a longer one or one before; {count}.")
        if self.cutting:
            logger.warning(
                f"{self.cutting[0]} cuts a word, as {len(self.cutting)} of {self.count} spans do, and the whole word "
                f"is tagged; {next(iter(self.causes), 'check its offsets, or give tokens and ner_tags')}."
            )


def tag_records(rows: Located) -> Located:
    """
    Words and tags of rows of [`plain_records`]. Of spans that share a word, the longest is read; a warning counts the
    others, and another one those that cut words.

    Raises:
        UserError: A row has neither words nor a text, or spans lie outside of it or on other words than they name.
    """
    seen = _Spans()
    for where, row in text_rows(rows):
        yield where, row if row.keys() == {"words", "tags"} else _tagged(where, row, seen)
    seen.warn()


def plain_records(rows: Located, words_in: Sequence[str] = WORDS, tag_column: str | None = None) -> Located:
    """
    JSON objects with `words` and `tags`, with `tokens` or `text` and `entities`, or in another form of
    [`~msattn.data.entity_pairs.text_rows`].

    Args:
        rows (`Located`): Locations and objects, or what spaCy writes.
        words_in (`Sequence[str]`, *optional*, defaults to `tokens` and `words`):
            The fields of the words; the first that is there is read.
        tag_column (`str`, *optional*): The field of the tags. Default: the first of `TAGS`.

    Raises:
        UserError: A row is no object, or lacks a field that is given.
    """
    for where, row in rows:
        if isinstance(row, list) and len(row) == 2 and isinstance(row[1], Mapping):  # spaCy's (text, annotations)
            row = {"text": row[0], **row[1]}
        if not isinstance(row, Mapping):
            raise UserError(f"{where}: a row has to be an object with words and tags, not {shown(row)}.")
        if row.keys().isdisjoint(words_in) and not row.keys().isdisjoint(WORDS):
            raise UserError(f"{where}: there is no field {words_in[0]!r}; there are {', '.join(row)}.")
        tags = next((row[name] for name in ([tag_column] if tag_column else TAGS) if name in row), None)
        given = isinstance(row.get("entities"), list)
        row = one_sequence(row) if "text" in row and given and row["entities"] and tags is None else row
        words = next((row[name] for name in words_in if name in row), None)
        spans = next((row[name] for name in SPANS if isinstance(row.get(name), list)), None)
        if isinstance(words, list) and not (words and isinstance(words[0], Mapping)):
            if tags is None and given:  # SpERT's: spans of words
                row = {"tokens": words, "entities": row["entities"]}
            elif tags is None and tag_column and not row.keys().isdisjoint(TAGS):
                raise UserError(f"{where}: there is no field {tag_column!r}; there are {', '.join(row)}.")
            else:
                row = {"words": words, "tags": [None] * len(words) if tags is None else tags}
        elif "text" in row and spans is not None and not given:
            row = {"text": row["text"], "entities": spans}
        yield where, unannotated_text(row)


def _tagged(where: str, row: Mapping[str, Any], seen: _Spans) -> dict[str, list]:
    """The words and tags of a row with `tokens` or `text`; without `entities`, the tags are `None`."""
    units, entities = row.get("text", row.get("tokens")), row.get("entities")
    if not isinstance(units, (str, list)) or not isinstance(entities, (list, type(None))):
        raise UserError(
            f'{where}: the row needs "tokens" and "ner_tags" (or "tags"), or "text" and "entities" (or "spans"); '
            f"there are {', '.join(map(str, row)) or 'no fields'}."
        )
    places = list(tagged_spans(units)) if isinstance(units, str) else [(at, at + 1) for at in range(len(units))]
    words = [units[start:end] for start, end in places] if isinstance(units, str) else units
    tags = [None] * len(places) if entities is None else _tags(places, units, entities, where, seen)
    return {"words": words, "tags": tags}


def tag_table(rows: Located, word_column: str | None, tag_column: str | None) -> Iterator[tuple[str, dict]]:
    """
    Words and tags of a table with a word a row and a column that numbers the sentences, perhaps of each document anew,
    which may be empty but in the first row of each.

    Raises:
        UserError: A column is missing.
    """

    def numbered() -> Iterator[tuple[int, str, str, str | None]]:
        number, place = 0, ("", "")
        for where, row in rows:
            word, sentence = (
                _column(where, row, names) for names in ((word_column,) if word_column else WORD, SENTENCE)
            )
            tag = _column(where, row, (tag_column,)) if tag_column else _found(row, TAG)
            document = _found(row, DOCUMENT)
            before, place = place, (row[sentence] or place[0], (document and row[document]) or place[1])
            number += place != before
            if not row[word].strip(" ") or (tag and not row[tag].strip()):
                raise UserError(f"{where}: the row has no {'tag' if row[word].strip(' ') else 'word'}.")
            yield number, where, row[word], row[tag].strip() if tag else None

    for _, group in groupby(numbered(), key=lambda each: each[0]):
        _, places, words, tags = zip(*group, strict=True)
        yield places[0], {"words": list(words), "tags": None if None in tags else list(tags)}


def _column(where: str, row: Mapping[str, Any], names: Sequence[str]) -> str:
    found = _found(row, names)
    if found is None:
        lists = " Lists of words need JSON lines or Parquet." if {*row} & {*WORDS} else ""
        raise UserError(f"{where}: there is no column {' or '.join(names)}; there are {', '.join(row)}.{lists}")
    return found


def _found(row: Mapping[str, Any], names: Sequence[str]) -> str | None:
    return next((own for name in names if (own := find_column(name, row)) is not None), None)


def _tags(
    places: Sequence[tuple[int, int]], units: str | list[str], spans: list, where: str, seen: _Spans
) -> list[str]:
    """The tags B and I of words at these places of a text. Of spans that share a word, the longest has it."""
    tags = ["O"] * len(places)
    starts, ends = {first for first, _ in places}, {last for _, last in places}
    found = [_span(span, where) for span in spans]
    for start, end, kind, name in sorted(found, key=lambda span: span[0] - span[1]):
        inside = [number for number, (first, last) in enumerate(places) if first < end and start < last]
        if not 0 <= start < end <= len(units) or not inside:
            raise UserError(
                f"{where}: the span {start} to {end} is not on words of the text, whose length is {len(units)}."
            )
        check_name(name, (start, end), units, kind, where)
        seen.count += 1
        if isinstance(units, str):
            if places[inside[0]][0] < start or end < places[inside[-1]][1]:
                seen.cutting.append(f"{where}: the span {start} to {end}, {units[start:end]!r},")
            read = {cause: READINGS[cause](units, (start, end)) for cause in seen.causes}
            seen.causes = [cause for cause, (first, last) in read.items() if first in starts and last in ends]
        if any(tags[number] != "O" for number in inside):
            seen.dropped.append(where)
            continue
        for number in inside:
            tags[number] = f"{'B' if number == inside[0] else 'I'}-{kind}"
    return tags


def _span(span: Any, where: str) -> tuple[int, int, str, Any]:
    """The bounds of a span, its label, and the words that it names, if there are any."""
    name = None
    if isinstance(span, Mapping):
        name = first_of(span, *NAMES)
        span = [span.get("start"), span.get("end"), span.get("label", span.get("type"))]
    if not (isinstance(span, list) and len(span) == 3 and [type(each) for each in span] == [int, int, str]):
        raise UserError(f"{where}: a span is [start, end, label], or an object with these, not {shown(span)}.")
    return span[0], span[1], span[2], name
