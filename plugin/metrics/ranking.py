"""Ranking metrics by trec_eval, and TREC run files."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from pathlib import Path

import numpy as np

from msattn.errors import UserError, extra

with extra("train"):
    import pytrec_eval

Scores = Mapping[str, Mapping[str, float]]

# Names of trec_eval by our names.
MEASURES = {
    "mrr": "recip_rank",
    **{f"recall_at_{k}": f"recall_{k}" for k in (1, 3, 5, 20)},
    "map": "map",
}


def score_ranking(relevant: Mapping[str, Collection[str] | Mapping[str, int]], scores: Scores) -> dict[str, float]:
    """
    Mean reciprocal rank (MRR), recall at 1, 3, 5 and 20, and mean average precision (MAP).

    Recall at k is the fraction of a query's relevant documents among the first k, including relevant documents that
    are not candidates. As in trec_eval, ties are broken by descending document id, compared as strings.

    Args:
        relevant (`Mapping[str, Collection[str]]` or `Mapping[str, Mapping[str, int]]`):
            The ids of the relevant documents by query id, or grades by query and document id, of which those above 0
            are relevant.
        scores (`Mapping[str, Mapping[str, float]]`):
            Scores by query and document id. Queries without a relevant document are skipped.

    Returns:
        `dict[str, float]`: The means over the queries, from 0 to 1, under the names of `MEASURES`.

    Raises:
        UserError: A score is not finite, or no query has a relevant document.
    """
    documents = {query: _relevant(relevant.get(query, ())) for query in scores}
    judged = {query: dict.fromkeys(found, 1) for query, found in documents.items() if found}
    if not judged:
        raise UserError("no ranking can be scored: no query has a relevant document.")
    _check(scores)
    run = {query: {document: float(score) for document, score in scores[query].items()} for query in judged}
    cutoffs = ",".join(name.rpartition("_")[2] for name in MEASURES.values() if name.startswith("recall_"))
    values = pytrec_eval.RelevanceEvaluator(judged, {"map", "recip_rank", f"recall.{cutoffs}"}).evaluate(run)
    return {name: math.fsum(values[query][key] for query in judged) / len(judged) for name, key in MEASURES.items()}


def write_run(path: str | Path, scores: Scores, tag: str = "msattn") -> Path:
    """
    Writes a TREC run file: lines `query Q0 document rank score tag`, in the order of trec_eval.

    Args:
        path (`str` or `Path`): The file to write; its folder is created if needed.
        scores (`Mapping[str, Mapping[str, float]]`): Scores by query and document id.
        tag (`str`, *optional*, defaults to `"msattn"`): The name of the run.

    Returns:
        `Path`: The path of the file.

    Raises:
        UserError: A score is not finite.
    """
    _check(scores)
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "w", encoding="utf-8", newline="\n") as file:
        for query, documents in scores.items():
            # trec_eval reads float32, for which nine digits are exact.
            ranking = sorted(documents.items(), key=lambda item: (np.float32(item[1]), item[0]), reverse=True)
            file.writelines(
                f"{query} Q0 {document} {rank} {score:.9g} {tag}\n"
                for rank, (document, score) in enumerate(ranking, start=1)
            )
    return path


def _relevant(documents: Collection[str] | Mapping[str, int]) -> Collection[str]:
    return [name for name, grade in documents.items() if grade > 0] if isinstance(documents, Mapping) else documents


def _check(scores: Scores) -> None:
    for query, documents in scores.items():
        for document, score in documents.items():
            if not math.isfinite(score):
                raise UserError(
                    f"the score of {document} for the query {query} is {score}: the training may have diverged; "
                    "a lower --learning_rate may help."
                )
