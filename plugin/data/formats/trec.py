"""Reads TREC and BEIR files: runs, queries, documents and relevance judgements (qrels)."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from msattn.data.files.checked_text import filled_text
from msattn.data.files.records import json_lines
from msattn.data.files.text_lines import first_line, suffix_of, text_lines
from msattn.errors import UserError, shown

BEIR_HEADER = ["query-id", "corpus-id", "score"]


def _fields(path: str | os.PathLike, form: Sequence[str]) -> Iterator[tuple[str, list[str]]]:
    for where, line in text_lines(path):
        fields = line.split()
        if len(fields) not in (0, len(form)):
            raise UserError(f"{where}: the line has {len(fields)} fields, expected {len(form)}: {' '.join(form)}.")
        if fields:
            yield where, fields


def read_run(path: str | os.PathLike) -> dict[str, dict[str, str]]:
    """The location of each line, by query and document id."""
    run: dict[str, dict[str, str]] = defaultdict(dict)
    for where, (query, _, document, *_) in _fields(path, ("query", "Q0", "document", "rank", "score", "tag")):
        if run[query].setdefault(document, where) != where:
            raise UserError(f"{where}: the query {query} has the document {document} twice.")
    return dict(run)


def read_qrels(paths: Sequence[str | os.PathLike], level: int) -> dict[str, dict[str, str]]:
    """The location of each judgement, by query and relevant document id."""
    relevant: dict[str, dict[str, str]] = defaultdict(dict)
    judged: dict[tuple[str, str], int] = {}
    for path in paths:
        beir = first_line(path)[1].split() == BEIR_HEADER
        form = ("query", "document", "relevance") if beir else ("query", "0", "document", "relevance")
        for number, (where, fields) in enumerate(_fields(path, form)):
            if beir and number == 0:
                continue
            try:
                relevance = int(fields[-1])
            except ValueError:
                raise UserError(f"{where}: the relevance {shown(fields[-1])} is not a whole number.") from None
            query, document = fields[0], fields[-2]
            if judged.setdefault((query, document), relevance) != relevance:
                raise UserError(f"{where}: the query {query} has the document {document} twice, judged differently.")
            if relevance >= level:
                relevant[query][document] = where
    return relevant


def read_texts(paths: Sequence[str | os.PathLike], wanted: Mapping[str, str], what: str) -> dict[str, str]:
    """The texts of the ids in `wanted`, which maps each id to the location that refers to it."""
    texts: dict[str, str] = {}
    for path in paths:
        for where, identifier, text in _identified(path):
            if identifier not in wanted:
                continue
            filled_text(text, where, f"the {what} {identifier} has no text")
            if texts.setdefault(identifier, text) != text:
                raise UserError(f"{where}: the {what} {identifier} is there twice, with different texts.")
    for identifier, where in wanted.items():
        if identifier not in texts:
            raise UserError(f"{where}: the {what} {identifier} is not in {', '.join(str(path) for path in paths)}.")
    return texts


def _identified(path: str | os.PathLike) -> Iterator[tuple[str, str, str]]:
    if suffix_of(path) == ".jsonl":
        for where, row in json_lines(path):
            parts = [row.get("title") or "", row.get("text")] if isinstance(row, dict) and "_id" in row else [None]
            if not all(isinstance(part, str) for part in parts):
                raise UserError(f'{where}: the line is not a JSON object with "_id" and "text".')
            yield where, str(row["_id"]), " ".join(filter(None, parts))
        return
    for where, line in text_lines(path):
        fields = line.rstrip("\n").split("\t")
        if line.strip() and len(fields) != 2:
            raise UserError(f"{where}: the line has {len(fields)} columns, expected an id, a TAB and the text.")
        if line.strip():
            yield where, fields[0], fields[1]
