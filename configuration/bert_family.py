"""Configurations of models that are a BERT encoder with something on top."""

from __future__ import annotations

from dataclasses import fields

from transformers import BertConfig


class BertFamilyConfig(BertConfig):
    """A [`BertConfig`] with more fields, whose `from_pretrained` reads the checkpoint of any BERT, too."""

    @classmethod
    def from_dict(cls, config_dict, **kwargs):
        # Transformers sets the arguments of `from_pretrained` one by one, after the validation at construction.
        new = {field.name for field in fields(cls)} - {field.name for field in fields(BertConfig)}
        own = {name: kwargs.pop(name) for name in new & kwargs.keys()}
        return super().from_dict(config_dict | own, **kwargs)

    @classmethod
    def get_config_dict(cls, pretrained_model_name_or_path, **kwargs):
        config, kwargs = super().get_config_dict(pretrained_model_name_or_path, **kwargs)
        family = config.get("model_type", cls.model_type)
        if family not in ("bert", cls.model_type):
            raise ValueError(
                f"{pretrained_model_name_or_path} is a checkpoint of the family {family!r}; "
                f"{cls.__name__} loads 'bert' and {cls.model_type!r}"
            )
        # Any BERT is one of this family without its new layers.
        return config | {"model_type": cls.model_type}, kwargs
