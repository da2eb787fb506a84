"""Configurations of models that hold an encoder of any family."""

# No `from __future__ import annotations`: `@strict` checks the types and sees only strings with it.

from copy import deepcopy
from dataclasses import fields
from typing import Any

from transformers import CONFIG_MAPPING, AutoConfig, PreTrainedConfig

from .own_fields import OwnFields

#: Families of this package that put new layers on an encoder of their own: they are no encoders of another model.
COMPOSED_FAMILIES = ("multiscale", "multiscale_bert", "pairwise", "bert_pairwise")


def _of_encoder(name: str, default: Any = None) -> Any:
    """A property of the encoder's configuration, and what it is where its family has none."""
    return property(
        lambda self: getattr(self.encoder, name, default), lambda self, value: setattr(self.encoder, name, value)
    )


class AnyEncoderConfig(OwnFields, PreTrainedConfig):
    r"""
    A configuration with the encoder's own inside, as `encoder`. `from_pretrained` also reads the checkpoint of an
    encoder and wraps it.

    Arguments of `from_pretrained` that the configuration does not have are the encoder's if that has them, such as
    `hidden_dropout_prob`. `encoder={...}` changes fields of the encoder by name.

    Args:
        encoder (`PreTrainedConfig` or `dict`, *optional*):
            Configuration of the encoder; a dictionary names its family in `model_type`. BERT by default.

    Raises:
        ValueError: `encoder` names a family that Transformers does not know or that has new layers of this package
            itself, or `from_pretrained` reads a checkpoint without a `model_type` or one that is quantized already.
    """

    sub_configs = {"encoder": AutoConfig}
    encoder: PreTrainedConfig | dict | None = None

    # What Transformers and others look up in the configuration of any text model.
    vocab_size = _of_encoder("vocab_size")
    hidden_size = _of_encoder("hidden_size")
    num_hidden_layers = _of_encoder("num_hidden_layers")
    num_attention_heads = _of_encoder("num_attention_heads")
    max_position_embeddings = _of_encoder("max_position_embeddings")
    pad_token_id = _of_encoder("pad_token_id")
    initializer_range = _of_encoder("initializer_range", 0.02)  # T5 names none

    def __post_init__(self, **kwargs):
        given = self.encoder or {}
        # Transformers changes the configurations inside of one, and a model may use this one.
        encoder = deepcopy(given) if isinstance(given, PreTrainedConfig) else _encoder_config(given)
        if encoder.model_type in COMPOSED_FAMILIES:
            raise ValueError(
                f"encoder must be a plain encoder; {encoder.model_type!r} has new layers on top of one already, load "
                "that checkpoint with its own class"
            )
        self.encoder = encoder
        super().__post_init__(**kwargs)

    @property
    def hidden_dropout_prob(self) -> float:
        """Dropout of the encoder's hidden states, under the name that its family has for it; 0 if it has none."""
        return getattr(self.encoder, self._dropout_name, 0.0)

    @hidden_dropout_prob.setter
    def hidden_dropout_prob(self, value: float) -> None:
        setattr(self.encoder, self._dropout_name, value)

    @property
    def _dropout_name(self) -> str:
        names = ("hidden_dropout_prob", "dropout_rate", "dropout", "hidden_dropout")
        return next((name for name in names if hasattr(self.encoder, name)), names[0])

    @classmethod
    def get_config_dict(cls, pretrained_model_name_or_path, **kwargs):
        found, kwargs = super().get_config_dict(pretrained_model_name_or_path, **kwargs)
        family = found.get("model_type")
        if not found or family == cls.model_type:
            return found, kwargs
        if family is None:
            raise ValueError(f"{pretrained_model_name_or_path}: config.json names no model_type; add it")
        if "quantization_config" in found:
            raise ValueError(
                f"{pretrained_model_name_or_path} is quantized already; load the full checkpoint and give "
                "quantization_config to quantize it on loading"
            )
        # Labels belong to a head that is not loaded.
        shared = {name: found[name] for name in ("dtype", "torch_dtype") if name in found}
        return {"model_type": cls.model_type, "encoder": found, **shared}, kwargs

    @classmethod
    def from_dict(cls, config_dict, **kwargs):
        encoder, changes = config_dict.get("encoder") or {}, kwargs.pop("encoder", None) or {}
        if isinstance(changes, PreTrainedConfig):
            encoder, changes = changes.to_dict(), {}
        elif isinstance(encoder, PreTrainedConfig):
            encoder = encoder.to_dict()
        known = _encoder_config(encoder | changes)
        own = {*dir(PreTrainedConfig), *(field.name for field in fields(cls))}
        its = [name for name in kwargs if name not in own and hasattr(known, name)]
        changes = changes | {name: kwargs.pop(name) for name in its}
        return super().from_dict(config_dict | {"encoder": encoder | changes}, **kwargs)


def _encoder_config(values: dict[str, Any]) -> PreTrainedConfig:
    """
    The configuration of an encoder from its fields.

    Raises:
        ValueError: Transformers knows no family of the name in `model_type`.
    """
    family = values.get("model_type", "bert")
    if family not in CONFIG_MAPPING:
        raise ValueError(f"the encoder is of the family {family!r}, which this version of Transformers does not have")
    return AutoConfig.for_model(**{**values, "model_type": family})
