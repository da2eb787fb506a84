"""Queries with the candidates that are to be ranked for them, from JSON or from the files of TREC."""

from __future__ import annotations

import hashlib
import json
import os
import random
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from datasets import Dataset, Features, Value
from transformers.utils import logging

from msattn.data.relations import READERS, guess_format
from msattn.data.tables import rows_to_dataset
from msattn.data.text_lines import text_lines
from msattn.errors import UserError

logger = logging.get_logger(__name__)

RANKING_FEATURES = Features(
    {**dict.fromkeys(("query_id", "candidate_id", "query", "text"), Value("string")), "label": Value("int64")}
)
BEIR_HEADER = ["query-id", "corpus-id", "score"]


@dataclass(frozen=True)
class RankingData:
    """
    Args:
        pairs (`datasets.Dataset`):
            A row for each candidate of each query: `query_id`, `candidate_id`, `query`, `text` and, unless nothing is
            labelled, `label` (1 relevant, 0 not).
        missed (`Mapping[str, Collection[str]]`):
            By query, the documents that are known to be relevant and are not among its candidates.
    """

    pairs: Dataset
    missed: Mapping[str, Collection[str]] = field(default_factory=dict)

    @property
    def labelled(self) -> bool:
        return "label" in self.pairs.column_names

    def relevant(self) -> dict[str, set[str]]:
        """By query, all relevant documents; a query without any is left out."""
        found = defaultdict(set, {query: set(documents) for query, documents in self.missed.items() if documents})
        columns = (self.pairs[name][:] for name in ("query_id", "candidate_id", "label"))
        for query, candidate, label in zip(*columns, strict=True):
            if label:
                found[query].add(candidate)
        return dict(found)

    def of_queries(self, queries: Collection[str]) -> RankingData:
        """The part with these queries."""
        rows = [row for row, query in enumerate(self.pairs["query_id"][:]) if query in queries]
        missed = {query: documents for query, documents in self.missed.items() if query in queries}
        return RankingData(self.pairs.select(rows), missed)


def read_ranking(path: str | os.PathLike) -> RankingData:
    """
    Reads queries with their candidates from JSON lines, a JSON array, or Parquet.

    A row is `{"query": "...", "candidates": [{"text": "...", "label": 1}, ...]}`. Query and candidates may have an
    `"id"`; a query is otherwise called by its number, a candidate by a digest of its text. The texts may also come as
    `"positive"` and `"negative"`, each a string or a list of strings. A candidate that comes twice counts once.

    Args:
        path (`str` or `os.PathLike`): The file, in UTF-8.

    Raises:
        UserError: A row lacks its query, its candidates or a text, an id or a label is not usable, or only some
            candidates have labels; the message names file and line.
    """
    rows = READERS[_json_format(path)](path)
    return _ranking_data(_query_rows(rows), os.fspath(path))


def read_trec_ranking(
    run_file: str | os.PathLike,
    queries_files: Sequence[str | os.PathLike],
    collection_files: Sequence[str | os.PathLike],
    qrels_files: Sequence[str | os.PathLike] = (),
    relevance_level: int = 1,
    add_relevant: bool = False,
) -> RankingData:
    """
    Reads the candidates of a first ranking, their texts, and what is known about them.

    Args:
        run_file (`str` or `os.PathLike`): Lines `query Q0 document rank score tag`; rank and score are not used.
        queries_files (`Sequence`): Lines `id TAB text`, or JSON lines with `_id` and `text` (BEIR) in a `.jsonl` file.
        collection_files (`Sequence`): The same for documents; a `title` in JSON lines is put before the text.
        qrels_files (`Sequence`, *optional*):
            Lines `query 0 document relevance`, or BEIR's `query TAB document TAB relevance` under its header. What is
            not judged is not relevant. Nothing is labelled where they know no relevant document for any query.
        relevance_level (`int`, *optional*, defaults to 1): The least relevance that counts.
        add_relevant (`bool`, *optional*, defaults to `False`):
            Make relevant documents that the run lacks candidates, too: for training, where they would be lost.

    Raises:
        UserError: A line has too few or too many fields, an id is unknown or comes twice, or a text is empty; the
            message names file and line.
    """
    run = _read_run(run_file)
    relevant = _read_qrels(qrels_files, relevance_level)
    labelled = not relevant.keys().isdisjoint(run)
    missed = {
        query: {document: where for document, where in relevant.get(query, {}).items() if document not in documents}
        for query, documents in run.items()
    }
    if add_relevant:
        run = {query: {**documents, **missed[query]} for query, documents in run.items()}
        missed = {}
    queries = _read_texts(
        queries_files, {query: next(iter(documents.values())) for query, documents in run.items()}, "query"
    )
    wanted = {document: where for documents in reversed(run.values()) for document, where in documents.items()}
    texts = _read_texts(collection_files, wanted, "document")
    pairs = (
        {
            "query_id": query,
            "candidate_id": document,
            "query": queries[query],
            "text": texts[document],
            "label": int(document in relevant.get(query, {})) if labelled else None,
        }
        for query, documents in run.items()
        for document in documents
    )
    return replace(
        _ranking_data(pairs, os.fspath(run_file)), missed={query: set(ids) for query, ids in missed.items()}
    )


def sample_negatives(data: RankingData, most: int, seed: int) -> RankingData:
    """Leaves each query at most so many of its candidates that are not relevant, drawn by chance."""
    draw = random.Random(seed)
    kept: list[int] = []
    negatives: dict[str, list[int]] = defaultdict(list)
    for row, (query, label) in enumerate(zip(data.pairs["query_id"][:], data.pairs["label"][:], strict=True)):
        (kept if label else negatives[query]).append(row)
    for rows in negatives.values():
        kept += draw.sample(rows, min(most, len(rows)))
    return replace(data, pairs=data.pairs.select(sorted(kept)))


def _ranking_data(pairs: Iterable[dict[str, Any]], source: str) -> RankingData:
    dataset = rows_to_dataset(pairs, RANKING_FEATURES)
    if not len(dataset):
        raise UserError(f"{source}: there is no query in it.")
    return RankingData(dataset if dataset[0]["label"] is not None else dataset.remove_columns("label"))


def _json_format(path: str | os.PathLike) -> str:
    if Path(path).suffix.lower() != ".parquet":
        where, line = next(((where, line) for where, line in text_lines(path) if line.strip()), ("", "{"))
        if line.lstrip()[0] not in "{[":
            raise UserError(
                f"{where}: expected JSON with a query and its candidates; a run file of TREC needs --queries_file and "
                "--collection_file as well."
            )
    return guess_format(path)


def _query_rows(rows: Iterable[tuple[str, Any]]) -> Iterator[dict[str, Any]]:
    seen: dict[str, str] = {}
    labelled = None
    repeated = 0
    for number, (where, row) in enumerate(rows, start=1):
        if not isinstance(row, Mapping):
            raise UserError(f"{where}: a row must be an object with a query and its candidates.")
        query = _text(row.get("query"), where, 'the row has no text in "query"')
        query_id = _identifier(row.get("id"), where) or str(number)
        if query_id in seen:
            raise UserError(f"{where}: the query id {query_id!r} is also that of {seen[query_id]}.")
        seen[query_id] = where
        pairs: dict[str, dict[str, Any]] = {}
        for position, candidate in enumerate(_candidates(row, where), start=1):
            text = _text(candidate.get("text"), where, f'candidate {position} has no text in "text"')
            label = candidate.get("label")
            if label is not None and label not in (0, 1):
                raise UserError(f"{where}: the label of candidate {position} must be 0 or 1, not {label!r}.")
            if labelled is None:
                labelled = label is not None
            if labelled != (label is not None):
                has = "no label" if labelled else "a label"
                raise UserError(f"{where}: candidate {position} has {has}, unlike those before it.")
            identifier = _identifier(candidate.get("id"), where) or hashlib.sha1(text.encode()).hexdigest()[:12]
            pair = {
                "query_id": query_id,
                "candidate_id": identifier,
                "query": query,
                "text": text,
                "label": None if label is None else int(label),
            }
            if pairs.setdefault(identifier, pair) != pair:
                raise UserError(f"{where}: candidate {position} comes twice, with different texts or labels.")
            repeated += pairs[identifier] is not pair
        yield from pairs.values()
    if repeated:
        logger.warning(f"{repeated} candidates came twice for the same query and count once.")


def _candidates(row: Mapping, where: str) -> list[Mapping]:
    candidates = row.get("candidates")
    if candidates is not None and row.get("positive") is not None:
        raise UserError(f'{where}: the row has both "candidates" and "positive": give one of them.')
    if row.get("positive") is not None:
        candidates = [
            {"text": text, "label": label}
            for name, label in (("positive", 1), ("negative", 0))
            for text in _texts(row.get(name) or [], name, where)
        ]
    if not isinstance(candidates, list) or not candidates:
        raise UserError(
            f'{where}: the row needs "candidates", a list with at least one, or "positive" and "negative".'
        )
    for position, candidate in enumerate(candidates, start=1):
        if not isinstance(candidate, Mapping):
            raise UserError(f'{where}: candidate {position} must be an object with "text" and "label".')
    return candidates


def _texts(value: Any, name: str, where: str) -> list:
    if not isinstance(value, (str, list)):
        raise UserError(f'{where}: "{name}" must be a string or a list of strings.')
    return [value] if isinstance(value, str) else value


def _text(value: Any, where: str, problem: str) -> str:
    if not isinstance(value, str) or not value.strip():
        raise UserError(f"{where}: {problem}.")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise UserError(f"{where}: an escape such as \\ud800 is half a character; write the whole one.") from None
    return value


def _identifier(value: Any, where: str) -> str | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (str, int)) or len(str(value).split()) != 1:
        raise UserError(f"{where}: the id {value!r} must be a number, or a string without white space.")
    return _text(str(value), where, "an id is empty")


def _fields(path: str | os.PathLike, form: Sequence[str]) -> Iterator[tuple[str, list[str]]]:
    for where, line in text_lines(path):
        fields = line.split()
        if len(fields) not in (0, len(form)):
            raise UserError(f"{where}: the line has {len(fields)} fields, expected {len(form)}: {' '.join(form)}.")
        if fields:
            yield where, fields


def _read_run(path: str | os.PathLike) -> dict[str, dict[str, str]]:
    """By query and document, the place of the line."""
    run: dict[str, dict[str, str]] = defaultdict(dict)
    for where, (query, _, document, *_) in _fields(path, ("query", "Q0", "document", "rank", "score", "tag")):
        if run[query].setdefault(document, where) != where:
            raise UserError(f"{where}: the query {query} has the document {document} twice.")
    return dict(run)


def _read_qrels(paths: Sequence[str | os.PathLike], level: int) -> dict[str, dict[str, str]]:
    """By query and relevant document, the place of the line."""
    relevant: dict[str, dict[str, str]] = defaultdict(dict)
    judged: dict[tuple[str, str], int] = {}
    for path in paths:
        first = next((line for _, line in text_lines(path) if line.strip()), "")
        beir = first.split() == BEIR_HEADER
        form = ("query", "document", "relevance") if beir else ("query", "0", "document", "relevance")
        for number, (where, fields) in enumerate(_fields(path, form)):
            if beir and number == 0:
                continue
            try:
                relevance = int(fields[-1])
            except ValueError:
                raise UserError(f"{where}: the relevance {fields[-1]!r} is not a whole number.") from None
            query, document = fields[0], fields[-2]
            if judged.setdefault((query, document), relevance) != relevance:
                raise UserError(f"{where}: the query {query} has the document {document} twice, judged differently.")
            if relevance >= level:
                relevant[query][document] = where
    return relevant


def _read_texts(paths: Sequence[str | os.PathLike], wanted: Mapping[str, str], what: str) -> dict[str, str]:
    """The texts of the wanted ids, each of which stands with the place that asks for it."""
    texts: dict[str, str] = {}
    for path in paths:
        for where, identifier, text in _identified(path):
            if identifier not in wanted:
                continue
            _text(text, where, f"the {what} {identifier} has no text")
            if texts.setdefault(identifier, text) != text:
                raise UserError(f"{where}: the {what} {identifier} is there twice, with different texts.")
    for identifier, where in wanted.items():
        if identifier not in texts:
            raise UserError(f"{where}: the {what} {identifier} is not in {', '.join(str(path) for path in paths)}.")
    return texts


def _identified(path: str | os.PathLike) -> Iterator[tuple[str, str, str]]:
    if Path(path).suffix.lower() != ".jsonl":
        for where, line in text_lines(path):
            fields = line.rstrip("\n").split("\t")
            if line.strip() and len(fields) != 2:
                raise UserError(f"{where}: the line has {len(fields)} columns, expected an id, a TAB and the text.")
            if line.strip():
                yield where, fields[0], fields[1]
        return
    for where, line in text_lines(path):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
            identifier, parts = row["_id"], [row.get("title") or "", row.get("text") or ""]
            yield where, str(identifier), " ".join(filter(None, parts))
        except (ValueError, KeyError, TypeError, AttributeError):
            raise UserError(f'{where}: the line is not a JSON object with "_id" and "text".') from None
