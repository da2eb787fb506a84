"""Reads re-ranking data, queries with their candidates, from JSON, tables and run files."""

from __future__ import annotations

import hashlib
import os
import random
import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, groupby, islice
from typing import Any

from datasets import Dataset, Features, Value
from transformers.utils import logging

from msattn.data.files.arrow_tables import Located, rows_to_dataset, without_empty
from msattn.data.files.checked_text import filled_text
from msattn.data.files.records import READERS, guess_format
from msattn.data.files.text_lines import first_line, suffix_of
from msattn.data.formats.trec import read_qrels, read_run, read_texts
from msattn.errors import UserError, shown

logger = logging.get_logger(__name__)

# Names of columns, the first one that there is.
QUERIES, QUERY_IDS = ("query", "anchor", "question"), ("query_id", "qid")
DOCUMENTS = ("text", "passage", "document", "doc", "answer")
DOCUMENT_IDS = ("document_id", "candidate_id", "doc_id", "docid", "docno", "pid")
LABELS = ("label", "relevance", "relevant", "grade", "score")
POSITIVE = ("positive", "pos")
POSITIVES_OR_NEGATIVES = re.compile(r"(pos|neg)(?:itives?|atives?)?(?:_?\d+)?")
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


def read_ranking(path: str | os.PathLike, relevance_level: int = 1) -> RankingData:
    """
    Reads queries with their candidates from JSON lines, JSON, CSV, TSV or Parquet.

    A row is one of

    - `{"query": "...", "candidates": [{"text": "...", "label": 1}, ...]}`;
    - `query`, `positive` and `negative` (or `pos`, `neg`), each a string or a list of strings; also `negative_1`, ...;
      such rows with the same query and no `id` belong together, and a text that is negative after it was positive, or
      the reverse, is left out;
    - a pair: `query`, `text` (or `passage`, `document`) and `label`; a `score` is a label where there is no `rank`.
      Pairs with the same query, or `query_id` (`qid`), belong together.

    Queries may have a `query_id` or `qid`, candidates a `document_id`, `doc_id` or `docno`, both an `id` outside of
    pairs; by default, the id of a query is its number, and that of a candidate a hash of its text. Repeated candidates
    are dropped. `"anchor"` is another name of `"query"`.

    Args:
        path (`str` or `os.PathLike`): The file, in UTF-8.
        relevance_level (`int`, *optional*, defaults to 1):
            Minimum label of a relevant document. Labels are 0 and 1, or whole numbers from 0 on (grades).

    Returns:
        `RankingData`: The queries with their candidates.

    Raises:
        UserError: A row lacks the query, the candidates or a text, an id or label is invalid, an id is repeated with
            different content, or only some candidates have labels. The message names file and line.
    """
    file, grades = os.fspath(path), Counter[int]()
    rows = iter(READERS[_format(path)](path))
    first = [*islice(rows, 1)]
    data = _ranking_data(_located_pairs(chain(first, rows), relevance_level, grades), file)
    for _, row in first:
        if ignored := [name for name in row if name not in _columns(row)]:
            logger.warning(f"{file}: read are {', '.join(_columns(row))}; ignored: {', '.join(ignored)}.")
    if any(grade > 1 for grade in grades):
        logger.warning(
            f"{file}: the labels are grades from {min(grades)} to {max(grades)}; relevant are those from "
            f"{relevance_level} on (--relevance_level)."
        )
    return data


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
    if qrels_files and run and not labelled:
        names = " and ".join(str(path) for path in qrels_files)
        logger.warning(
            f"{names}: no document is relevant for a query of {os.fspath(run_file)}, such as {next(iter(run))!r}, so "
            "it has no labels; are the ids the same?"
        )
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


def _format(path: str | os.PathLike) -> str:
    if suffix_of(path) not in (".parquet", ".csv", ".tsv"):
        where, line = first_line(path)
        if line and line.lstrip()[0] not in "{[":
            raise UserError(
                f"{where}: expected JSON with a query and its candidates, or a table; a run file of TREC needs "
                "--queries_file and --collection_file as well."
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


def by_query(rows: Located) -> Iterator[list[tuple[str, Any]]]:
    """
    The rows of each query: pairs that follow one another and have the same query are of one.

    Raises:
        UserError: A query comes again after others.
    """
    done = set()
    for query, group in groupby(rows, key=lambda located: _query_of_pair(located[1]) or located[0]):
        found = list(group)
        where = found[0][0]
        if query in done:
            raise UserError(
                f"{where}: the query {shown(query)} comes again after others; sort the pairs by query: they are "
                "ranked while they are read."
            )
        if query != where:
            done.add(query)
        yield found


def given_query_id(row: Mapping) -> Any:
    """The id that a row gives its query; `None` for none."""
    return _field(row, ("id", *QUERY_IDS) if _query_of_pair(row) is None else QUERY_IDS)


def _query_of_pair(row: Any) -> str | None:
    """The id of the query of a row that is a pair, or the query; `None` for other rows."""
    if not isinstance(row, Mapping) or _field(row, ("candidates", *POSITIVE)) or _field(row, DOCUMENTS) is None:
        return None
    return str(_field(row, QUERY_IDS) or _field(row, QUERIES))


def _column(row: Mapping, names: Iterable[str]) -> Any:
    """The first of the columns that there is, by its name in any case; `None` for none."""
    own = {str(name).strip().casefold(): name for name in row}
    return next((own[name] for name in names if name in own), None)


def _field(row: Mapping, names: Iterable[str]) -> Any:
    return row.get(_column(row, names))


def _columns(row: Mapping) -> list[str]:
    """The columns that are read."""
    if _query_of_pair(row) is not None:
        found = [_column(row, names) for names in (QUERIES, QUERY_IDS, DOCUMENTS, DOCUMENT_IDS, _labels(row))]
    else:
        texts = ["candidates"] if _field(row, POSITIVE) is None else _texts_by_kind(row)
        found = [_column(row, QUERIES), *texts, _column(row, ("id", *QUERY_IDS))]
    return [name for name in found if name in row]


def _located_pairs(rows: Located, relevance_level: int = 1, grades: Counter[int] | None = None) -> Located:
    asked: dict[str, tuple[str, str]] = {}
    numbers: dict[str, str] = {}  # of queries
    pairs: dict[tuple[str, str], dict[str, Any]] = {}
    both = []  # where a text is positive and negative
    for where, row in rows:
        if not isinstance(row, Mapping):
            raise UserError(f"{where}: a row must be an object with a query and its candidates.")
        names = ", ".join(map(str, row))
        query = filled_text(_field(row, QUERIES), where, f'the row has no text in "query"; there are {names}')
        of_pair = _query_of_pair(row)
        triplet = of_pair is None and _field(row, POSITIVE) is not None and row.get("id") is None
        shared = query if triplet else of_pair  # by all rows of the query; `None` if it has one
        number = numbers.setdefault(shared or where, str(len(numbers) + 1))
        query_id = _identifier(given_query_id(row), where) or number
        first, first_query = asked.setdefault(query_id, (where, query))
        if first_query != query or (shared is None and first != where):
            raise UserError(f"{where}: the query id {query_id!r} is also that of {first}.")
        known = {} if shared is None else pairs
        for position, candidate in enumerate(_candidates(row, where), start=1):
            if not isinstance(candidate, Mapping):
                raise UserError(f'{where}: candidate {position} must be an object with "text" and "label".')
            text = filled_text(candidate.get("text"), where, f'candidate {position} has no text in "text"')
            grade = _grade(candidate.get("label"), f"{where}: the label of candidate {position}")
            given = _field(candidate, ("id", *DOCUMENT_IDS))
            identifier = _identifier(given, where) or hashlib.sha1(text.encode()).hexdigest()[:12]
            pair: dict[str, Any] = {"query_id": query_id, "candidate_id": identifier, "query": query, "text": text}
            pair["label"] = None if grade is None else int(grade >= relevance_level)
            if grade is not None and grades is not None:
                grades[grade] += 1
            before = known.setdefault((query_id, identifier), pair)
            if before != pair and triplet:
                both.append(where)
            elif before != pair:
                raise UserError(f"{where}: candidate {position} comes twice, with different texts or labels.")
            if before is pair:
                yield where, pair
    if both:
        logger.warning(
            f"{both[0]}: a text is positive and negative for the query; {len(both)} such are left out after the first."
        )


def _candidates(row: Mapping, where: str) -> list:
    if _query_of_pair(row) is not None:
        label = _field(row, _labels(row))
        return [{"text": _field(row, DOCUMENTS), "label": label, "id": _field(row, DOCUMENT_IDS)}]
    candidates = row.get("candidates")
    if _field(row, POSITIVE) is not None:
        candidates = [
            {"text": text, "label": int(kind == "pos")}
            for name, kind in _texts_by_kind(row).items()
            for text in _texts(row[name] or [], name, where)
        ]
    if not isinstance(candidates, list) or not candidates:
        raise UserError(
            f'{where}: the row needs "candidates", a list with at least one, or "positive" and "negative", or '
            f'"document" and "label"; there are {", ".join(map(str, row))}.'
        )
    return candidates


def _labels(row: Mapping) -> Sequence[str]:
    """The names of a label; the score beside a rank is that of a retriever."""
    return LABELS if _field(row, ("rank",)) is None else LABELS[:-1]


def _texts_by_kind(row: Mapping) -> dict[str, str]:
    """`"pos"` or `"neg"` for each column of positives or negatives."""
    kinds = {name: POSITIVES_OR_NEGATIVES.fullmatch(str(name).strip().casefold()) for name in row}
    return {name: kind[1] for name, kind in kinds.items() if kind}


def _grade(label: Any, what: str) -> int | None:
    """A label as a whole number, which tables hold as a string; `None` if it is missing."""
    if label is None or label == "":
        return None
    try:
        grade = float(label)
    except (TypeError, ValueError):
        grade = -1.0
    if grade < 0 or not grade.is_integer():
        raise UserError(f"{what} must be 0, 1 or another whole number (a grade), not {shown(label)}.")
    return int(grade)


def _texts(value: Any, name: str, where: str) -> list:
    if not isinstance(value, (str, list)):
        raise UserError(f'{where}: "{name}" must be a string or a list of strings.')
    return [value] if isinstance(value, str) else value


def _identifier(value: Any, where: str) -> str | None:
    if value is None:
        return None
    if isinstance(value, float) and value.is_integer():  # of pandas, beside missing ids
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, (str, int)) or len(str(value).split()) != 1:
        raise UserError(f"{where}: the id {value!r} must be a number, or a string without white space.")
    return filled_text(str(value), where, "an id is empty")
