"""Base of the configurations with BERT built in."""

from transformers import BertConfig

from .own_fields import OwnFields


class BertFamilyConfig(OwnFields, BertConfig):
    """
    A [`BertConfig`] with more fields. `from_pretrained` also reads the checkpoint of a plain BERT.

    Raises:
        ValueError: `from_pretrained` reads a checkpoint whose `model_type` is neither `"bert"` nor that of the class.
    """

    def validate_attention(self):
        """Part of the `@strict` validation, which runs on construction."""
        if self.is_decoder:
            raise ValueError("is_decoder must be False: attention goes both ways")

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
