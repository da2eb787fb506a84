#!/usr/bin/env python
"""
Fine-tunes an encoder, or trains a model from scratch, to tag words: parts of speech, named entities and the like.

Baselines from scratch are a BiLSTM and a Transformer of few layers, each with a conditional random field if asked for
(`--config_overrides crf=true`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import msattn_command

if __name__ == "__main__":  # the imports below take seconds: a mistyped argument does not wait for them
    msattn_command.start(__file__)

from transformers import (
    AutoModelForTokenClassification,
    DataCollatorForTokenClassification,
    EvalPrediction,
    set_seed,
)
from transformers.utils import logging

from msattn import GuidingArguments
from msattn.command_line import parse_arguments, run_cli, set_up_logging, user_mistakes
from msattn.data.inputs.tagging_inputs import encode_tagged_words
from msattn.training import tagging
from msattn.training.arguments import HubDataArguments, ModelArguments
from msattn.training.checkpoints import label_fields, load_config, load_model, load_tokenizer, max_tokens
from msattn.training.from_scratch import (
    ScratchArguments,
    scratch_config,
    scratch_model,
    scratch_tokenizer,
    trains_from_scratch,
)
from msattn.training.learning_rates import FineTuningArguments
from msattn.training.model_card import write_model_card
from msattn.training.resuming import record_and_resume
from msattn.training.splits import hold_out_and_limit, warn_of_repeats
from msattn.training.steps import warn_of_few_steps
from msattn.training.trainer import FineTuningTrainer
from msattn.training.unknown_tokens import warn_of_unknown

logger = logging.get_logger(__name__)


@dataclass
class TaggingDataArguments(HubDataArguments):
    """Tagging data: files, or a dataset on the Hub."""

    train_file: str | None = field(
        default=None,
        metadata={
            "help": "Training data: CoNLL-U (.conllu, .conllu.gz), one word per line with columns separated by tabs "
            "or spaces, JSON lines or JSON (words and tags, or a text with spans), Parquet (words and tags), CSV with "
            "a column Sentence #, or a folder of brat."
        },
    )
    word_column: str | None = field(
        default=None,
        metadata={
            "help": "Column of the words: its number in CoNLL columns (default: 1), or its name in CSV (default: "
            "word), JSON, Parquet or a Hub dataset (default: tokens)."
        },
    )
    tag_column: str | None = field(
        default=None,
        metadata={
            "help": "Column of the tags: upos (default) or xpos for CoNLL-U, its number in CoNLL columns (default: "
            "the last), or its name in CSV (default: tag), JSON, Parquet or a Hub dataset (default: the only column "
            "of class labels, or ner_tags or tags)."
        },
    )
    max_seq_length: int | None = field(
        default=None,
        metadata={
            "help": "Maximum number of tokens per input; longer sentences are split between words, with a warning. "
            "Default: that of the checkpoint, but 512 in training a model with position embeddings."
        },
    )


def main(argv: Sequence[str] | None = None) -> None:
    """Trains, evaluates and predicts as the command line says."""
    # Whatever goes wrong before the first step is a mistake in the arguments, the data or the checkpoint.
    with user_mistakes():
        model_args, scratch, data_args, guiding, args = parse_arguments(
            (ModelArguments, ScratchArguments, TaggingDataArguments, GuidingArguments, FineTuningArguments),
            argv,
        )
        set_up_logging(args)

        # The checkpoint, or the family of a model to be trained from scratch.
        fresh = trains_from_scratch(scratch, model_args, args)
        config = scratch_config(scratch, model_args) if fresh else load_config(model_args)
        guiding.check(config, args)

        # Data: words, and a tag for each.
        found = tagging.read_tagging_splits(data_args, args)
        tags = tagging.find_tags(found, config, args.do_train)
        data = hold_out_and_limit(found, data_args, args)
        warn_of_repeats({prefix: [*map(tuple, rows["words"])] for prefix, rows in data.items()}, "sentences")

        # Tokenizer.
        if fresh:
            tokenizer, vectors = scratch_tokenizer(scratch, model_args, config, data["train"]["words"])
        else:
            tokenizer = load_tokenizer(model_args, config)
        max_length = max_tokens(data_args.max_seq_length, tokenizer, config, 512 if args.do_train else None)
        encoded = {}
        for prefix, sentences in data.items():
            with args.main_process_first(desc=f"encoding {prefix}"):
                encoded[prefix], cut = encode_tagged_words(
                    sentences,
                    tokenizer,
                    label_fields(tags)["label2id"],
                    max_length=max_length,
                    num_proc=data_args.preprocessing_num_workers,
                    words=guiding.needs_words and prefix == "train",
                )
            if cut or len(encoded[prefix]) > len(sentences):
                logger.warning(
                    f"{prefix}: {len(sentences)} sentences were cut between words into {len(encoded[prefix])} rows, "
                    f"each tagged and scored by itself, and {cut} words were truncated (--max_seq_length)."
                )
            warn_of_unknown(prefix, encoded[prefix], tokenizer)

        # Model and Trainer.
        set_seed(args.seed)
        if fresh:
            model = scratch_model(
                AutoModelForTokenClassification, scratch, model_args, tokenizer, vectors, **label_fields(tags)
            )
        else:
            model = load_model(
                AutoModelForTokenClassification,
                model_args,
                tokenizer,
                refuse_new_weights=not args.do_train,
                **label_fields(tags),
            )
        if args.do_train:
            model.config.word_column = data_args.word_column  # for `msattn predict`
        elif data_args.word_column is None and getattr(config, "word_column", None):
            logger.warning(
                f"The tagger was trained with --word_column {config.word_column}; give it again if these data have it."
            )

        def metrics(prediction: EvalPrediction) -> dict[str, float]:
            return tagging.tagging_metrics(prediction, tags)

        scored = [prefix for prefix in encoded if prefix != "train"]
        trainer = FineTuningTrainer(
            model,
            args,
            train_dataset=encoded.get("train"),
            eval_dataset=encoded.get("eval"),
            processing_class=tokenizer,
            data_collator=DataCollatorForTokenClassification(
                tokenizer, pad_to_multiple_of=8 if args.fp16 or args.bf16 else None
            ),
            compute_metrics=metrics,
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
            tagging.write_tagging_predictions(
                args.output_dir, prefix, data[prefix], encoded[prefix], output.predictions, tags
            )

    if args.do_train and trainer.is_world_process_zero():
        write_model_card(trainer, tagging.tagging_card(model.config, tokenizer, data_args, tags, fresh), results)
    if args.do_train and args.push_to_hub:
        trainer.push_to_hub()


if __name__ == "__main__":
    run_cli(main)
