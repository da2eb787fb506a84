"""Re-ranking by a cross-encoder, as an experiment from arguments."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import numpy as np
import torch
from datasets import Dataset
from torch.nn.functional import binary_cross_entropy_with_logits
from transformers import AutoModelForSequenceClassification, EvalPrediction, TrainingArguments
from transformers.utils import logging

from msattn.data.ranking import RankingData, read_ranking, read_trec_ranking, sample_negatives
from msattn.data.sentences import encode_sentences
from msattn.errors import UserError
from msattn.metrics.ranking import score_ranking, write_run
from msattn.training.cli import existing_file, hold_out
from msattn.training.experiment import Experiment
from msattn.training.model_card import ModelCardFacts
from msattn.training.pretrained import ModelArguments, load_model, load_tokenizer

logger = logging.get_logger(__name__)

PREFIXES = {"train": "train", "validation": "eval", "test": "test"}
METRIC_NAMES = {
    "mrr": "MRR",
    "recall_at_1": "R@1",
    "recall_at_3": "R@3",
    "recall_at_5": "R@5",
    "recall_at_20": "R@20",
    "map": "MAP",
}


@dataclass
class RankingModelArguments(ModelArguments):
    """The cross-encoder: any model that classifies sequences."""

    ignore_mismatched_sizes: bool = field(
        default=False,
        metadata={"help": "Start from a model of another task, whose classifier has another number of labels."},
    )


@dataclass
class RankingDataArguments:
    """The data: queries with their candidates in JSON, or runs, queries, documents and judgements as TREC has them."""

    train_file: str | None = field(
        default=None,
        metadata={
            "help": 'JSON lines {"query": ..., "candidates": [{"text": ..., "label": 0 or 1}, ...]}, or with '
            "--queries_file a run file of TREC."
        },
    )
    validation_file: str | None = field(default=None, metadata={"help": "The same for development."})
    test_file: str | None = field(default=None, metadata={"help": "The same for the test, with or without labels."})
    queries_file: list[str] | None = field(
        default=None, metadata={"help": "Queries of the run files: id TAB text, or BEIR's .jsonl. May be several."}
    )
    collection_file: list[str] | None = field(
        default=None, metadata={"help": "Documents of the run files: id TAB text, or BEIR's .jsonl. May be several."}
    )
    qrels_file: list[str] | None = field(
        default=None, metadata={"help": "Judgements for the run files: TREC's qrels, or BEIR's .tsv. May be several."}
    )
    relevance_level: int = field(default=1, metadata={"help": "Least relevance in --qrels_file that counts."})
    validation_split_percentage: float | None = field(
        default=None,
        metadata={
            "help": "Cut this share of the training queries off and choose with it: it is then called eval, and "
            "--validation_file dev."
        },
    )
    split_seed: int = field(default=42, metadata={"help": "Seed of that cut, the same for every --seeds."})
    train_negatives: int | None = field(
        default=None,
        metadata={"help": "Train with so many of the candidates of a query at most that are not relevant."},
    )
    sampling_seed: int = field(default=42, metadata={"help": "Seed of that choice, the same for every --seeds."})
    max_seq_length: int = field(
        default=512,
        metadata={"help": "Most tokens in a query and a candidate; longer ones are truncated, and counted."},
    )
    pad_to_max_length: bool = field(
        default=False, metadata={"help": "Pad every pair to --max_seq_length, and not to the longest of its batch."}
    )
    max_train_samples: int | None = field(default=None, metadata={"help": "Use so many training queries at most."})
    max_eval_samples: int | None = field(default=None, metadata={"help": "The same for development."})
    max_predict_samples: int | None = field(default=None, metadata={"help": "The same for the test."})
    preprocessing_num_workers: int | None = field(default=None, metadata={"help": "Processes that tokenise."})


def ranking_experiment(
    model_args: RankingModelArguments,
    data_args: RankingDataArguments,
    training_args: TrainingArguments,
    words: bool = False,
) -> Experiment:
    """
    Reads and encodes the data, on request those of the training with their words, and says how the model is built and
    scored.

    Raises:
        UserError: Files, model or arguments are not as they should be.
    """
    if training_args.label_smoothing_factor:
        raise UserError(
            "--label_smoothing_factor: relevance is one logit, whose labels are not smoothed; leave it out."
        )
    tokenizer = load_tokenizer(model_args)
    if data_args.max_seq_length <= tokenizer.num_special_tokens_to_add(pair=True):
        raise UserError(f"--max_seq_length {data_args.max_seq_length} leaves no room for a word.")
    max_length = min(data_args.max_seq_length, tokenizer.model_max_length)
    splits = _splits(data_args, training_args)
    # A label is the relevance of a pair, its set and its row there: what a measure over the pairs of a query needs.
    scored = [prefix for prefix in splits if prefix != "train"]
    datasets = {}
    for prefix, data in splits.items():
        pairs = data.pairs.select_columns([name for name in ("query", "text", "label") if name in data.pairs.features])
        with training_args.main_process_first(desc=f"encoding {prefix}"):
            if data.labelled:
                pairs = _with_places(pairs, scored.index(prefix) if prefix in scored else len(scored))
            datasets[prefix], truncated = encode_sentences(
                pairs,
                tokenizer,
                ["query", "text"],
                max_length,
                data_args.pad_to_max_length,
                data_args.preprocessing_num_workers,
                words and prefix == "train",
            )
        if truncated:
            logger.warning(
                f"{prefix}: {truncated} of {len(pairs)} pairs are longer than {max_length} tokens and were truncated "
                "(--max_seq_length)."
            )
    return Experiment(
        model_init=partial(
            load_model,
            AutoModelForSequenceClassification,
            model_args,
            len(tokenizer),
            ignore_mismatched_sizes=model_args.ignore_mismatched_sizes,
            problem_type="multi_label_classification",
            id2label={0: "relevant"},
            label2id={"relevant": 0},
        ),
        tokenizer=tokenizer,
        compute_metrics=partial(ranking_metrics, sets=[splits[prefix] for prefix in scored]),
        compute_loss_func=relevance_loss,
        card=_card(data_args, splits),
        train_dataset=datasets.get("train"),
        train_groups=splits["train"].pairs["query_id"] if "train" in splits else None,
        eval_datasets={prefix: dataset for prefix, dataset in datasets.items() if prefix in ("eval", "dev")},
        test_datasets={prefix: dataset for prefix, dataset in datasets.items() if prefix == "test"},
        write_predictions=partial(_write_predictions, splits=splits),
        new_layers_learning_rate=model_args.new_layers_learning_rate,
    )


def relevance_loss(
    outputs: Mapping[str, torch.Tensor], labels: torch.Tensor, num_items_in_batch: torch.Tensor | int | None = None
) -> torch.Tensor:
    """
    Binary cross-entropy of one logit.

    Args:
        outputs (`Mapping`): With `logits` `(batch, 1)`.
        labels (`torch.Tensor`): `(batch, columns)`; the first column is the relevance, 1 or 0.
        num_items_in_batch (`int`, *optional*): Numbers in the labels of the whole step; those of this batch if `None`.
    """
    items = labels.numel() if num_items_in_batch is None else num_items_in_batch
    logits, relevance = outputs["logits"].squeeze(-1).float(), labels[:, 0].float()
    return binary_cross_entropy_with_logits(logits, relevance, reduction="sum") * labels.shape[1] / items


def ranking_metrics(prediction: EvalPrediction, sets: Sequence[RankingData]) -> dict[str, float]:
    """MRR, recall and MAP of predictions whose labels are relevance, set and row."""
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


def _with_places(pairs: Dataset, number: int) -> Dataset:
    places = [[label, number, row] for row, label in enumerate(pairs["label"])]
    return pairs.remove_columns("label").add_column("label", places)


def _splits(data_args: RankingDataArguments, training_args: TrainingArguments) -> dict[str, RankingData]:
    """What the arguments use, by metric prefix; the set to choose with comes first."""
    share = data_args.validation_split_percentage
    wants_eval = training_args.do_eval or training_args.eval_strategy != "no"
    used = {
        "train": training_args.do_train or (wants_eval and share is not None),
        "validation": wants_eval,
        "test": training_args.do_predict,
    }
    splits = {PREFIXES[split]: data for split in used if used[split] and (data := _read(data_args, split))}
    if share is not None and wants_eval:
        if "train" not in splits:
            raise UserError("--validation_split_percentage needs training data.")
        queries = Dataset.from_dict({"query_id": splits["train"].pairs.unique("query_id")})
        train, held = (set(part["query_id"]) for part in hold_out(queries, share, data_args.split_seed))
        dev = {"dev": splits.pop("eval")} if "eval" in splits else {}
        whole = splits.pop("train")
        # What is added to a run to learn from, nobody finds when it is scored.
        as_found = _read(data_args, "train", add_relevant=False) if data_args.qrels_file else None
        splits = {"eval": (as_found or whole).of_queries(held), **dev, **splits, "train": whole.of_queries(train)}
    at_most = {
        "train": data_args.max_train_samples,
        "eval": data_args.max_eval_samples,
        "dev": data_args.max_eval_samples,
        "test": data_args.max_predict_samples,
    }
    splits = {prefix: _limited(data, at_most[prefix], prefix) for prefix, data in splits.items()}
    if not training_args.do_train:
        splits.pop("train", None)
    elif "train" in splits and data_args.train_negatives is not None:
        if data_args.train_negatives < 1:
            raise UserError(f"--train_negatives must be at least 1, not {data_args.train_negatives}.")
        splits["train"] = sample_negatives(splits["train"], data_args.train_negatives, data_args.sampling_seed)
    return splits


def _read(data_args: RankingDataArguments, split: str, add_relevant: bool = True) -> RankingData | None:
    """The data of a split. `add_relevant`: with the relevant documents that a training run lacks."""
    path = existing_file(getattr(data_args, f"{split}_file"), f"{split}_file")
    if path is None:
        return None
    queries, collection, qrels = data_args.queries_file, data_args.collection_file, data_args.qrels_file
    if not (queries or collection or qrels):
        data = read_ranking(path)
    elif queries and collection:
        for name in ("queries_file", "collection_file", "qrels_file"):
            for file in getattr(data_args, name) or ():
                existing_file(file, name)
        add_relevant = add_relevant and split == "train"
        data = read_trec_ranking(path, queries, collection, qrels or (), data_args.relevance_level, add_relevant)
    else:
        raise UserError("run files of TREC need both --queries_file and --collection_file.")
    return _judged(data, path, split)


def _judged(data: RankingData, path: str, split: str) -> RankingData:
    """Without the queries that have no relevant document: they teach no ranking, and none of theirs can be scored."""
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
    # A run file of the test has all queries.
    return data if split == "test" else data.of_queries(relevant)


def _limited(data: RankingData, most: int | None, prefix: str) -> RankingData:
    if most is None:
        return data
    if most < 1:
        raise UserError(f"{prefix}: at least one query has to be left, not {most}.")
    return data.of_queries(set(data.pairs.unique("query_id")[:most]))


def _write_predictions(prefix: str, logits: np.ndarray, folder: Path, splits: Mapping[str, RankingData]) -> None:
    """The ranking as a run file of TREC."""
    path = write_run(folder / f"{prefix}_run.trec", _scores(splits[prefix], range(len(logits)), logits))
    logger.info(f"wrote {path}")


def _card(data_args: RankingDataArguments, splits: Mapping[str, RankingData]) -> ModelCardFacts:
    name = Path(str(data_args.train_file)).name
    held_out = {"eval": "held out of train"} if data_args.validation_split_percentage is not None else {}
    return ModelCardFacts(
        task_type="text-ranking",
        pipeline_tag="text-ranking",
        task_name="Text Ranking",
        dataset_type=name,
        dataset_name=name,
        splits={"dev" if "dev" in splits else "eval": "validation", "test": "test", **held_out},
        metrics=METRIC_NAMES,
        description=(
            "A cross-encoder for re-ranking: it reads a query together with a candidate and says how likely the "
            "candidate is relevant."
        ),
        usage=_usage,
        tags=["cross-encoder", "reranker"],
        carries_code=False,
    )


def _usage(name: str) -> str:
    return f'''from transformers import pipeline

relevance = pipeline("text-classification", model="{name}")
query, candidates = "A man is eating.", ["Someone has a meal.", "A cat sleeps."]
scores = relevance([{{"text": query, "text_pair": candidate}} for candidate in candidates])
ranking = sorted(zip(candidates, scores), key=lambda pair: pair[1]["score"], reverse=True)'''
