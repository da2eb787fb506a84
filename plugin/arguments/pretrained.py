"""Model arguments, and loading of a pre-trained configuration, tokenizer and model."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from inspect import signature
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

import torch
from huggingface_hub.errors import StrictDataclassError
from safetensors import SafetensorError
from transformers import (
    AutoConfig,
    AutoModelForSequenceClassification,
    AutoTokenizer,
    PreTrainedConfig,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)
from transformers.utils import logging

from msattn.argument_values import NotNegative
from msattn.arguments.checkpoint_kinds import checkpoint_kind, expected_kind
from msattn.configuration.any_encoder_config import COMPOSED_FAMILIES
from msattn.configuration.max_tokens import most_tokens
from msattn.errors import UserError

logger = logging.get_logger(__name__)

# What Transformers says of a checkpoint of another kind: heads of other sizes, a family without the class.
OTHER_KIND = ("ignore_mismatched_sizes", "Unrecognized configuration class", "is a checkpoint of the family")

# Optional switch: `--name` alone means `--name True`; omitted, the value of the checkpoint stays.
FLAG = {"nargs": "?", "const": True}


@dataclass
class ModelArguments:
    """Checkpoint, tokenizer and Hub options."""

    model_name_or_path: str | None = field(
        default=None, metadata={"help": "Checkpoint: a local folder or a model name on the Hub."}
    )
    tokenizer_name: str | None = field(
        default=None, metadata={"help": "Tokenizer: a local folder or a name on the Hub. Default: the model's."}
    )
    model_revision: str = field(default="main", metadata={"help": "Branch, tag or commit of the model on the Hub."})
    cache_dir: str | None = field(default=None, metadata={"help": "Cache folder for downloads from the Hub."})
    token: str | None = field(default=None, metadata={"help": "Access token for private repositories on the Hub."})
    trust_remote_code: bool = field(
        default=False, metadata={"help": "Allow the execution of code from the model's Hub repository."}
    )
    attn_implementation: str | None = field(
        default=None,
        metadata={"help": "Attention implementation of the encoder: eager, sdpa, flash_attention_2, ..."},
    )
    new_layers_learning_rate: NotNegative | None = field(
        default=None,
        metadata={"help": "Learning rate of the layers above the encoder. Default: --learning_rate."},
    )
    embedding_learning_rate: NotNegative | None = field(
        default=None,
        metadata={"help": "Learning rate of the token embeddings; 0 freezes them. Default: --learning_rate."},
    )

    def config_overrides(self) -> dict[str, Any]:
        """The configuration fields that were set on the command line."""
        return {}

    def check(self, config: PreTrainedConfig) -> None:
        """
        Checks the arguments against the configuration of the checkpoint.

        Raises:
            UserError: A size cannot work with this checkpoint.
        """

    def hub_options(self) -> dict[str, Any]:
        """Keyword arguments for `from_pretrained` of the model, the configuration and the tokenizer."""
        return {
            "revision": self.model_revision,
            "cache_dir": self.cache_dir,
            "token": self.token,
            "trust_remote_code": self.trust_remote_code,
        }


def load_tokenizer(args: ModelArguments, config: PreTrainedConfig | None = None) -> PreTrainedTokenizerBase:
    """
    Loads the fast tokenizer of the model.

    It pads on the right, with the end-of-sentence token if it has no padding token: padding is masked, so any token
    works. `model_max_length` is capped at the number of positions of the model.

    Args:
        args (`ModelArguments`): Names the tokenizer or the checkpoint.
        config (`PreTrainedConfig`, *optional*): The model's configuration. Default: that of the checkpoint.

    Returns:
        `PreTrainedTokenizerBase`: The tokenizer.

    Raises:
        UserError: The tokenizer cannot be loaded, has no vocabulary or is not a fast one.
    """
    limit = most_tokens(config or load_config(args))
    name = args.tokenizer_name or args.model_name_or_path
    try:
        tokenizer = AutoTokenizer.from_pretrained(name, **args.hub_options())
    except Exception as error:
        # The tokenizers library raises plain exceptions for damaged files.
        raise UserError(f"{name}: no tokenizer could be loaded ({error})") from error
    if len(tokenizer) <= len(tokenizer.all_special_tokens):
        # If the vocabulary file is missing, Transformers silently maps every word to the unknown token.
        raise UserError(f"{name}: the tokenizer has no vocabulary; tokenizer.json or vocab.txt is missing.")
    if not tokenizer.is_fast:
        raise UserError(f"{name}: the tokenizer has to be a fast one, with a tokenizer.json.")
    tokenizer.padding_side = "right"
    if tokenizer.pad_token is None:
        tokenizer.pad_token = tokenizer.eos_token or tokenizer.unk_token
    if limit is not None:
        tokenizer.model_max_length = min(tokenizer.model_max_length, limit)
    return tokenizer


def load_config(args: ModelArguments) -> PreTrainedConfig:
    """
    Loads the configuration of the checkpoint.

    Args:
        args (`ModelArguments`): Names the checkpoint.

    Returns:
        `PreTrainedConfig`: The configuration.

    Raises:
        UserError: `--model_name_or_path` is missing or names no folder, the configuration cannot be loaded, or a size
            cannot work with it.
    """
    name = args.model_name_or_path
    if name is None:
        raise UserError("--model_name_or_path is missing: give a checkpoint, a folder or a name on the Hub.")
    if not Path(name).is_dir() and (Path(name).is_absolute() or name.startswith(".") or name.count("/") > 1):
        raise UserError(f"--model_name_or_path {name}: there is no such folder.")
    try:
        config = AutoConfig.from_pretrained(name, **args.hub_options())
    except StrictDataclassError as error:
        raise UserError(f"{name}: the configuration is wrong ({error.__cause__ or error})") from error
    except (AttributeError, KeyError, OSError, RecursionError, TypeError, ValueError) as error:
        raise UserError(f"{name}: no configuration could be loaded ({error})") from error
    args.check(config)
    return config


def family_class(
    args: ModelArguments, general: type[PreTrainedModel], member: type[PreTrainedModel] | None = None
) -> type[PreTrainedModel]:
    """
    The class that loads a checkpoint: the general one, or its member of BERT for a checkpoint of that member.

    Args:
        args (`ModelArguments`): Names the checkpoint.
        general (`type`): The class for any encoder.
        member (`type`, *optional*): The class that version 0.1 saved its checkpoints with.

    Raises:
        UserError: The checkpoint is of another family of this package.
    """
    family = load_config(args).model_type
    if member is not None and family == member.config_class.model_type:
        return member
    if family in COMPOSED_FAMILIES and family != general.config_class.model_type:
        raise UserError(
            f"{args.model_name_or_path}: the checkpoint is of the family {family!r}, and a {general.__name__} starts "
            "from one of its own or from an encoder."
        )
    return general


def check_model(model_class: type[PreTrainedModel], args: ModelArguments, **overrides: Any) -> None:
    """
    Checks that a model can be built, without its weights: before data are read, and in moments.

    Args:
        model_class (`type`): A model class of this package.
        args (`ModelArguments`): Names the checkpoint and the configuration fields to override.
        **overrides: Further configuration fields to override.

    Raises:
        UserError: A configuration value is invalid or of no use with the encoder, or an argument contradicts
            `overrides`.
    """
    fields = _merged(args, overrides)
    with _loading(model_class, args, fields):
        config = model_class.config_class.from_pretrained(args.model_name_or_path, **args.hub_options(), **fields)
        config._attn_implementation = args.attn_implementation
        with torch.device("meta"):
            model_class(config)


def load_model(
    model_class: type[PreTrainedModel], args: ModelArguments, vocabulary: int, **overrides: Any
) -> PreTrainedModel:
    """
    Loads a checkpoint and enlarges the token embeddings if the tokenizer has more tokens than the model.

    Args:
        model_class (`type`): A model class or an Auto class.
        args (`ModelArguments`): Names the checkpoint and the configuration fields to override.
        vocabulary (`int`): Size of the vocabulary, `len(tokenizer)`.
        **overrides: Further configuration fields to override.

    Returns:
        `PreTrainedModel`: The model.

    Raises:
        UserError: The checkpoint is missing, damaged or of another model family, a configuration value is invalid,
            or an argument contradicts `overrides`.
    """
    fields = _merged(args, overrides)
    with _loading(model_class, args, fields):
        model = model_class.from_pretrained(
            args.model_name_or_path, attn_implementation=args.attn_implementation, **args.hub_options(), **fields
        )
    # The Auto class also loads the relation classifier of pairwise attention, which cannot do without pairs.
    if "entity_pieces" in signature(model.forward).parameters and model_class is AutoModelForSequenceClassification:
        raise _other_kind(model_class, args, fields)
    _warn_of_other_labels(load_config(args), model)
    if vocabulary > model.get_input_embeddings().num_embeddings:
        model.resize_token_embeddings(vocabulary)
    return model


def _merged(args: ModelArguments, overrides: dict[str, Any]) -> dict[str, Any]:
    """The configuration fields of the command line and those of `overrides`."""
    given = args.config_overrides()
    for field_name in given.keys() & overrides.keys():
        if json.dumps(given[field_name]) != json.dumps(overrides[field_name]):
            raise UserError(
                f"--{field_name} {given[field_name]}: --head stands for {field_name} = {overrides[field_name]!r}; "
                "leave one of the two out."
            )
    return given | overrides


@contextmanager
def _loading(model_class: type, args: ModelArguments, fields: dict[str, Any]) -> Iterator[None]:
    """Turns the errors of Transformers into a `UserError`."""
    name = args.model_name_or_path
    try:
        yield
    except StrictDataclassError as error:
        raise UserError(str(error.__cause__ or error)) from error
    except SafetensorError as error:
        raise UserError(f"{name}: the weights are damaged or not all there ({error}); fetch them again.") from error
    except UnpicklingError as error:
        raise UserError(f"{name}: the weights are damaged, or pickled with code; only plain weights load.") from error
    except (AttributeError, ImportError, KeyError, OSError, RuntimeError, TypeError, ValueError) as error:
        if not any(mark in str(error) for mark in OTHER_KIND):
            raise UserError(f"{name}: the model could not be loaded ({error})") from error
        raise _other_kind(model_class, args, fields) from error


def _other_kind(model_class: type, args: ModelArguments, overrides: dict[str, Any]) -> UserError:
    new_head = ", or --ignore_mismatched_sizes for a new head" if "ignore_mismatched_sizes" in overrides else ""
    return UserError(
        f"{args.model_name_or_path}: the checkpoint is {checkpoint_kind(load_config(args))}; expected is one for "
        f"{expected_kind(model_class, overrides)}. Give an encoder{new_head}."
    )


def _warn_of_other_labels(config: PreTrainedConfig, model: PreTrainedModel) -> None:
    """Warns if a classifier of the same size goes on with other labels, or the same ones in another order."""
    before, after = (list((each.id2label or {}).values()) for each in (config, model.config))
    same_head = type(model).__name__ in (config.architectures or ())
    old, new = (", ".join(map(str, labels[:10])) for labels in (before, after))
    if same_head and before != after and len(before) == len(after) and before[0] != "LABEL_0":
        logger.warning(
            f"{config.name_or_path}: the classifier was trained for the labels {old}, and goes on with {new}."
        )
