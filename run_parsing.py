#!/usr/bin/env python
"""Trains a dependency parser that reads all of an encoder's attention, scores it and parses with it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import msattn_command

if __name__ == "__main__":  # the imports below take seconds: a mistyped argument does not wait for them
    msattn_command.start(__file__)

import numpy as np
from transformers import EvalPrediction, set_seed

from msattn import PairwiseParser
from msattn.command_line import FLAG, parse_arguments, run_cli, set_up_logging, user_mistakes
from msattn.data.inputs.parser_inputs import WINDOW_COLUMNS, encode_treebank
from msattn.data.inputs.parser_windows import ParserCollator, has_root
from msattn.metrics.tree_confidence import tree_calibration
from msattn.metrics.treebank_scores import score_treebank
from msattn.training import dependency_parsing as parsing
from msattn.training.arguments import DataArguments, ModelArguments
from msattn.training.checkpoints import (
    checkpoint_class,
    label_fields,
    load_config,
    load_model,
    load_tokenizer,
    max_tokens,
    refuse_overrides,
)
from msattn.training.dependency_parsing import ParserTrainingArguments
from msattn.training.masked_lm import MaskedLMArguments, train_masked_lm
from msattn.training.model_card import write_model_card
from msattn.training.parsing_trainer import ParsingTrainer
from msattn.training.resuming import record_and_resume
from msattn.training.splits import hold_out_and_limit, read_splits, warn_of_repeats
from msattn.training.unknown_tokens import warn_of_unknown
from msattn.trees.parses import DECODERS, Parses, decoder_of, sentence_parses, temperature_of

# Arguments that are fields of the parser's configuration.
PARSER = ("features", "objective", "layer_mix", "word_state", "freeze_encoder")


@dataclass
class ParserArguments(ModelArguments):
    """The encoder and the parser on top of it. What is left out comes from the checkpoint, or has a default."""

    features: str | None = field(
        default=None,
        metadata={
            "help": "Features of a word pair: hidden states (emb), attention weights (att) or both (emb+att).",
            "choices": ["emb", "att", "emb+att"],
        },
    )
    objective: str | None = field(
        default=None,
        metadata={
            "help": "Classify every word pair as a relation or none (pairs, as in the paper), or select the head of "
            "every word (head_select, the default).",
            "choices": ["pairs", "head_select"],
        },
    )
    layer_mix: int | None = field(
        default=None,
        metadata={"help": "Mix the hidden states of this many last layers, with learned weights (default: 4)."},
    )
    word_state: str | None = field(
        default=None,
        metadata={
            "help": "Hidden state of a word: that of its first sub-word, or the mean over its sub-words (default).",
            "choices": ["first", "mean"],
        },
    )
    freeze_encoder: bool | None = field(
        default=None, metadata={"help": "Freeze the encoder and train only the layers above it.", **FLAG}
    )
    tag: list[str] | None = field(
        default=None,
        metadata={
            "help": "Also tag words: parts of speech (upos, xpos), features (feats), lemmas (lemma), or some of them. "
            "Default: what the checkpoint tags.",
            "choices": ["upos", "xpos", "feats", "lemma"],
        },
    )


@dataclass
class ParsingDataArguments(DataArguments):
    """Treebanks in CoNLL-U or CoNLL-X; test data may have no trees."""

    train_file: list[str] | None = field(  # type: ignore[assignment]
        default=None, metadata={"help": "One or more training treebanks. Words with the head _ have no loss."}
    )
    validation_file: list[str] | None = field(  # type: ignore[assignment]
        default=None,
        metadata={"help": "One or more validation treebanks, which are scored together and each apart."},
    )
    test_file: str | None = field(
        default=None,
        metadata={"help": "Test sentences, with or without trees. A .txt file has one per line, split into words."},
    )
    decode: str = field(
        default="auto",
        metadata={
            "help": "The best tree (mst); the best one without crossing arcs (eisner); the one with the highest "
            "expected number of right heads (mbr; mbr_eisner: without crossing arcs); the best head of each word, "
            "which may be no tree (greedy); the best of these trees on the validation data after training, or that of "
            "the checkpoint (auto).",
            "choices": ["auto", *DECODERS],
        },
    )
    max_seq_length: int | None = field(
        default=None,
        metadata={
            "help": "Maximum number of tokens per input; longer sentences are read in windows that overlap by half. "
            "Default: the limit of the encoder."
        },
    )


def main(argv: Sequence[str] | None = None) -> None:
    """Trains, evaluates and predicts as the command line says."""
    # Whatever goes wrong before the first step is a mistake in the arguments, the data or the checkpoint.
    with user_mistakes():
        model_args, data_args, mlm_args, args = parse_arguments(
            (ParserArguments, ParsingDataArguments, MaskedLMArguments, ParserTrainingArguments), argv
        )
        set_up_logging(args)

        # The checkpoint and its tokenizer.
        config = load_config(model_args)
        if args.do_train:
            refuse_overrides(model_args, {"tree_decoder": "--decode", "calibration_temperature": ""})
        tokenizer = load_tokenizer(model_args, config)
        model_class = checkpoint_class(config, PairwiseParser)
        max_length = max_tokens(data_args.max_seq_length, tokenizer, config)

        # Data: the words of a sentence, their heads and relations, and its lines in the file.
        found = read_splits(lambda split: parsing.read_treebanks(split, data_args), data_args, args)
        labels, tags = parsing.parser_labels(found["train"] if args.do_train else None, model_args.tag, config)
        data = hold_out_and_limit(found, data_args, args)
        warn_of_repeats({prefix: [*map(tuple, rows["words"])] for prefix, rows in data.items()}, "sentences")

        encoded = {}
        for prefix, treebank in data.items():
            with args.main_process_first(desc=f"encoding {prefix}"):
                encoded[prefix] = encode_treebank(
                    treebank,
                    tokenizer,
                    label_fields(labels)["label2id"],
                    max_length,
                    data_args.preprocessing_num_workers,
                    tags,
                )
            parsing.check_treebank(prefix, treebank, encoded[prefix], labels)
            warn_of_unknown(prefix, encoded[prefix], tokenizer)

        # Model and Trainer. The encoder may be trained on the text first.
        if args.do_train and mlm_args.mlm_epochs:
            # It then goes on from the folder mlm of --output_dir.
            model_args = train_masked_lm(model_args, tokenizer, data["train"]["words"], mlm_args, args)
        set_seed(args.seed)
        model = load_model(
            model_class,
            model_args,
            tokenizer,
            refuse_new_weights=not args.do_train,
            root="token" if has_root(tokenizer) else "learned",
            word_tags=tags or None,
            **parsing.parser_fields(
                {name: getattr(model_args, name) for name in PARSER}, model_args.config_overrides, config
            ),
            **label_fields(labels),
        )
        parsing.set_training_defaults(
            args, model_args, model, len(encoded.get("train", ())), not parsing.is_parser(config)
        )
        # None stands for mst, until the validation data choose.
        asked = None if data_args.decode == "auto" else data_args.decode
        if args.do_train:
            model.config.tree_decoder = model.config.calibration_temperature = None
        model.config.tree_decoder = asked or getattr(model.config, "tree_decoder", None)

        def parses(prefix: str, predictions: np.ndarray) -> list[Parses]:
            windows = encoded[prefix].select_columns(WINDOW_COLUMNS).to_list()
            return sentence_parses(predictions, windows, decoder_of(model.config), [*tags])

        def metrics(prefix: str, prediction: EvalPrediction) -> dict[str, float]:
            return score_treebank(parses(prefix, prediction.predictions), data[prefix], labels, tags)

        scored = [prefix for prefix in encoded if prefix != "train"]
        trainer = ParsingTrainer(
            model,
            args,
            train_dataset=encoded.get("train"),
            eval_dataset=encoded.get("eval"),
            processing_class=tokenizer,
            data_collator=ParserCollator(tokenizer, pad_to_multiple_of=8 if args.fp16 or args.bf16 else None),
            compute_metrics=partial(metrics, "eval"),
            callbacks=data_args.callbacks,
            new_layers_learning_rate=model_args.new_layers_learning_rate,
            embedding_learning_rate=model_args.embedding_learning_rate,
        )
        checkpoint = record_and_resume(trainer, model_args, data_args, mlm_args)

    # Training. The validation data then choose the decoder, and fit the temperature of its probabilities.
    results: dict[str, float] = {}
    compared: dict[str, float] = {}
    if args.do_train:
        output = trainer.train(resume_from_checkpoint=checkpoint)
        if trainer.eval_dataset is not None:
            trainer.predict(trainer.eval_dataset)  # leaves the scores of its arcs in trainer.scored
            decoder, temperature, compared = parsing.fit_answers(trainer.scored, asked)
            model.config.tree_decoder, model.config.calibration_temperature = decoder, temperature
        trainer.save_model()
        trainer.save_state()
        results |= trainer.record("train", {**output.metrics, "train_samples": len(data["train"])})

    # Scores and predictions.
    for prefix in scored:
        trainer.compute_metrics = partial(metrics, prefix)
        output = trainer.predict(encoded[prefix], metric_key_prefix=prefix)
        scores = {f"uas_{name}": score for name, score in compared.items()} if prefix == "eval" else {}
        if any((sentence.heads >= 0).any() for sentence in trainer.scored):
            scores |= tree_calibration(trainer.scored, decoder_of(model.config), temperature_of(model.config))
        scores = output.metrics | {f"{prefix}_{name}": value for name, value in scores.items()}
        results |= trainer.record(prefix, scores | {f"{prefix}_samples": len(data[prefix])})
        if trainer.is_world_process_zero():
            texts = parsing.conllu_texts(parses(prefix, output.predictions), data[prefix], labels, tags)
            Path(args.output_dir, f"{prefix}_predictions.conllu").write_bytes("".join(texts).encode())

    if args.do_train and trainer.is_world_process_zero():
        write_model_card(trainer, parsing.parsing_card(model.config, data_args), results)
    if args.do_train and args.push_to_hub:
        trainer.push_to_hub()


if __name__ == "__main__":
    run_cli(main)
