#!/usr/bin/env python
"""
Fine-tunes an encoder for relation extraction, with multi-scale fusion, pairwise attention or a baseline on top.

Without arguments it runs a small demonstration. In a checkout, the
package `msattn` is the folder `plugin/`, and `msattn.modeling` the folder `modeling/`.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import msattn_command

if __name__ == "__main__":  # the imports below take seconds: a mistyped argument does not wait for them
    msattn_command.start(__file__)

from datasets import Dataset
from transformers import (
    DataCollatorWithPadding,
    EvalPrediction,
    set_seed,
)

from msattn import GuidingArguments, MultiScaleForRelationExtraction, PairwiseForRelationClassification
from msattn.command_line import parse_arguments, run_cli, set_up_logging, user_mistakes
from msattn.configuration.any_encoder_config import COMPOSED_FAMILIES
from msattn.configuration.own_fields import OF_LABELS
from msattn.data.inputs import entity_markers
from msattn.data.inputs.entity_pieces import EntityPiecesCollator
from msattn.data.relations import lists_all_pairs
from msattn.demo import run_demo
from msattn.errors import UserError, refuse_below
from msattn.metrics.relation_reports import MULTI_LABEL, RelationAnswers
from msattn.training import relation_extraction as relations
from msattn.training.arguments import HubDataArguments, ModelArguments
from msattn.training.checkpoints import (
    checkpoint_class,
    label_fields,
    load_config,
    load_model,
    load_tokenizer,
    max_tokens,
    refuse_overrides,
)
from msattn.training.fusion import choose_head, head_fields
from msattn.training.learning_rates import FineTuningArguments, start_at_rates
from msattn.training.length_samplers import longest_first
from msattn.training.model_card import write_model_card
from msattn.training.relation_labels import label_rates
from msattn.training.relation_scoring import (
    as_in_pipeline,
    pipeline_window,
    trained_pairs,
    untrained_pairs,
    write_relation_predictions,
)
from msattn.training.relation_splits import read_relation_data
from msattn.training.resuming import record_and_resume
from msattn.training.steps import warn_of_few_steps
from msattn.training.trainer import FineTuningTrainer
from msattn.training.unknown_tokens import warn_of_unknown


@dataclass
class RelationModelArguments(ModelArguments):
    """The encoder and the head on top of it."""

    head: str | None = field(
        default=None,
        metadata={
            "help": "Model on top of the encoder: entity-start (entity markers, the default for an encoder), cls "
            "(first token), r-bert (first token and both entities), multiscale (multi-scale fusion), plain-attention "
            "(same size as multiscale, without phrases) or pairwise (attention between the entities, no markers).",
            "choices": list(relations.HEADS),
        },
    )


@dataclass
class RelationDataArguments(HubDataArguments):
    """Relation extraction data: local files or a dataset on the Hub."""

    file_format: str = field(
        default="auto",
        metadata={"help": "Format of the data files: auto, semeval, jsonl, json, csv, tsv, brat or parquet."},
    )
    span_ends: str | None = field(
        default=None,
        metadata={
            "help": "Whether the end of a span is the last character or token of the entity (inclusive), or the first "
            "one behind it (exclusive). Default: exclusive, but for TACRED.",
            "choices": ["inclusive", "exclusive"],
        },
    )
    label_file: str | None = field(
        default=None,
        metadata={
            "help": "JSON list of labels, or object from label to id (default: those of the training data), or to "
            'a new name: {"P177": "crosses"}.'
        },
    )
    max_seq_length: int | None = field(
        default=None,
        metadata={"help": "Maximum number of tokens; longer examples are cut to a window around the entities."},
    )
    on_overflow: str = field(
        default="error",
        metadata={
            "help": "Treatment of examples whose entities do not fit into --max_seq_length.",
            "choices": ["error", "skip"],
        },
    )
    entity_markers: str | None = field(
        default=None,
        metadata={
            "help": "Markers around the entities: plain ([E1]), typed (a special token for each type, [E1:PERSON]) or "
            "typed-punct (punctuation and the type in words). Default: those of the checkpoint, or else plain.",
            "choices": ["plain", "typed", "typed-punct"],
        },
    )
    multi_label: bool = field(
        default=False,
        metadata={"help": "A pair may have several relations: each has a probability and a threshold of its own."},
    )
    negative_pairs: int | None = field(
        default=None,
        metadata={
            "help": "Pairs without a relation in each text. Of texts that list their entities, at most this number "
            "for training (default: all of them), and always all for validation and test; of texts that mark a pair, "
            "this number of pairs of entities for all three (default: none). 0: none at all. Seed: --split_seed."
        },
    )
    negative_label: str | None = field(
        default=None,
        metadata={
            "help": "Label that stands for no relation; micro-F1 ignores it, and pipelines leave it out. Empty if "
            "there is none. Default: that of the checkpoint, or the label with such a meaning: Other, none, ..."
        },
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        refuse_below(self, negative_pairs=0)


def main(argv: Sequence[str] | None = None) -> None:
    """Trains, evaluates and predicts as the command line says."""
    # Whatever goes wrong before the first step is a mistake in the arguments, the data or the checkpoint.
    with user_mistakes():
        model_args, data_args, guiding, args = parse_arguments(
            (RelationModelArguments, RelationDataArguments, GuidingArguments, FineTuningArguments), argv
        )
        set_up_logging(args)

        # The checkpoint, its tokenizer, and the head as fields of the configuration.
        config = load_config(model_args)
        guiding.check(config, args)
        tokenizer = load_tokenizer(model_args, config)
        head = choose_head(model_args.head, config, default="entity-start")
        fields = head_fields(head, model_args, config)
        if args.do_train:
            refuse_overrides(model_args, relations.SET_FIELDS)
        pairwise = head == "pairwise" or (head is None and "pairwise" in config.model_type)

        # Data: a text, two entities and a label in each row, of the splits that --do_train, --do_eval and --do_predict
        # ask for. "eval" is held out of "train" if asked, and the validation file is then "dev".
        ours = config.model_type in COMPOSED_FAMILIES  # the head of any other checkpoint is left out
        several = data_args.multi_label or (ours and config.problem_type == MULTI_LABEL)
        data, labels, negative, types = read_relation_data(data_args, args, config, several)

        # Markers around the entities; pairwise attention reads the text without.
        max_length = max_tokens(data_args.max_seq_length, tokenizer, config)
        style = relations.choose_markers(data_args.entity_markers, config, pairwise, args.do_train)
        if not pairwise:
            entity_markers.add_entity_markers(tokenizer, style, types if style == "typed" else ())

        def encode(rows: Dataset, **options: Any) -> Dataset:
            return entity_markers.encode_relation_dataset(
                rows,
                tokenizer,
                label2id=None if rows[0]["label"] is None else label_fields(labels)["label2id"],
                num_proc=data_args.preprocessing_num_workers,
                style=style,
                negative=negative,
                marked=not pairwise,
                **options,
            )

        def encode_split(prefix: str, window: dict[str, Any]) -> Dataset:
            rows = data[prefix]
            with args.main_process_first(desc=f"encoding {prefix}"):
                # Some patterns of attention guiding need the words of the training data.
                found = encode(rows, words=guiding.needs_words and prefix == "train", **window)
            if not len(found):
                raise UserError(f"{prefix}: the entities of none of the {len(rows)} examples fit in --max_seq_length.")
            warn_of_unknown(prefix, found, tokenizer)
            return found

        # The training data come first: they give the window of the pipeline, in which all pairs of a text are scored.
        window = {"max_length": max_length, "on_overflow": data_args.on_overflow}
        encoded, trained = {}, getattr(config, "trained_pairs", None)
        if args.do_train:
            encoded["train"] = encode_split("train", window)
            trained = trained_pairs(data["train"].select(encoded["train"]["row"]), encoded["train"], negative)
        asked = None if args.do_train else data_args.max_seq_length
        scored = [prefix for prefix in data if prefix != "train"]
        for prefix in scored:
            if trained and lists_all_pairs(data[prefix]):
                encoded[prefix] = encode_split(prefix, pipeline_window(trained, asked, max_length, pairwise))
            else:
                encoded[prefix] = encode_split(prefix, window)

        # Model and Trainer.
        set_seed(args.seed)
        model_class = PairwiseForRelationClassification if pairwise else MultiScaleForRelationExtraction
        model = load_model(
            checkpoint_class(config, model_class),
            model_args,
            tokenizer,
            refuse_new_weights=not args.do_train,
            **fields,
            **label_fields(labels),
            **({"problem_type": MULTI_LABEL} if several else {}),
        )
        if args.do_train:
            vars(model.config).update(dict.fromkeys(OF_LABELS))
            model.config.trained_pairs = trained
            model.config.span_ends = data_args.span_ends  # for `msattn predict`
            if several:
                start_at_rates(model, label_rates(encoded["train"]))
        model.config.negative_label = negative or ""
        if not pairwise:
            model.config.entity_markers = style

        plain = RelationAnswers(labels, negative, several)  # without temperature and thresholds

        def metrics(prediction: EvalPrediction) -> dict[str, float]:
            # Checkpoints are compared by their answers: those of the pipeline, with thresholds of their own.
            rows = encoded["eval"].select(longest_first(encoded["eval"]))  # as in an evaluation
            pairs = as_in_pipeline(data["eval"], rows, prediction.predictions, trained, plain)
            return pairs.metrics("eval", plain.fitted(pairs.fit(plain)))

        multiple = 8 if args.fp16 or args.bf16 else None
        collator = DataCollatorWithPadding(tokenizer, pad_to_multiple_of=multiple)
        if pairwise:
            # Pairs of a text are scored in one pass, unless rows of a batch are guided or divided between GPUs.
            alone = args.n_gpu > 1 or bool(guiding.weights)
            collator = EntityPiecesCollator(tokenizer, pad_to_multiple_of=multiple, shares=not alone)
        trainer = FineTuningTrainer(
            model,
            args,
            train_dataset=encoded.get("train"),
            eval_dataset=encoded.get("eval"),
            processing_class=tokenizer,
            data_collator=collator,
            compute_metrics=metrics if args.do_train else None,
            callbacks=data_args.callbacks,
            guiding=guiding,
            new_layers_learning_rate=model_args.new_layers_learning_rate,
            embedding_learning_rate=model_args.embedding_learning_rate,
        )
        warn_of_few_steps(args, model, len(encoded.get("train", ())))
        checkpoint = record_and_resume(trainer, model_args, data_args, guiding)

    # Training. The validation data then fit the temperature and the threshold of the answers, so that their own scores
    # are too good; `uncalibrated_f1` is without both.
    results: dict[str, float] = {}
    if args.do_train:
        output = trainer.train(resume_from_checkpoint=checkpoint)
        trainer.compute_metrics = None  # the scores below are those of the final answers
        if "eval" in encoded:
            logits = trainer.predict(encoded["eval"], metric_key_prefix="eval").predictions
            pairs = as_in_pipeline(data["eval"], encoded["eval"], logits, trained, plain)
            vars(model.config).update(pairs.fit(plain))
        trainer.save_model()
        trainer.save_state()
        results |= trainer.record("train", {**output.metrics, "train_samples": len(encoded["train"])})

    # Scores and predictions.
    answers = plain.fitted(vars(model.config))
    for prefix in scored:
        output = trainer.predict(encoded[prefix], metric_key_prefix=prefix)
        pairs = as_in_pipeline(data[prefix], encoded[prefix], output.predictions, trained, answers)
        scores = output.metrics | pairs.metrics(prefix, answers) | {f"{prefix}_samples": len(pairs.examples)}
        if negative is not None:
            # How often it sees a relation between random words, in sentences that it was not trained on.
            random = untrained_pairs(data, prefix, data_args.split_seed)
            if random is not None and len(fitting := encode(random, max_length=max_length, on_overflow="skip")):
                output = trainer.predict(fitting)
                scores[f"{prefix}_false_positive_rate"] = answers.related(output.predictions)
        results |= trainer.record(prefix, scores)
        if trainer.is_world_process_zero():
            write_relation_predictions(args.output_dir, prefix, pairs, answers)

    if args.do_train and trainer.is_world_process_zero():
        facts = relations.relation_card(model.config, data_args, labels, negative)
        write_model_card(trainer, facts, results)
    if args.do_train and args.push_to_hub:
        trainer.push_to_hub()


if __name__ == "__main__":
    run_cli(main if len(sys.argv) > 1 else lambda: run_demo(main))
