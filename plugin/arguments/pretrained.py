"""A pre-trained model and its tokenizer, from arguments."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from huggingface_hub.errors import StrictDataclassError
from safetensors import SafetensorError
from transformers import AutoConfig, AutoTokenizer, PreTrainedConfig, PreTrainedModel, PreTrainedTokenizerBase

from msattn.configuration.configuration_ms_transformer import MSTransformerConfig
from msattn.errors import UserError

# RoBERTa and its relatives count positions from behind the number of the padding on.
OFFSET_POSITIONS = (
    "camembert",
    "longformer",
    "mpnet",
    "roberta",
    "roberta-prelayernorm",
    "xlm-roberta",
    "xlm-roberta-xl",
)

# A switch that may also be left as the checkpoint has it: `--name` alone means `--name True`.
FLAG = {"nargs": "?", "const": True}


@dataclass
class ModelArguments:
    """Which checkpoint, from where."""

    model_name_or_path: str | None = field(
        default=None, metadata={"help": "A checkpoint: a folder, or a name on the Hub."}
    )
    tokenizer_name: str | None = field(default=None, metadata={"help": "Tokenizer, if not the model's own."})
    model_revision: str = field(default="main", metadata={"help": "Branch, tag or commit on the Hub."})
    cache_dir: str | None = field(default=None, metadata={"help": "Where to keep what comes from the Hub."})
    token: str | None = field(default=None, metadata={"help": "Token for private repositories on the Hub."})
    trust_remote_code: bool = field(default=False, metadata={"help": "Run code that a Hub repository brings along."})
    attn_implementation: str | None = field(
        default=None, metadata={"help": "Attention of the encoder: eager, sdpa, flash_attention_2, ..."}
    )
    new_layers_learning_rate: float | None = field(
        default=None,
        metadata={"help": "Learning rate of everything above the encoder, if not --learning_rate."},
    )

    def config_overrides(self) -> dict[str, Any]:
        """The fields of the model's configuration that were given."""
        return {}

    def hub_options(self) -> dict[str, Any]:
        """What the `from_pretrained` of model, configuration and tokenizer all take."""
        return {
            "revision": self.model_revision,
            "cache_dir": self.cache_dir,
            "token": self.token,
            "trust_remote_code": self.trust_remote_code,
        }


def load_tokenizer(args: ModelArguments, config: PreTrainedConfig | None = None) -> PreTrainedTokenizerBase:
    """
    The fast tokenizer of the model. It pads on the right; `model_max_length` is not above the model's positions.

    Args:
        args (`ModelArguments`): Names the tokenizer, or the checkpoint that has it.
        config (`PreTrainedConfig`, *optional*): The model's configuration, if it is not that of the checkpoint.

    Raises:
        UserError: There is none.
    """
    limit = most_tokens(config or load_config(args))
    name = args.tokenizer_name or args.model_name_or_path
    try:
        tokenizer = AutoTokenizer.from_pretrained(name, **args.hub_options())
    except (OSError, ValueError) as error:
        raise UserError(f"{name}: no tokenizer could be loaded ({error})") from error
    if len(tokenizer) <= len(tokenizer.all_special_tokens):
        # Without a vocabulary Transformers makes a tokenizer that reads every word as unknown.
        raise UserError(f"{name}: the tokenizer has no vocabulary; tokenizer.json or vocab.txt is missing.")
    if not tokenizer.is_fast:
        raise UserError(f"{name}: the tokenizer has to be a fast one, with a tokenizer.json.")
    tokenizer.padding_side = "right"
    if limit is not None:
        tokenizer.model_max_length = min(tokenizer.model_max_length, limit)
    return tokenizer


def most_tokens(config: PreTrainedConfig) -> int | None:
    """How many tokens the model's positions can count; `None` if it has none, or any number of them."""
    if isinstance(config, MSTransformerConfig) and config.position_embeddings != "learned":
        return None
    positions = getattr(config, "max_position_embeddings", None)
    if positions is None or positions < 1:
        return None
    return positions - config.pad_token_id - 1 if config.model_type in OFFSET_POSITIONS else positions


def load_config(args: ModelArguments) -> PreTrainedConfig:
    name = args.model_name_or_path
    if name is None:
        raise UserError("--model_name_or_path is missing: give a checkpoint, a folder or a name on the Hub.")
    if not Path(name).is_dir() and (Path(name).is_absolute() or name.startswith(".") or name.count("/") > 1):
        raise UserError(f"--model_name_or_path {name}: there is no such folder.")
    try:
        return AutoConfig.from_pretrained(name, **args.hub_options())
    except (OSError, ValueError) as error:
        raise UserError(f"{name}: no configuration could be loaded ({error})") from error


def load_model(
    model_class: type[PreTrainedModel], args: ModelArguments, vocabulary: int, **overrides: Any
) -> PreTrainedModel:
    """
    Loads a checkpoint into a class, with room for a vocabulary that has grown.

    Args:
        model_class (`type`): A model or an Auto class.
        args (`ModelArguments`): Names the checkpoint and what differs from it.
        vocabulary (`int`): `len(tokenizer)`.
        **overrides: Fields of the configuration.

    Raises:
        UserError: The checkpoint is missing, broken, of another family, or does not fit the arguments.
    """
    name = args.model_name_or_path
    given = args.config_overrides()
    for field_name in given.keys() & overrides.keys():
        if json.dumps(given[field_name]) != json.dumps(overrides[field_name]):
            raise UserError(
                f"--{field_name} {given[field_name]}: --head stands for {field_name} = {overrides[field_name]!r}; "
                "leave one of the two out."
            )
    try:
        model = model_class.from_pretrained(
            name,
            attn_implementation=args.attn_implementation,
            **args.hub_options(),
            **(given | overrides),
        )
    except StrictDataclassError as error:
        raise UserError(str(error.__cause__ or error)) from error
    except SafetensorError as error:
        raise UserError(f"{name}: the weights are damaged or not all there ({error}); fetch them again.") from error
    except (ImportError, OSError, ValueError, RuntimeError) as error:
        raise UserError(f"{name}: the model could not be loaded ({error})") from error
    if vocabulary > model.get_input_embeddings().num_embeddings:
        model.resize_token_embeddings(vocabulary)
    return model
