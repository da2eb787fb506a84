"""Reads re-ranking data, queries with their candidates, from JSON and Parquet."""

from __future__ import annotations

import hashlib
import os
import random
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from datasets import Dataset, Features, Value
from transformers.utils import logging

from msattn.data.files.arrow_tables import Located, rows_to_dataset, without_empty
from msattn.data.files.checked_text import filled_text
from msattn.data.files.records import READERS, guess_format
from msattn.data.files.text_lines import first_line
from msattn.data.formats.trec import read_qrels, read_run, read_texts
from msattn.errors import UserError

logger = logging.get_logger(__name__)

RANKING_FEATURES = Features(
    {**dict.fromkeys(("query_id", "candidate_id", "query", "text"), Value("string")), "label": Value("int64")}
)


@dataclass(frozen=True)
class RankingData:
    """
    Queries with their candidates.

    Args:
        pairs (`datasets.Dataset`):
            One row per query and candidate, with the columns `query_id`, `candidate_id`, `query`, `text` and, in
            labelled data, `label` (1 relevant, 0 not).
        missed (`Mapping[str, Collection[str]]`, *optional*, defaults to `{}`):
            Ids of relevant documents that are not among the candidates, by query id.
    """

    pairs: Dataset
    missed: Mapping[str, Collection[str]] = field(default_factory=dict)

    @property
    def labelled(self) -> bool:
        """True if the candidates have relevance labels."""
        return "label" in self.pairs.column_names

    def relevant(self) -> dict[str, set[str]]:
        """Ids of all relevant documents by query id, including missed ones. Queries without any are omitted."""
        found = defaultdict(set, {query: set(documents) for query, documents in self.missed.items() if documents})
        columns = (self.pairs[name][:] for name in ("query_id", "candidate_id", "label"))
        for query, candidate, label in zip(*columns, strict=True):
            if label:
                found[query].add(candidate)
        return dict(found)

    def __len__(self) -> int:
        """The number of queries."""
        return len(self.pairs.unique("query_id"))

    def select(self, numbers: Iterable[int]) -> RankingData:
        """The queries with these numbers, as [`datasets.Dataset.select`] selects rows."""
        queries = self.pairs.unique("query_id")
        return self.of_queries({queries[number] for number in numbers})

    def of_queries(self, queries: Collection[str]) -> RankingData:
        """The subset with the given query ids."""
        rows = [row for row, query in enumerate(self.pairs["query_id"][:]) if query in queries]
        missed = {query: documents for query, documents in self.missed.items() if query in queries}
        return RankingData(self.pairs.select(rows), missed)


def read_ranking(path: str | os.PathLike) -> RankingData:
    """
    Reads queries with their candidates from JSON lines, a JSON array, or Parquet.

    A row is `{"query": "...", "candidates": [{"text": "...", "label": 1}, ...]}`. Instead of `"candidates"`, it may
    have `"positive"` and `"negative"`, each a string or a list of strings. Queries and candidates may have an `"id"`;
    by default, the id of a query is its number, and that of a candidate a hash of its text. Repeated candidates are
    dropped. `"anchor"` is another name of `"query"`.

    Args:
        path (`str` or `os.PathLike`): The file, in UTF-8.

    Returns:
        `RankingData`: The queries with their candidates.

    Raises:
        UserError: A row lacks the query, the candidates or a text, an id or label is invalid, an id is repeated with
            different content, or only some candidates have labels. The message names file and line.
    """
    return _ranking_data(_located_pairs(READERS[_json_format(path)](path)), os.fspath(path))


def read_trec_ranking(
    run_file: str | os.PathLike,
    queries_files: Sequence[str | os.PathLike],
    collection_files: Sequence[str | os.PathLike],
    qrels_files: Sequence[str | os.PathLike] = (),
    relevance_level: int = 1,
    add_relevant: bool = False,
) -> RankingData:
    """
    Reads the candidates of a first-stage ranking with their texts and relevance.

    Args:
        run_file (`str` or `os.PathLike`): Lines `query Q0 document rank score tag`; rank and score are ignored.
        queries_files (`Sequence[str | os.PathLike]`):
            Lines `id TAB text`, or BEIR's JSON lines with `_id` and `text` in `.jsonl` files.
        collection_files (`Sequence[str | os.PathLike]`):
            Documents in the same formats. A `title` in JSON lines is prepended to the text.
        qrels_files (`Sequence[str | os.PathLike]`, *optional*, defaults to `()`):
            Lines `query 0 document relevance`, or BEIR's `query TAB document TAB relevance` with its header. Unjudged
            documents are not relevant. Without a relevant document for any query of the run, the data are unlabelled.
        relevance_level (`int`, *optional*, defaults to 1): Minimum relevance of a relevant document.
        add_relevant (`bool`, *optional*, defaults to `False`):
            Whether to add relevant documents that the run lacks as candidates. Use it for training only.

    Returns:
        `RankingData`: The queries with their candidates.

    Raises:
        UserError: A line has the wrong number of fields, a query or document has no text, or an id is repeated with
            different content. The message names file and line.
    """
    run = read_run(run_file)
    relevant = read_qrels(qrels_files, relevance_level)
    labelled = not relevant.keys().isdisjoint(run)
    missed = {query: {*relevant.get(query, {})} - {*documents} for query, documents in run.items()}
    if add_relevant:
        run = {query: documents | relevant.get(query, {}) for query, documents in run.items()}
        missed = {}
    # Where an id is asked for, first of all.
    asked = {query: next(iter(documents.values())) for query, documents in run.items()}
    queries = read_texts(queries_files, asked, "query")
    wanted = {document: where for documents in reversed(run.values()) for document, where in documents.items()}
    texts = read_texts(collection_files, wanted, "document")
    pairs = (
        (
            where,
            {
                "query_id": query,
                "candidate_id": document,
                "query": queries[query],
                "text": texts[document],
                "label": int(document in relevant.get(query, {})) if labelled else None,
            },
        )
        for query, documents in run.items()
        for document, where in documents.items()
    )
    return replace(_ranking_data(pairs, os.fspath(run_file)), missed=missed)


def sample_negatives(data: RankingData, most: int, seed: int) -> RankingData:
    """
    Samples the non-relevant candidates (negatives) of each query. All relevant ones are kept.

    Args:
        data (`RankingData`): Labelled data.
        most (`int`): Maximum number of negatives per query.
        seed (`int`): Random seed of the sample.
    """
    draw = random.Random(seed)
    kept: list[int] = []
    negatives: dict[str, list[int]] = defaultdict(list)
    for row, (query, label) in enumerate(zip(data.pairs["query_id"][:], data.pairs["label"][:], strict=True)):
        (kept if label else negatives[query]).append(row)
    for rows in negatives.values():
        kept += draw.sample(rows, min(most, len(rows)))
    return replace(data, pairs=data.pairs.select(sorted(kept)))


def _ranking_data(pairs: Located, source: str) -> RankingData:
    return RankingData(without_empty(rows_to_dataset(pairs, RANKING_FEATURES, source, "label"), "label"))


def _json_format(path: str | os.PathLike) -> str:
    if Path(path).suffix.lower() != ".parquet":
        where, line = first_line(path)
        if line and line.lstrip()[0] not in "{[":
            raise UserError(
                f"{where}: expected JSON with a query and its candidates; a run file of TREC needs --queries_file and "
                "--collection_file as well."
            )
    return guess_format(path) or "jsonl"


def query_rows(rows: Located) -> Iterator[dict[str, Any]]:
    """
    Pairs of query and candidate, with the columns of `RANKING_FEATURES`, from the rows of [`read_ranking`].

    Args:
        rows (`Located`): Locations and rows.

    Raises:
        UserError: A row is not as [`read_ranking`] wants it.
    """
    return (pair for _, pair in _located_pairs(rows))


def _located_pairs(rows: Located) -> Located:
    seen: dict[str, str] = {}
    for number, (where, row) in enumerate(rows, start=1):
        if not isinstance(row, Mapping):
            raise UserError(f"{where}: a row must be an object with a query and its candidates.")
        query = filled_text(row.get("query", row.get("anchor")), where, 'the row has no text in "query"')
        query_id = _identifier(row.get("id"), where) or str(number)
        if seen.setdefault(query_id, where) != where:
            raise UserError(f"{where}: the query id {query_id!r} is also that of {seen[query_id]}.")
        pairs: dict[str, dict[str, Any]] = {}
        for position, candidate in enumerate(_candidates(row, where), start=1):
            if not isinstance(candidate, Mapping):
                raise UserError(f'{where}: candidate {position} must be an object with "text" and "label".')
            text = filled_text(candidate.get("text"), where, f'candidate {position} has no text in "text"')
            label = candidate.get("label")
            if label not in (None, 0, 1):
                raise UserError(f"{where}: the label of candidate {position} must be 0 or 1, not {label!r}.")
            identifier = _identifier(candidate.get("id"), where) or hashlib.sha1(text.encode()).hexdigest()[:12]
            pair: dict[str, Any] = {"query_id": query_id, "candidate_id": identifier, "query": query, "text": text}
            pair["label"] = None if label is None else int(label)
            if pairs.setdefault(identifier, pair) != pair:
                raise UserError(f"{where}: candidate {position} comes twice, with different texts or labels.")
        yield from ((where, pair) for pair in pairs.values())


def _candidates(row: Mapping, where: str) -> list:
    candidates = row.get("candidates")
    if row.get("positive") is not None:
        if odd := next((name for name in row if name.startswith("negative") and name != "negative"), None):
            raise UserError(f'{where}: there is a field {odd!r}; give all negatives as a list in "negative".')
        candidates = [
            {"text": text, "label": label}
            for name, label in (("positive", 1), ("negative", 0))
            for text in _texts(row.get(name) or [], name, where)
        ]
    if not isinstance(candidates, list) or not candidates:
        raise UserError(
            f'{where}: the row needs "candidates", a list with at least one, or "positive" and "negative".'
        )
    return candidates


def _texts(value: Any, name: str, where: str) -> list:
    if not isinstance(value, (str, list)):
        raise UserError(f'{where}: "{name}" must be a string or a list of strings.')
    return [value] if isinstance(value, str) else value


def _identifier(value: Any, where: str) -> str | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (str, int)) or len(str(value).split()) != 1:
        raise UserError(f"{where}: the id {value!r} must be a number, or a string without white space.")
    return filled_text(str(value), where, "an id is empty")
