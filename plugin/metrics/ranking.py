"""Rankings, scored by trec_eval and written in its format."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from pathlib import Path

import numpy as np
import pytrec_eval

from msattn.errors import UserError

Scores = Mapping[str, Mapping[str, float]]

# Ours, and trec_eval's names.
MEASURES = {
    "mrr": "recip_rank",
    **{f"recall_at_{k}": f"recall_{k}" for k in (1, 3, 5, 20)},
    "map": "map",
}


def score_ranking(relevant: Mapping[str, Collection[str]], scores: Scores) -> dict[str, float]:
    """
    Mean reciprocal rank, recall at 1, 3, 5 and 20, and mean average precision.

    The recall of a query is the share of its relevant documents among the first; one that is no candidate is never
    found. As in trec_eval, documents of equal score stand in descending order of their ids, as strings.

    Args:
        relevant (`Mapping[str, Collection[str]]`): By query, its relevant documents.
        scores (`Mapping[str, Mapping[str, float]]`):
            By query and document. Queries for which no document is known to be relevant are left out.

    Returns:
        `dict[str, float]`: The means over the queries, under the names of `MEASURES`.

    Raises:
        UserError: A score is not finite, or there is no query with a relevant document.
    """
    judged = {query: dict.fromkeys(relevant[query], 1) for query in scores if relevant.get(query)}
    if not judged:
        raise UserError("no ranking can be scored: no query has a relevant document.")
    _check(scores)
    run = {query: {document: float(score) for document, score in scores[query].items()} for query in judged}
    cutoffs = ",".join(name.rpartition("_")[2] for name in MEASURES.values() if name.startswith("recall_"))
    values = pytrec_eval.RelevanceEvaluator(judged, {"map", "recip_rank", f"recall.{cutoffs}"}).evaluate(run)
    return {name: math.fsum(values[query][key] for query in judged) / len(judged) for name, key in MEASURES.items()}


def write_run(path: str | Path, scores: Scores, tag: str = "msattn") -> Path:
    """
    Writes lines `query Q0 document rank score tag`, in the order in which trec_eval reads them.

    Raises:
        UserError: A score is not finite.
    """
    _check(scores)
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "w", encoding="utf-8", newline="\n") as file:
        for query, documents in scores.items():
            # trec_eval's scores are of single precision, any two of which nine digits tell apart.
            ranking = sorted(documents.items(), key=lambda item: (np.float32(item[1]), item[0]), reverse=True)
            file.writelines(
                f"{query} Q0 {document} {rank} {score:.9g} {tag}\n"
                for rank, (document, score) in enumerate(ranking, start=1)
            )
    return path


def _check(scores: Scores) -> None:
    for query, documents in scores.items():
        for document, score in documents.items():
            if not math.isfinite(score):
                raise UserError(
                    f"the score of {document} for the query {query} is {score}: the training may have diverged; "
                    "a lower --learning_rate may help."
                )
