"""Registration in Transformers: Auto classes, attention implementations and pipelines."""

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
from msattn.configuration.configuration_multiscale import MultiScaleConfig
from msattn.configuration.configuration_multiscale_bert import MultiScaleBertConfig
from msattn.configuration.configuration_pairwise import PairwiseConfig
from msattn.errors import UserError
from msattn.modeling import banded_attention  # noqa: F401
from msattn.modeling.attention_windows import with_windows
from msattn.modeling.modeling_bert_pairwise import BertPairwiseForRelationClassification, BertPairwiseParser
from msattn.modeling.modeling_bilstm import BiLSTMForSequenceClassification, BiLSTMForTokenClassification, BiLSTMModel
from msattn.modeling.modeling_ms_transformer import (
    MSTransformerForSequenceClassification,
    MSTransformerForTokenClassification,
    MSTransformerModel,
)
from msattn.modeling.modeling_multiscale import (
    MultiScaleForRelationExtraction,
    MultiScaleForSequenceClassification,
    MultiScaleForTokenClassification,
    MultiScaleModel,
)
from msattn.modeling.modeling_multiscale_bert import (
    BertForMultiScaleRE,
    BertForMultiScaleSequenceClassification,
    MultiScaleBertModel,
)
from msattn.modeling.modeling_pairwise import PairwiseForRelationClassification, PairwiseParser
from msattn.modeling.received_attention import received_attention_forward, received_attention_mask
from msattn.modeling.row_attention import with_rows
from msattn.pipelines.dependency_parsing import DependencyParsingPipeline
from msattn.pipelines.relation_extraction import RelationExtractionPipeline


class OneOf(tuple):
    """
    Several model classes for a configuration: the one that the checkpoint's `architectures` names, or else the first.

    Early releases of Transformers 5 read the `__name__` of every registered sequence classifier, which a plain tuple
    lacks.
    """

    @property
    def __name__(self) -> str:
        return self[0].__name__


class AutoModelForRelationExtraction(_BaseAutoModelClass):
    """
    Auto class for relation extraction. Loads the model class that a checkpoint or configuration names.

    It has `from_pretrained`, `from_config` and `register` like all Auto classes of Transformers.

    Example:

    ```python
    >>> from msattn import AutoModelForRelationExtraction

    >>> model = AutoModelForRelationExtraction.from_pretrained("outputs/semeval")
    ```
    """

    _model_mapping = _LazyAutoMapping(CONFIG_MAPPING_NAMES, OrderedDict())


class AutoModelForDependencyParsing(_BaseAutoModelClass):
    """
    Auto class for dependency parsing; see [`AutoModelForRelationExtraction`].

    Example:

    ```python
    >>> from msattn import AutoModelForDependencyParsing

    >>> model = AutoModelForDependencyParsing.from_pretrained("outputs/ewt")
    ```
    """

    _model_mapping = _LazyAutoMapping(CONFIG_MAPPING_NAMES, OrderedDict())


# By the end of the name of a model class.
AUTO_CLASSES: Mapping[str, type[_BaseAutoModelClass]] = {
    "Parser": AutoModelForDependencyParsing,
    "ForMultiScaleRE": AutoModelForRelationExtraction,
    "ForRelationExtraction": AutoModelForRelationExtraction,
    "ForRelationClassification": AutoModelForRelationExtraction,
    "ForTokenClassification": AutoModelForTokenClassification,
    "ForSequenceClassification": AutoModelForSequenceClassification,
}


def auto_class_of(config: PreTrainedConfig, name: str) -> type[_BaseAutoModelClass]:
    """
    The Auto class of the task that a checkpoint is for.

    Args:
        config (`PreTrainedConfig`): Its configuration.
        name (`str`): Its name, for the error message.

    Raises:
        UserError: It has no classifier and is no parser.
    """
    architecture = (config.architectures or ["model without a head"])[0]
    for end, auto_class in AUTO_CLASSES.items():
        if architecture.endswith(end):
            return auto_class
    raise UserError(f"{name}: a {architecture} predicts nothing; give a checkpoint that msattn train has made.")


class Family(NamedTuple):
    """
    A model family.

    Args:
        config (`type[PreTrainedConfig]`): The configuration class.
        models (`Mapping[type, type]`): The model class, or [`OneOf`] several, by Auto class.
    """

    config: type[PreTrainedConfig]
    models: Mapping[type[_BaseAutoModelClass], type[PreTrainedModel] | OneOf]


FAMILIES = (
    Family(
        MultiScaleConfig,
        {
            AutoModel: MultiScaleModel,
            AutoModelForRelationExtraction: MultiScaleForRelationExtraction,
            AutoModelForSequenceClassification: OneOf(
                (MultiScaleForSequenceClassification, MultiScaleForRelationExtraction)
            ),
            AutoModelForTokenClassification: MultiScaleForTokenClassification,
        },
    ),
    Family(
        MultiScaleBertConfig,
        {
            AutoModel: MultiScaleBertModel,
            AutoModelForRelationExtraction: BertForMultiScaleRE,
            AutoModelForSequenceClassification: OneOf((BertForMultiScaleSequenceClassification, BertForMultiScaleRE)),
        },
    ),
    Family(
        PairwiseConfig,
        {
            AutoModel: OneOf((PairwiseParser, PairwiseForRelationClassification)),
            AutoModelForDependencyParsing: PairwiseParser,
            AutoModelForRelationExtraction: PairwiseForRelationClassification,
            AutoModelForSequenceClassification: PairwiseForRelationClassification,
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
    """Registers all model families, attention implementations and pipelines in Transformers. It is idempotent."""
    for auto_class in (AutoModelForRelationExtraction, AutoModelForDependencyParsing):
        # Transformers looks up the Auto classes in a checkpoint's `auto_map` here.
        setattr(transformers.models.auto, auto_class.__name__, auto_class)
    AttentionInterface.register("received", with_windows(with_rows(received_attention_forward)))
    AttentionMaskInterface.register("received", received_attention_mask)
    for config, models in FAMILIES:
        AutoConfig.register(config.model_type, config, exist_ok=True)
        for auto_class, model in models.items():
            auto_class.register(config, model, exist_ok=True)
    for task, (pipeline, auto_class) in PIPELINES.items():
        if task not in PIPELINE_REGISTRY.get_supported_tasks():
            PIPELINE_REGISTRY.register_pipeline(task, pipeline, pt_model=auto_class, type="text")
            # Otherwise saved pipelines would ship their code and require trust_remote_code, though they import msattn.
            del pipeline._registered_impl
