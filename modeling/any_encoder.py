"""An encoder of any family as a part of a model: which class it has, how a checkpoint of it loads, what it is fed."""

from __future__ import annotations

import inspect
import json
from pathlib import Path
from typing import Any

import torch
from torch import nn
from transformers import (
    CONFIG_MAPPING,
    MODEL_FOR_CAUSAL_LM_MAPPING,
    MODEL_FOR_MASKED_LM_MAPPING,
    MODEL_FOR_TEXT_ENCODING_MAPPING,
    MODEL_MAPPING,
    PreTrainedConfig,
    PreTrainedModel,
)
from transformers.utils.peft_utils import find_adapter_config_file

from ..configuration.any_encoder_config import AnyEncoderConfig
from ..configuration.max_tokens import first_position
from .new_layers import NewLayers
from .real_tokens import positions

# Fields of a configuration that say what a classifier answers.
_OF_HEAD = ("id2label", "label2id", "problem_type")
# Arguments of `from_pretrained` that say where files are.
_WHERE = ("cache_dir", "force_download", "local_files_only", "proxies", "revision", "subfolder", "token")


def encoder_class(config_class: type[PreTrainedConfig]) -> type[PreTrainedModel]:
    """
    The class of a family's encoder: the one without a decoder, or else that of `AutoModel`.

    Raises:
        ValueError: The family has no class for `AutoModel`, or only one that needs inputs of a decoder.
    """
    for mapping in (MODEL_FOR_TEXT_ENCODING_MAPPING, MODEL_MAPPING):
        if config_class in mapping:
            found = mapping[config_class]
            if mapping is MODEL_MAPPING and config_class.is_encoder_decoder:
                raise ValueError(f"{config_class.model_type!r} has no class in Transformers for its encoder alone")
            return found[0] if isinstance(found, tuple) else found
    raise ValueError(f"{config_class.model_type!r} has no encoder that AutoModel knows")


def attends_causally(encoder: PreTrainedModel) -> bool:
    """True for encoders with causal attention: a token sees itself and earlier tokens only."""
    config = encoder.config
    # Transformers lets decoders with `is_causal=False` see both ways; XLNet has a name of its own for that.
    if getattr(config, "is_causal", None) is False or getattr(config, "attn_type", None) == "bi":
        return False
    marks = [getattr(module, "is_causal", None) for module in encoder.modules()]
    known = [mark for mark in marks if isinstance(mark, bool)]
    if known:
        return any(known)
    family = type(config)
    return family in MODEL_FOR_CAUSAL_LM_MAPPING and family not in MODEL_FOR_MASKED_LM_MAPPING


class AnyEncoderPreTrainedModel(NewLayers, PreTrainedModel):
    """
    Loading and saving of models that hold an encoder of any family.

    `from_pretrained` loads checkpoints of the class itself and of encoders. Of the latter it takes the encoder's
    weights, from under whatever head, and only the new layers are initialized. All arguments of
    [`~transformers.PreTrainedModel.from_pretrained`] work as for a stock model.

    A family sets `config_class`, `base_model_prefix` and `_encoder_paths`. Its base model calls `add_encoder` and
    `encode`.

    Raises:
        ValueError: `from_pretrained` reads a checkpoint whose family Transformers does not know, that has no encoder
            of its own, that has new layers of another class of this package, or that is quantized already, or the
            folder of adapters whose model is an encoder.
    """

    config_class = AnyEncoderConfig
    supports_gradient_checkpointing = True
    _supports_sdpa = True
    _supports_flash_attn = True
    _supports_flex_attn = True
    _supports_attention_backend = True
    _no_split_modules: set[str] | list[str] | None = None

    @classmethod
    def from_pretrained(  # type: ignore[override]
        cls, pretrained_model_name_or_path, *model_args, config=None, key_mapping=None, **kwargs
    ):
        own = cls.config_class
        if isinstance(config, PreTrainedConfig) and config.model_type != own.model_type:
            # What Transformers' scripts set in the encoder's configuration is the head's.
            fields = {"encoder": config.to_dict(), **{name: getattr(config, name) for name in _OF_HEAD}}
            if config._attn_implementation is not None:
                kwargs.setdefault("attn_implementation", config._attn_implementation)
            # A configuration would keep "auto", which the model has to look up in the checkpoint.
            precision: dict[str, Any] = {name: kwargs.pop(name) for name in ("dtype", "torch_dtype") if name in kwargs}
            config, kwargs = own.from_dict(fields, return_unused_kwargs=True, **kwargs)
            kwargs |= precision
        where = {name: kwargs[name] for name in _WHERE if name in kwargs}
        family = _family(pretrained_model_name_or_path, gguf_file=kwargs.get("gguf_file"), **where)
        base = _base_of_adapters(pretrained_model_name_or_path, **where) if family is None else None
        if base is not None and _family(base) not in (None, own.model_type):
            raise ValueError(
                f"{pretrained_model_name_or_path} holds adapters (PEFT) of a {cls.__name__} on {base}: load that "
                "encoder, and then the adapters by PeftModel.from_pretrained(model, FOLDER)"
            )
        foreign = family not in (None, own.model_type)
        if foreign:
            if family not in CONFIG_MAPPING:
                raise ValueError(
                    f"{pretrained_model_name_or_path} is of the family {family!r}, which this version of Transformers "
                    "does not have"
                )
            prefix = encoder_class(CONFIG_MAPPING[family]).base_model_prefix
            # A foreign head is mapped under the encoder, where nothing has its name, and so left out.
            key_mapping = {**(key_mapping or {}), rf"^(?:{prefix}\.)?(.+)": rf"{cls._encoder_paths[0]}.\1"}
        loaded = super().from_pretrained(
            pretrained_model_name_or_path, *model_args, config=config, key_mapping=key_mapping, **kwargs
        )
        if foreign:
            model = loaded[0] if isinstance(loaded, tuple) else loaded
            model._weight_conversions = None  # otherwise saving would give the weights their foreign names back
        return loaded

    def post_init(self) -> None:
        super().post_init()
        self.supports_gradient_checkpointing = self.base_model.encoder.supports_gradient_checkpointing
        # Encoders name blocks that not all of their models have; FSDP looks for every one.
        present = {type(module).__name__ for module in self.modules()}
        self._no_split_modules = {name for name in self._no_split_modules or () if name in present}

    def add_encoder(self, config: AnyEncoderConfig) -> None:
        """Build `self.encoder`, without a pooler, in the precision that is the default now."""
        kind = encoder_class(type(config.encoder))
        without_pooler = {"add_pooling_layer": False} if "add_pooling_layer" in _arguments(kind.__init__) else {}
        self.encoder = kind._from_config(config.encoder, dtype=torch.get_default_dtype(), **without_pooler)
        # A pooler or decoder of the checkpoint is left out on purpose.
        ignored = [*(kind._keys_to_ignore_on_load_unexpected or ()), r"encoder\.pooler\."]
        if type(config.encoder).is_encoder_decoder:  # type: ignore[union-attr]
            ignored.append(r"encoder\.decoder\.")
        self._keys_to_ignore_on_load_unexpected = ignored
        self.is_causal = attends_causally(self.encoder)
        self._encoder_arguments = _arguments(self.encoder.forward)
        self._first_position = first_position(config.encoder)

    def encode(
        self,
        input_ids: torch.Tensor | None,
        attention_mask: torch.Tensor | None,
        inputs_embeds: torch.Tensor | None,
        position_ids: torch.Tensor | None = None,
        token_type_ids: torch.Tensor | None = None,
        **kwargs: Any,
    ) -> Any:
        """
        The encoder's output. Positions are counted from the first real token, so padding on the left changes nothing.

        `token_type_ids` are dropped if the encoder has none, because many tokenizers return them anyway.

        Args:
            attention_mask (`torch.Tensor` of shape `(batch, tokens)`, *optional*): Non-zero for real tokens.
            **kwargs: Further arguments of the encoder's `forward`.
        """
        if position_ids is None and attention_mask is not None:
            position_ids = self._first_position + positions(attention_mask)
        optional = {"position_ids": position_ids, "token_type_ids": token_type_ids, "use_cache": False}
        return self.encoder(
            input_ids=input_ids,
            attention_mask=attention_mask,
            inputs_embeds=inputs_embeds,
            return_dict=True,
            **{name: value for name, value in optional.items() if name in self._encoder_arguments},
            **kwargs,
        )

    def get_input_embeddings(self) -> nn.Module:
        return self.base_model.encoder.get_input_embeddings()

    def set_input_embeddings(self, value: nn.Module) -> None:
        self.base_model.encoder.set_input_embeddings(value)


def _arguments(function: Any) -> frozenset[str]:
    return frozenset(inspect.signature(function).parameters)


def _family(name_or_path: Any, **where: Any) -> str | None:
    """The `model_type` of a checkpoint; `None` if it has no configuration, like the folder of an adapter."""
    if name_or_path is None:
        return None
    try:
        return PreTrainedConfig.get_config_dict(name_or_path, **where)[0].get("model_type")
    except OSError:
        return None


def _base_of_adapters(name_or_path: Any, **where: Any) -> str | None:
    """The checkpoint that adapters (PEFT) in a folder or on the Hub are for; `None` if there are no adapters."""
    file = find_adapter_config_file(name_or_path, **where) if name_or_path else None
    return json.loads(Path(file).read_text(encoding="utf-8")).get("base_model_name_or_path") if file else None
