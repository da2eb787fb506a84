"""The labels of a fine-tuned checkpoint, and those of a new one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msattn.arguments.pretrained import ModelArguments, load_config
from msattn.configuration.configuration_multiscale_bert import MultiScaleBertConfig
from msattn.modeling.modeling_bert_pairwise import BertPairwiseForRelationClassification


def checkpoint_labels(args: ModelArguments) -> list[str] | None:
    """The labels of a fine-tuned checkpoint in the order of their ids; `None` for a pre-trained encoder."""
    config = load_config(args)
    architectures = config.architectures or []
    stock = any(name.endswith("ForSequenceClassification") for name in architectures)
    stock = stock or BertPairwiseForRelationClassification.__name__ in architectures
    if config.model_type != MultiScaleBertConfig.model_type and (config.model_type == "bert" or not stock):
        return None
    return [config.id2label[number] for number in range(config.num_labels)]


def label_fields(labels: Sequence[str]) -> dict[str, Any]:
    """The fields of a configuration that name the classes: `id2label` and `label2id`."""
    return {"id2label": dict(enumerate(labels)), "label2id": {label: number for number, label in enumerate(labels)}}
