"""The labels of a fine-tuned checkpoint, and those of a new one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msattn.arguments.pretrained import ModelArguments, load_config
from msattn.configuration.any_encoder_config import COMPOSED_FAMILIES

# Endings of the classes of this package that have labels of relations or sentences.
CLASSIFIERS = ("SequenceClassification", "RelationClassification", "RelationExtraction", "RE")


def checkpoint_labels(args: ModelArguments, stock: bool = False) -> list[str] | None:
    """
    The labels of a fine-tuned checkpoint in the order of their ids; `None` for a pre-trained encoder.

    Args:
        args (`ModelArguments`): Names the checkpoint.
        stock (`bool`, *optional*, defaults to `False`):
            Whether the checkpoint is loaded with its own classifier, which is one of Transformers. Otherwise that
            classifier is left out, and its labels with it.
    """
    config = load_config(args)
    endings = CLASSIFIERS if config.model_type in COMPOSED_FAMILIES else ("ForSequenceClassification",) * stock
    if not any(name.endswith(endings) for name in config.architectures or ()):
        return None
    return [config.id2label[number] for number in range(config.num_labels)]


def label_fields(labels: Sequence[str]) -> dict[str, Any]:
    """The fields of a configuration that name the classes: `id2label` and `label2id`."""
    return {"id2label": dict(enumerate(labels)), "label2id": {label: number for number, label in enumerate(labels)}}
