"""Functions of `run_ranking.py`: reading candidates, their scores, the model card."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from datasets import Dataset
from transformers.utils import logging

from msattn.data.files.text_lines import files_in
from msattn.data.ranking import RankingData, read_ranking, read_trec_ranking
from msattn.errors import UserError
from msattn.training.model_card import ModelCardFacts
from msattn.training.splits import held_out, split_names

logger = logging.get_logger(__name__)

METRIC_NAMES = {
    "mrr": "MRR",
    "chance_mrr": "MRR of a random order",
    "recall_at_1": "R@1",
    "recall_at_3": "R@3",
    "recall_at_5": "R@5",
    "recall_at_20": "R@20",
    "map": "MAP",
}


def read_candidates(split: str, data_args: Any, as_found: bool = False) -> RankingData | None:
    """
    Reads the queries of a split with their candidates.

    Queries without a relevant document are left out, except for testing. Training data of a run file also get the
    relevant documents that it lacks.

    Args:
        split (`str`): `"train"`, `"validation"` or `"test"`.
        data_args (`RankingDataArguments`): Names the files.
        as_found (`bool`, *optional*, defaults to `False`): Add no documents to training data.

    Raises:
        UserError: A file is wrong, a run file has no queries or documents, or no query has a relevant document.
    """
    path, args = getattr(data_args, f"{split}_file"), data_args
    if path is None:
        return None
    if not (args.queries_file or args.collection_file or args.qrels_file):
        data = read_ranking(path, args.relevance_level)
    elif args.queries_file and args.collection_file:
        texts, qrels = (args.queries_file, args.collection_file), args.qrels_file or ()
        data = read_trec_ranking(path, *texts, qrels, args.relevance_level, split == "train" and not as_found)
    else:
        raise UserError("run files of TREC need both --queries_file and --collection_file.")
    if split == "test" and not data.labelled:
        return data
    relevant = data.relevant() if data.labelled else {}
    if not relevant:
        raise UserError(
            f"{path}: no query has a candidate that is known to be relevant (label, relevance, grade); only test data "
            "may come without labels."
        )
    queries = data.pairs.unique("query_id")
    if without := sum(query not in relevant for query in queries):
        logger.warning(f"{path}: {without} of {len(queries)} queries have no relevant document and do not count.")
    if all(data.pairs["label"]) and not any(data.missed.values()):
        logger.warning(
            f"{path}: every candidate is relevant: a model learns nothing from it, and no ranking can be wrong; add "
            "candidates that are not (negatives)."
        )
    # Test predictions are written for all queries; the metrics skip those without a relevant document.
    return data if split == "test" else data.of_queries(relevant)


def hold_out_queries(data: RankingData, data_args: Any) -> tuple[RankingData, RankingData]:
    """Holds out some of the training queries, with the candidates that the run file has for them."""
    queries = Dataset.from_dict({"query_id": data.pairs.unique("query_id")})
    parts = held_out(queries, data_args.validation_split_percentage, data_args.split_seed)
    train, held = (set(part["query_id"]) for part in parts)
    # Relevant documents that were added for training must not be in the scored candidates.
    with files_in(data_args.encoding):
        as_found = read_candidates("train", data_args, as_found=True) if data_args.qrels_file else None
    return data.of_queries(train), (as_found or data).of_queries(held)


def cross_encoder_pairs(data: RankingData) -> Dataset:
    """The columns `query`, `text` and, in labelled data, `label`: a list of one float, for binary cross-entropy."""
    pairs = data.pairs.remove_columns(["query_id", "candidate_id"])
    if not data.labelled:
        return pairs
    labels = [[float(label)] for label in pairs["label"]]
    return pairs.remove_columns("label").add_column("label", labels)


def candidate_scores(data: RankingData, logits: np.ndarray, rows: Iterable[int]) -> dict[str, dict[str, float]]:
    """
    Scores by query and candidate.

    Args:
        data (`RankingData`): The pairs.
        logits (`np.ndarray`): `(pairs, 1)`.
        rows (`Iterable[int]`): The row of each logit in `data.pairs`.
    """
    pairs = data.pairs.select(rows)
    scores: dict[str, dict[str, float]] = defaultdict(dict)
    for query, candidate, score in zip(pairs["query_id"], pairs["candidate_id"], logits[:, 0].tolist(), strict=True):
        scores[query][candidate] = score
    return dict(scores)


def ranking_card(data_args: Any) -> ModelCardFacts:
    """The facts for the model card of a re-ranker, whose data have the names of their files."""
    name = Path(str(data_args.train_file)).name
    return ModelCardFacts(
        task_type="text-ranking",
        dataset_name=name,
        splits=split_names(data_args),
        metrics=METRIC_NAMES,
        description=(
            "A cross-encoder for re-ranking: it reads a query together with a candidate and says how likely the "
            "candidate is relevant."
        ),
        usage=_usage,
        tags=["cross-encoder", "reranker"],
    )


def _usage(name: str) -> str:
    return f'''relevance = pipeline("text-classification", model="{name}")
query, candidates = "A man is eating.", ["Someone has a meal.", "A cat sleeps."]
pairs = [{{"text": query, "text_pair": candidate}} for candidate in candidates]
scores = relevance(pairs, truncation=True)
ranking = sorted(zip(candidates, scores), key=lambda pair: pair[1]["score"], reverse=True)'''
