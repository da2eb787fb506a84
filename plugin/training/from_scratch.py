"""Models that are trained from scratch: family and presets, a vocabulary of the training data, and word vectors."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

import torch
from transformers import (
    CONFIG_MAPPING,
    AutoModel,
    PreTrainedConfig,
    PreTrainedModel,
    PreTrainedTokenizerBase,
    TrainingArguments,
)
from transformers.tokenization_utils_base import VERY_LARGE_INTEGER

from msattn.configuration.max_tokens import most_tokens
from msattn.data.files.word_vectors import read_word_vectors, vector_words
from msattn.data.inputs.word_tokenizer import SPECIAL_TOKENS, add_words, train_word_tokenizer
from msattn.errors import UserError, refuse_below
from msattn.training.arguments import ModelArguments
from msattn.training.checkpoints import config_fields, hub_options, load_tokenizer
from msattn.training.learning_rates import SCRATCH_RATE

# The family that presets are for.
PRESET_FAMILY = "ms_transformer"
_SMALL = {"hidden_size": 100, "num_attention_heads": 5, "hidden_dropout_prob": 0.2, "word_dropout": 0.1}
# Fields of its configuration. Fixed windows make the cost linear in the length of the text.
PRESETS: dict[str, dict[str, Any]] = {
    "paper": {},
    "small": {**_SMALL, "scales": (1, 3, 8, 16, 32)},
    "long-document": {**_SMALL, "scales": (1, 3, 8, 32, 128)},
}
# Arguments that only apply when a vocabulary is built.
VOCABULARY = ("vocabulary_size", "cased", "pretokenized")
# Configuration fields that are set from the data, not by --config_overrides.
FROM_DATA = ("vocab_size", "pad_token_id", "unk_token_id", "id2label", "label2id")
# Configuration fields that the model card lists.
CARD_FIELDS = (
    *("model_type", "scales", "alpha", "hidden_size", "num_hidden_layers", "num_attention_heads"),
    *("position_embeddings", "intermediate_size"),
)
# Standard deviation of an encoder's vectors, from a trial on reviews; encoders have some 0.05.
ENCODER_DEVIATION = 0.4


@dataclass
class ScratchArguments:
    """Family, vocabulary and word vectors of a model that is trained from scratch."""

    model_type: str | None = field(
        default=None,
        metadata={
            "help": "Model family to train from scratch, such as ms_transformer; replaces --model_name_or_path. "
            "--config_overrides sets its size."
        },
    )
    preset: str | None = field(
        default=None,
        metadata={
            "help": "Defaults of a Multi-Scale Transformer (--model_type ms_transformer): paper (width 300, windows "
            "that grow with the text), small (width 100, fixed windows: linear cost), or long-document (as small, "
            "with wider windows). --config_overrides takes precedence.",
            "choices": list(PRESETS),
        },
    )
    word_vectors: str | None = field(
        default=None,
        metadata={
            "help": "Pre-trained word vectors for the embeddings: a file in the text format of GloVe or word2vec "
            "(.txt, .vec, .gz), or an encoder, whose tokenizer and token embeddings are taken."
        },
    )
    vocabulary_size: int = field(
        default=30000,
        metadata={
            "help": "Maximum size of the vocabulary: the words of the training data by frequency, then those of "
            "--word_vectors in file order. Not used with --tokenizer_name."
        },
    )
    cased: bool = field(default=False, metadata={"help": "Keep upper case; without it, text is lower-cased."})
    pretokenized: bool = field(
        default=False,
        metadata={"help": "Split words at spaces only, for text that is already tokenized."},
    )

    def __post_init__(self):
        refuse_below(self, vocabulary_size=len(SPECIAL_TOKENS) + 1)
        if self.preset is not None:
            if self.model_type not in (None, PRESET_FAMILY):
                raise UserError(
                    f"--preset {self.preset} is of the family {PRESET_FAMILY}, and not of {self.model_type}."
                )
            self.model_type = PRESET_FAMILY


def trains_from_scratch(scratch: ScratchArguments, model_args: ModelArguments, args: TrainingArguments) -> bool:
    """
    Whether the arguments name a family to train from scratch, not a checkpoint. Its learning rate has a default.

    Raises:
        UserError: They name both or neither, the model is not trained, or an argument would have no effect.
    """
    fresh = scratch.model_type is not None
    if fresh == (model_args.model_name_or_path is not None):
        raise UserError("give either --model_name_or_path, a checkpoint, or --model_type, a family to train.")
    if fresh and not args.do_train:
        raise UserError(f"--model_type {scratch.model_type}: fresh weights need --do_train.")
    if fresh and args.learning_rate is None:
        args.learning_rate = SCRATCH_RATE
    own_tokenizer = model_args.tokenizer_name is not None or _is_encoder(scratch.word_vectors)
    for option in fields(scratch):
        if getattr(scratch, option.name) == option.default:
            continue
        if not fresh:
            raise UserError(f"--{option.name} is for training from scratch, with --model_type.")
        if own_tokenizer and option.name in VOCABULARY:
            raise UserError(
                f"--{option.name} is for a vocabulary of the training data, and the tokenizer has its own."
            )
    return fresh


def scratch_config(scratch: ScratchArguments, model_args: ModelArguments, **from_data: Any) -> PreTrainedConfig:
    """
    The configuration of a new model.

    Args:
        scratch (`ScratchArguments`): Its family and preset.
        model_args (`ModelArguments`): `--config_overrides` takes precedence over the preset and `from_data`.
        **from_data: Fields that depend on the data, such as `vocab_size` and the labels.

    Raises:
        UserError: There is no such family, or it has no such field.
    """
    family = str(scratch.model_type)
    if family not in CONFIG_MAPPING:
        raise UserError(f"--model_type: there is no family {family!r}{_closest(family, CONFIG_MAPPING.keys())}")
    given = {**(PRESETS[scratch.preset] if scratch.preset else {}), **config_fields(model_args.config_overrides)}
    default = CONFIG_MAPPING[family]()
    known = {*default.to_dict(), *default.attribute_map}.difference(FROM_DATA)
    if unknown := [name for name in given if name not in known]:
        raise UserError(
            f"--config_overrides: {family} has no field {unknown[0]!r} to set{_closest(unknown[0], known)}"
        )
    return CONFIG_MAPPING[family](**(from_data | given))


def scratch_tokenizer(
    scratch: ScratchArguments,
    model_args: ModelArguments,
    config: PreTrainedConfig,
    texts: Iterable[str | Sequence[str]],
) -> tuple[PreTrainedTokenizerBase, torch.Tensor | None]:
    """
    Builds a tokenizer whose vocabulary is that of the training data, or loads the one that the arguments name.

    Args:
        scratch (`ScratchArguments`): Vocabulary and word vectors.
        model_args (`ModelArguments`): `tokenizer_name`, if a tokenizer is to be loaded.
        config (`PreTrainedConfig`): The configuration of the new model.
        texts (`Iterable[str | Sequence[str]]`): The training texts, as strings or lists of words.

    Returns:
        `tuple[PreTrainedTokenizerBase, torch.FloatTensor | None]`: The tokenizer, and the vectors of its tokens
        `(tokens, width)` with `--word_vectors`.
    """
    path, words = scratch.word_vectors, None
    encoder = path if _is_encoder(path) else None
    if encoder is not None:
        if model_args.tokenizer_name not in (None, encoder):
            raise UserError(f"--tokenizer_name: the word vectors of {encoder} are those of its own tokens.")
        model_args = replace(model_args, model_name_or_path=encoder, tokenizer_name=encoder)
    if model_args.tokenizer_name is not None:
        tokenizer = load_tokenizer(model_args, config)
        # The limit of the encoder that the tokenizer is from is none of the new model.
        tokenizer.model_max_length = most_tokens(config) or VERY_LARGE_INTEGER
    else:
        tokenizer = train_word_tokenizer(
            texts,
            lower_case=not scratch.cased,
            raw_text=not scratch.pretokenized,
            max_size=scratch.vocabulary_size,
            model_max_length=most_tokens(config),
        )
        if getattr(config, "type_vocab_size", 2) < 2:  # RoBERTa and similar models have a single token type
            tokenizer.model_input_names.remove("token_type_ids")
        words = tokenizer.get_vocab().keys() - set(tokenizer.all_special_tokens)
        if path is not None:
            add_words(tokenizer, vector_words(path), scratch.vocabulary_size)
    if path is None:
        return tokenizer, None
    if encoder is not None:
        vectors = _encoder_vectors(model_args)[: len(tokenizer)]
        vectors *= ENCODER_DEVIATION / vectors.std()
    else:
        vectors = torch.from_numpy(read_word_vectors(path, tokenizer.get_vocab(), words=words))
    vectors[tokenizer.pad_token_id] = 0
    return tokenizer, vectors


def scratch_model(
    model_class: Any,
    scratch: ScratchArguments,
    model_args: ModelArguments,
    tokenizer: PreTrainedTokenizerBase,
    vectors: torch.Tensor | None = None,
    **from_data: Any,
) -> PreTrainedModel:
    """
    Makes a randomly initialized model with the word vectors as embeddings.

    Args:
        model_class (`type`): An Auto class of Transformers.
        scratch (`ScratchArguments`): Family and preset.
        model_args (`ModelArguments`): `--config_overrides` and the attention implementation.
        tokenizer (`PreTrainedTokenizerBase`): The tokenizer.
        vectors (`torch.FloatTensor` of shape `(tokens, width)`, *optional*): The vectors of its tokens.
        **from_data: Configuration fields that depend on the data, such as the labels.

    Raises:
        UserError: The vectors are not as wide as the embeddings, or words cannot be dropped.
    """
    default = CONFIG_MAPPING[scratch.model_type]()
    from_data |= {"vocab_size": len(tokenizer), "pad_token_id": tokenizer.pad_token_id}
    if vectors is not None and hasattr(default, "embedding_size"):
        from_data["embedding_size"] = vectors.shape[1]
    if tokenizer.unk_token_id is not None and hasattr(default, "unk_token_id"):
        from_data["unk_token_id"] = tokenizer.unk_token_id
    config = scratch_config(scratch, model_args, **from_data)
    if getattr(config, "word_dropout", 0) and tokenizer.unk_token_id is None:
        raise UserError("word_dropout: the tokenizer has no token of unknown words.")
    model = model_class.from_config(config, attn_implementation=model_args.attn_implementation)
    if vectors is not None:
        weights = model.get_input_embeddings().weight
        if weights.shape != vectors.shape:
            raise UserError(
                f"--word_vectors: {vectors.shape[0]} vectors of {vectors.shape[1]} numbers do not fit the model's "
                f"{weights.shape[0]} embeddings of {weights.shape[1]}; --config_overrides changes their width."
            )
        with torch.no_grad():
            weights.copy_(vectors)
    return model


def scratch_card_fields(config: PreTrainedConfig) -> list[str]:
    """The configuration fields that the model card lists."""
    return [name for name in CARD_FIELDS if hasattr(config, name)]


def _encoder_vectors(args: ModelArguments) -> torch.Tensor:
    """The embeddings of an encoder's tokens, centred; `(embeddings, width)`."""
    model = AutoModel.from_pretrained(args.model_name_or_path, **hub_options(args))
    vectors = model.get_input_embeddings().weight.detach().float()
    return vectors - vectors.mean(dim=0)


def _is_encoder(name: str | None) -> bool:
    """Whether `--word_vectors` names an encoder: a folder or a name on the Hub, not a file."""
    return name is not None and not Path(name).is_file() and not name.endswith((".txt", ".vec", ".gz"))


def _closest(name: str, known: Iterable[str]) -> str:
    close = difflib.get_close_matches(name, list(known), n=1)
    return f"; did you mean {close[0]}?" if close else "."
