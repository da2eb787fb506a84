"""The labels of a fine-tuned checkpoint."""

from __future__ import annotations

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
