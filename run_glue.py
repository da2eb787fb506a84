#!/usr/bin/env python
"""
Fine-tunes an encoder, or trains a model from scratch, to classify or score sentences and sentence pairs, as in GLUE.

On top of the encoder is the classifier of Transformers, multi-scale fusion self-attention, or one of its baselines.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import chain

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

from msattn import GuidingArguments, MultiScaleForSequenceClassification
from msattn.command_line import parse_arguments, run_cli, set_up_logging, user_mistakes
from msattn.data.formats.glue import GLUE_TASKS
from msattn.data.inputs.sentence_inputs import encode_sentences
from msattn.errors import UserError
from msattn.metrics.sentences import sentence_metrics
from msattn.training import sentence_classification as sentences
from msattn.training.arguments import HubDataArguments, ModelArguments
from msattn.training.checkpoints import (
    checkpoint_class,
    checkpoint_labels,
    label_fields,
    load_config,
    load_model,
    load_tokenizer,
    max_tokens,
)
from msattn.training.distillation import Teacher, distillation_loss
from msattn.training.from_scratch import (
    ScratchArguments,
    scratch_config,
    scratch_model,
    scratch_tokenizer,
    trains_from_scratch,
)
from msattn.training.fusion import choose_head, head_fields
from msattn.training.learning_rates import FineTuningArguments
from msattn.training.model_card import write_model_card
from msattn.training.resuming import record_and_resume
from msattn.training.splits import hold_out_and_limit, warn_of_labels, warn_of_repeats
from msattn.training.steps import warn_of_few_steps
from msattn.training.trainer import FineTuningTrainer
from msattn.training.unknown_tokens import warn_of_unknown

logger = logging.get_logger(__name__)


@dataclass
class SentenceModelArguments(ModelArguments):
    """The encoder and the head on top of it."""

    head: str | None = field(
        default=None,
        metadata={
            "help": "The classifier of Transformers (plain, the default for an encoder); multi-scale fusion "
            "(multiscale); or its baselines cls and mean (first token and mean of all tokens, no fusion layers) and "
            "plain-attention (same size as multiscale, without phrases).",
            "choices": list(sentences.HEADS),
        },
    )


@dataclass
class SentenceDataArguments(HubDataArguments):
    """Sentence classification data: a GLUE task, a dataset on the Hub, or local files."""

    task_name: str | None = field(
        default=None, metadata={"help": "GLUE task; for other data, give --train_file.", "choices": list(GLUE_TASKS)}
    )
    glue_dir: str | None = field(
        default=None,
        metadata={"help": "Folder with the official GLUE TSV files (glue_dir/SST-2/train.tsv). Default: the Hub."},
    )
    train_file: str | None = field(
        default=None,
        metadata={
            "help": "Training data: CSV, TSV, JSON (lines) or Parquet with one or two text columns and a label column "
            "(decimal numbers mean regression); or a file of SST-5 (trees), SNLI or MTL-16 as published."
        },
    )
    train_phrases: bool = field(
        default=False, metadata={"help": "Train on all phrases of the SST-5 trees, not only on full sentences."}
    )
    text_column_names: list[str] | None = field(
        default=None,
        metadata={
            "help": "One or two text columns of the data. Default: those of the checkpoint if nothing is trained; or "
            "two that are named as a pair, one named text, sentence or the like, or the longest (docs/inputs.md)."
        },
    )
    label_column_name: str = field(default="label", metadata={"help": "Label column of the data."})
    max_seq_length: int | None = field(
        default=None,
        metadata={
            "help": "Maximum number of tokens per example; longer ones are truncated, with a warning. Default: that "
            "of the checkpoint, but 128 in training a model with position embeddings."
        },
    )
    distill_from: str | None = field(
        default=None,
        metadata={
            "help": "Fine-tuned classifier whose answers are learned in place of labels: the training texts need none."
        },
    )


def main(argv: Sequence[str] | None = None) -> None:
    """Trains, evaluates and predicts as the command line says."""
    # Whatever goes wrong before the first step is a mistake in the arguments, the data or the checkpoint.
    with user_mistakes():
        model_args, scratch, data_args, guiding, args = parse_arguments(
            (SentenceModelArguments, ScratchArguments, SentenceDataArguments, GuidingArguments, FineTuningArguments),
            argv,
        )
        set_up_logging(args)

        # The checkpoint, or the family of a model to be trained from scratch.
        fresh = trains_from_scratch(scratch, model_args, args)
        config = scratch_config(scratch, model_args) if fresh else load_config(model_args)
        guiding.check(config, args)
        if fresh and getattr(config, "crf", False):
            raise UserError("--config_overrides crf=true is for taggers: run_tagging.py.")
        if fresh and model_args.head is not None:
            raise UserError("--head is for a pre-trained encoder: leave it out, or --model_type and --preset.")
        if data_args.distill_from and not args.do_train:
            raise UserError("--distill_from is for training: give --do_train, or leave it out.")
        # Ours is fusion on an encoder, or one of its baselines; else it is the classifier of Transformers.
        head = "plain" if fresh else choose_head(model_args.head, config, default="plain")
        fields = head_fields(head, model_args, config)
        ours = head != "plain"

        # Data: one or two texts and a label in each row.
        known = None if fresh else checkpoint_labels(config, stock=not ours)
        teacher = Teacher(data_args.distill_from, model_args.trust_remote_code) if data_args.distill_from else None
        found, columns, labels = sentences.read_sentence_splits(
            data_args, args, known, config, teacher.labels if teacher else None
        )
        if args.should_log:
            shown = "a number (regression)" if labels is None else f"one of {len(labels)}: {', '.join(labels[:10])}"
            print(f"The text is read from {' and '.join(columns)}; the label is {shown}.")
        # "eval" is held out of "train" if asked, and the validation data are then "dev". MNLI also has "eval_mm".
        data = hold_out_and_limit(found, data_args, args)
        warn_of_repeats(
            {prefix: [*zip(*(rows[each] for each in columns), strict=True)] for prefix, rows in data.items()}
        )
        if labels:
            warn_of_labels({prefix: sentences.labels_in(rows, labels) for prefix, rows in data.items()}, labels)
        if teacher:
            data["train"] = teacher.answered(data["train"], columns, labels, args)

        # Tokenizer.
        if fresh:
            texts = chain.from_iterable(data["train"][column] for column in columns)
            tokenizer, vectors = scratch_tokenizer(scratch, model_args, config, texts)
        else:
            tokenizer = load_tokenizer(model_args, config)
        usual = sentences.MAX_SEQ_LENGTH if args.do_train else None
        max_length = max_tokens(data_args.max_seq_length, tokenizer, config, usual)
        encoded = {}
        for prefix, rows in data.items():
            with args.main_process_first(desc=f"encoding {prefix}"):
                encoded[prefix], truncated = encode_sentences(
                    rows,
                    tokenizer,
                    columns,
                    max_length=max_length,
                    num_proc=data_args.preprocessing_num_workers,
                    words=guiding.needs_words and prefix == "train",
                )
            if truncated:
                logger.warning(
                    f"{prefix}: {truncated} of {len(rows)} examples are longer than {max_length} tokens and were "
                    "truncated (--max_seq_length)."
                )
            warn_of_unknown(prefix, encoded[prefix], tokenizer)

        # Model and Trainer.
        set_seed(args.seed)
        fields |= label_fields(labels or ["LABEL_0"])  # a single output for regression
        fields["problem_type"] = "single_label_classification" if labels else "regression"
        if fresh:
            if hasattr(config, "sentence_pairs"):
                fields["sentence_pairs"] = len(columns) == 2
            model = scratch_model(
                AutoModelForSequenceClassification, scratch, model_args, tokenizer, vectors, **fields
            )
        else:
            model_class = AutoModelForSequenceClassification
            if ours:
                model_class = checkpoint_class(config, MultiScaleForSequenceClassification)
            model = load_model(model_class, model_args, tokenizer, refuse_new_weights=not args.do_train, **fields)
        # What reads the same table in a later run, or in `msattn predict`.
        model.config.text_columns, model.config.label_column = columns, data_args.label_column_name
        if getattr(model.config, "sentence_pairs", False):
            if len(columns) == 1:
                raise UserError(f"the model compares pairs, and there is one column of text: {columns[0]}.")
            if "token_type_ids" not in tokenizer.model_input_names:
                raise UserError(
                    f"{tokenizer.name_or_path}: the tokenizer has no token types, by which the model tells two texts "
                    "apart; take another one, or read both as one text: --config_overrides sentence_pairs=false."
                )

        def metrics(prediction: EvalPrediction) -> dict[str, float]:
            return sentence_metrics(prediction, data_args.task_name, regression=labels is None)

        scored = [prefix for prefix in encoded if prefix != "train"]
        trainer = FineTuningTrainer(
            model,
            args,
            train_dataset=encoded.get("train"),
            eval_dataset=encoded.get("eval"),
            processing_class=tokenizer,
            data_collator=DataCollatorWithPadding(tokenizer, pad_to_multiple_of=8 if args.fp16 or args.bf16 else None),
            compute_metrics=metrics,
            compute_loss_func=distillation_loss if teacher else None,
            callbacks=data_args.callbacks,
            guiding=guiding,
            new_layers_learning_rate=model_args.new_layers_learning_rate,
            embedding_learning_rate=model_args.embedding_learning_rate,
        )
        warn_of_few_steps(args, model, len(encoded.get("train", ())))
        checkpoint = record_and_resume(trainer, model_args, scratch, data_args, guiding)

    # Training.
    results: dict[str, float] = {}
    if args.do_train:
        output = trainer.train(resume_from_checkpoint=checkpoint)
        trainer.save_model()
        trainer.save_state()
        results |= trainer.record("train", {**output.metrics, "train_samples": len(encoded["train"])})

    # Scores and predictions.
    for prefix in scored:
        output = trainer.predict(encoded[prefix], metric_key_prefix=prefix)
        results |= trainer.record(prefix, output.metrics | {f"{prefix}_samples": len(encoded[prefix])})
        if trainer.is_world_process_zero():
            sentences.write_sentence_predictions(
                args.output_dir, prefix, data[prefix], columns, output.predictions, labels, data_args.task_name
            )

    if args.do_train and trainer.is_world_process_zero():
        kind = "fresh" if fresh else "fused" if ours else "plain"
        facts = sentences.sentence_card(model.config, kind, data_args, len(columns) == 2)
        write_model_card(trainer, facts, results)
    if args.do_train and args.push_to_hub:
        trainer.push_to_hub()


if __name__ == "__main__":
    run_cli(main)
