#!/usr/bin/env python
"""Fine-tunes a cross-encoder for re-ranking, scores it, and writes its rankings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import msattn_command

if __name__ == "__main__":  # the imports below take seconds: a mistyped argument does not wait for them
    msattn_command.start(__file__)

from transformers import (
    AutoModelForSequenceClassification,
    DataCollatorWithPadding,
    EvalPrediction,
    set_seed,
)
from transformers.utils import logging

from msattn import GuidingArguments
from msattn.command_line import parse_arguments, run_cli, set_up_logging, user_mistakes
from msattn.data.inputs.sentence_inputs import encode_sentences
from msattn.data.ranking import sample_negatives
from msattn.errors import refuse_below
from msattn.metrics.baselines import chance_mrr
from msattn.metrics.ranking import score_ranking, write_run
from msattn.training.arguments import DataArguments, ModelArguments
from msattn.training.checkpoints import label_fields, load_config, load_model, load_tokenizer, max_tokens
from msattn.training.learning_rates import FineTuningArguments
from msattn.training.length_samplers import longest_first
from msattn.training.model_card import write_model_card
from msattn.training.ranking import (
    candidate_scores,
    cross_encoder_pairs,
    hold_out_queries,
    ranking_card,
    read_candidates,
)
from msattn.training.resuming import record_and_resume
from msattn.training.splits import hold_out_and_limit, read_splits, warn_of_repeats
from msattn.training.steps import warn_of_few_steps
from msattn.training.trainer import FineTuningTrainer
from msattn.training.unknown_tokens import warn_of_unknown

logger = logging.get_logger(__name__)


@dataclass
class RankingDataArguments(DataArguments):
    """Queries with candidates as JSON lines or Parquet, or TREC runs, queries, collection and qrels."""

    train_file: str | None = field(
        default=None,
        metadata={
            "help": 'Training data: JSON lines {"query": ..., "candidates": [{"text": ..., "label": 0 or 1}, ...]}; '
            "JSON, CSV, TSV or Parquet with query, document and label, or query, positive and negative; or, with "
            "--queries_file, a TREC run file. Validation and test data have the same format."
        },
    )
    queries_file: list[str] | None = field(
        default=None, metadata={"help": "Queries of the run files: id TAB text, or BEIR .jsonl. One or more files."}
    )
    collection_file: list[str] | None = field(
        default=None, metadata={"help": "Documents of the run files: id TAB text, or BEIR .jsonl. One or more files."}
    )
    qrels_file: list[str] | None = field(
        default=None, metadata={"help": "Relevance judgements: TREC qrels, or BEIR .tsv. One or more files."}
    )
    relevance_level: int = field(
        default=1, metadata={"help": "Minimum relevance of a relevant document, in --qrels_file or as a label."}
    )
    train_negatives: int | None = field(
        default=None,
        metadata={
            "help": "Maximum number of non-relevant candidates (negatives) per training query; see --split_seed."
        },
    )
    max_seq_length: int | None = field(
        default=None,
        metadata={
            "help": "Maximum number of tokens per query-candidate pair; longer pairs are truncated, with a warning. "
            "Default: that of the checkpoint, at most 512 in training."
        },
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        refuse_below(self, train_negatives=0)


def main(argv: Sequence[str] | None = None) -> None:
    """Trains, evaluates and predicts as the command line says."""
    # Whatever goes wrong before the first step is a mistake in the arguments, the data or the checkpoint.
    with user_mistakes():
        model_args, data_args, guiding, args = parse_arguments(
            (ModelArguments, RankingDataArguments, GuidingArguments, FineTuningArguments), argv
        )
        set_up_logging(args)

        # The checkpoint and its tokenizer.
        config = load_config(model_args)
        guiding.check(config, args)
        tokenizer = load_tokenizer(model_args, config)
        max_length = max_tokens(data_args.max_seq_length, tokenizer, config, 512 if args.do_train else None)

        # Data: pairs of query and candidate.
        found = read_splits(lambda split: read_candidates(split, data_args), data_args, args)
        data = hold_out_and_limit(found, data_args, args, hold_out=hold_out_queries)
        warn_of_repeats({prefix: queries.pairs.unique("query") for prefix, queries in data.items()}, "queries")
        if "train" in data and data_args.train_negatives is not None:
            data["train"] = sample_negatives(data["train"], data_args.train_negatives, data_args.split_seed)
        encoded = {}
        for prefix, queries in data.items():
            with args.main_process_first(desc=f"encoding {prefix}"):
                encoded[prefix], truncated = encode_sentences(
                    cross_encoder_pairs(queries),
                    tokenizer,
                    ["query", "text"],
                    max_length,
                    num_proc=data_args.preprocessing_num_workers,
                    words=guiding.needs_words and prefix == "train",
                )
            if truncated:
                logger.warning(
                    f"{prefix}: {truncated} of {len(encoded[prefix])} pairs are longer than {max_length} tokens and "
                    "were truncated (--max_seq_length)."
                )
            warn_of_unknown(prefix, encoded[prefix], tokenizer)

        # Model and Trainer: one logit for each pair, which is trained by binary cross-entropy.
        set_seed(args.seed)
        model = load_model(
            AutoModelForSequenceClassification,
            model_args,
            tokenizer,
            refuse_new_weights=not args.do_train,
            problem_type="multi_label_classification",
            **label_fields(["relevant"]),
        )

        def metrics(prefix: str, prediction: EvalPrediction) -> dict[str, float]:
            rows = longest_first(encoded[prefix])  # as in an evaluation
            scores = candidate_scores(data[prefix], prediction.predictions, rows)
            relevant = data[prefix].relevant()
            values = {name: 100 * value for name, value in score_ranking(relevant, scores).items()}  # percent
            return values | {"chance_mrr": chance_mrr(relevant, scores)}

        scored = [prefix for prefix in encoded if prefix != "train"]
        trainer = FineTuningTrainer(
            model,
            args,
            train_dataset=encoded.get("train"),
            eval_dataset=encoded.get("eval"),
            processing_class=tokenizer,
            data_collator=DataCollatorWithPadding(tokenizer, pad_to_multiple_of=8 if args.fp16 or args.bf16 else None),
            compute_metrics=partial(metrics, "eval"),
            callbacks=data_args.callbacks,
            guiding=guiding,
            new_layers_learning_rate=model_args.new_layers_learning_rate,
            embedding_learning_rate=model_args.embedding_learning_rate,
        )
        warn_of_few_steps(args, model, len(encoded.get("train", ())))
        checkpoint = record_and_resume(trainer, model_args, data_args, guiding)

    # Training.
    results: dict[str, float] = {}
    if args.do_train:
        output = trainer.train(resume_from_checkpoint=checkpoint)
        trainer.save_model()
        trainer.save_state()
        results |= trainer.record("train", {**output.metrics, "train_samples": len(encoded["train"])})

    # Scores and rankings.
    for prefix in scored:
        trainer.compute_metrics = partial(metrics, prefix)
        output = trainer.predict(encoded[prefix], metric_key_prefix=prefix)
        results |= trainer.record(prefix, output.metrics | {f"{prefix}_samples": len(encoded[prefix])})
        if trainer.is_world_process_zero():
            scores = candidate_scores(data[prefix], output.predictions, range(len(output.predictions)))
            logger.info(f"wrote {write_run(Path(args.output_dir, f'{prefix}_run.trec'), scores)}")

    if args.do_train and trainer.is_world_process_zero():
        write_model_card(trainer, ranking_card(data_args), results)
    if args.do_train and args.push_to_hub:
        trainer.push_to_hub()


if __name__ == "__main__":
    run_cli(main)
