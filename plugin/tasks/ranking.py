"""Cross-encoder re-ranking: scores the relevance of each candidate for a query."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

import numpy as np
import torch
from datasets import Dataset
from torch.nn.functional import binary_cross_entropy_with_logits
from transformers import AutoModelForSequenceClassification, EvalPrediction, PreTrainedModel, TrainingArguments
from transformers.utils import logging

from msattn.arguments.classifier_arguments import ClassifierArguments
from msattn.arguments.pretrained import ModelArguments, load_model, load_tokenizer
from msattn.arguments.ranking_arguments import RankingDataArguments
from msattn.command_line import existing_file
from msattn.data.ranking import RankingData, read_ranking, read_trec_ranking, sample_negatives
from msattn.errors import UserError
from msattn.guiding.guiding_arguments import GuidingArguments
from msattn.metrics.ranking import score_ranking, write_run
from msattn.tasks.labels import label_fields
from msattn.tasks.model_card import ModelCardFacts
from msattn.tasks.splits import hold_out, read_each
from msattn.tasks.text_task import TextTask

logger = logging.get_logger(__name__)

METRIC_NAMES = {
    "mrr": "MRR",
    "recall_at_1": "R@1",
    "recall_at_3": "R@3",
    "recall_at_5": "R@5",
    "recall_at_20": "R@20",
    "map": "MAP",
}


def relevance_loss(
    outputs: Mapping[str, torch.Tensor], labels: torch.Tensor, num_items_in_batch: torch.Tensor | int | None = None
) -> torch.Tensor:
    """
    Binary cross-entropy of one relevance logit per pair, averaged over the pairs of the training step.

    Args:
        outputs (`Mapping[str, torch.Tensor]`): Model outputs with `logits` of shape `(batch, 1)`.
        labels (`torch.Tensor` of shape `(batch, columns)`): The first column is the relevance, 1 or 0.
        num_items_in_batch (`int`, *optional*):
            Number of label entries in the whole step, all columns counted. Default: those of this batch.

    Returns:
        `torch.Tensor` of shape `()`: The loss.
    """
    items = labels.numel() if num_items_in_batch is None else num_items_in_batch
    logits, relevance = outputs["logits"].squeeze(-1).float(), labels[:, 0].float()
    return binary_cross_entropy_with_logits(logits, relevance, reduction="sum") * labels.shape[1] / items


class Ranking(TextTask):
    """
    Re-ranking of the candidates of a query by a cross-encoder: any sequence classification model.

    Raises:
        UserError: `--label_smoothing_factor` is set, or `--max_seq_length` leaves no room for a word.
    """

    argument_classes = (ModelArguments, ClassifierArguments, RankingDataArguments)
    unit = "query"

    data_args: RankingDataArguments
    loss = staticmethod(relevance_loss)

    def __init__(
        self,
        model_args: ModelArguments,
        classifier_args: ClassifierArguments,
        data_args: RankingDataArguments,
        args: TrainingArguments,
        guiding: GuidingArguments,
    ):
        super().__init__(model_args, data_args, args, guiding)
        if args.label_smoothing_factor:
            raise UserError(
                "--label_smoothing_factor: relevance is one logit, whose labels are not smoothed; leave it out."
            )
        self.classifier_args = classifier_args
        self.tokenizer = load_tokenizer(model_args)
        if data_args.max_seq_length <= self.tokenizer.num_special_tokens_to_add(pair=True):
            raise UserError(f"--max_seq_length {data_args.max_seq_length} leaves no room for a word.")
        self.max_length = min(data_args.max_seq_length, self.tokenizer.model_max_length)

    def read(self, splits: Collection[str]) -> dict[str, RankingData]:
        return read_each(splits, lambda split: self._read(split, add_relevant=split == "train"))

    def hold_out(self, data: RankingData) -> tuple[RankingData, RankingData]:
        queries = Dataset.from_dict({"query_id": data.pairs.unique("query_id")})
        percentage = self.data_args.validation_split_percentage or 0
        train, held = (set(part["query_id"]) for part in hold_out(queries, percentage, self.data_args.split_seed))
        # Relevant documents added to a training run must not be in the scored candidates.
        as_found = self._read("train") if self.data_args.qrels_file else None
        return data.of_queries(train), (as_found or data).of_queries(held)

    def prepare(self, data: Mapping[str, RankingData]) -> None:
        """Does nothing: the one label is relevance."""

    def first(self, data: RankingData, count: int) -> RankingData:
        return data.of_queries(set(data.pairs.unique("query_id")[:count]))

    def encode(self, prefix: str, data: RankingData) -> Dataset:
        if prefix == "train" and self.data_args.train_negatives is not None:
            data = sample_negatives(data, self.data_args.train_negatives, self.data_args.sampling_seed)
            self.data["train"] = data
        pairs = data.pairs.select_columns([name for name in ("query", "text", "label") if name in data.pairs.features])
        if data.labelled:
            # Labels also carry set and row of each pair, as the metrics need all pairs of a query.
            number = self.scored.index(prefix) if prefix in self.scored else len(self.scored)
            places = [[label, number, row] for row, label in enumerate(pairs["label"])]
            pairs = pairs.remove_columns("label").add_column("label", places)
        return self.encode_texts(prefix, pairs, ["query", "text"])

    def train_groups(self) -> Sequence | None:
        return self.data["train"].pairs["query_id"] if "train" in self.data else None

    def model(self) -> PreTrainedModel:
        return load_model(
            AutoModelForSequenceClassification,
            self.model_args,
            len(self.tokenizer),
            ignore_mismatched_sizes=self.classifier_args.ignore_mismatched_sizes,
            problem_type="multi_label_classification",
            **label_fields(["relevant"]),
        )

    def metrics(self, prediction: EvalPrediction) -> dict[str, float]:
        return ranking_metrics(prediction, [self.data[prefix] for prefix in self.scored])

    def write_predictions(self, prefix: str, predictions: np.ndarray, folder: Path) -> None:
        """Writes the ranking to `<prefix>_run.trec`, a TREC run file."""
        scores = _scores(self.data[prefix], range(len(predictions)), predictions)
        logger.info(f"wrote {write_run(folder / f'{prefix}_run.trec', scores)}")

    def card(self) -> ModelCardFacts:
        name = Path(str(self.data_args.train_file)).name
        return ModelCardFacts(
            task_type="text-ranking",
            pipeline_tag="text-ranking",
            task_name="Text Ranking",
            dataset_type=name,
            dataset_name=name,
            splits=self.card_splits(),
            metrics=METRIC_NAMES,
            description=(
                "A cross-encoder for re-ranking: it reads a query together with a candidate and says how likely the "
                "candidate is relevant."
            ),
            usage=_usage,
            tags=["cross-encoder", "reranker"],
            carries_code=False,
        )

    def _read(self, split: str, add_relevant: bool = False) -> RankingData | None:
        """Reads a split; `add_relevant` adds the relevant documents that a run file lacks."""
        path, args = self.file(split), self.data_args
        if path is None:
            return None
        queries, collection, qrels = args.queries_file, args.collection_file, args.qrels_file
        if not (queries or collection or qrels):
            data = read_ranking(path)
        elif queries and collection:
            for name in ("queries_file", "collection_file", "qrels_file"):
                for file in getattr(args, name) or ():
                    existing_file(file, name)
            data = read_trec_ranking(path, queries, collection, qrels or (), args.relevance_level, add_relevant)
        else:
            raise UserError("run files of TREC need both --queries_file and --collection_file.")
        return _judged(data, path, split)


def ranking_metrics(prediction: EvalPrediction, sets: Sequence[RankingData]) -> dict[str, float]:
    """
    MRR, recall at k and MAP of predicted relevance.

    Args:
        prediction (`EvalPrediction`): Logits `(pairs, 1)` and label ids `(pairs, 3)`: relevance, set and row.
        sets (`Sequence[RankingData]`): The scored sets.
    """
    number = prediction.label_ids[0, 1]
    return score_ranking(
        sets[number].relevant(), _scores(sets[number], prediction.label_ids[:, 2], prediction.predictions)
    )


def _scores(data: RankingData, rows: Sequence[int], logits: np.ndarray) -> dict[str, dict[str, float]]:
    pairs = data.pairs.select(rows)
    scores: dict[str, dict[str, float]] = defaultdict(dict)
    columns = pairs["query_id"][:], pairs["candidate_id"][:], logits[:, 0].tolist()
    for query, candidate, score in zip(*columns, strict=True):
        scores[query][candidate] = score
    return dict(scores)


def _judged(data: RankingData, path: str, split: str) -> RankingData:
    """Drops the queries without a relevant document, which can neither be learned from nor scored."""
    if split == "test" and not data.labelled:
        return data
    relevant = data.relevant() if data.labelled else {}
    if not relevant:
        raise UserError(
            f"{path}: no query has a candidate that is known to be relevant; only test data may come without labels."
        )
    queries = data.pairs.unique("query_id")
    without = sum(query not in relevant for query in queries)
    if without:
        logger.warning(f"{path}: {without} of {len(queries)} queries have no relevant document and do not count.")
    # Test predictions are written for all queries; the metrics skip those without a relevant document.
    return data if split == "test" else data.of_queries(relevant)


def _usage(name: str) -> str:
    return f'''from transformers import pipeline

relevance = pipeline("text-classification", model="{name}")
query, candidates = "A man is eating.", ["Someone has a meal.", "A cat sleeps."]
scores = relevance([{{"text": query, "text_pair": candidate}} for candidate in candidates])
ranking = sorted(zip(candidates, scores), key=lambda pair: pair[1]["score"], reverse=True)'''
