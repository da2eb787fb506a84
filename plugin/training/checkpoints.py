"""Loads the configuration, the tokenizer and the model that a script fine-tunes."""

from __future__ import annotations

import difflib
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from transformers import (
    AutoConfig,
    AutoTokenizer,
    PreTrainedConfig,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)
from transformers.tokenization_utils_base import VERY_LARGE_INTEGER
from transformers.utils import logging

from msattn.configuration.any_encoder_config import COMPOSED_FAMILIES
from msattn.configuration.max_tokens import most_tokens
from msattn.data.inputs.padding import pad_right
from msattn.errors import UserError, missing_weights
from msattn.modeling.modeling_bert_pairwise import BertPairwiseForRelationClassification, BertPairwiseParser
from msattn.modeling.modeling_multiscale import MultiScaleForRelationExtraction, MultiScaleForSequenceClassification
from msattn.modeling.modeling_multiscale_bert import BertForMultiScaleRE, BertForMultiScaleSequenceClassification
from msattn.modeling.modeling_pairwise import PairwiseForRelationClassification, PairwiseParser
from msattn.training.arguments import ModelArguments
from msattn.training.learning_rates import is_new

logger = logging.get_logger(__name__)

# The members of BERT that version 0.1 saved its checkpoints with.
MEMBERS: dict[type[PreTrainedModel], type[PreTrainedModel]] = {
    MultiScaleForRelationExtraction: BertForMultiScaleRE,
    MultiScaleForSequenceClassification: BertForMultiScaleSequenceClassification,
    PairwiseParser: BertPairwiseParser,
    PairwiseForRelationClassification: BertPairwiseForRelationClassification,
}
# Endings of the classes of this package that have labels of relations or sentences.
CLASSIFIERS = ("SequenceClassification", "RelationClassification", "RelationExtraction", "RE")


def load_config(args: ModelArguments) -> PreTrainedConfig:
    """
    Loads the configuration of `--model_name_or_path`.

    Args:
        args (`ModelArguments`): Names the checkpoint.

    Raises:
        UserError: `--model_name_or_path` is missing, names no folder although it looks like one, or has adapters only.
    """
    name = args.model_name_or_path
    if name is None:
        raise UserError("--model_name_or_path is missing: give a checkpoint, a folder or a name on the Hub.")
    if Path(name, "adapter_config.json").is_file() and not Path(name, "config.json").is_file():
        raise UserError(
            f"--model_name_or_path {name}: it holds adapters (PEFT) without their model; save both in one: "
            "model.merge_and_unload().save_pretrained(FOLDER)."
        )
    if not Path(name).is_dir() and (Path(name).is_absolute() or name.startswith(".") or name.count("/") > 1):
        raise UserError(f"--model_name_or_path {name}: there is no such folder.")
    try:
        return AutoConfig.from_pretrained(name, **hub_options(args))
    except OSError as error:
        if Path(name).is_dir():
            raise
        close = difflib.get_close_matches(Path(name).name, [path.name for path in Path(name).parent.glob("*/")], n=1)
        meant = f"; did you mean {Path(name).with_name(close[0])}?" if close else f" ({error})"
        raise UserError(f"--model_name_or_path {name}: no such folder, and no such model on the Hub{meant}") from None


def load_tokenizer(args: ModelArguments, config: PreTrainedConfig) -> PreTrainedTokenizerBase:
    """
    Loads the fast tokenizer of a model.

    It pads on the right, with the end-of-sentence token if it has no padding token: padding is masked, so any token
    works. `model_max_length` is capped at the number of positions of the model.

    Args:
        args (`ModelArguments`): Names the tokenizer or the checkpoint.
        config (`PreTrainedConfig`): The model's configuration.

    Raises:
        UserError: The tokenizer has no vocabulary or is not a fast one.
    """
    name = args.tokenizer_name or args.model_name_or_path
    tokenizer = AutoTokenizer.from_pretrained(name, **hub_options(args))
    if len(tokenizer) <= len(tokenizer.all_special_tokens):
        # If the vocabulary file is missing, Transformers silently maps every word to the unknown token.
        raise UserError(f"{name}: the tokenizer has no vocabulary; tokenizer.json or vocab.txt is missing.")
    if not tokenizer.is_fast:
        raise UserError(f"{name}: the tokenizer has to be a fast one, with a tokenizer.json.")
    pad_right(tokenizer)
    limit = most_tokens(config)
    if limit is not None:
        tokenizer.model_max_length = min(tokenizer.model_max_length, limit)
    return tokenizer


def load_model(
    model_class: type[PreTrainedModel],
    args: ModelArguments,
    tokenizer: PreTrainedTokenizerBase,
    refuse_new_weights: bool = False,
    **fields: Any,
) -> PreTrainedModel:
    """
    Loads a checkpoint, and enlarges the token embeddings if the tokenizer has more tokens than the model.

    The names of weights that the checkpoint lacks, which are new and random, are in `model.new_weights`.

    Args:
        model_class (`type`): A model class or an Auto class.
        args (`ModelArguments`): Names the checkpoint, and fields of its configuration in `--config_overrides`.
        tokenizer (`PreTrainedTokenizerBase`): The tokenizer.
        refuse_new_weights (`bool`, *optional*, defaults to `False`):
            Whether to refuse a checkpoint that lacks weights, which would be random, or that is of a subclass.
        **fields: Further fields of the configuration.

    Raises:
        UserError: `--config_overrides` contradicts `fields`; a layer of the checkpoint has another size, and not
            `--ignore_mismatched_sizes`; or weights or embeddings are missing, labels numbered anew, or the checkpoint
            is of a subclass of one of ours, and refused.
    """
    given = config_fields(args.config_overrides)
    for name in given.keys() & fields.keys():
        if json.dumps(given[name]) != json.dumps(fields[name]):
            others = "other arguments, or their defaults, say"
            raise UserError(f"--config_overrides {name}={given[name]}: {others} {name}={fields[name]!r}.")
    with _without_load_report():
        model, loading = model_class.from_pretrained(
            args.model_name_or_path,
            attn_implementation=args.attn_implementation,
            output_loading_info=True,
            ignore_mismatched_sizes=True,
            **hub_options(args),
            # Otherwise training would go on in the checkpoint's precision: in bfloat16, small steps are lost.
            **(({} if refuse_new_weights else {"dtype": torch.float32}) | given | fields),
        )
    if lost := sorted(name for name in loading["missing_keys"] if not is_new(name, model)):
        logger.warning(
            f"{args.model_name_or_path}: {len(lost)} weights of the encoder are missing and start at random: "
            f"{', '.join(lost[:5])}{', ...' if len(lost) > 5 else ''}."
        )
    mismatched = sorted(loading["mismatched_keys"])
    if mismatched and (refuse_new_weights or not args.ignore_mismatched_sizes):
        name, before, now = mismatched[0]
        raise UserError(
            f"{args.model_name_or_path}: {name} has the shape {[*before]} and not {[*now]}, as for other labels or "
            "another head; to train a new one, give --ignore_mismatched_sizes."
        )
    saved = load_config(args)
    _compare_labels(saved, model, refuse_new_weights)
    if model.config.pad_token_id is None:  # decoders' classifiers look for the last token by it
        model.config.pad_token_id = tokenizer.pad_token_id
    # Which learn at a rate of their own (learning_rates.py).
    model.new_weights = {*loading["missing_keys"], *(name for name, *_ in mismatched)}
    new_tokens = len(tokenizer) - model.get_input_embeddings().num_embeddings
    missing = [*sorted(loading["missing_keys"]), *["embeddings of tokens"] * (new_tokens > 0)]
    if refuse_new_weights and missing:
        raise missing_weights(str(args.model_name_or_path), missing)
    if refuse_new_weights and type(model).__module__.startswith("msattn."):
        family = sys.modules[type(model).__module__]  # all its classes are in one file
        if unknown := [name for name in saved.architectures or () if not hasattr(family, name)]:
            raise UserError(
                f"{args.model_name_or_path}: it is a checkpoint of {unknown[0]}, which may have other layers or code "
                f"than {type(model).__name__}: load it with its own class and give the pipeline the model."
            )
    if new_tokens > 0:
        with _without_load_report():
            model.resize_token_embeddings(len(tokenizer))
    return model


@contextmanager
def _without_load_report() -> Iterator[None]:
    """Keeps new and left-out layers, and embeddings of markers, off the terminal: they are what training is for."""
    reports = logging.get_logger("transformers.modeling_utils")

    def is_other(record: Any) -> bool:
        message = record.getMessage()
        return "LOAD REPORT" not in message and "new embeddings will be initialized" not in message

    reports.addFilter(is_other)
    try:
        yield
    finally:
        reports.removeFilter(is_other)


def max_tokens(
    asked: int | None, tokenizer: PreTrainedTokenizerBase, config: PreTrainedConfig, usual: int | None = None
) -> int | None:
    """
    The maximum number of tokens of an example: `--max_seq_length`, or that of the checkpoint.

    The tokenizer keeps it as `model_max_length`, so that whatever applies the checkpoint later reads as much of each
    text.

    Args:
        asked (`int` or `None`): `--max_seq_length`.
        tokenizer (`PreTrainedTokenizerBase`): The tokenizer.
        config (`PreTrainedConfig`): The configuration of the model.
        usual (`int`, *optional*):
            The most of a model with position embeddings, if `asked` is `None`. Default: what it takes.

    Returns:
        `int` or `None`: `None` if there is no limit.

    Raises:
        UserError: The model does not take so many.
    """
    most = most_tokens(config)
    if asked is not None and not 0 < asked <= (most or asked):
        raise UserError(f"--max_seq_length {asked}: the model takes 1 to {most or 'any number of'} tokens.")
    limits = (tokenizer.model_max_length, most, usual if most else None)
    tokenizer.model_max_length = asked or min(limit for limit in limits if limit)
    return tokenizer.model_max_length if tokenizer.model_max_length < VERY_LARGE_INTEGER else None


def hub_options(args: ModelArguments) -> dict[str, Any]:
    """Keyword arguments of every `from_pretrained`."""
    return {"revision": args.model_revision, "trust_remote_code": args.trust_remote_code}


def config_fields(overrides: Sequence[str] | None) -> dict[str, Any]:
    """
    The fields of `--config_overrides`: `["scales=[3, 5]", "mask_mode=ste"]` gives a list and a string.

    Args:
        overrides (`Sequence[str]` or `None`): `NAME=VALUE` each. A value that is no JSON is a string.

    Raises:
        UserError: One has no `=`, or a name is there twice.
    """
    fields: dict[str, Any] = {}
    for override in overrides or ():
        name, sign, value = override.partition("=")
        if not sign or name in fields:
            raise UserError(f"--config_overrides {override}: expected NAME=VALUE, each name once; hidden_size=100.")
        try:
            fields[name] = json.loads({"True": "true", "False": "false", "None": "null"}.get(value, value))
        except ValueError:
            fields[name] = value
    return fields


def refuse_overrides(args: ModelArguments, flags: Mapping[str, str]) -> None:
    """
    Refuses fields in `--config_overrides` that a training sets itself.

    Args:
        args (`ModelArguments`): With `config_overrides`.
        flags (`Mapping[str, str]`): The flags that set these fields, by their names; empty where none does.

    Raises:
        UserError: `--config_overrides` has one of these fields.
    """
    for name in sorted(config_fields(args.config_overrides).keys() & flags.keys()):
        advice = f"give {flags[name]}" if flags[name] else "leave it out"
        raise UserError(f"--config_overrides {name}: the training sets this field itself; {advice}.")


def checkpoint_labels(config: PreTrainedConfig, stock: bool = False) -> list[str] | None:
    """
    The labels of a fine-tuned checkpoint in the order of their ids; `None` for a pre-trained encoder, or one of
    Transformers that gives a text several labels.

    Args:
        config (`PreTrainedConfig`): The configuration of the checkpoint.
        stock (`bool`, *optional*, defaults to `False`):
            Whether the checkpoint is loaded with its own classifier, which is one of Transformers. Otherwise that
            classifier is left out, and its labels with it.
    """
    if stock and config.problem_type == "multi_label_classification":
        return None  # its answers are no probabilities of one label
    endings = CLASSIFIERS if config.model_type in COMPOSED_FAMILIES else ("ForSequenceClassification",) * stock
    if not any(name.endswith(endings) for name in config.architectures or ()):
        return None
    return [config.id2label[number] for number in range(config.num_labels)]


def label_fields(labels: Sequence[str]) -> dict[str, Mapping]:
    """The fields of a configuration that name the classes: `id2label` and `label2id`."""
    return {"id2label": dict(enumerate(labels)), "label2id": {label: number for number, label in enumerate(labels)}}


def checkpoint_class(config: PreTrainedConfig, general: type[PreTrainedModel]) -> type[PreTrainedModel]:
    """
    The class that loads a checkpoint: the general one, or its member of BERT for a checkpoint of that member.

    Args:
        config (`PreTrainedConfig`): The configuration of the checkpoint.
        general (`type`): The class for any encoder.

    Raises:
        UserError: The checkpoint is of another family of this package.
    """
    member = MEMBERS.get(general)
    if member is not None and config.model_type == member.config_class.model_type:
        return member
    if config.model_type in COMPOSED_FAMILIES and config.model_type != general.config_class.model_type:
        raise UserError(
            f"{config.name_or_path}: the checkpoint is {(config.architectures or ['a model'])[0]} of the family "
            f"{config.model_type}; a {general.__name__} starts from one of its own or from an encoder."
        )
    return general


def _compare_labels(config: PreTrainedConfig, model: PreTrainedModel, refuse: bool) -> None:
    """
    Warns if a classifier of the same size goes on with other labels, or the same ones in another order.

    Raises:
        UserError: To be refused are the same labels in another order: answers would be those of other labels.
    """
    before, after = ([label for _, label in sorted((each.id2label or {}).items())] for each in (config, model.config))
    same_head = type(model).__name__ in (config.architectures or ())
    if not (same_head and before != after and len(before) == len(after) and before[0] != "LABEL_0"):
        return
    places = {str(label).casefold(): place for place, label in enumerate(before)}
    for place, label in enumerate(after):
        if refuse and (own := places.get(str(label).casefold(), place)) != place:
            raise UserError(
                f"{config.name_or_path}: the data have the labels of the classifier in another order: {label!r} is "
                f"number {place}, not {own}."
            )
    old, new = (", ".join(map(str, labels[:10])) for labels in (before, after))
    logger.warning(f"{config.name_or_path}: the classifier was trained for the labels {old}, and goes on with {new}.")
