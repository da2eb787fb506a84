"""What the configurations of models built on a BERT encoder share."""

from __future__ import annotations

from dataclasses import fields

from transformers import BertConfig


class BertFamilyConfig(BertConfig):
    """
    A [`BertConfig`] with more fields. `from_pretrained` also reads the checkpoint of a plain BERT.

    Raises:
        ValueError: `from_pretrained` reads a checkpoint whose `model_type` is neither `"bert"` nor that of the class.
    """

    @classmethod
    def from_dict(cls, config_dict, **kwargs):
        # Transformers sets the arguments of `from_pretrained` one by one after construction: too late for validation.
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
        # A plain BERT is read as a member of this family; its new layers are initialized.
        return config | {"model_type": cls.model_type}, kwargs
