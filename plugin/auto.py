"""The model families that Transformers learns of: Auto classes, attention implementations and pipelines."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from typing import NamedTuple

import transformers.models.auto
from transformers import (
    AttentionInterface,
    AttentionMaskInterface,
    AutoConfig,
    AutoModel,
    AutoModelForSequenceClassification,
    AutoModelForTokenClassification,
    Pipeline,
    PreTrainedConfig,
    PreTrainedModel,
)
from transformers.models.auto.auto_factory import _BaseAutoModelClass, _LazyAutoMapping
from transformers.models.auto.configuration_auto import CONFIG_MAPPING_NAMES
from transformers.pipelines import PIPELINE_REGISTRY

from msattn.configuration.configuration_bert_pairwise import BertPairwiseConfig
from msattn.configuration.configuration_bilstm import BiLSTMConfig
from msattn.configuration.configuration_ms_transformer import MSTransformerConfig
from msattn.configuration.configuration_multiscale_bert import MultiScaleBertConfig
from msattn.modeling.modeling_bert_pairwise import BertPairwiseForRelationClassification, BertPairwiseParser
from msattn.modeling.modeling_bilstm import BiLSTMForSequenceClassification, BiLSTMForTokenClassification, BiLSTMModel
from msattn.modeling.modeling_ms_transformer import (
    MSTransformerForSequenceClassification,
    MSTransformerForTokenClassification,
    MSTransformerModel,
)
from msattn.modeling.modeling_multiscale_bert import (
    BertForMultiScaleRE,
    BertForMultiScaleSequenceClassification,
    MultiScaleBertModel,
)
from msattn.modeling.received_attention import received_attention_forward, received_attention_mask
from msattn.pipelines.dependency_parsing import DependencyParsingPipeline
from msattn.pipelines.relation_extraction import RelationExtractionPipeline


class OneOf(tuple):
    """
    Classes for a configuration, of which a checkpoint's `architectures` names one; else it is the first.

    Early releases of Transformers 5 take every class that was registered for sentences by its name, in all their text
    classification, and fail at a plain tuple.
    """

    @property
    def __name__(self) -> str:
        return self[0].__name__


class AutoModelForRelationExtraction(_BaseAutoModelClass):
    """
    Loads the relation extraction model that a checkpoint or a configuration asks for, as the Auto classes of
    Transformers do: `from_pretrained`, `from_config` and `register` take the same arguments.

    Example:

    ```python
    >>> from msattn import AutoModelForRelationExtraction

    >>> model = AutoModelForRelationExtraction.from_pretrained("outputs/semeval")
    ```"""

    _model_mapping = _LazyAutoMapping(CONFIG_MAPPING_NAMES, OrderedDict())


class AutoModelForDependencyParsing(_BaseAutoModelClass):
    """
    Loads the dependency parser that a checkpoint or a configuration asks for; see [`AutoModelForRelationExtraction`].

    Example:

    ```python
    >>> from msattn import AutoModelForDependencyParsing

    >>> model = AutoModelForDependencyParsing.from_pretrained("outputs/ewt")
    ```"""

    _model_mapping = _LazyAutoMapping(CONFIG_MAPPING_NAMES, OrderedDict())


class Family(NamedTuple):
    """A configuration, and the classes that the Auto classes have for it."""

    config: type[PreTrainedConfig]
    models: Mapping[type[_BaseAutoModelClass], type[PreTrainedModel] | OneOf]


FAMILIES = (
    Family(
        MultiScaleBertConfig,
        {
            AutoModel: MultiScaleBertModel,
            AutoModelForRelationExtraction: BertForMultiScaleRE,
            AutoModelForSequenceClassification: OneOf((BertForMultiScaleSequenceClassification, BertForMultiScaleRE)),
        },
    ),
    Family(
        BertPairwiseConfig,
        {
            AutoModel: OneOf((BertPairwiseParser, BertPairwiseForRelationClassification)),
            AutoModelForDependencyParsing: BertPairwiseParser,
            AutoModelForRelationExtraction: BertPairwiseForRelationClassification,
            AutoModelForSequenceClassification: BertPairwiseForRelationClassification,
        },
    ),
    Family(
        MSTransformerConfig,
        {
            AutoModel: MSTransformerModel,
            AutoModelForSequenceClassification: MSTransformerForSequenceClassification,
            AutoModelForTokenClassification: MSTransformerForTokenClassification,
        },
    ),
    Family(
        BiLSTMConfig,
        {
            AutoModel: BiLSTMModel,
            AutoModelForSequenceClassification: BiLSTMForSequenceClassification,
            AutoModelForTokenClassification: BiLSTMForTokenClassification,
        },
    ),
)
PIPELINES: Mapping[str, tuple[type[Pipeline], type[_BaseAutoModelClass]]] = {
    "relation-extraction": (RelationExtractionPipeline, AutoModelForRelationExtraction),
    "dependency-parsing": (DependencyParsingPipeline, AutoModelForDependencyParsing),
}


def register() -> None:
    """Makes all of this known to Transformers; a second call changes nothing."""
    for auto_class in (AutoModelForRelationExtraction, AutoModelForDependencyParsing):
        # Transformers looks here whether the name of an Auto class in a checkpoint's `auto_map` is one.
        setattr(transformers.models.auto, auto_class.__name__, auto_class)
    AttentionInterface.register("received", received_attention_forward)
    AttentionMaskInterface.register("received", received_attention_mask)
    for config, models in FAMILIES:
        AutoConfig.register(config.model_type, config, exist_ok=True)
        for auto_class, model in models.items():
            auto_class.register(config, model, exist_ok=True)
    for task, (pipeline, auto_class) in PIPELINES.items():
        if task not in PIPELINE_REGISTRY.get_supported_tasks():
            PIPELINE_REGISTRY.register_pipeline(task, pipeline, pt_model=auto_class, type="text")
            # With it, a saved pipeline would ask for trust in code that stands on msattn anyway.
            del pipeline._registered_impl
