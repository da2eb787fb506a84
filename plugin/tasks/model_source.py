"""Creates a script's model and tokenizer: from a checkpoint, or from scratch."""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterable, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import torch
from huggingface_hub.errors import StrictDataclassError, StrictDataclassFieldValidationError
from transformers import CONFIG_MAPPING, AutoModel, PreTrainedConfig, PreTrainedModel, PreTrainedTokenizerBase
from transformers.tokenization_utils_base import VERY_LARGE_INTEGER
from transformers.utils import logging

from msattn.arguments.memory import refuse_too_large
from msattn.arguments.pretrained import ModelArguments, load_config, load_model, load_tokenizer
from msattn.arguments.scratch_arguments import PRESET_FAMILY, PRESETS, VOCABULARY, ScratchArguments
from msattn.command_line import existing_file
from msattn.configuration.max_tokens import most_tokens
from msattn.data.files.word_vectors import read_word_vectors, vector_words
from msattn.data.inputs.word_tokenizer import add_words, train_word_tokenizer
from msattn.errors import UserError
from msattn.tasks.encoder_vectors import encoder_vectors, fewer_dimensions

logger = logging.get_logger(__name__)

# Configuration fields that are set from the data, not by --config_overrides.
FROM_DATA = ("vocab_size", "pad_token_id", "unk_token_id", "id2label", "label2id")
# Configuration fields that the model card of a model trained from scratch lists.
CARD_FIELDS = (
    "model_type",
    "scales",
    "alpha",
    "hidden_size",
    "num_hidden_layers",
    "num_attention_heads",
    "position_embeddings",
    "intermediate_size",
)
# Standard deviation of an encoder's vectors, from a trial on reviews; encoders have some 0.05.
ENCODER_DEVIATION = 0.4
CONSTANTS = {"True": "true", "False": "false", "None": "null"}


class ModelSource:
    """
    A checkpoint, or a model family to be trained from scratch with a vocabulary built from the training data.

    Args:
        model_args (`ModelArguments`): Names the checkpoint, with `--model_name_or_path`.
        scratch_args (`ScratchArguments`): Names the model family instead, with `--model_type`.
        do_train (`bool`, *optional*, defaults to `True`): Whether the run trains the model.

    Attributes:
        fresh (`bool`): Whether the model is trained from scratch.
        config (`PreTrainedConfig`): The configuration, before vocabulary and labels are set from the data.

    Raises:
        UserError: The model does not fit into memory, both or neither of `--model_name_or_path` and `--model_type`
            are given, `--model_type` is unknown or used without training, `--preset` or `--word_dropout` is for
            another family, a field of `--config_overrides` is unknown or invalid, or an argument for training from
            scratch is combined with a checkpoint or, for the vocabulary, with `--tokenizer_name`.
    """

    def __init__(self, model_args: ModelArguments, scratch_args: ScratchArguments, do_train: bool = True):
        if scratch_args.preset is not None and model_args.model_name_or_path is None:
            scratch_args = replace(scratch_args, model_type=scratch_args.model_type or PRESET_FAMILY)
        self.fresh = scratch_args.model_type is not None
        if self.fresh == (model_args.model_name_or_path is not None):
            raise UserError(
                "give either --model_name_or_path, a checkpoint, or --model_type, a family to be trained from scratch."
            )
        if self.fresh and not do_train:
            raise UserError(f"--model_type {scratch_args.model_type}: fresh weights need --do_train.")
        for option in fields(scratch_args):
            given = getattr(scratch_args, option.name) != option.default
            if given and not self.fresh:
                raise UserError(f"--{option.name} is for training from scratch, with --model_type.")
            if given and model_args.tokenizer_name and option.name in VOCABULARY:
                raise UserError(f"--{option.name} is for a vocabulary of its own: leave out --tokenizer_name.")
        if scratch_args.raw_text and scratch_args.pretokenized:
            raise UserError("--raw_text and --pretokenized exclude each other: is punctuation to be split off?")
        for name, default in (
            ("word_vector_size", None),
            ("word_vector_deviation", None),
            ("missing_vector_scale", 1),
        ):
            if getattr(scratch_args, name) != default and scratch_args.word_vectors is None:
                raise UserError(f"--{name} needs --word_vectors.")
        self.encoder = _encoder(scratch_args.word_vectors)
        if self.encoder is not None:
            if scratch_args.missing_vector_scale != 1:
                raise UserError(f"--missing_vector_scale: {self.encoder} has a vector for each of its tokens.")
            model_args = self._with_its_tokenizer(model_args, scratch_args, self.encoder)
        self.model_args = model_args
        self.args = scratch_args
        self.overrides: dict[str, Any] = {}
        if self.fresh:
            self.overrides = self._overrides()
        self.config = self._config() if self.fresh else load_config(model_args)
        if self.fresh:
            self._check_size()
        self.vocabulary = 0
        self.vectors: torch.Tensor | None = None
        self.pad_token_id: int | None = None
        self.unk_token_id: int | None = None

    @property
    def card_fields(self) -> Sequence[str]:
        """The configuration fields that the model card lists."""
        return [name for name in CARD_FIELDS if hasattr(self.config, name)] if self.fresh else ["model_type"]

    def tokenizer(self, texts: Iterable[str | Sequence[str]] | None) -> PreTrainedTokenizerBase:
        """
        Loads the tokenizer of the checkpoint, or builds one from the words of `texts`.

        Call it before [`ModelSource.model`].

        Args:
            texts (`Iterable[str | Sequence[str]]` or `None`):
                The training texts, as strings or lists of words; only read if a vocabulary is built. `None` if the
                model is not trained.

        Returns:
            `PreTrainedTokenizerBase`: The tokenizer.

        Raises:
            UserError: The tokenizer cannot be loaded, the texts have no words, `--word_vectors` cannot be read, or a
                model trained from scratch has no training data.
        """
        args = self.args
        if self.fresh and texts is None:
            raise UserError(f"--model_type {args.model_type}: fresh weights need --do_train and training data.")
        path = None if self.encoder else existing_file(args.word_vectors, "word_vectors")
        words = None
        if not self.fresh or self.model_args.tokenizer_name:
            tokenizer = load_tokenizer(self.model_args, self.config)
            if self.fresh:  # the limit of the encoder that the tokenizer is from is none of the new model
                tokenizer.model_max_length = most_tokens(self.config) or VERY_LARGE_INTEGER
        else:
            tokenizer = train_word_tokenizer(
                texts or (),
                lower_case=not args.cased,
                raw_text=not args.pretokenized,
                min_frequency=args.min_word_frequency,
                max_size=args.vocabulary_size,
                model_max_length=most_tokens(self.config),
            )
            if getattr(self.config, "type_vocab_size", 2) < 2:
                # RoBERTa and similar models have a single token type.
                tokenizer.model_input_names.remove("token_type_ids")
            words = tokenizer.get_vocab().keys() - set(tokenizer.all_special_tokens)
            if path is not None:
                add_words(tokenizer, vector_words(path), args.vocabulary_size)
            logger.info(f"The vocabulary has {len(tokenizer)} tokens, {len(words)} words of the texts among them.")
        if path is not None:
            self.vectors = torch.from_numpy(
                read_word_vectors(path, tokenizer.get_vocab(), words=words, missing_scale=args.missing_vector_scale)
            )
        elif self.encoder is not None:
            self.vectors = encoder_vectors(self.model_args, self.encoder, len(tokenizer))
        if self.vectors is not None:
            if args.word_vector_size is not None:
                self.vectors = fewer_dimensions(self.vectors, args.word_vector_size)
            deviation = args.word_vector_deviation or (ENCODER_DEVIATION if self.encoder else None)
            if deviation is not None:
                self.vectors *= deviation / self.vectors.std()
            self.vectors[tokenizer.pad_token_id] = 0
        self.vocabulary, self.pad_token_id = len(tokenizer), tokenizer.pad_token_id
        self.unk_token_id = tokenizer.unk_token_id
        return tokenizer

    def model(
        self, model_class: type[PreTrainedModel], ignore_mismatched_sizes: bool = False, **overrides: Any
    ) -> PreTrainedModel:
        """
        Loads the checkpoint, or creates a randomly initialized model with the word vectors as embeddings.

        Args:
            model_class (`type`): An Auto class; for a checkpoint, a model class works too.
            ignore_mismatched_sizes (`bool`, *optional*, defaults to `False`):
                Whether to re-initialize a classification head of another size. For checkpoints only.
            **overrides: Configuration fields. From scratch, `--config_overrides` takes precedence.

        Returns:
            `PreTrainedModel`: The model.

        Raises:
            UserError: The checkpoint cannot be loaded, the model family does not support the task, or the width of the
                word vectors is not that of the embeddings.
        """
        if not self.fresh:
            model = load_model(
                model_class,
                self.model_args,
                self.vocabulary,
                ignore_mismatched_sizes=ignore_mismatched_sizes,
                **overrides,
            )
            if model.config.pad_token_id is None:  # decoders' classifiers look for the last token by it
                model.config.pad_token_id = self.pad_token_id
            return model
        if self.vectors is not None and hasattr(self.config, "embedding_size"):
            overrides["embedding_size"] = self.vectors.shape[1]
        if getattr(self.config, "word_dropout", 0) and self.unk_token_id is None:
            raise UserError("--word_dropout: the tokenizer has no token of unknown words.")
        if self.unk_token_id is not None and hasattr(self.config, "unk_token_id"):
            overrides["unk_token_id"] = self.unk_token_id
        config = self._config(vocab_size=self.vocabulary, pad_token_id=self.pad_token_id, **overrides)
        try:
            model = model_class.from_config(config, attn_implementation=self.model_args.attn_implementation)
        except (ImportError, ValueError) as error:
            raise UserError(f"--model_type {self.args.model_type}: no model can be made ({error})") from error
        if self.vectors is not None:
            weights = model.get_input_embeddings().weight
            if weights.shape != self.vectors.shape:
                raise UserError(
                    f"--word_vectors: the vectors have {self.vectors.shape[1]} numbers, but the model's embeddings "
                    f"{weights.shape[1]}; change the model's by --config_overrides."
                )
            with torch.no_grad():
                weights.copy_(self.vectors)
        return model

    @staticmethod
    def _with_its_tokenizer(args: ModelArguments, scratch_args: ScratchArguments, encoder: str) -> ModelArguments:
        if args.tokenizer_name not in (None, encoder):
            raise UserError(
                f"--tokenizer_name {args.tokenizer_name}: the word vectors of {encoder} are those of its own tokens."
            )
        for option in fields(scratch_args):
            if option.name in VOCABULARY and getattr(scratch_args, option.name) != option.default:
                raise UserError(f"--{option.name} is for a vocabulary of its own, not for that of {encoder}.")
        return replace(args, tokenizer_name=encoder)

    def _config(self, **given: Any) -> PreTrainedConfig:
        try:
            return CONFIG_MAPPING[self.args.model_type](**(given | self.overrides))
        except StrictDataclassFieldValidationError as error:
            reason = str(error.__cause__).partition(". Errors:")[0]
            raise UserError(f"--config_overrides: {reason}; values are JSON, such as 'scales=[1, 3]'.") from error
        except (StrictDataclassError, TypeError, ValueError) as error:
            raise UserError(f"--config_overrides: {error.__cause__ or error}") from error

    def _check_size(self) -> None:
        layers = getattr(self.config, "num_hidden_layers", 0)
        if not isinstance(layers, int) or layers > 1000:
            raise UserError(f"--config_overrides num_hidden_layers={layers}: a model has at most 1000 layers.")
        try:
            # Shapes without memory.
            with torch.device("meta"):
                model = AutoModel.from_config(self._config(vocab_size=self.args.vocabulary_size))
        except (ImportError, KeyError, TypeError, ValueError, RuntimeError) as error:
            raise UserError(f"--model_type {self.args.model_type}: no model can be made ({error})") from error
        refuse_too_large(model.num_parameters(), "--config_overrides and --vocabulary_size")

    def _overrides(self) -> dict[str, Any]:
        family = str(self.args.model_type)
        if family not in CONFIG_MAPPING:
            raise UserError(f"--model_type: there is no family {family!r}{_closest(family, CONFIG_MAPPING.keys())}")
        default = self._config()
        known = {*default.to_dict(), *default.attribute_map}.difference(FROM_DATA)
        overrides: dict[str, Any] = {}
        if self.args.preset is not None:
            if family != PRESET_FAMILY:
                raise UserError(f"--preset {self.args.preset} is for --model_type {PRESET_FAMILY}, not {family}.")
            overrides |= PRESETS[self.args.preset]
        if self.args.word_dropout is not None:
            if "word_dropout" not in known:
                raise UserError(f"--word_dropout: the family {family} has none.")
            overrides["word_dropout"] = self.args.word_dropout
        for override in self.args.config_overrides or ():
            name, sign, value = override.partition("=")
            if not sign:
                raise UserError(f"--config_overrides {override}: expected NAME=VALUE, such as hidden_size=100.")
            if name == "word_dropout" and self.args.word_dropout is not None:
                raise UserError(f"--config_overrides {override}: --word_dropout is given, too; leave one of them out.")
            if name not in known:
                raise UserError(
                    f"--config_overrides {override}: {family} has no field {name!r} to set{_closest(name, known)}"
                )
            try:
                overrides[name] = json.loads(CONSTANTS.get(value, value))
            except ValueError:
                overrides[name] = value
        return overrides


def _encoder(name: str | None) -> str | None:
    """The encoder that `--word_vectors` names: a folder, or what has the form of a name on the Hub and is no file."""
    if name is None or Path(name).is_file():
        return None
    hub_name = not name.startswith((".", "/")) and name.count("/") == 1 and not name.endswith((".txt", ".gz", ".vec"))
    return name if Path(name).is_dir() or hub_name else None


def _closest(name: str, known: Iterable[str]) -> str:
    close = difflib.get_close_matches(name, list(known), n=1)
    return f"; did you mean {close[0]}?" if close else "."
